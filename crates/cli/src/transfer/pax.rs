//! Extended headers of archives: `length key=value` lines, in front of the header that they belong to.
//!
//! Source: POSIX.1-2017 `pax`, "pax Extended Header"; GNU tar's manual, "Storing Sparse Files", for `GNU.sparse`.

/// Before the name of an extended attribute.
pub(super) const ATTRIBUTE_PREFIX: &str = "SCHILY.xattr.";
/// Access control lists in words, and the attributes that they are.
pub(super) const LISTS: [(&str, &[u8]); 2] = [
    ("SCHILY.acl.access", b"system.posix_acl_access"),
    ("SCHILY.acl.default", b"system.posix_acl_default"),
];

/// Adds a line. Its length counts itself.
pub(super) fn add(lines: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    lines.extend_from_slice(format!("{length} {key}=").as_bytes());
    lines.extend_from_slice(value);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_themselves() {
        for count in 0..1200 {
            let mut lines = Vec::new();
            add(&mut lines, "k", &vec![b'v'; count]);
            let space = lines
                .iter()
                .position(|byte| *byte == b' ')
                .expect("a space");
            let length = std::str::from_utf8(&lines[..space]).expect("digits");
            assert_eq!(length.parse(), Ok(lines.len()));
        }
    }
}

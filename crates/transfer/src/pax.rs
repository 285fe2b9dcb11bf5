//! Extended headers of archives: lines `length key=value` in front of the header that they extend.
//!
//! Source: POSIX.1-2017 `pax`, "pax Extended Header"; GNU tar's manual, "Storing Sparse Files", for
//! `GNU.sparse`.

use anyhow::Result;
use layout::time::InodeTime;

/// Key prefix of an extended attribute.
const ATTRIBUTE_PREFIX: &[u8] = b"SCHILY.xattr.";
/// Keys of access control lists as text, with the extended attributes that hold them.
pub(crate) const LISTS: [(&str, &[u8]); 2] = [
    ("SCHILY.acl.access", b"system.posix_acl_access"),
    ("SCHILY.acl.default", b"system.posix_acl_default"),
];

/// Key of a label of SELinux, as GNU tar writes it.
pub(crate) const LABEL: &[u8] = b"RHT.security.selinux";

/// Characters of an attribute's name that would end a key or start an escape, as GNU tar escapes
/// them.
const ESCAPES: [(u8, &[u8]); 2] = [(b'%', b"%25"), (b'=', b"%3D")];

/// Returns the key of an extended attribute.
pub(crate) fn attribute_key(name: &[u8]) -> Vec<u8> {
    let mut key = ATTRIBUTE_PREFIX.to_vec();
    for byte in name {
        match ESCAPES.iter().find(|(plain, _)| plain == byte) {
            Some((_, escape)) => key.extend_from_slice(escape),
            None => key.push(*byte),
        }
    }
    key
}

/// Returns the name of the extended attribute for a key, if there is one.
pub(crate) fn attribute_name(key: &[u8]) -> Option<Vec<u8>> {
    let mut rest = key.strip_prefix(ATTRIBUTE_PREFIX)?;
    let mut name = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        let escape = ESCAPES.iter().find(|(_, escape)| rest.starts_with(escape));
        let (byte, behind) = match escape {
            Some((plain, escape)) => (*plain, &rest[escape.len()..]),
            None => (*first, behind),
        };
        name.push(byte);
        rest = behind;
    }
    Some(name)
}

/// Nanoseconds per second.
const NANOS: u32 = 1_000_000_000;

/// Returns a time as seconds with a fraction. Before 1970 the sign applies to both.
pub(crate) fn time_text(time: InodeTime) -> String {
    let (seconds, nanos) = match (time.seconds, time.nanos) {
        (seconds @ ..0, nanos @ 1..) => (seconds + 1, NANOS - nanos),
        whole => whole,
    };
    let sign = if time.seconds < 0 { "-" } else { "" };
    format!("{sign}{}.{nanos:09}", seconds.unsigned_abs())
}

/// Parses seconds with a fraction.
pub(crate) fn time(text: &str) -> Result<InodeTime> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.chars().chain("000000000".chars());
    let digits: String = digits.take(9).collect();
    let seconds = i64::try_from(seconds.parse::<u64>()?)?;
    let nanos = digits.parse()?;
    Ok(match (is_negative, nanos) {
        (false, nanos) => InodeTime::new(seconds, nanos),
        (true, 0) => InodeTime::new(-seconds, 0),
        (true, nanos) => InodeTime::new(-seconds - 1, NANOS - nanos),
    })
}

/// Appends a line. The length includes its own digits.
pub(crate) fn add(lines: &mut Vec<u8>, key: impl AsRef<[u8]>, value: &[u8]) {
    let key = key.as_ref();
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    lines.extend_from_slice(format!("{length} ").as_bytes());
    lines.extend_from_slice(key);
    lines.push(b'=');
    lines.extend_from_slice(value);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_attributes_are_escaped() {
        for (name, key) in [
            (&b"user.a"[..], &b"SCHILY.xattr.user.a"[..]),
            (b"user.a=b%c", b"SCHILY.xattr.user.a%3Db%25c"),
            (b"user.\xFF%3D", b"SCHILY.xattr.user.\xFF%253D"),
        ] {
            assert_eq!(attribute_key(name), key);
            assert_eq!(attribute_name(key).as_deref(), Some(name));
        }
        let plain = attribute_name(b"SCHILY.xattr.user.50%");
        assert_eq!(plain.as_deref(), Some(&b"user.50%"[..]));
        assert_eq!(attribute_name(b"path"), None);
    }

    #[test]
    fn times_have_fractions_and_signs() {
        for (text, seconds, nanos) in [
            ("5.000000000", 5, 0),
            ("5.250000000", 5, 250_000_000),
            ("-1.500000000", -2, 500_000_000),
            ("-0.250000000", -1, 750_000_000),
            ("-7.000000000", -7, 0),
        ] {
            let time = InodeTime::new(seconds, nanos);
            assert_eq!(super::time(text).expect(text), time);
            assert_eq!(time_text(time), text);
        }
        let rounded = time("1.0000000019").expect("it is one");
        assert_eq!(rounded, InodeTime::new(1, 1));
        for text in ["", "-", "x", "1.x", "--1", "-9223372036854775808"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

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

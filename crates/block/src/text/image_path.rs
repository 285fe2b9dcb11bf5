//! A path inside an image: `IMAGE:/path`.

/// Splits at the last `:/` outside quotes into the device's text and the path, which starts with
/// `/`. Returns `None` if there is none, or nothing before it.
pub fn split_image_path(text: &str) -> Option<(&str, &str)> {
    let at = colon(text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

/// Splits bytes like [`split_image_path`]: names within an image need not be UTF-8.
pub fn split_image_path_bytes(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = colon(text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns the position of the separating colon.
fn colon(text: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut place = None;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b':' if !is_quoted && text[at..].starts_with(b":/") => place = Some(at),
            _ => {}
        }
    }
    place.filter(|at| *at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_and_slash_outside_quotes_split() {
        let cases = [
            ("disk.img:/etc/fstab", Some(("disk.img", "/etc/fstab"))),
            ("disk.img:/", Some(("disk.img", "/"))),
            ("/a:/b/disk.img:/etc", Some(("/a:/b/disk.img", "/etc"))),
            ("\"/odd:/disk\":/etc", Some(("\"/odd:/disk\"", "/etc"))),
            (
                "\"/odd\\\":/disk\":/etc",
                Some(("\"/odd\\\":/disk\"", "/etc")),
            ),
            ("disk.img", None),
            ("disk.img:etc", None),
            ("\"/odd:/disk\"", None),
            (":/etc", None),
            (
                "slice(/dev/sda,1GiB..2GiB):/x",
                Some(("slice(/dev/sda,1GiB..2GiB)", "/x")),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(split_image_path(text), expected, "{text}");
            let bytes = expected.map(|(image, path)| (image.as_bytes(), path.as_bytes()));
            assert_eq!(split_image_path_bytes(text.as_bytes()), bytes, "{text}");
        }
    }
}

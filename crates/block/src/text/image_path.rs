//! A path inside an image: `IMAGE:/path`.

/// Splits at the last `:/` outside quotes: the device's text and the path, which begins with `/`. Nothing if there is none,
/// or nothing before it.
pub fn split_image_path(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut place = None;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ':' if !is_quoted && text[at..].starts_with(":/") => place = Some(at),
            _ => {}
        }
    }
    let (image, path) = text.split_at(place?);
    (!image.is_empty()).then(|| (image, &path[1..]))
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
        }
    }
}

//! Names of extended attributes: a prefix, which is stored as a number, and a suffix.

use layout::attribute::index;

use crate::error::{Error, Result};

/// Length of the longest full name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Prefixes that need a suffix.
const PREFIXES: &[(u8, &[u8])] = &[
    (index::USER, b"user."),
    (index::TRUSTED, b"trusted."),
    (index::SECURITY, b"security."),
];
/// Names that are stored as a number alone.
const WHOLE: &[(u8, &[u8])] = &[
    (index::POSIX_ACL_ACCESS, b"system.posix_acl_access"),
    (index::POSIX_ACL_DEFAULT, b"system.posix_acl_default"),
];

/// A name as stored on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttributeName {
    /// The prefix's number.
    pub(crate) index: u8,
    /// The part after the prefix.
    pub(crate) suffix: Vec<u8>,
}

impl AttributeName {
    /// Returns the name of an access control list: the default or the access ACL.
    pub(crate) fn of_list(is_default: bool) -> Self {
        let index = if is_default {
            index::POSIX_ACL_DEFAULT
        } else {
            index::POSIX_ACL_ACCESS
        };
        Self {
            index,
            suffix: Vec::new(),
        }
    }

    /// Returns the name of the attribute with contents of the inode (`inline_data`).
    pub(crate) fn of_contents() -> Self {
        Self {
            index: index::SYSTEM,
            suffix: b"data".to_vec(),
        }
    }

    /// Parses a full name, as programs pass it.
    ///
    /// # Errors
    /// - [`Error::AttributeName`] for an invalid length, [`Error::Invalid`] for a prefix alone.
    /// - [`Error::Unsupported`] for a prefix that has no number.
    pub(crate) fn parse(name: &[u8]) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::AttributeName);
        }
        if let Some((index, _)) = WHOLE.iter().find(|(_, whole)| *whole == name) {
            return Ok(Self {
                index: *index,
                suffix: Vec::new(),
            });
        }
        let known = PREFIXES
            .iter()
            .find_map(|(index, prefix)| Some((*index, name.strip_prefix(*prefix)?)));
        match known {
            Some((_, [])) => Err(Error::Invalid("the attribute's name ends with its prefix")),
            Some((index, suffix)) => Ok(Self {
                index,
                suffix: suffix.to_vec(),
            }),
            None => Err(Error::Unsupported(format!(
                "attributes named {} cannot be kept: names begin with user., trusted. or security., or are those of \
                 access control lists",
                String::from_utf8_lossy(name)
            ))),
        }
    }

    /// Returns the full name; none for a number that is hidden from programs.
    pub(crate) fn whole(&self) -> Option<Vec<u8>> {
        if self.suffix.is_empty() {
            let found = WHOLE.iter().find(|(index, _)| *index == self.index);
            return found.map(|(_, whole)| whole.to_vec());
        }
        let found = PREFIXES.iter().find(|(index, _)| *index == self.index);
        found.map(|(_, prefix)| [prefix, self.suffix.as_slice()].concat())
    }

    /// Returns true for the default ACL, false for the access ACL; none for other names.
    pub(crate) fn list(&self) -> Option<bool> {
        match self.index {
            index::POSIX_ACL_ACCESS => Some(false),
            index::POSIX_ACL_DEFAULT => Some(true),
            _ => None,
        }
    }

    /// Returns true for a `user.` name, which only files and directories have.
    pub(crate) fn is_users(&self) -> bool {
        self.index == index::USER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_and_what_follows() {
        for (whole, index, suffix) in [
            ("user.colour", 1, "colour"),
            ("user.a.b", 1, "a.b"),
            ("system.posix_acl_access", 2, ""),
            ("system.posix_acl_default", 3, ""),
            ("trusted.overlay.opaque", 4, "overlay.opaque"),
            ("security.capability", 6, "capability"),
        ] {
            let name = AttributeName::parse(whole.as_bytes()).expect(whole);
            assert_eq!((name.index, &*name.suffix), (index, suffix.as_bytes()));
            assert_eq!(name.whole().as_deref(), Some(whole.as_bytes()));
        }
    }

    #[test]
    fn other_names_are_refused() {
        let error = |name: &[u8]| AttributeName::parse(name).expect_err("refused");
        assert!(matches!(error(b""), Error::AttributeName));
        let long = [b"user.".as_slice(), &[b'a'; 251]].concat();
        assert!(matches!(error(&long), Error::AttributeName));
        assert!(AttributeName::parse(&long[..255]).is_ok());
        assert!(matches!(error(b"user."), Error::Invalid(_)));
        for name in ["colour", "system.data", "USER.a", "user", "gnu.translator"] {
            assert!(matches!(error(name.as_bytes()), Error::Unsupported(_)));
        }
        let unseen = AttributeName {
            index: 7,
            suffix: b"data".to_vec(),
        };
        assert_eq!(unseen.whole(), None);
    }
}

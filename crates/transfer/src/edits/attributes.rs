//! The extended attributes of the sources that an image keeps.
//!
//! Patterns are matched with names such as `user.mime_type` or `security.capability`; `*` stands
//! for any bytes, and `^` before a pattern removes what it matches. The last pattern that matches
//! decides. A name that none matches is kept if the first pattern removes, and removed if the first
//! pattern keeps: `^security.*` keeps all others, and `user.*` keeps no others.

use anyhow::{Result, bail};

/// A filter of names; by default it keeps all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeFilter(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    removes: bool,
    /// The pieces between the stars.
    pieces: Vec<Vec<u8>>,
}

impl AttributeFilter {
    /// Parses patterns; each text may hold several, separated by commas.
    ///
    /// # Errors
    /// Fails if a pattern is empty.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self> {
        let mut patterns = Vec::new();
        for word in texts.into_iter().flat_map(|text| text.split(',')) {
            let (removes, pattern) = match word.strip_prefix('^') {
                Some(pattern) => (true, pattern),
                None => (false, word),
            };
            if pattern.is_empty() {
                bail!("{word:?}: expected a pattern such as user.* or ^security.selinux");
            }
            let pieces = pattern.split('*').map(|piece| piece.as_bytes().to_vec());
            let pieces = pieces.collect();
            patterns.push(Pattern { removes, pieces });
        }
        Ok(Self(patterns))
    }

    /// Returns true if all names are kept.
    pub(super) fn keeps_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a name is kept.
    pub(super) fn keeps(&self, name: &[u8]) -> bool {
        let mut patterns = self.0.iter().rev();
        match patterns.find(|pattern| pattern.matches(name)) {
            Some(pattern) => !pattern.removes,
            None => self.0.first().is_none_or(|first| first.removes),
        }
    }
}

impl Pattern {
    fn matches(&self, name: &[u8]) -> bool {
        let [first, rest @ ..] = &self.pieces[..] else {
            return false;
        };
        let Some(mut left) = name.strip_prefix(&first[..]) else {
            return false;
        };
        let [middle @ .., last] = rest else {
            return left.is_empty();
        };
        for piece in middle {
            let found = (0..=left.len()).find(|at| left[*at..].starts_with(piece));
            let Some(at) = found else {
                return false;
            };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_decides() {
        for (text, kept, removed) in [
            ("user.*", "user.a", "security.capability"),
            ("^security.*", "user.a", "security.selinux"),
            (
                "^security.*,security.capability",
                "security.capability",
                "security.ima",
            ),
            ("user.*,^*.secret", "user.a", "user.secret"),
            ("^*", "", "user.a"),
            ("user.*.b*d", "user.a.b.c.d", "user.a.bc"),
            ("user.a", "user.a", "user.ab"),
        ] {
            let filter = AttributeFilter::parse([text]).expect(text);
            assert!(kept.is_empty() || filter.keeps(kept.as_bytes()), "{text}");
            assert!(!filter.keeps(removed.as_bytes()), "{text}");
        }
        assert!(AttributeFilter::default().keeps(b"user.a"));
        assert!(AttributeFilter::parse(["user.*,"]).is_err());
    }
}

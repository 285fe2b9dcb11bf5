//! Features to add and to remove (`-O`).

use layout::feature::table::{Uses, with_uses};
use layout::feature::{Features, Word, lookup, word_names};

use crate::error::{Error, Result};

/// Changes of the initial features of a profile, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureEdits {
    edits: Vec<Edit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Clear,
    Set(Word, u32, bool),
}

impl FeatureEdits {
    /// Parses a list as `-O` accepts it: names separated by commas, `^` before one to remove it,
    /// `none` to start without any feature.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names a feature that is unknown, or that mkfs does not support.
    pub fn parse(list: &str) -> Result<Self> {
        let names = list.split([',', ' ']).filter(|name| !name.is_empty());
        let edits = names.map(parse_one).collect::<Result<_>>()?;
        Ok(Self { edits })
    }

    /// Adds another list.
    ///
    /// # Errors
    /// Fails as [`FeatureEdits::parse`].
    pub fn add(&mut self, list: &str) -> Result<()> {
        self.edits.extend(Self::parse(list)?.edits);
        Ok(())
    }

    /// Applies the edits.
    pub(super) fn apply(&self, features: Features) -> Features {
        let mut features = features;
        for edit in &self.edits {
            match *edit {
                Edit::Clear => features = Features::default(),
                Edit::Set(word, bits, on) => features.set(word, bits, on),
            }
        }
        features
    }
}

fn parse_one(name: &str) -> Result<Edit> {
    if name == "none" {
        return Ok(Edit::Clear);
    }
    let (plain, on) = match name.strip_prefix('^') {
        Some(plain) => (plain, false),
        None => (name, true),
    };
    let Some((word, bit)) = lookup(plain) else {
        return Err(Error::Unsupported(format!("there is no feature {plain}")));
    };
    if on && with_uses(word, Uses::MADE) & bit != bit {
        let name = word_names(word, bit).join(" ");
        return Err(Error::Unsupported(format!(
            "volumes with the feature {name} cannot be made"
        )));
    }
    Ok(Edit::Set(word, bit, on))
}

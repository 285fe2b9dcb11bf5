//! The platform for which an image was made.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// An operating system and an architecture, in the words of Go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// The operating system, such as `linux`.
    pub os: String,
    /// The architecture, such as `amd64`.
    pub architecture: String,
    /// The variant of the architecture, such as `v7`.
    #[serde(default)]
    pub variant: Option<String>,
}

impl Platform {
    /// Returns true if an image for another platform is wanted with this one; without a variant
    /// any variant is.
    pub(super) fn wants(&self, other: &Self) -> bool {
        let same_variant = self.variant.is_none() || self.variant == other.variant;
        self.os == other.os && self.architecture == other.architecture && same_variant
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match words[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant.to_owned())),
            _ => return Err("expected OS/ARCHITECTURE, such as linux/amd64".to_owned()),
        };
        Ok(Self {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant,
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(to, "/{variant}"),
            None => Ok(()),
        }
    }
}

//! The documents of container images, as far as they lead to layers.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::platform::Platform;

/// Annotations of a descriptor that name an image.
const NAMES: [&str; 2] = [
    "org.opencontainers.image.ref.name",
    "io.containerd.image.name",
];
/// Annotation of a descriptor whose manifest describes another manifest.
const REFERENCE: &str = "vnd.docker.reference.type";

/// Algorithm of digests, as their prefix.
const ALGORITHM: &str = "sha256:";

/// A reference to a blob.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) platform: Option<Platform>,
}

impl Descriptor {
    /// Returns the names of an image.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let annotations = self.annotations.iter();
        annotations.flat_map(|all| {
            NAMES
                .iter()
                .filter_map(|name| all.get(*name))
                .map(|name| &**name)
        })
    }

    /// Returns true if the manifest is that of an image, and not of a statement about one.
    pub(super) fn is_image(&self) -> bool {
        let annotations = self.annotations.as_ref();
        let is_reference = annotations.is_some_and(|all| all.contains_key(REFERENCE));
        let platform = self.platform.as_ref();
        !is_reference && platform.is_none_or(|platform| platform.os != "unknown")
    }
}

/// An image index, or an image manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// An index has these.
    #[serde(default)]
    pub(super) manifests: Option<Vec<Descriptor>>,
    /// A manifest has the others.
    #[serde(default)]
    pub(super) config: Option<Descriptor>,
    #[serde(default)]
    pub(super) layers: Option<Vec<Descriptor>>,
}

/// The configuration of an image.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(flatten)]
    pub(super) platform: Option<Platform>,
    #[serde(default)]
    pub(super) rootfs: RootFs,
}

/// The digests of the layers' contents.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<String>,
}

/// An image in `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SavedImage {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Vec<String>,
}

/// Returns the digits of a digest.
pub(super) fn hex_of(digest: &str) -> Result<&str> {
    let hex = digest.strip_prefix(ALGORITHM);
    let hex = hex.with_context(|| format!("{digest}: digests of sha256 are supported"))?;
    match is_hex(hex) {
        true => Ok(hex),
        false => bail!("{digest}: no digest"),
    }
}

/// Returns true for the digits of a digest.
pub(super) fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 64 && text.bytes().all(is_digit)
}

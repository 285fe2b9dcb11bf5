//! Reads a container image as a source: an image layout of OCI, as a directory or an archive, or an
//! archive of `docker save`. Its layers are put on top of each other by the module `merge`.
//!
//! Everything is verified before it is read: blobs by the digests that lead to them, layers of an
//! archive of `docker save` by the digests of their contents in the image's configuration.
//!
//! Source: OCI image-spec v1.1, "Image Layout", "Image Index", "Image Manifest"; Docker's "Image
//! Specification v1.2".

mod docker;
mod json;
mod members;
mod oci;
mod platform;
mod store;

use std::path::Path;

use anyhow::{Result, bail};

use super::Stop;
use super::decompressed;
use super::from_archive::ArchiveSource;
use super::section::Section;

use members::Members;
pub use platform::Platform;
use store::{Expected, Store};

/// Names of the files of an image layout.
const LAYOUT_NAME: &str = "oci-layout";
const INDEX_NAME: &str = "index.json";

/// Name of the list of images of `docker save`.
const MANIFEST_NAME: &str = "manifest.json";

/// The image that is chosen from several.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice<'c> {
    /// Its name or tag.
    pub(crate) tag: Option<&'c str>,
    pub(crate) platform: Option<&'c Platform>,
}

/// A container image as a source.
#[derive(Debug)]
pub struct ContainerSource {
    layers: Vec<Layer>,
}

/// A layer: an archive that has yet to be verified.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) archive: ArchiveSource,
    expected: Expected,
}

impl ContainerSource {
    /// Opens a directory, if it is an image layout.
    pub(crate) fn of_directory(path: &Path, choice: Choice<'_>) -> Result<Option<Self>> {
        let is_layout = [LAYOUT_NAME, INDEX_NAME]
            .iter()
            .all(|name| path.join(name).is_file());
        if !is_layout {
            return Ok(None);
        }
        let store = Store::Directory(path.to_owned());
        let layers = oci::layers(&store, choice)?;
        Ok(Some(Self { layers }))
    }

    /// Opens an archive, if it holds a container image.
    pub(crate) fn of_archive(
        name: &str,
        contents: &Section,
        choice: Choice<'_>,
    ) -> Result<Option<Self>> {
        let Some(members) = Members::of(name, contents)? else {
            return Ok(None);
        };
        let is_layout = members.has(LAYOUT_NAME) && members.has(INDEX_NAME);
        let store = Store::Archive(members);
        let layers = match is_layout {
            true => oci::layers(&store, choice)?,
            false => docker::layers(&store, choice)?,
        };
        Ok(Some(Self { layers }))
    }

    /// Returns the layers, the lowest first.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }
}

impl Layer {
    /// Verifies the layer's digest.
    ///
    /// # Errors
    /// Fails if the digest is another one, or the layer cannot be read.
    pub(crate) fn verify(&self, stop: &Stop) -> Result<()> {
        let (name, contents) = (self.archive.name(), self.archive.contents());
        if let Some(program) = decompressed::other_program(contents) {
            bail!(
                "{name}: the layer is compressed with {program}, and layers are read plain, with \
                 gzip or with zstd: copy the image with skopeo copy --dest-compress-format gzip \
                 --dest-force-compress-format"
            );
        }
        self.expected.verify(name, contents, stop)
    }
}

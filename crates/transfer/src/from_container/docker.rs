//! Finds the layers of an image in an archive of `docker save`: `manifest.json` lists the files of
//! the layers, and the image's configuration the digests of their contents.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::json::{Config, SavedImage, hex_of, is_hex};
use super::oci::is_named;
use super::store::{Expected, Store, read_json};
use super::{Choice, Layer, MANIFEST_NAME};
use crate::Stop;
use crate::from_archive::ArchiveSource;

/// Returns the layers of the chosen image, the lowest first.
pub(super) fn layers(store: &Store, choice: Choice<'_>) -> Result<Vec<Layer>> {
    let (name, section) = store.open(MANIFEST_NAME)?;
    let images: Vec<SavedImage> = read_json(&name, &section)?;
    let image = choose(images, choice).with_context(|| store.name())?;
    let (name, section) = store.open(&image.config)?;
    if let Some(digest) = digest_in(&image.config) {
        Expected::Contents(digest.to_owned()).verify(&name, &section, &Stop::default())?;
    }
    let config: Config = read_json(&name, &section)?;
    if let (Some(wanted), Some(found)) = (choice.platform, &config.platform)
        && !wanted.wants(found)
    {
        bail!(
            "{}: the image is for {found}, not for {wanted}",
            store.name()
        );
    }
    let (digests, count) = (&config.rootfs.diff_ids, image.layers.len());
    if digests.len() != count {
        bail!(
            "{name}: has the digests of {} layers, not of {count}",
            digests.len()
        );
    }
    let open = |(path, digest): (&String, &String)| {
        let (name, section) = store.open(path)?;
        let digest = hex_of(digest).with_context(|| name.clone())?;
        Ok(Layer {
            archive: ArchiveSource::of(name, section),
            expected: Expected::Contents(digest.to_owned()),
        })
    };
    image.layers.iter().zip(digests).map(open).collect()
}

fn choose(mut images: Vec<SavedImage>, choice: Choice<'_>) -> Result<SavedImage> {
    let tags = images
        .iter()
        .flat_map(|image| image.repo_tags.iter().flatten());
    let tags = tags.cloned().collect::<Vec<_>>().join(", ");
    if let Some(tag) = choice.tag {
        images.retain(|image| {
            let mut tags = image.repo_tags.iter().flatten();
            tags.any(|name| is_named(name, tag))
        });
        if images.is_empty() {
            bail!("no image named {tag}; there are: {tags}");
        }
    }
    let count = images.len();
    match (images.pop(), count) {
        (None, _) => bail!("no image is in it"),
        (Some(only), 1) => Ok(only),
        _ => bail!("holds {count} images; choose one by its name, as in PATH:NAME: {tags}"),
    }
}

/// Returns the digest of which the name of a file consists.
fn digest_in(path: &str) -> Option<&str> {
    let name = Path::new(path).file_name()?.to_str()?;
    let name = name.strip_suffix(".json").unwrap_or(name);
    let digest = name.strip_prefix("sha256:").unwrap_or(name);
    is_hex(digest).then_some(digest)
}

//! Finds the layers of an image in an image layout: `index.json` leads to a manifest, perhaps
//! through further indexes, and the manifest to the layers.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use super::json::{Config, Descriptor, Document};
use super::store::{Store, read_json};
use super::{Choice, INDEX_NAME, Layer};
use crate::from_archive::ArchiveSource;

/// Maximum number of indexes on the way to a manifest.
const INDEXES_MAX: usize = 8;

/// Returns the layers of the chosen image, the lowest first.
pub(super) fn layers(store: &Store, choice: Choice<'_>) -> Result<Vec<Layer>> {
    let (name, section) = store.open(INDEX_NAME)?;
    let mut index: Document = read_json(&name, &section)?;
    let mut tag = choice.tag;
    for _ in 0..INDEXES_MAX {
        let Some(manifests) = index.manifests.take() else {
            bail!("{name}: no image index");
        };
        let chosen = choose(manifests, tag.take(), choice);
        let chosen = chosen.with_context(|| store.name())?;
        let document: Document = store.document(&chosen)?;
        match (document.layers, document.config) {
            (Some(layers), Some(config)) => {
                check_platform(store, &config, choice)?;
                return layers.iter().map(|layer| open(store, layer)).collect();
            }
            (_, config) => {
                index = Document {
                    manifests: document.manifests,
                    config,
                    layers: None,
                }
            }
        }
    }
    bail!("{name}: leads through more than {INDEXES_MAX} indexes");
}

/// Returns the one manifest that has the tag, and is for the platform.
fn choose(manifests: Vec<Descriptor>, tag: Option<&str>, choice: Choice<'_>) -> Result<Descriptor> {
    let mut found = manifests;
    found.retain(Descriptor::is_image);
    let all_names = names(&found);
    if let Some(tag) = tag {
        found.retain(|descriptor| descriptor.names().any(|name| is_named(name, tag)));
        if found.is_empty() {
            bail!("no image named {tag}; there are: {all_names}");
        }
    }
    let platforms = platforms(&found);
    if let Some(wanted) = choice.platform {
        found.retain(|descriptor| {
            let platform = descriptor.platform.as_ref();
            platform.is_none_or(|platform| wanted.wants(platform))
        });
        if found.is_empty() {
            bail!("no image for {wanted}; there are: {platforms}");
        }
    }
    found.sort_by(|one, other| one.digest.cmp(&other.digest));
    found.dedup_by(|one, other| one.digest == other.digest);
    let count = found.len();
    match (found.pop(), count) {
        (None, _) => bail!("no image is in it"),
        (Some(only), 1) => Ok(only),
        _ if !platforms.is_empty() => {
            bail!("holds images for several platforms; choose with --platform one of: {platforms}")
        }
        _ => bail!("holds {count} images; choose one by its name, as in PATH:NAME: {all_names}"),
    }
}

/// Returns true if an image's full name is meant by a name or a tag.
pub(super) fn is_named(name: &str, wanted: &str) -> bool {
    let ends_so = |before: char| {
        let rest = name.strip_suffix(wanted);
        rest.is_some_and(|rest| rest.ends_with(before))
    };
    name == wanted || ends_so(':') || ends_so('/')
}

fn names(manifests: &[Descriptor]) -> String {
    let names: BTreeSet<&str> = manifests.iter().flat_map(Descriptor::names).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn platforms(manifests: &[Descriptor]) -> String {
    let platforms = manifests.iter().filter_map(|found| found.platform.as_ref());
    let texts: BTreeSet<String> = platforms.map(ToString::to_string).collect();
    texts.into_iter().collect::<Vec<_>>().join(", ")
}

/// Fails if the image is for another platform than the wanted one.
fn check_platform(store: &Store, config: &Descriptor, choice: Choice<'_>) -> Result<()> {
    let Some(wanted) = choice.platform else {
        return Ok(());
    };
    let config: Config = store.document(config)?;
    match config.platform {
        Some(found) if !wanted.wants(&found) => {
            bail!(
                "{}: the image is for {found}, not for {wanted}",
                store.name()
            )
        }
        _ => Ok(()),
    }
}

fn open(store: &Store, layer: &Descriptor) -> Result<Layer> {
    if layer.media_type.ends_with("+encrypted") {
        bail!("{}: layer {} is encrypted", store.name(), layer.digest);
    }
    let (name, section, expected) = store.blob(layer)?;
    Ok(Layer {
        archive: ArchiveSource::of(name, section),
        expected,
    })
}

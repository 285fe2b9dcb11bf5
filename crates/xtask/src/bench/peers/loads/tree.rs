//! A tree of files in memory, and images of it. Both are made at their first use.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::super::site::Site;
use crate::compare_build;
use crate::compare_build::tree::{self, Shape};
use crate::compared_type::ComparedType;

const TREE: &str = "tree";
const SHAPE: Shape = Shape {
    files: 65_000,
    bytes: 700_000_000,
};
const SMALL: Shape = Shape {
    files: 650,
    bytes: 7_000_000,
};

/// An image of the tree.
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The shape of the tree.
    pub(super) shape: Shape,
}

/// Returns the image of a type that `jext build` makes of the tree.
pub(super) fn image(site: &Site, kind: ComparedType) -> Result<Image> {
    let shape = if site.is_small { SMALL } else { SHAPE };
    let tree = site.memory.at(TREE);
    if !tree.exists() {
        tree::make(&tree, shape)?;
    }
    let path = site.memory.at(&format!("{}-of-tree", kind.name()));
    if !path.exists() {
        let mut build = compare_build::build(site.jext()?, &site.memory, kind, &path);
        compare_build::run_fresh(&path, &mut build)?;
        compare_build::check(&path)?;
    }
    let bytes = fs::metadata(&path).context("the image")?.len();
    Ok(Image { path, bytes, shape })
}

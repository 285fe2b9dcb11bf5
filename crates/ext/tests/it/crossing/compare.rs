//! Comparison of two images, except for the fields that [`testkit::same`] names.

use testkit::same::{Bytes, differences};

use super::log_format;
use crate::image::Image;

pub use testkit::same::Allowed;

/// Largest number of differences to print.
const TOLD: usize = 8;

fn bytes(image: &Image) -> Bytes {
    let read = |path| std::fs::read(path).expect("the image is there");
    let extents = log_format::location(image).extents.into_iter();
    Bytes {
        home: read(&image.path),
        journal: image.journal_path.as_ref().map(read),
        block_bytes: image.block_bytes as usize,
        log: extents
            .map(|extent| extent.first.index()..extent.first.index() + extent.count as usize)
            .collect(),
    }
}

/// Asserts that two images are the same except for allowed differences.
pub fn assert_same(a: &Image, b: &Image, allowed: &Allowed, what: &str) {
    let told = differences(bytes(a), bytes(b), allowed);
    let first = &told[..told.len().min(TOLD)];
    assert!(
        told.is_empty(),
        "{what}: {} differences: {first:#?}",
        told.len()
    );
}

//! A case: its name, its preparation and its body.

use std::any::Any;
use std::hint::black_box;

use anyhow::Result;

use crate::images::Images;

/// The remains of a body, which are dropped after the measurement.
pub type Left = Box<dyn Any>;

/// The part of a case that is measured.
pub type Body = Box<dyn FnOnce() -> Result<Left>>;

/// Makes the volume and what else a body needs.
type Preparation = Box<dyn Fn(&Images) -> Result<Body>>;

/// A hot path of the engine.
pub struct Case {
    /// The path, the format and the data mode: `create/ext4/ordered`.
    pub name: String,
    /// Number of operations of the body. Figures are for one.
    pub operations: u64,
    prepare: Preparation,
}

impl Case {
    /// Creates a case.
    pub(crate) fn new(
        name: impl Into<String>,
        operations: u64,
        prepare: impl Fn(&Images) -> Result<Body> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            operations,
            prepare: Box::new(prepare),
        }
    }

    /// Makes what the body needs.
    ///
    /// # Errors
    /// Returns the errors of the engine and of files of images.
    pub fn prepare(&self, images: &Images) -> Result<Body> {
        (self.prepare)(images)
    }
}

/// Runs a body. Valgrind counts while this function runs, which it finds by its name.
///
/// # Errors
/// Returns those of the body.
#[inline(never)]
pub fn measured_part(body: Body) -> Result<Left> {
    black_box(body())
}

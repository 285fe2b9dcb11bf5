//! A switch that ends the reading of trees, which may take long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

use super::{Item, Sink};

/// The switch. Its clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends what looks at the switch: it fails.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns true after [`Self::request`].
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Fails after [`Self::request`].
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.is_requested(), "the call was interrupted");
        Ok(())
    }
}

/// A sink that fails after [`Stop::request`].
pub(crate) struct StoppableSink<'s> {
    pub(crate) sink: &'s mut dyn Sink,
    pub(crate) stop: &'s Stop,
}

impl Sink for StoppableSink<'_> {
    fn take(&mut self, item: Item) -> Result<()> {
        self.stop.check()?;
        self.sink.take(item)
    }

    fn end(&mut self) -> Result<()> {
        self.sink.end()
    }
}

//! The writer daemon: writes old dirty pages and metadata in the background. With `writers=submit`,
//! two more daemons write above the background limit. Another one zeroes inode tables. A panic in
//! one of them makes the volume read-only.

use std::sync::Arc;

use rt::{JoinHandle, Nanos};

use super::init_tables;
use crate::awaited::awaited;
use crate::cache::wake::Wake;
use crate::core::Core;
use crate::error::Result;
use crate::file::{allocate_old, delete_left, write_busy};
use crate::tuning::Writers;
use crate::writeback::{flush_until_stop, write_back_round, write_metadata};

/// The handles of the daemons.
pub(super) struct Writer {
    daemons: Vec<(Arc<Wake>, JoinHandle<()>)>,
}

/// The interval of a daemon that only works on request.
const NEVER: Nanos = Nanos::from_secs(1 << 30);

impl Writer {
    /// Starts the daemons. They hold a weak reference to the core, so that they do not keep a
    /// dropped volume alive.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let pages = &core.pages;
        let interval = core.options.memory.writer_interval;
        let mut daemons = vec![spawn(core, "jext-writer", pages.wake(), interval, round)];
        if core.tuning.writeback.writers == Writers::Submit {
            daemons.push(spawn(core, "jext-flusher", &pages.flusher, NEVER, |core| {
                flush_until_stop(core)
            }));
            let wake = &pages.metadata_writer;
            daemons.push(spawn(core, "jext-metadata", wake, NEVER, |core| {
                write_metadata(core)
            }));
        }
        let factor = core.options.init_tables;
        daemons.extend(factor.and_then(|factor| init_tables::start(core, factor)));
        Self { daemons }
    }

    /// Requests the daemons to stop, without waiting.
    pub(super) fn request_stop(&self) {
        for (wake, _) in &self.daemons {
            wake.stop();
        }
    }

    /// Stops the daemons and waits for them.
    pub(super) fn stop(self) {
        self.request_stop();
        for (_, thread) in self.daemons {
            if thread.join().is_err() {
                tracing::error!("a writer daemon panicked");
            }
        }
    }
}

/// One round of the writer daemon.
fn round(core: &Arc<Core>) -> Result<()> {
    if let Some(journal) = &core.journal
        && core.tuning.commits_by_tick
    {
        journal.request_commit();
    }
    let counted = core.count_mount_after_change();
    let stored = core.store_damage();
    let (busy, allocated) = allocate_old(core);
    let written = allocated.and(write_back_round(core));
    let written = written.and(write_busy(core, &busy));
    counted.and(stored).and(written).and(delete_left(core))
}

/// Starts a daemon that works on request, and at an interval.
fn spawn(
    core: &Arc<Core>,
    name: &'static str,
    wake: &Arc<Wake>,
    interval: Nanos,
    work: fn(&Arc<Core>) -> Result<()>,
) -> (Arc<Wake>, JoinHandle<()>) {
    let (daemon_wake, weak) = (Arc::clone(wake), Arc::downgrade(core));
    let thread = rt::spawn_daemon(name, move || {
        while !daemon_wake.sleep(interval) {
            let Some(core) = weak.upgrade() else { break };
            let abort = || core.abort(&format!("a panic in {name}"));
            if let Err(error) = awaited(|| work(&core), abort) {
                tracing::warn!(%error, "background write failed; it will be tried again");
            }
        }
    });
    (Arc::clone(wake), thread)
}

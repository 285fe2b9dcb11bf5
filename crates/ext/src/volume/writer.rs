//! The writer daemon: writes old dirty pages and metadata in the background. A panic in it makes
//! the volume read-only.

use std::sync::Arc;

use rt::JoinHandle;

use crate::awaited::awaited;
use crate::cache::wake::Wake;
use crate::core::Core;
use crate::file::delete_left;
use crate::writeback::write_back_round;

/// The handle of the daemon.
pub(super) struct Writer {
    wake: Arc<Wake>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the daemon. It holds a weak reference to the core, so that it does not keep a dropped
    /// volume alive.
    pub(super) fn start(core: &Arc<Core>) -> Self {
        let wake = Arc::clone(core.pages.wake());
        let interval = core.options.memory.writer_interval;
        let (daemon_wake, weak) = (Arc::clone(&wake), Arc::downgrade(core));
        let thread = rt::spawn_daemon("jext-writer", move || {
            while !daemon_wake.sleep(interval) {
                let Some(core) = weak.upgrade() else { break };
                let round = || {
                    let stored = core.store_damage();
                    let written = write_back_round(&core);
                    stored.and(written).and(delete_left(&core))
                };
                if let Err(error) = awaited(round, || core.abort("a panic in jext-writer")) {
                    tracing::warn!(%error, "background write failed; it will be tried again");
                }
            }
        });
        Self { wake, thread }
    }

    /// Requests the daemon to stop, without waiting.
    pub(super) fn request_stop(&self) {
        self.wake.stop();
    }

    /// Stops the daemon and waits for it.
    pub(super) fn stop(self) {
        self.request_stop();
        if self.thread.join().is_err() {
            tracing::error!("the writer daemon panicked");
        }
    }
}

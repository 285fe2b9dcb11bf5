//! The daemon that zeroes inode tables that were never used, group by group.

use std::sync::Arc;

use layout::GroupNr;
use rt::{JoinHandle, Nanos};

use crate::awaited::awaited;
use crate::cache::wake::Wake;
use crate::core::Core;

/// Time after the open before the first group: most volumes are opened for less.
const FIRST_PAUSE: Nanos = Nanos::from_secs(5);
const NAME: &str = "jext-init-tables";

/// Starts the daemon if a group needs it. It pauses `factor` times as long as a group has taken,
/// and ends with the last group, or with the first error.
pub(super) fn start(core: &Arc<Core>, factor: u32) -> Option<(Arc<Wake>, JoinHandle<()>)> {
    // After a crash without a journal, descriptors may be older than bitmaps and tables.
    if core.journal.is_none() && !core.superblock.was_valid {
        return None;
    }
    let mut group = core.next_unzeroed(GroupNr::new(0))?;
    let wake = Arc::new(Wake::default());
    let (daemon_wake, weak) = (Arc::clone(&wake), Arc::downgrade(core));
    let thread = rt::spawn_daemon(NAME, move || {
        let mut pause = FIRST_PAUSE;
        while !daemon_wake.sleep(pause) {
            let Some(core) = weak.upgrade() else { break };
            let started = rt::monotonic();
            let abort = || core.abort(&format!("a panic in {NAME}"));
            if let Err(error) = awaited(|| core.zero_table(group), abort) {
                tracing::warn!(%error, "inode tables are not zeroed further");
                break;
            }
            pause = (rt::monotonic() - started) * u64::from(factor);
            let Some(next) = core.next_unzeroed(group) else {
                break;
            };
            group = next;
        }
    });
    Some((wake, thread))
}

//! Multiple mount protection of an open volume: it is taken before anything else is read or
//! written, a daemon renews it, and it is released after the last write.
//!
//! The daemon starts before the journal is replayed, which can take longer than other nodes wait.

use std::sync::{Arc, Weak};

use block::BlockDevice;
use rt::{JoinHandle, Mutex, Nanos};

use crate::awaited::awaited;
use crate::cache::multi_mount::{MultiMount, Purpose};
use crate::cache::wake::Wake;
use crate::core::Core;
use crate::disk::multi_mount::Place;
use crate::disk::superblock::Superblock;
use crate::error::Result;

/// Time after which a renewal that failed is repeated.
const RETRY: Nanos = Nanos::from_secs(1);

/// The protection of an open volume.
pub(crate) struct Guard {
    taken: Arc<MultiMount>,
    wake: Arc<Wake>,
    /// The core that turns read-only when another node takes the volume. // [guard] leaf
    core: Arc<Mutex<Weak<Core>>>,
    daemon: JoinHandle<()>,
}

impl Guard {
    /// Takes a volume and starts the daemon; returns none for a volume without protection.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) names the node that uses the volume.
    pub(super) fn take(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
    ) -> Result<Option<Self>> {
        let Some(place) = Place::of(superblock)? else {
            return Ok(None);
        };
        let taken = MultiMount::take(device, place, Purpose::Mount)?;
        let (wake, core) = (Arc::<Wake>::default(), Arc::<Mutex<Weak<Core>>>::default());
        let daemon = start(&taken, &wake, &core);
        Ok(Some(Self {
            taken,
            wake,
            core,
            daemon,
        }))
    }

    /// Puts a device of the volume behind the fence that closes when another node takes it.
    pub(super) fn fenced(&self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        self.taken.fenced(device)
    }

    /// Sets the core of the volume.
    pub(super) fn attach(&self, core: &Arc<Core>) {
        *self.core.lock() = Arc::downgrade(core);
    }

    /// Requests the daemon to stop, without waiting. The volume stays taken, as after a power cut.
    pub(super) fn request_stop(&self) {
        self.wake.stop();
    }

    /// Stops the daemon and releases the volume, after its last write.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) if another node has taken the volume.
    pub(super) fn release(self) -> Result<()> {
        self.request_stop();
        if self.daemon.join().is_err() {
            tracing::error!("the daemon of multiple mount protection panicked");
        }
        self.taken.release()
    }
}

/// Starts the daemon. It keeps neither the volume nor the device alive.
fn start(
    taken: &Arc<MultiMount>,
    wake: &Arc<Wake>,
    core: &Arc<Mutex<Weak<Core>>>,
) -> JoinHandle<()> {
    let (weak, wake, core) = (Arc::downgrade(taken), Arc::clone(wake), Arc::clone(core));
    let interval = taken.interval();
    let stop = move |why: &str| {
        let core = core.lock().upgrade();
        if let Some(core) = core {
            core.abort(why);
        }
    };
    rt::spawn_daemon("jext-mmp", move || {
        let mut pause = interval;
        while !wake.sleep(pause) {
            let Some(taken) = weak.upgrade() else { break };
            let panicked = || {
                taken.lose("a panic in jext-mmp");
                stop("a panic in jext-mmp");
            };
            pause = match awaited(|| taken.renew(), panicked) {
                Ok(()) => interval,
                Err(error) if taken.is_lost() => {
                    tracing::error!(%error, "multiple mount protection is lost: nothing more is written");
                    stop(
                        "multiple mount protection is lost: another node may have taken the volume",
                    );
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "multiple mount protection is not renewed; it will be tried again");
                    interval.min(RETRY)
                }
            }
        }
    })
}

//! A mounted volume: made, served, and closed when it is unmounted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ext::Volume;
use fuser::{Config, Session, SessionACL};

use crate::adapter::{Adapter, Seeker};
use crate::arrivals::Arrivals;
use crate::mount_point::{Description, MountPoint};
use crate::polling::Polling;
use crate::served::{Owners, Served};
use crate::vfs::Vfs;
use crate::watch::Watch;

/// How many requests are worked on at once, unless somebody says so. A thread that syncs waits for the device.
pub const THREADS: usize = 16;

/// How a volume is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What is told of the mount.
    pub description: Description,
    /// Who everything belongs to.
    pub owners: Owners,
    /// Files are opened without a message: faster, but an open file does not learn of writes that failed in the background
    /// when another has asked before, and append-only files are not kept from being overwritten.
    pub is_lazy_open: bool,
    /// How many requests are worked on at once.
    pub threads: usize,
    /// A processor that has nothing else to do may wait for requests without sleeping, while they are dense.
    pub may_poll: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            description: Description::default(),
            owners: Owners::default(),
            is_lazy_open: false,
            threads: THREADS,
            may_poll: true,
        }
    }
}

/// Why a volume is not mounted, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel, or the program that mounts, refused.
    #[error("{}: {cause}", directory.display())]
    Mount {
        /// Where.
        directory: std::path::PathBuf,
        /// What was said.
        cause: io::Error,
    },
    /// The conversation with the kernel broke.
    #[error("the mount has ended: {0}")]
    Session(io::Error),
    /// An operation has panicked.
    #[error("an operation has panicked; the next mount, or e2fsck, replays the journal")]
    Panicked,
    /// The volume could not be closed.
    #[error(transparent)]
    Volume(#[from] ext::Error),
}

/// A mounted volume, which waits to be served.
pub struct Mount<V: Vfs = Served> {
    session: Session<Adapter<V>>,
    vfs: Arc<V>,
    has_panicked: Arc<AtomicBool>,
    point: MountPoint,
    arrivals: Arrivals,
    threads: Threads,
}

/// What works beside the session.
struct Threads {
    seeker: Arc<Seeker>,
    seeking: JoinHandle<()>,
    watch: Watch,
    polling: Option<Polling>,
}

impl Threads {
    /// Waits for what they are doing.
    fn stop(self) {
        self.watch.stop();
        if let Some(polling) = self.polling {
            polling.stop();
        }
        self.seeker.stop();
        if self.seeking.join().is_err() {
            tracing::error!("the thread that looks for data and holes has panicked");
        }
    }
}

impl Mount<Served> {
    /// Mounts a volume at a directory.
    ///
    /// # Errors
    /// What was said by the kernel; the volume is closed.
    pub fn new(volume: Volume, directory: &Path, settings: &Settings) -> Result<Self, MountError> {
        let served = Arc::new(Served::new(volume, settings.owners, settings.is_lazy_open));
        let mounted = Self::of(Arc::clone(&served), directory, settings);
        if mounted.is_err()
            && let Some(served) = Arc::into_inner(served)
        {
            served.into_volume().close()?;
        }
        mounted
    }

    /// Serves it until it is unmounted, and closes the volume.
    ///
    /// # Errors
    /// What went wrong first. Whatever was promised is in the image, or in its journal.
    pub fn run(self) -> Result<(), MountError> {
        let has_panicked = Arc::clone(&self.has_panicked);
        let (served, ended) = self.serve();
        if has_panicked.load(Ordering::Acquire) {
            // Not closed: to the image that is a power cut, and the journal has what was promised.
            return Err(MountError::Panicked);
        }
        match Arc::try_unwrap(served) {
            Ok(served) => served.into_volume().close()?,
            // A thread is still at work: the journal holds what it had promised.
            Err(served) => served.volume().sync()?,
        }
        ended.map_err(MountError::Session)
    }
}

impl<V: Vfs> Mount<V> {
    /// Mounts any file system at a directory.
    ///
    /// # Errors
    /// What was said by the kernel.
    pub fn of(vfs: Arc<V>, directory: &Path, settings: &Settings) -> Result<Self, MountError> {
        let failed = |cause| MountError::Mount {
            directory: directory.to_owned(),
            cause,
        };
        let adapter = Adapter::new(Arc::clone(&vfs), settings.is_lazy_open);
        let (point, device) =
            MountPoint::mount(directory, &settings.description).map_err(failed)?;
        let mounted = Self::begin(adapter, vfs, device, point.clone(), settings);
        mounted.map_err(|cause| {
            let _ = point.unmount_by_force();
            failed(cause)
        })
    }

    /// Shakes hands with the kernel, and starts what works beside the session.
    fn begin(
        adapter: Adapter<V>,
        vfs: Arc<V>,
        device: OwnedFd,
        point: MountPoint,
        settings: &Settings,
    ) -> io::Result<Self> {
        let mut config = Config::default();
        config.n_threads = Some(settings.threads);
        config.clone_fd = true;
        let has_panicked = adapter.panic_mark();
        let notifier = adapter.notifier_slot();
        let (seeker, guard) = (adapter.seeker(), adapter.guarded());
        // Who may use it is the kernel's to decide.
        let session = Session::from_fd(adapter, device, SessionACL::All, config)?;
        // Nobody has put one there before.
        let _ = notifier.set(session.notifier());
        // On a single processor who polls is in the way of who asks.
        let has_room = thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        let polling = (settings.may_poll && has_room)
            .then(|| {
                let device = session.as_fd().try_clone_to_owned()?;
                // Of fuser's threads the last has the device that it was given, the others copies of their own.
                let thread = format!("fuser-{}", settings.threads - 1);
                Polling::start(guard.meter(), device, thread)
            })
            .transpose()?;
        let arrivals = Arrivals::new(point.clone(), guard.meter());
        let threads = Threads {
            polling,
            seeking: seeker.start(guard.clone(), arrivals.clone())?,
            seeker,
            watch: Watch::start(guard, point.clone())?,
        };
        Ok(Self {
            session,
            vfs,
            has_panicked,
            point,
            arrivals,
            threads,
        })
    }

    /// What ends the mount from elsewhere.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            point: self.point.clone(),
            arrivals: self.arrivals.clone(),
        }
    }

    /// Answers the kernel until there is none.
    pub fn serve(self) -> (Arc<V>, io::Result<()>) {
        let ended = self.session.run();
        self.threads.stop();
        (self.vfs, ended)
    }
}

/// Ends a mount.
#[derive(Debug, Clone)]
pub struct Unmounter {
    point: MountPoint,
    arrivals: Arrivals,
}

impl Unmounter {
    /// Unmounts. If the place is in use, what the kernel keeps is written first, and then it is taken from its users.
    ///
    /// # Errors
    /// What was said by the kernel.
    pub fn end(&self) -> io::Result<()> {
        match self.point.unmount() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                tracing::warn!(at = %self.point.path().display(), "in use: taken from its users");
                if let Err(error) = self.arrivals.wait() {
                    tracing::error!(%error, "not everything could be written before the end");
                }
                self.point.unmount_by_force()
            }
            result => result,
        }
    }
}

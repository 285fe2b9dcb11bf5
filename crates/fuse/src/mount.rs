//! A mounted volume: created, served, and closed when it is unmounted.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ext::Volume;
use fuser::{Config, Session, SessionACL};

use crate::adapter::{Adapter, Seeker, Stale};
use crate::arrivals::Arrivals;
use crate::mount_point::MountPoint;
use crate::served::Served;
use crate::settings::Settings;
use crate::turns::Turns;
use crate::wakeups::{Controller, Way};
use crate::watch::Watch;

/// The reason why a volume is not mounted, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel, or fusermount3, refused the mount.
    #[error("{}: {cause}", directory.display())]
    Mount {
        /// Mount point.
        directory: std::path::PathBuf,
        /// Error of the kernel or of fusermount3.
        cause: io::Error,
    },
    /// The communication with the kernel failed.
    #[error("the mount has ended: {0}")]
    Session(io::Error),
    /// An operation has panicked.
    #[error("an operation has panicked; the next mount replays the journal")]
    Panicked,
    /// The volume could not be closed.
    #[error(transparent)]
    Volume(#[from] ext::Error),
}

/// A mounted volume, ready to be served.
pub struct Mount {
    session: Session<Adapter>,
    served: Arc<Served>,
    has_panicked: Arc<AtomicBool>,
    point: MountPoint,
    arrivals: Arrivals,
    threads: Threads,
}

/// The threads beside the session.
struct Threads {
    seeker: Arc<Seeker>,
    seeking: JoinHandle<()>,
    stale: Arc<Stale>,
    invalidating: JoinHandle<()>,
    watch: Watch,
    wakeups: Option<Controller>,
}

impl Threads {
    /// Stops the threads and waits for them.
    fn stop(self) {
        self.watch.stop();
        if let Some(controller) = self.wakeups {
            controller.stop();
        }
        self.seeker.stop();
        if self.seeking.join().is_err() {
            tracing::error!("the thread that looks for data and holes has panicked");
        }
        self.stale.stop();
        if self.invalidating.join().is_err() {
            tracing::error!("the thread that invalidates entries has panicked");
        }
    }
}

impl Mount {
    /// Mounts a volume at a directory.
    ///
    /// # Errors
    /// Returns the kernel's error; the volume is closed.
    pub fn new(volume: Volume, directory: &Path, settings: &Settings) -> Result<Self, MountError> {
        let mut settings = settings.clone();
        // Files that are not read, or not written, have to say so when they are opened: later the
        // kernel would cache writes.
        settings.is_lazy_open &= volume.superblock().features.limits().is_empty();
        let served = Arc::new(Served::new(volume, settings.owners, settings.is_lazy_open));
        let mounted = Self::of(Arc::clone(&served), directory, &settings);
        if mounted.is_err()
            && let Some(served) = Arc::into_inner(served)
        {
            served.into_volume().close()?;
        }
        mounted
    }

    /// Serves the volume until it is unmounted, and closes it.
    ///
    /// # Errors
    /// Returns the first error. All synced data is in the image, or in its journal.
    pub fn run(self) -> Result<(), MountError> {
        let has_panicked = Arc::clone(&self.has_panicked);
        let (served, ended) = self.serve();
        if has_panicked.load(Ordering::Acquire) {
            // The volume is left unclosed, as after a power cut: the journal holds all synced data.
            return Err(MountError::Panicked);
        }
        match Arc::try_unwrap(served) {
            Ok(served) => served.into_volume().close()?,
            // A thread is still at work: after the sync the journal holds its completed operations.
            Err(served) => served.volume().sync()?,
        }
        ended.map_err(MountError::Session)
    }

    /// Mounts a served volume; does not close it on an error.
    fn of(served: Arc<Served>, directory: &Path, settings: &Settings) -> Result<Self, MountError> {
        let failed = |cause| MountError::Mount {
            directory: directory.to_owned(),
            cause,
        };
        let turns = Arc::new(Turns::new(settings.threads));
        let adapter = Adapter::new(Arc::clone(&served), settings, turns.clone());
        let (point, device) =
            MountPoint::mount(directory, &settings.description).map_err(failed)?;
        let mounted = Self::begin(adapter, served, device, point.clone(), turns, settings);
        mounted.map_err(|cause| {
            let _ = point.unmount_by_force();
            failed(cause)
        })
    }

    /// Initialises the connection to the kernel, and starts the threads beside the session.
    fn begin(
        adapter: Adapter,
        served: Arc<Served>,
        device: OwnedFd,
        point: MountPoint,
        turns: Arc<Turns>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let mut config = Config::default();
        config.n_threads = Some(settings.threads);
        config.clone_fd = true;
        let has_panicked = adapter.panic_mark();
        let notifier = adapter.notifier_slot();
        let (seeker, stale, guard) = (adapter.seeker(), adapter.stale(), adapter.guarded());
        // The kernel checks the users of the mount.
        let session = Session::from_fd(adapter, device, SessionACL::All, config)?;
        // The slot is still empty.
        let _ = notifier.set(session.notifier());
        let wakeups = settings
            .may_poll
            .then(|| {
                let device = session.as_fd().try_clone_to_owned()?;
                // fuser's last thread has the given device, the others have duplicates of their
                // own.
                let thread = format!("fuser-{}", settings.threads - 1);
                let way = Way::of_machine(turns, device, thread);
                way.map(|way| Controller::start(guard.meter(), way))
                    .transpose()
            })
            .transpose()?
            .flatten();
        let arrivals = Arrivals::new(point.clone(), guard.meter());
        let threads = Threads {
            wakeups,
            seeking: seeker.start(guard.clone(), arrivals.clone())?,
            seeker,
            invalidating: stale.start(notifier)?,
            stale,
            watch: Watch::start(guard, point.clone())?,
        };
        Ok(Self {
            session,
            served,
            has_panicked,
            point,
            arrivals,
            threads,
        })
    }

    /// Returns a handle that ends the mount from another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            point: self.point.clone(),
            arrivals: self.arrivals.clone(),
        }
    }

    /// Answers requests until the kernel closes the connection.
    fn serve(self) -> (Arc<Served>, io::Result<()>) {
        let ended = self.session.run();
        self.threads.stop();
        (self.served, ended)
    }
}

/// A handle that ends a mount.
#[derive(Debug, Clone)]
pub struct Unmounter {
    point: MountPoint,
    arrivals: Arrivals,
}

impl Unmounter {
    /// Unmounts. If the mount is busy, the kernel writes back first, and then it is unmounted by
    /// force.
    ///
    /// # Errors
    /// Returns the kernel's error.
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

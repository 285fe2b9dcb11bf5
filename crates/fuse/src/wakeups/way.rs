//! The way in which wake-ups are avoided: which there is on this machine, and switching it.

use std::fs;
use std::io;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::fs::OFlags;

use crate::occupant::{self, Occupant};
use crate::turns::{Supervisor, Turns};

/// Maximum fraction of time that the polling thread may wait for a processor.
pub(super) const WAITING_MAX: f64 = 0.2;
/// The same for the occupying thread: a process of higher priority takes all but little.
const OCCUPANT_WAITING_MAX: f64 = 0.9;
/// List of the processors that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The way to answer dense requests.
pub(crate) enum Way {
    /// One thread reads.
    Alone(Supervisor),
    /// One thread reads, and another occupies a processor.
    Share(Supervisor, Occupant),
    /// A thread polls.
    Poll {
        /// The device of that thread.
        device: OwnedFd,
        /// The name of that thread.
        thread: String,
    },
}

impl Way {
    /// Returns the way on this machine; `None` if there is none. The device is that of the
    /// session's thread with that name.
    pub(crate) fn of_machine(turns: Arc<Turns>, device: OwnedFd, thread: String) -> Option<Self> {
        let online = fs::read_to_string(ONLINE).ok();
        let online = online.and_then(|text| count_of(text.trim_end()));
        let usable = thread::available_parallelism().map_or(1, NonZero::get);
        match (online, usable) {
            (Some(1), _) => Some(Self::Alone(Supervisor::new(turns))),
            (Some(2), 2..) => match Occupant::start() {
                Ok(occupant) => Some(Self::Share(Supervisor::new(turns), occupant)),
                Err(error) => {
                    tracing::info!(%error, "no processor is kept occupied");
                    None
                }
            },
            // Polling would compete with the programs that send requests.
            (_, ..=1) => None,
            _ => Some(Self::Poll { device, thread }),
        }
    }

    /// Returns false if a quota or mask leaves the process one processor by now.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Alone(_) => true,
            Self::Share(..) | Self::Poll { .. } => {
                thread::available_parallelism().is_ok_and(|count| count.get() > 1)
            }
        }
    }

    /// Starts or stops avoiding wake-ups.
    pub(super) fn set_busy(&self, is_busy: bool) -> io::Result<()> {
        match self {
            Self::Alone(supervisor) => supervisor.set_limited(is_busy),
            Self::Share(supervisor, occupant) => {
                supervisor.set_limited(is_busy);
                occupant.set_spinning(is_busy);
            }
            Self::Poll { device, .. } => {
                let mut flags = rustix::fs::fcntl_getfl(device)?;
                flags.set(OFlags::NONBLOCK, is_busy);
                rustix::fs::fcntl_setfl(device, flags)?;
            }
        }
        Ok(())
    }

    /// Returns the name of the thread that should not have to wait.
    pub(super) fn thread(&self) -> Option<&str> {
        match self {
            Self::Alone(_) => None,
            Self::Share(..) => Some(occupant::THREAD),
            Self::Poll { thread, .. } => Some(thread),
        }
    }

    /// Returns the maximum fraction of time that this thread may wait for a processor.
    pub(super) fn waiting_max(&self) -> f64 {
        match self {
            Self::Alone(_) | Self::Poll { .. } => WAITING_MAX,
            Self::Share(..) => OCCUPANT_WAITING_MAX,
        }
    }

    /// Returns the supervisor if one thread reads.
    pub(super) fn supervisor(&mut self) -> Option<&mut Supervisor> {
        match self {
            Self::Alone(supervisor) | Self::Share(supervisor, _) => Some(supervisor),
            Self::Poll { .. } => None,
        }
    }
}

/// Counts the numbers of a list such as "0-3,5".
fn count_of(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(
            last.parse::<usize>()
                .ok()?
                .checked_sub(first.parse().ok()?)?
                + 1,
        )
    };
    list.split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!(count_of("0"), Some(1));
        assert_eq!(count_of("0-1"), Some(2));
        assert_eq!(count_of("0,2-3"), Some(3));
        assert_eq!(count_of(""), None);
    }
}

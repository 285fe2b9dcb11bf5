//! [`RecordedError`]: why a recording cannot be explored.

use std::io;
use std::path::PathBuf;

use block::trace::RecordingError;

use super::choice::Id;

/// The error of a recording that cannot be explored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// It is invalid or cannot be read.
    #[error("{0}")]
    Recording(RecordingError),
    /// It has no device, or more than a file system and its journal have.
    #[error("it has {0} devices: a file system has one, and one more for an external journal")]
    DeviceCount(usize),
    /// There is another number of initial images than of devices.
    #[error(
        "it has {wanted} devices, and {given} images are given for what they held before: give one for each, in their order"
    )]
    InitialCount {
        /// Number of devices.
        wanted: usize,
        /// Number of images.
        given: usize,
    },
    /// An initial image has another size than its device.
    #[error("{}: has {bytes} bytes, and device {device} of the recording {wanted}", path.display())]
    InitialSize {
        /// The image.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Number of the device.
        device: usize,
        /// Size of the device.
        wanted: u64,
    },
    /// An initial image cannot be read.
    #[error("{}: {cause}", path.display())]
    Initial {
        /// The image.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// A request lies outside of its device.
    #[error(
        "event {event} is a request beyond the end of device {device}, which has {size_bytes} bytes"
    )]
    Beyond {
        /// Number of the event.
        event: usize,
        /// Number of the device.
        device: usize,
        /// Size of the device.
        size_bytes: u64,
    },
    /// The device is too small for any file system.
    #[error(
        "its device 0 has {0} bytes: an ext2, ext3 or ext4 file system takes more, and others are not judged"
    )]
    TooSmall(u64),
    /// More is undecided than memory is to hold.
    #[error(
        "after event {event}, {sectors} sectors of 512 bytes would be undecided, and {limit} are the maximum: record a smaller device, or a program that flushes or discards less at once"
    )]
    TooMuch {
        /// Number of the event.
        event: usize,
        /// Number of the versions of sectors.
        sectors: u64,
        /// Their maximum.
        limit: u64,
    },
    /// A fault of this machine, of which nothing follows for the file system.
    #[error("{0}")]
    Machine(String),
    /// No instant was explored.
    #[error(
        "nothing was explored: of the instants from event {start} on, when the file system is whole, there is none, none was chosen, or the limit of time or images left none"
    )]
    Nothing {
        /// Number of events until the file system was whole.
        start: usize,
    },
    /// No file system is ever whole and durable.
    #[error(
        "at no instant do its devices hold a sound ext2, ext3 or ext4 file system that is durable: others are not judged; if it was there before the recording, give its images with --initial"
    )]
    NoFileSystem,
    /// The file system's external journal was not recorded.
    #[error("the journal of the file system is on another device, which was not recorded")]
    NoJournal,
    /// The engine cannot open the file system when it is whole.
    #[error("the file system cannot be opened even when it is whole: {0}")]
    Unopened(String),
    /// A cut is after the end.
    #[error("{id}: the recording has {events} events only")]
    NoInstant {
        /// The cut.
        id: Id,
        /// Number of events.
        events: usize,
    },
    /// A cut does not fit its instant.
    #[error("{0}: nothing that it names is undecided at that instant")]
    NoChoice(Id),
    /// A cut is before the file system is whole.
    #[error(
        "{0}: before that instant the last file system that was made was not yet whole and durable"
    )]
    TooEarly(Id),
}

impl From<RecordingError> for RecordedError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

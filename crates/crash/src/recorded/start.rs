//! The instant from which on a recording is judged: when the last file system that was made on the
//! device is whole.
//!
//! Each write that makes another file system of the superblock starts the search anew. If it ends,
//! power cuts before that are not judged, even if there was a sound file system: what a program has
//! begun to replace is no volume, and the device does not say since when. If it does not end, there
//! was no other file system, and the superblock of the one before is damaged.

use block::Replay;
use block::trace::Event;
use layout::SectorNr;
use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::superblock::{MAGIC, Superblock};
use zerocopy::FromBytes;

use super::error::RecordedError;
use super::judge::{Judge, SUPERBLOCK, SUPERBLOCK_SECTORS};
use super::sparse::{Sparse, read};
use crate::cut::Moment;

/// Features that a mounted file system sets and clears by itself.
const COMPATIBLE_IN_USE: Compatible = Compatible::EXT_ATTR;
const INCOMPATIBLE_IN_USE: Incompatible = Incompatible::NEEDS_RECOVERY;
const READ_ONLY_COMPATIBLE_IN_USE: ReadOnlyCompatible =
    ReadOnlyCompatible::LARGE_FILE.union(ReadOnlyCompatible::ORPHAN_PRESENT);

/// The start of what is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// Number of events before it.
    pub(crate) event: usize,
    pub(crate) judge: Judge,
}

/// The fields that differ between a file system and the one before it. Guests draw their UUIDs from
/// a seed and may have the same clock, so that none of them suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    uuid: [u8; 16],
    creation_time: u32,
    features: [u32; 3],
    blocks_count: u64,
    inodes_count: u32,
}

impl Identity {
    /// Returns that of the newest superblock, durable or not; `None` if it is not one of ext2, ext3
    /// or ext4. All fields lie in its first sector.
    fn newest(home: &Replay<Sparse>) -> Option<Self> {
        let newest = home
            .versions()
            .newest(SectorNr::new(SUPERBLOCK_SECTORS[0]), 1);
        let mut bytes = [0; SUPERBLOCK.1 as usize];
        match newest.first() {
            Some((_, version)) => bytes[..version.bytes().len()].copy_from_slice(version.bytes()),
            None => {
                let block = read(home.durable().memory(), SUPERBLOCK.0, SUPERBLOCK.1);
                bytes.copy_from_slice(&block);
            }
        }
        let (superblock, _) = Superblock::ref_from_prefix(&bytes).expect("as many bytes");
        let features = superblock.features();
        let identity = Self {
            uuid: superblock.uuid,
            creation_time: superblock.creation_time.get(),
            features: [
                (features.compatible - COMPATIBLE_IN_USE).bits(),
                (features.incompatible - INCOMPATIBLE_IN_USE).bits(),
                (features.read_only_compatible - READ_ONLY_COMPATIBLE_IN_USE).bits(),
            ],
            blocks_count: superblock.blocks_count(),
            inodes_count: superblock.inodes_count.get(),
        };
        (superblock.magic.get() == MAGIC).then_some(identity)
    }
}

/// The search for the start.
pub(crate) struct Finder {
    identity: Option<Identity>,
    /// True until the file system with this identity is whole.
    is_searching: bool,
    found: Result<Option<Start>, RecordedError>,
}

impl Finder {
    /// Starts the search before the first event.
    pub(crate) fn new(replays: &[Replay<Sparse>]) -> Self {
        let mut finder = Self {
            identity: Identity::newest(&replays[0]),
            is_searching: true,
            found: Ok(None),
        };
        finder.look(replays, 0);
        finder
    }

    /// Notes an event that was applied, the one with this number.
    pub(crate) fn note(&mut self, replays: &[Replay<Sparse>], event: &Event, number: usize) {
        match event {
            Event::Submitted { device: 0, .. } => {
                let identity = Identity::newest(&replays[0]);
                if identity != self.identity {
                    self.identity = identity;
                    self.is_searching = true;
                }
            }
            Event::Completed { .. } if self.is_searching => self.look(replays, number),
            _ => {}
        }
    }

    /// Notes that the file system is whole, if it is and if nothing is undecided.
    fn look(&mut self, replays: &[Replay<Sparse>], event: usize) {
        if replays.iter().any(|one| !one.versions().is_empty()) {
            return;
        }
        let images = Moment::new(replays).images(&[]);
        let found = match Judge::of(&images) {
            Ok(Some(judge)) => Ok(Some(Start { event, judge })),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        self.found = found;
        self.is_searching = false;
    }

    /// Returns the start.
    ///
    /// # Errors
    /// Fails if no file system was ever whole, or if the last one cannot be judged.
    pub(crate) fn start(self) -> Result<Start, RecordedError> {
        self.found?.ok_or(RecordedError::NoFileSystem)
    }
}

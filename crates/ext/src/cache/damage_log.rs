//! The damage found since the volume was opened, until the superblock records it.
//!
//! As in ext3, the state gets `ERROR`, which only a check clears. Other fields record the number of
//! errors, and the time and place of the first and the last one. The source file of the failed
//! check stands in the field that holds a C function name in ext3. The same damage found twice in a
//! row is counted once.
//!
//! Source: Linux `Documentation/filesystems/ext4/super.rst`.

use core::panic::Location;

use layout::superblock::{self as disk, State};
use layout::{BlockNr, InodeNr};
use rt::Mutex;
use rt::atomic::{AtomicBool, Ordering};

use crate::disk::superblock::split_time;
use crate::error::Corrupt;

/// Value of `s_first_error_errcode` and `s_last_error_errcode` for damage: `EFSCORRUPTED`.
const CODE_CORRUPT: u8 = 5;

/// The log of damage found since the volume was opened.
#[derive(Default)]
pub(crate) struct DamageLog {
    // [damage] leaf
    record: Mutex<Record>,
    /// True while the superblock's buffer lacks part of the record.
    is_owed: AtomicBool,
}

/// All damage since the volume was opened.
#[derive(Default)]
struct Record {
    count: u32,
    /// The first error and the last.
    notes: Option<(Note, Note)>,
    newest: Option<Corrupt>,
}

/// One error, as the superblock describes it.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    seconds: i64,
    inode: u32,
    block: u64,
    place: &'static Location<'static>,
}

impl Note {
    /// Describes damage found at a place in the source.
    pub(crate) fn new(damage: &Corrupt, place: &'static Location<'static>) -> Self {
        Self {
            seconds: rt::wall().seconds,
            inode: damage.inode().map_or(0, InodeNr::get),
            block: damage.block().map_or(0, BlockNr::get),
            place,
        }
    }
}

impl DamageLog {
    /// Returns true if the superblock's buffer lacks part of the record.
    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed.load(Ordering::Acquire)
    }

    /// Notes one error; returns false if it equals the one noted last.
    pub(crate) fn note(&self, note: Note, damage: &Corrupt) -> bool {
        let mut record = self.record.lock();
        if record.newest.as_ref() == Some(damage) {
            return false;
        }
        record.newest = Some(damage.clone());
        record.count = record.count.saturating_add(1);
        let (first, _) = record.notes.unwrap_or((note, note));
        record.notes = Some((first, note));
        self.is_owed.store(true, Ordering::Release);
        true
    }

    /// Brings a superblock up to date; returns false if there is nothing to note. The operation is
    /// idempotent. `count_before` is the number of errors that the superblock counted at open.
    pub(crate) fn apply(&self, raw: &mut disk::Superblock, count_before: u32) -> bool {
        let record = self.record.lock();
        let Some((first, last)) = record.notes else {
            return false;
        };
        let count = record.count;
        self.is_owed.store(false, Ordering::Release);
        drop(record);
        let state = raw.state() | State::ERROR;
        raw.state_bits.set(state.bits());
        raw.error_count.set(count_before.saturating_add(count));
        if raw.first_error_time.get() == 0 {
            (raw.first_error_time, raw.first_error_time_high) = split_time(first.seconds);
            raw.first_error_inode.set(first.inode);
            raw.first_error_block.set(first.block);
            raw.first_error_line.set(first.place.line());
            raw.first_error_function = function(first.place);
            raw.first_error_code = CODE_CORRUPT;
        }
        (raw.last_error_time, raw.last_error_time_high) = split_time(last.seconds);
        raw.last_error_inode.set(last.inode);
        raw.last_error_block.set(last.block);
        raw.last_error_line.set(last.place.line());
        raw.last_error_function = function(last.place);
        raw.last_error_code = CODE_CORRUPT;
        true
    }
}

/// Returns the path of a check's source file below `src/`, padded with NUL. A longer path keeps its
/// end, which distinguishes it.
fn function(place: &Location<'_>) -> [u8; 32] {
    let file = place.file();
    let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
    let bytes = file.as_bytes();
    let mut padded = [0; 32];
    // The last byte stays NUL, for programs that print the field as a string.
    let kept = &bytes[bytes.len().saturating_sub(padded.len() - 1)..];
    padded[..kept.len()].copy_from_slice(kept);
    padded
}

//! Damage that an open volume meets: noted in the superblock, and acted upon as `errors=` says.
//!
//! | `errors=` | the volume | the superblock |
//! |---|---|---|
//! | `continue` | goes on | in a transaction, which is committed at once |
//! | `remount-ro` | turns read-only; what was changed before is still committed | the same |
//! | `panic` | the journal aborts, then the calling thread panics | written to its place before the panic |
//!
//! Damage is found below all kinds of locks, where no handle can be started. It is noted in memory there, and the writer daemon is woken to
//! store it; every sync and the close store what is left. An aborted journal takes no transaction: then the superblock is written to its
//! place, and the journal's own note of the abort outlives a replay of older images.
//!
//! As in ext3, the state gets `ERROR` (which only a check takes away), and fields say when, where and how often: of the first error and of the
//! last. In place of a C function stands the source file of the check. The same damage that is met again is counted once.
//!
//! Source: Linux `Documentation/filesystems/ext4/super.rst`.

use core::panic::Location;
use std::sync::Arc;

use jbd2::{Credits, Journal};
use layout::superblock::{self as disk, State};
use rt::Mutex;
use rt::atomic::{AtomicBool, Ordering};

use crate::alloc::Space;
use crate::core::Core;
use crate::disk::superblock::split_time;
use crate::error::{Corrupt, Error, Result};
use crate::handle::Transaction;
use crate::options::OnError;

/// `s_first_error_errcode` and `s_last_error_errcode` of damage: `EFSCORRUPTED`.
const CODE_CORRUPT: u8 = 5;

/// What was found since the volume was opened.
#[derive(Default)]
pub(crate) struct DamageLog {
    // [damage] leaf
    record: Mutex<Record>,
    /// True while the superblock's buffer does not have all of the record.
    is_owed: AtomicBool,
}

/// All damage since the volume was opened.
#[derive(Default)]
struct Record {
    count: u32,
    /// The first and the last.
    notes: Option<(Note, Note)>,
    newest: Option<Corrupt>,
}

/// One error, as the superblock describes it.
#[derive(Clone, Copy)]
struct Note {
    seconds: i64,
    inode: u32,
    block: u64,
    place: &'static Location<'static>,
}

impl Core {
    /// Notes damage, acts as `errors=` says, and returns the error for the caller.
    ///
    /// # Panics
    /// With `errors=panic`, after the error was written to the superblock.
    #[track_caller]
    pub(crate) fn damaged(&self, damage: Corrupt) -> Error {
        tracing::info!(%damage, "the volume is damaged");
        self.note_damage(&damage);
        match self.options.on_error {
            OnError::Continue => {}
            OnError::RemountReadOnly => self.is_read_only.store(true, Ordering::Release),
            OnError::Panic => {
                self.abort("damage was found, and the volume is opened with errors=panic");
                if let Err(error) = self.store_damage_directly() {
                    tracing::error!(%error, "damage could not be noted in the superblock");
                }
                panic!("{damage}, and the volume is opened with errors=panic");
            }
        }
        damage.into()
    }

    /// Notes damage for the superblock. Memory work only.
    #[track_caller]
    pub(crate) fn note_damage(&self, damage: &Corrupt) {
        if self.is_opened_read_only {
            return;
        }
        let note = Note {
            seconds: rt::wall().seconds,
            inode: damage.inode().map_or(0, layout::InodeNr::get),
            block: damage.block().map_or(0, layout::BlockNr::get),
            place: Location::caller(),
        };
        if self.damage.note(note, damage) {
            self.pages.wake().request();
        }
    }

    /// Stores what was found and is not in the superblock yet, durably. No handle is open.
    pub(crate) fn store_damage(&self) -> Result<()> {
        if !self.damage.is_owed() {
            return Ok(());
        }
        let has_aborted = |journal: &Arc<Journal>| journal.error().is_some();
        if self.is_aborted.load(Ordering::Acquire) || self.journal.as_ref().is_some_and(has_aborted)
        {
            return self.store_damage_directly();
        }
        Space::store_counts(self)?;
        match &self.journal {
            Some(journal) => journal.commit_running().map(drop)?,
            None => {
                self.buffers
                    .write_now(&[self.geometry.superblock_place().0])?;
                self.device.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what was found to the superblock's place, after an abort: nobody else writes it any more.
    pub(crate) fn store_damage_directly(&self) -> Result<()> {
        let mut superblock = crate::volume::read_superblock(&self.device)?;
        if self.damage.apply(self, &mut superblock.raw) {
            crate::volume::write_superblock(&self.device, &superblock)?;
        }
        Ok(())
    }

    /// Changes the superblock's buffer in a handle of its own, also on a volume that has become read-only, and notes the damage there.
    pub(crate) fn store_in_superblock(
        &self,
        change: impl FnOnce(&mut disk::Superblock),
    ) -> Result<()> {
        let credits = Credits {
            blocks: 1,
            revokes: 0,
        };
        let mut transaction = Transaction::begin(self, credits)?;
        self.with_superblock(&mut transaction, |raw| {
            change(raw);
            if !rt::mutant!("damage/not-stored") {
                self.damage.apply(self, raw);
            }
        })?;
        transaction.finish().map(drop)
    }
}

impl DamageLog {
    /// True if something was found that the superblock's buffer does not have yet.
    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed.load(Ordering::Acquire)
    }

    /// Notes one error; false if it is the one that was noted last.
    fn note(&self, note: Note, damage: &Corrupt) -> bool {
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

    /// Brings a superblock up to date; false if there is nothing to note. Doing it twice is no harm.
    fn apply(&self, core: &Core, raw: &mut disk::Superblock) -> bool {
        let record = self.record.lock();
        let Some((first, last)) = record.notes else {
            return false;
        };
        let count = record.count;
        self.is_owed.store(false, Ordering::Release);
        drop(record);
        let state = raw.state() | State::ERROR;
        raw.s_state.set(state.bits());
        let before = core.superblock.raw.s_error_count.get();
        raw.s_error_count.set(before.saturating_add(count));
        if raw.s_first_error_time.get() == 0 {
            (raw.s_first_error_time, raw.s_first_error_time_hi) = split_time(first.seconds);
            raw.s_first_error_ino.set(first.inode);
            raw.s_first_error_block.set(first.block);
            raw.s_first_error_line.set(first.place.line());
            raw.s_first_error_func = function(first.place);
            raw.s_first_error_errcode = CODE_CORRUPT;
        }
        (raw.s_last_error_time, raw.s_last_error_time_hi) = split_time(last.seconds);
        raw.s_last_error_ino.set(last.inode);
        raw.s_last_error_block.set(last.block);
        raw.s_last_error_line.set(last.place.line());
        raw.s_last_error_func = function(last.place);
        raw.s_last_error_errcode = CODE_CORRUPT;
        true
    }
}

/// The source file of a check, from the crate's sources on, padded with NUL. Its end is what distinguishes it.
fn function(place: &Location<'_>) -> [u8; 32] {
    let file = place.file();
    let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
    let bytes = file.as_bytes();
    let mut padded = [0; 32];
    // The last byte stays NUL, for those who print it as a string.
    let kept = &bytes[bytes.len().saturating_sub(padded.len() - 1)..];
    padded[..kept.len()].copy_from_slice(kept);
    padded
}

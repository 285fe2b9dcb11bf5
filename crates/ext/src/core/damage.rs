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
//! What is noted says [`DamageLog`](crate::cache::damage_log::DamageLog).

use core::panic::Location;
use std::sync::Arc;

use jbd2::Journal;
use rt::atomic::Ordering;

use super::Core;
use crate::cache::damage_log::Note;
use crate::disk::superblock;
use crate::error::{Corrupt, Error, Result};
use crate::options::OnError;

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
        let note = Note::new(damage, Location::caller());
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
        self.store_counts()?;
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
        let mut superblock = superblock::read(&self.device)?;
        if self.damage.apply(&mut superblock.raw, self.errors_before()) {
            superblock::write(&self.device, &superblock)?;
        }
        Ok(())
    }
}

//! Damage found on an open volume: recorded in the superblock, and handled by the policy of
//! `errors=`.
//!
//! | `errors=` | the volume | the superblock |
//! |---|---|---|
//! | `continue` | continues | in a transaction, which is committed at once |
//! | `remount-ro` | turns read-only; earlier changes are still committed | the same |
//! | `panic` | the journal aborts, then the calling thread panics | written in place before |
//!
//! Damage is found under all kinds of locks, in places that cannot start a handle. There it is
//! noted in memory and the writer daemon is woken to store it; every sync and the close store the
//! rest. An aborted journal accepts no transaction: then the superblock is written in place, and
//! the error in the journal superblock survives a replay of older images.
//!
//! [`DamageLog`](crate::cache::damage_log::DamageLog) describes the recorded fields.

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
    /// Notes damage, applies the policy of `errors=`, and returns the error for the caller.
    ///
    /// # Panics
    /// Panics with `errors=panic`, after the error was written to the superblock.
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

    /// Returns an error after noting the damage that it describes, if it does.
    #[track_caller]
    pub(crate) fn noted(&self, error: Error) -> Error {
        match error {
            Error::Corrupt(damage) => self.damaged(damage),
            error => error,
        }
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

    /// Stores damage that the superblock lacks, durably. The calling thread has no handle open.
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
                    .write_now(&[self.geometry().superblock_place().0])?;
                self.flush_device()?;
            }
        }
        Ok(())
    }

    /// Writes damage to the superblock in place after an abort, when nothing else writes it.
    pub(crate) fn store_damage_directly(&self) -> Result<()> {
        let mut superblock = superblock::read(&self.device)?;
        if self.damage.apply(&mut superblock.raw, self.errors_before()) {
            superblock::write(&self.device, &superblock)?;
        }
        Ok(())
    }
}

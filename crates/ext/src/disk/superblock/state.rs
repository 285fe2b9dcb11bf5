//! Changes of the superblock at mount and unmount, outside of any transaction.
//!
//! The checksum of a superblock lies in its last sector, and what changes in the first, so that a
//! power cut can leave a write half done. A write in place therefore changes marks and the checksum
//! only: by the other values of the marks the checksum is right (`Checksums::check_superblock`).
//!
//! A volume with an orphan file and a journal has two marks while it is in use, as Linux sets them:
//! `needs_recovery`, and `orphan_present` for the slots of the file. They lie in one sector and are
//! set and cleared by one write, so that neither is ever on the device without the other.

use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::superblock::{self as disk, State};
use layout::{Block, checksum};
use zerocopy::IntoBytes;

use super::Superblock;

impl Superblock {
    /// Returns the on-disk form to be written: 1024 bytes, with a checksum if the volume has
    /// `metadata_csum`.
    pub fn encode(&self) -> Block {
        let mut raw = self.raw;
        let features = raw.features().read_only_compatible;
        if features.contains(ReadOnlyCompatible::METADATA_CSUM) {
            raw.checksum = checksum::superblock(&raw).into();
        }
        Block::copy_from(raw.as_bytes())
    }

    /// Sets or clears the mark that the journal has to be replayed.
    pub fn set_needs_recovery(&mut self, needs_recovery: bool) {
        let mut features = self.raw.features();
        features
            .incompatible
            .set(Incompatible::NEEDS_RECOVERY, needs_recovery);
        self.raw.set_features(features);
        self.needs_recovery = needs_recovery;
    }

    /// Sets or clears the mark that slots of the orphan file may be in use.
    fn set_orphan_present(&mut self, is_present: bool) {
        let mut features = self.raw.features();
        features
            .read_only_compatible
            .set(ReadOnlyCompatible::ORPHAN_PRESENT, is_present);
        self.raw.set_features(features);
    }

    /// Records that the volume is in use: with a journal it needs recovery from now on, and may
    /// have orphans in its orphan file; without one it is not valid. Where marks are changed alone,
    /// the rest is for `count_mount` in a transaction.
    pub fn note_mount(&mut self, seconds: i64, has_journal: bool) {
        if has_journal {
            self.set_needs_recovery(true);
            if self.has_orphan_file() && !rt::mutant!("orphan/mark-not-set") {
                self.set_orphan_present(true);
            }
        } else {
            self.set_state(State::VALID, false);
        }
        if !self.is_marked_alone() || rt::mutant!("superblock/marked-with-times") {
            self.note_hash_sign();
            count_mount(&mut self.raw, seconds);
        }
    }

    /// Says of which sign the bytes of names are in hashes, as Linux does at the first mount. A
    /// volume that does not say has hashes of signed bytes here, but not in every kernel.
    fn note_hash_sign(&mut self) {
        let features = self.features.compatible;
        if features.contains(Compatible::DIR_INDEX) {
            self.raw.say_hash_sign();
        }
    }

    /// Records that the volume is no longer in use. It is valid if it was valid when opened:
    /// without a journal, only a check can repair the effects of an earlier crash. With
    /// `has_orphans`, slots of the orphan file stay in use.
    ///
    /// With errors noted the mark of the slots is cleared all the same: with it and without
    /// `needs_recovery`, Linux refuses to mount read-only. The slots are read without the mark.
    pub fn note_unmount(&mut self, seconds: i64, was_valid: bool, has_orphans: bool) {
        self.set_needs_recovery(false);
        if !has_orphans || self.raw.state().contains(State::ERROR) {
            self.set_orphan_present(false);
        }
        self.set_state(State::VALID, was_valid);
        if !self.is_marked_alone() {
            self.note_write(seconds);
        }
    }

    /// Records errors that the journal had recorded: a check is needed.
    pub fn note_errors(&mut self) {
        self.set_state(State::ERROR, true);
    }

    /// Records the time at which the superblock was last written.
    pub fn note_write(&mut self, seconds: i64) {
        (self.raw.write_time, self.raw.write_time_high) = split_time(seconds);
    }

    fn set_state(&mut self, bit: State, on: bool) {
        let mut state = self.raw.state();
        state.set(bit, on);
        self.raw.state_bits.set(state.bits());
    }
}

/// Counts a mount, and notes its time.
pub(crate) fn count_mount(raw: &mut disk::Superblock, seconds: i64) {
    raw.mount_count.set(raw.mount_count.get().saturating_add(1));
    (raw.mount_time, raw.mount_time_high) = split_time(seconds);
    (raw.write_time, raw.write_time_high) = split_time(seconds);
}

/// Splits a time into its fields in the superblock: 40 bits of seconds.
pub(crate) fn split_time(seconds: i64) -> (zerocopy::little_endian::U32, u8) {
    let seconds = seconds.max(0) as u64;
    (
        zerocopy::little_endian::U32::new(seconds as u32),
        (seconds >> 32) as u8,
    )
}

//! The keys of ext4: which of them apply, and the features of a new file system.

use ext::mkfs::FeatureEdits;

use super::{Reader, SetupError, wrong};
use crate::file_system::JournalPlace;
use crate::plan::key::{EXT4, EXT4_PREFIX};
use crate::plan::value::{INTERNAL, NONE};

/// The key of further features.
const FEATURES: &str = "fs.ext4.features";
/// The key of the kind of commits.
const COMMITS: &str = "fs.ext4.commits";
/// The key of delayed allocation.
pub(super) const DELAYED_ALLOCATION: &str = "fs.ext4.delayed_allocation";
/// The key of the initialisation after the mount.
pub(super) const LAZY_INIT: &str = "fs.ext4.lazy_init";

impl Reader<'_> {
    /// Returns true if an ext4 has no journal.
    pub(super) fn has_no_journal(&self) -> bool {
        NONE == self.journal_word() || NONE == self.text(COMMITS)
    }

    /// Fails if this project's engine cannot make an ext4 as it is described.
    pub(super) fn check_engine(&self) -> Result<(), SetupError> {
        match FeatureEdits::parse(self.text(FEATURES)) {
            Ok(_) => Ok(()),
            Err(error) => Err(wrong(&[FEATURES], &format!("{FEATURES}: {error}"))),
        }
    }

    /// Returns the changes of the features that mkfs chooses.
    pub(super) fn features(
        &self,
        kind: &str,
        journal: &JournalPlace,
    ) -> Result<String, SetupError> {
        self.check_ext4(kind, journal)?;
        if kind != EXT4 {
            return Ok(String::new());
        }
        let given = self.text(FEATURES);
        let parts = [
            (self.text(COMMITS) == "fast", "fast_commit"),
            (*journal == JournalPlace::None, "^has_journal"),
            (!given.is_empty(), given),
        ];
        let parts = parts.iter().filter(|(is_there, _)| *is_there);
        let names: Vec<&str> = parts.map(|(_, names)| *names).collect();
        Ok(names.join(","))
    }

    /// Fails if a key of ext4 has no effect, or contradicts another.
    fn check_ext4(&self, kind: &str, journal: &JournalPlace) -> Result<(), SetupError> {
        if kind != EXT4 {
            let said = self.settings.said();
            return match said.into_iter().find(|key| key.starts_with(EXT4_PREFIX)) {
                Some(key) => Err(wrong(&[key], &format!("{key}: has no effect for {kind}"))),
                None => Ok(()),
            };
        }
        if self.text("mkfs") != "default" {
            let message = "mkfs: there was no ext4 in 2002";
            return Err(wrong(&["mkfs", "fs.type"], message));
        }
        let commits = self.text(COMMITS);
        if commits == NONE && !matches!(self.journal_word(), INTERNAL | NONE) {
            let message = format!("{COMMITS}: without a journal, and journal is a device");
            return Err(wrong(&[COMMITS, "journal"], &message));
        }
        if commits != "fast" {
            return Ok(());
        }
        if *journal != JournalPlace::Internal {
            let message = format!("{COMMITS}: only an internal journal gets fast commits");
            return Err(wrong(&[COMMITS, "journal"], &message));
        }
        if self.text("fs.data") == "journal" {
            let message =
                format!("{COMMITS}: there are no fast commits with fs.data = \"journal\"");
            return Err(wrong(&[COMMITS, "fs.data"], &message));
        }
        Ok(())
    }
}

//! Turning checksums on and off, and computing them anew for another UUID.
//!
//! | before | after | what changes |
//! |---|---|---|
//! | any | `metadata_csum` | every structure gets its checksum |
//! | `metadata_csum` | none, `uninit_bg` | index blocks get the room of their tails back |
//! | none | `metadata_csum`, `uninit_bg` | groups get flags: all of them are initialised |
//! | `metadata_csum`, `uninit_bg` | none | what the flags left uninitialised is made, and they go |
//! | `metadata_csum`, `uninit_bg` | either | inode tables are zeroed, bitmaps stay uninitialised |
//!
//! `metadata_csum` leaves `uninit_bg` behind, as tune2fs has it, unless that is to go, too: groups
//! keep their flags, and descriptors get the checksums of that feature.
//!
//! Checksums that nothing reads any more stay where they are: in inodes, and as unused entries at
//! the ends of directory blocks. Those of the orphan file become zero, as e2fsck expects.
//!
//! # Order
//!
//! 1. Everything is checked, with the checksums that are there. Damage is refused, and would get a
//!    good checksum otherwise.
//! 2. Directory blocks without room for a tail get it, as ordinary changes of an open volume.
//! 3. The superblock says that the volume is not valid, so that a crash from here on leaves one
//!    that has to be checked: e2fsck computes the checksums that are wrong.
//! 4. Structures are written in place, the descriptors last. Before them the unused parts of inode
//!    tables are zeroed: a checker that finds the checksum of a descriptor wrong ignores its flags.
//! 5. The superblock with its new features says that the volume is valid.
//!
//! An indexed directory whose index has a full block loses the index: the block has no room for a
//! tail. `e2fsck -fD` makes the index anew.

mod directories;
mod files;
mod groups;
mod tables;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;

use block::BlockDevice;
use layout::feature::{Features, Incompatible, ReadOnlyCompatible};
use layout::superblock as disk;
use layout::{FileBlock, InodeNr};

use super::{Changes, Word, features, look, read, take_over};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::dir;
use crate::disk::checksums::Checksums;
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::options::MountOptions;
use crate::volume::{close_core, open_core};
use writer::Writer;

/// `metadata_csum`.
pub(super) const METADATA: (Word, u32) = (
    Word::ReadOnlyCompatible,
    ReadOnlyCompatible::METADATA_CSUM.bits(),
);
/// `uninit_bg`.
pub(super) const DESCRIPTORS: (Word, u32) = (
    Word::ReadOnlyCompatible,
    ReadOnlyCompatible::UNINIT_BG.bits(),
);

/// A block of a directory.
type DirectoryBlock = (InodeNr, FileBlock);

/// The change of a volume's checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conversion {
    from: Checksums,
    to: Checksums,
    /// Directory blocks that have no room for a tail.
    full: BTreeSet<DirectoryBlock>,
}

/// Returns true if changes set or clear checksums.
pub(super) fn concerns(changes: &Changes) -> bool {
    let mut all = changes.features.iter().chain(&changes.features_removed);
    all.any(|feature| [METADATA, DESCRIPTORS].contains(feature))
}

/// Sets and clears features that depend on those of the checksums: `metadata_csum` has the
/// checksums of descriptors, which stay without it, and a seed, which goes.
pub(super) fn settle_features(before: &Features, features: &mut Features, changes: &Changes) {
    let had = before.read_only_compatible;
    let words = &mut features.read_only_compatible;
    if words.contains(ReadOnlyCompatible::METADATA_CSUM) {
        words.remove(ReadOnlyCompatible::UNINIT_BG);
        return;
    }
    let seed = Incompatible::METADATA_CSUM_SEED;
    features.incompatible.remove(seed);
    if had.contains(ReadOnlyCompatible::METADATA_CSUM)
        && !changes.features_removed.contains(&DESCRIPTORS)
    {
        words.insert(ReadOnlyCompatible::UNINIT_BG);
    }
}

/// Sets the fields of the superblock that depend on the features.
pub(super) fn settle_fields(raw: &mut disk::Superblock) {
    let features = raw.features().read_only_compatible;
    raw.checksum_type = match features.contains(ReadOnlyCompatible::METADATA_CSUM) {
        true => disk::CHECKSUM_CRC32C,
        false => 0,
    };
    if !features.contains(ReadOnlyCompatible::METADATA_CSUM) {
        raw.checksum.set(0);
    }
}

/// Checks that a change of the checksums is one that can be made.
pub(super) fn check_features(superblock: &Superblock, changes: &Changes) -> Result<()> {
    let has = superblock.checksums.has_tails();
    let is_kept = has && !changes.features_removed.contains(&METADATA);
    let is_set = is_kept || changes.features.contains(&METADATA);
    if is_set && changes.features.contains(&DESCRIPTORS) {
        return Err(Error::Invalid(
            "uninit_bg: metadata_csum has the checksums of group descriptors",
        ));
    }
    Ok(())
}

/// Returns the two steps of changes that concern checksums and more.
pub(super) fn steps(changes: &Changes) -> Option<(Changes, Changes)> {
    let is_own =
        |feature: &(Word, u32)| [METADATA, DESCRIPTORS, features::CHECKSUM_SEED].contains(feature);
    let mut rest = changes.clone();
    let mut own = Changes {
        uuid: rest.uuid.take(),
        ..Changes::default()
    };
    own.features = rest
        .features
        .extract_if(.., |feature| is_own(feature))
        .collect();
    let removed = rest
        .features_removed
        .extract_if(.., |feature| is_own(feature));
    own.features_removed = removed.collect();
    let nothing = Changes::default();
    (rest != nothing && own != nothing).then_some((rest, own))
}

impl Conversion {
    /// Returns the change between a volume and its superblock with the changes; none if the
    /// checksums stay. Reads and checks all structures that will change.
    ///
    /// # Errors
    /// - [`Error::Corrupt`] for a damaged structure.
    /// - [`Error::Unsupported`] for a volume with values whose hashes have the seed.
    pub(super) fn of(
        device: &Arc<dyn BlockDevice>,
        before: &Superblock,
        after: &disk::Superblock,
    ) -> Result<Option<Self>> {
        let to = Checksums::of(after, after.features());
        let mut conversion = Self {
            from: before.checksums,
            to,
            full: BTreeSet::new(),
        };
        let keeps_values = layout::checksum::metadata::seed(after) == before.value_seed();
        if before.has_ea_inode() && !keeps_values {
            return Err(Error::Unsupported(
                "the hashes of values in inodes of their own (ea_inode) are of the UUID: keep their seed with -O metadata_csum_seed".to_owned(),
            ));
        }
        if conversion.from == to {
            return Ok(None);
        }
        let core = look(device, before)?;
        conversion.full = files::check(&core, &conversion)?;
        groups::check(&core)?;
        Ok(Some(conversion))
    }

    /// Makes room for tails in directories, while the volume is as it was. `log` is the device of
    /// an external journal.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] if directories need room, and the journal is not there.
    /// - [`Error::NoSpace`] if they need blocks.
    pub(super) fn make_room(
        &self,
        device: &Arc<dyn BlockDevice>,
        log: Option<&Arc<dyn BlockDevice>>,
        superblock: &mut Superblock,
    ) -> Result<()> {
        let Some((first, _)) = self.full.first() else {
            return Ok(());
        };
        if superblock.journal_uuid.is_some() && log.is_none() {
            return Err(Error::Unsupported(format!(
                "directory {first} has no room for checksums: name the journal's device, so that it gets some"
            )));
        }
        let options = MountOptions {
            reserves_tails: true,
            // The caller has taken the volume.
            is_private: true,
            privileged: true,
            ..MountOptions::default()
        };
        let (core, ..) = open_core(Arc::clone(device), log.cloned(), options)?;
        let mut done = Ok(());
        for (nr, block) in &self.full {
            done = done.and_then(|()| reserve(&core, *nr, *block));
        }
        close_core(&core)?;
        done?;
        take_over(device, superblock)
    }

    /// Writes all structures anew, but for the superblock, which is that with the changes.
    pub(super) fn run(
        &self,
        device: &Arc<dyn BlockDevice>,
        superblock: &mut Superblock,
    ) -> Result<()> {
        let before = read(device)?;
        mark_invalid(device, &before)?;
        let core = look(device, &before)?;
        let mut writer = Writer::new(device, before.geometry.block_bytes);
        let without_index = files::convert(&core, self, &mut writer)?;
        tables::convert(device, &before, self, &without_index)?;
        groups::convert(&core, &before, self, &mut writer)?;
        writer.flush()?;
        superblock.features = superblock.raw.features();
        superblock.checksums = self.to;
        Ok(())
    }

    /// Returns true if every structure has a checksum that changes.
    fn writes_all(&self) -> bool {
        self.to.has_tails()
    }

    /// Returns true if blocks of directories are written.
    fn writes_directories(&self) -> bool {
        self.writes_all() || self.changes_indexes()
    }

    /// Returns true if index blocks change their form.
    fn changes_indexes(&self) -> bool {
        self.from.has_tails() != self.to.has_tails()
    }
}

fn reserve(core: &Core, nr: InodeNr, block: FileBlock) -> Result<()> {
    let inode: Arc<Inode> = core.inode(nr)?;
    let mut state = inode.state.write();
    let _table = core.hold_table(nr)?;
    let mut handle = core.begin(dir::credits_to_reserve(FileMap::of(&state)))?;
    let reserved = dir::reserve_tail(core, &mut handle, &inode, &mut state, block);
    state.store(core, &mut handle, nr, true)?;
    handle.finish()?;
    reserved
}

/// Marks a volume as one that has to be checked, durably.
fn mark_invalid(device: &Arc<dyn BlockDevice>, before: &Superblock) -> Result<()> {
    let mut marked = before.clone();
    let state = marked.raw.state() - disk::State::VALID;
    marked.raw.state_bits.set(state.bits());
    device.write_blocks(disk::OFFSET, vec![marked.encode().into_arc()])?;
    Ok(device.flush()?)
}

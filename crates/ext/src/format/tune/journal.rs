//! Removing a volume's journal, and attaching another one.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::Location;
use layout::feature::Compatible;
use layout::inode::MAP_WORDS;
use layout::superblock::JOURNAL_BACKUP_BLOCKS;
use layout::{FileBlock, InodeNr};
use zerocopy::little_endian::U32;

use super::own_files::{free_file, with_core};
use super::{JournalChange, look, take_over, write};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::log::{LOG_BLOCKS_MAX, LOG_BLOCKS_MIN};
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};
use crate::format::mkfs::{self, Profile};
use crate::map::FileMap;
use crate::options::MountOptions;
use crate::volume::log_of_inode;

/// Permissions of the journal's inode.
const PERMISSIONS: u16 = 0o600;

fn set_feature(superblock: &mut Superblock, is_set: bool) {
    let mut features = superblock.raw.features();
    features.compatible.set(Compatible::HAS_JOURNAL, is_set);
    superblock.raw.set_features(features);
}

/// The external journal of a volume.
pub(super) struct External<'j> {
    device: &'j Arc<dyn BlockDevice>,
    uuid: [u8; 16],
    block_bytes: u32,
    user: [u8; 16],
}

impl<'j> External<'j> {
    /// Returns the external journal of the volume, if its device is there. `user` is the UUID by
    /// which the journal knows the volume.
    pub(super) fn of(
        superblock: &Superblock,
        device: Option<&'j Arc<dyn BlockDevice>>,
        user: [u8; 16],
    ) -> Option<Self> {
        Some(Self {
            device: device?,
            uuid: superblock.journal_uuid?,
            block_bytes: superblock.geometry.block_bytes,
            user,
        })
    }

    /// Removes the volume from the journal's users.
    pub(super) fn forget_user(self) -> Result<()> {
        let Self {
            device,
            uuid,
            block_bytes,
            user,
        } = self;
        Ok(jbd2::format::remove_user(device, block_bytes, uuid, user)?)
    }
}

/// Changes the volume's UUID in the external journal to its new one.
pub(super) fn rename_user(
    journal: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    old: [u8; 16],
) -> Result<()> {
    let (Some(uuid), new) = (superblock.journal_uuid, superblock.raw.uuid) else {
        return Ok(());
    };
    let block_bytes = superblock.geometry.block_bytes;
    Ok(jbd2::format::rename_user(
        journal,
        block_bytes,
        uuid,
        [old, new],
    )?)
}

/// Checks that the given device is the volume's journal, unless it is to become the journal.
pub(super) fn check_device(
    superblock: &Superblock,
    journal: Option<&Arc<dyn BlockDevice>>,
    change: JournalChange,
) -> Result<()> {
    let (Some(journal), Some(wanted)) = (journal, superblock.journal_uuid) else {
        return Ok(());
    };
    if change == JournalChange::External {
        return Ok(());
    }
    let found = mkfs::journal_device(journal)?.uuid;
    if found != wanted {
        return Err(jbd2::Error::WrongJournal { found, wanted }.into());
    }
    Ok(())
}

/// Checks that the log holds no transactions: a volume marked as clean may still have some
/// ([`Error::UnmarkedLog`]), and a later replay of them would undo the present changes.
pub(super) fn check_empty(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> Result<()> {
    let Some(log) = location(device, superblock, journal)? else {
        return Ok(());
    };
    let found = match jbd2::recovery::inspect(&log) {
        // Bytes that cannot be read as a log are never replayed.
        Err(jbd2::Error::Corrupt(_)) => return Ok(()),
        found => found?,
    };
    let transactions = found.transactions.len();
    let is_damaged = found.end.is_some_and(|end| end.is_damaged);
    let has_fast_commits = found.fast_commits.is_some_and(|fast| fast.count > 0);
    if transactions == 0 && !is_damaged && !has_fast_commits {
        return Ok(());
    }
    Err(Error::UnmarkedLog {
        transactions: u32::try_from(transactions).unwrap_or(u32::MAX),
    })
}

/// Returns the location of the log, if there is one. `journal` is the device of an external one;
/// without it there is none.
pub(super) fn location(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> Result<Option<Location>> {
    match (superblock.journal_inode, superblock.journal_uuid, journal) {
        (Some(nr), ..) => log_of_inode(&look(device, superblock)?, nr).map(Some),
        (None, Some(uuid), Some(journal)) => {
            let block_bytes = superblock.geometry.block_bytes;
            let log = jbd2::format::open_external(Arc::clone(journal), block_bytes, uuid)?;
            Ok(Some(log))
        }
        _ => Ok(None),
    }
}

/// Removes the journal; the blocks of an internal one become free.
pub(super) fn remove(device: &Arc<dyn BlockDevice>, superblock: &mut Superblock) -> Result<()> {
    let inode = superblock.journal_inode;
    set_feature(superblock, false);
    let raw = &mut superblock.raw;
    raw.journal_inode.set(0);
    raw.journal_device.set(0);
    raw.journal_uuid = [0; 16];
    raw.journal_backup_type = 0;
    raw.journal_backup = Default::default();
    match inode {
        Some(nr) => free_file(device, superblock, nr),
        None => write(device, superblock),
    }
}

/// Returns the length of a new internal journal in blocks.
fn length(superblock: &Superblock, blocks: Option<u32>) -> Result<u32> {
    let usual = mkfs::journal_blocks(Profile::default(), superblock.geometry.block_count);
    let count = blocks.or(usual);
    let count = count.ok_or(Error::Invalid("the volume is too small for a journal"))?;
    if !(LOG_BLOCKS_MIN..=LOG_BLOCKS_MAX).contains(&count) {
        return Err(Error::Invalid("a journal has 1024 to 10240000 blocks"));
    }
    Ok(count)
}

/// Checks that an internal journal can be created.
pub(super) fn check_room(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    blocks: Option<u32>,
) -> Result<()> {
    let count = length(superblock, blocks)?;
    if u64::from(count) > superblock.raw.free_blocks_count() / 2 {
        return Err(Error::Invalid(
            "the journal would take more than half of the free blocks",
        ));
    }
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let core = Core::assemble(Arc::clone(device), superblock.clone(), options, None, true)?;
    match Inode::load(&core, InodeNr::JOURNAL) {
        Err(Error::NotFound) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let text = "the journal's inode is in use although there is no journal: run e2fsck";
            Err(Error::Unsupported(text.to_owned()))
        }
    }
}

/// Creates an internal journal, for which there is room.
pub(super) fn make(
    device: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    blocks: Option<u32>,
) -> Result<()> {
    let count = length(superblock, blocks)?;
    let (log, words, size) = with_core(device, |core| {
        let state = allocate(core, count)?;
        let log = log_of_inode(core, InodeNr::JOURNAL)?;
        Ok((log, state.words.to_raw(), state.size))
    })?;
    jbd2::format::create(&log, &jbd2::format::LogOptions::default())?;
    device.flush()?;
    take_over(device, superblock)?;
    set_feature(superblock, true);
    let raw = &mut superblock.raw;
    raw.journal_inode.set(InodeNr::JOURNAL.get());
    raw.journal_backup_type = JOURNAL_BACKUP_BLOCKS;
    raw.journal_backup[..MAP_WORDS].copy_from_slice(&words.map(U32::new));
    raw.journal_backup[MAP_WORDS].set((size >> 32) as u32);
    raw.journal_backup[MAP_WORDS + 1].set(size as u32);
    write(device, superblock)
}

/// Allocates `count` blocks to the journal's inode.
fn allocate(core: &Core, count: u32) -> Result<InodeState> {
    let nr = InodeNr::JOURNAL;
    let mut state = InodeState::fresh(FileKind::Regular, PERMISSIONS, 0, 0, 0);
    if core.superblock.has_extents() {
        state.use_extents();
    }
    let inode = Inode::new(nr, state.clone());
    let mut next = 0;
    while next < count {
        let map = FileMap::of(&state);
        let mut handle = core.begin(jbd2::Credits {
            blocks: map.credits_to_map() + 1,
            revokes: 0,
        })?;
        let from = FileBlock::new(u64::from(next));
        let wanted = count - next;
        let (run, _) = map.find_or_allocate(core, &mut handle, &inode, &mut state, from, wanted)?;
        next += run.count;
        state.size = u64::from(next) * u64::from(core.geometry().block_bytes);
        state.store(core, &mut handle, nr, true)?;
        handle.finish()?;
    }
    core.discard_window(&inode.window);
    Ok(state)
}

/// Makes the volume the user of a journal device that no other volume uses. The caller writes the
/// superblock.
pub(super) fn attach(journal: &Arc<dyn BlockDevice>, superblock: &mut Superblock) -> Result<()> {
    let found = mkfs::journal_device(journal)?;
    if found.block_bytes != superblock.geometry.block_bytes {
        return Err(Error::Invalid(
            "the blocks of the journal device have another size",
        ));
    }
    jbd2::format::add_user(journal, found.block_bytes, superblock.raw.uuid)?;
    set_feature(superblock, true);
    superblock.raw.journal_uuid = found.uuid;
    Ok(())
}

//! The journal: its location, its superblock, and its agreement with the file system on recovery.
//!
//! An internal journal is a file. If its inode is unreadable or has a wrong checksum, the copy of
//! its block map in the superblock is used. An external journal is a device with a superblock of
//! its own. The log itself is read by `log`.

mod log;

use layout::checksum;
use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::inode::{Inode, InodeFlags, MAP_WORDS};
use layout::journal::{
    ChecksumType, JournalIncompatible, JournalSuperblock, SUPERBLOCK_SIZE, USERS_MAX,
};
use layout::mode::FileType;
use layout::superblock::{self as disk, JOURNAL_BACKUP_BLOCKS, Superblock};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::Error;
use crate::extents;
use crate::image::Image;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::state::State;
use log::Log;

/// Supported features of a journal.
const INCOMPATIBLE: JournalIncompatible = JournalIncompatible::REVOKE
    .union(JournalIncompatible::IS_64BIT)
    .union(JournalIncompatible::ASYNC_COMMIT)
    .union(JournalIncompatible::CHECKSUM_V2)
    .union(JournalIncompatible::CHECKSUM_V3)
    .union(JournalIncompatible::FAST_COMMIT);

/// The location of a journal according to the superblock.
enum Whereabouts {
    Nowhere,
    Inode(u32),
    Device([u8; 16]),
    /// Both an inode and a device are named; one of them is wrong.
    Both,
}

/// Checks the journal.
pub(crate) fn check<'a>(state: &mut State<'a>, device: Option<Image<'a>>) -> Result<(), Error> {
    let has_journal = state.features.compatible.contains(Compatible::HAS_JOURNAL);
    let needs_recovery = state
        .features
        .incompatible
        .contains(Incompatible::NEEDS_RECOVERY);
    let whereabouts = whereabouts(state);
    if !has_journal {
        let kind = match whereabouts {
            _ if needs_recovery => ProblemKind::RecoveryWithoutJournal,
            Whereabouts::Nowhere => return Ok(()),
            _ => ProblemKind::JournalWithoutFeature,
        };
        state.problem(kind, Location::whole());
        return Ok(());
    }
    let log = match whereabouts {
        Whereabouts::Inode(number) => internal(state, number)?,
        Whereabouts::Device(uuid) => {
            let device = device.ok_or(Error::JournalDeviceNeeded { uuid })?;
            external(state, device, uuid)?
        }
        Whereabouts::Both => {
            state.problem(ProblemKind::JournalTwice, Location::whole());
            return Ok(());
        }
        Whereabouts::Nowhere => None,
    };
    let Some(mut log) = log else {
        state.problem(ProblemKind::JournalInvalid, Location::whole());
        return Ok(());
    };
    let bytes = log.superblock(state)?;
    let Ok((raw, _)) = JournalSuperblock::ref_from_prefix(&bytes) else {
        return Ok(());
    };
    if check_superblock(state, raw, &log) {
        check_start(state, raw, needs_recovery);
        let transactions = log::check(state, &mut log, raw)?;
        if !needs_recovery {
            state.report.statistics.unmarked_transactions = transactions;
        }
    }
    Ok(())
}

fn whereabouts(state: &State<'_>) -> Whereabouts {
    let (inode, uuid) = (state.raw.journal_inode.get(), state.raw.journal_uuid);
    match (inode, uuid == [0; 16]) {
        (0, true) => Whereabouts::Nowhere,
        (0, false) => Whereabouts::Device(uuid),
        (number, true) => Whereabouts::Inode(number),
        (_, false) => Whereabouts::Both,
    }
}

/// Returns the blocks of an internal journal.
fn internal<'a>(state: &mut State<'a>, number: u32) -> Result<Option<Log<'a>>, Error> {
    if !state.geometry.has_inode(number) {
        return Ok(None);
    }
    let inode = inodes::read_sealed(state, number)?;
    let inode = inode.filter(|inode| is_journal(state, inode));
    let inode = inode.or_else(|| backup(state));
    let Some(inode) = inode else {
        return Ok(None);
    };
    let root = Root::of(state, &inode);
    // Blocks after a hole are not part of the log.
    let blocks = map::first_blocks(state, number, &root, u64::MAX)?;
    Ok((!blocks.is_empty()).then_some(Log::Internal { blocks }))
}

/// True if an inode can be a journal's.
fn is_journal(state: &State<'_>, inode: &Inode) -> bool {
    let block_bytes = state.geometry.block_bytes as u64;
    let least = u64::from(layout::journal::BLOCK_COUNT_MIN) * block_bytes;
    inode.links_count.get() != 0
        && !inode.flags().contains(InodeFlags::ENCRYPT)
        && FileType::from_mode(inode.mode.get()) == FileType::Regular
        && inode.size(false) >= least
        && has_first_blocks(state, inode)
}

/// True if the root of the journal's tree can be right, or its first blocks exist.
fn has_first_blocks(state: &State<'_>, inode: &Inode) -> bool {
    if inode.flags().contains(InodeFlags::EXTENTS) {
        return extents::is_root(inode.map_words.as_bytes());
    }
    let words = inode.map();
    let mut direct = words.iter().take(layout::inode::DIRECT_BLOCKS);
    direct.all(|word| state.geometry.contains((*word).into()))
}

/// Returns an inode with the copy of the journal's block map in the superblock. As in e2fsck, the
/// copy of an extent tree's root is of no use: it does not say what it is.
fn backup(state: &State<'_>) -> Option<Inode> {
    if state.raw.journal_backup_type != JOURNAL_BACKUP_BLOCKS {
        return None;
    }
    let mut words = [0; MAP_WORDS];
    for (word, copy) in words.iter_mut().zip(&state.raw.journal_backup) {
        *word = copy.get();
    }
    let mut inode = Inode::default();
    inode.set_map(words);
    has_first_blocks(state, &inode).then_some(inode)
}

/// Returns an external journal, if the device is the one that the file system names.
fn external<'a>(
    state: &mut State<'_>,
    mut image: Image<'a>,
    uuid: [u8; 16],
) -> Result<Option<Log<'a>>, Error> {
    let whole = Location::whole;
    let raw = match crate::superblock::read(&mut image, disk::OFFSET) {
        Ok(raw) => raw,
        Err(Error::NoSuperblock { .. }) => Superblock::default(),
        Err(error) => return Err(error),
    };
    let block_bytes = state.geometry.block_bytes;
    let is_journal = raw.magic.get() == disk::MAGIC
        && raw
            .features()
            .incompatible
            .contains(Incompatible::JOURNAL_DEV)
        && raw.block_size() == Some(block_bytes as u32);
    if !is_journal {
        state.problem(ProblemKind::JournalDeviceInvalid, whole());
        return Ok(None);
    }
    if raw.uuid != uuid {
        state.problem(ProblemKind::JournalUuidWrong, whole());
        return Ok(None);
    }
    let read_only = raw.features().read_only_compatible;
    let has_checksum = read_only.contains(ReadOnlyCompatible::METADATA_CSUM);
    if has_checksum && raw.checksum.get() != checksum::superblock(&raw) {
        state.problem(ProblemKind::JournalDeviceChecksum, whole());
    }
    image.set_block_bytes(block_bytes);
    let count = raw
        .blocks_count()
        .min(image.size_bytes() / block_bytes as u64);
    Ok(Some(Log::External {
        image: Box::new(image),
        block_bytes,
        count,
    }))
}

/// Checks the journal's superblock. Returns true if the log can be read with it.
fn check_superblock(state: &mut State<'_>, raw: &JournalSuperblock, log: &Log<'_>) -> bool {
    let mut report = |kind, found: u32| {
        state
            .report
            .add_found(kind, Location::whole(), found.into());
    };
    let Some(version) = raw.version() else {
        report(
            ProblemKind::JournalSuperblockInvalid,
            raw.header.magic.get(),
        );
        return false;
    };
    let unknown = raw.incompatible().difference(INCOMPATIBLE).bits();
    let read_only = if version == 2 {
        raw.read_only_compatible_bits.get()
    } else {
        0
    };
    if unknown | read_only != 0 {
        report(ProblemKind::JournalFeatures, unknown | read_only);
        return false;
    }
    let (length, first) = (raw.length.get(), raw.first_block.get());
    let is_good = raw.block_size.get() as usize == state.geometry.block_bytes
        && u64::from(length) <= log.count()
        && first != 0
        && first < length
        && is_checksum_good(raw);
    if !is_good {
        let kind = ProblemKind::JournalSuperblockInvalid;
        state.problem(kind, Location::whole());
        return false;
    }
    check_users(state, raw, version, log);
    let error = raw.error.get();
    if error != 0 {
        let error = error.wrapping_neg().into();
        state
            .report
            .add_found(ProblemKind::JournalError, Location::whole(), error);
    }
    true
}

/// Checks the users: a journal has one file system, and an external one names it.
fn check_users(state: &mut State<'_>, raw: &JournalSuperblock, version: u8, log: &Log<'_>) {
    let users = raw.user_count.get();
    let is_internal = matches!(log, Log::Internal { .. });
    let has_fields =
        users != 0 || raw.compatible_bits.get() != 0 || raw.incompatible_bits.get() != 0;
    if is_internal && ((version == 1 && has_fields) || users > 1) {
        state.problem(ProblemKind::JournalFieldsOfVersion2, Location::whole());
    }
    if version == 2 && users > 1 {
        let kind = ProblemKind::JournalUsers;
        state
            .report
            .add_differing(kind, Location::whole(), users.into(), 1);
    }
    let named = &raw.users[..(users as usize).min(USERS_MAX)];
    // A build that is killed after its image has replaced the user's leaves it there.
    let [.., announced] = &raw.users;
    let own = &state.raw.uuid;
    if !is_internal && !named.contains(own) && announced != own {
        state.problem(ProblemKind::JournalOfOther, Location::whole());
    }
}

fn is_checksum_good(raw: &JournalSuperblock) -> bool {
    let with_checksum = JournalIncompatible::CHECKSUM_V2 | JournalIncompatible::CHECKSUM_V3;
    if !raw.incompatible().intersects(with_checksum) {
        return true;
    }
    const _: () = assert!(size_of::<JournalSuperblock>() == SUPERBLOCK_SIZE);
    raw.checksum_type == ChecksumType::Crc32c.raw()
        && raw.checksum.get() == checksum::journal_superblock(raw)
}

/// Checks that the log needs recovery exactly if the file system says so. An empty log with the
/// flag is allowed: an interrupted mount leaves it.
fn check_start(state: &mut State<'_>, raw: &JournalSuperblock, needs_recovery: bool) {
    let start = raw.start.get();
    if start != 0 && !needs_recovery {
        let kind = ProblemKind::LogWithoutRecovery;
        state
            .report
            .add_found(kind, Location::whole(), start.into());
    }
}

//! Facts about the journal: those in the file system's superblock, and those in the journal's own
//! superblock as it is on the device.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use layout::extent::{self, Extent};
use layout::feature::{Compatible, Incompatible};
use layout::inode::{Inode, InodeFlags};
use layout::journal::{
    COMPATIBLE_NAMES, ChecksumType, FAST_COMMIT_BLOCKS_DEFAULT, INCOMPATIBLE_NAMES,
    JournalIncompatible, JournalSuperblock, SUPERBLOCK_SIZE, USERS_MAX,
};
use layout::superblock::{JOURNAL_BACKUP_BLOCKS, Superblock};
use zerocopy::{FromBytes, IntoBytes};

use super::descriptors::descriptor;
use super::words::{hex, uuid};
use super::{Fact, fact};

/// Returns the facts of the journal; empty without a journal.
pub(super) fn facts(device: &Arc<dyn BlockDevice>, raw: &Superblock) -> Vec<Fact> {
    let features = raw.features();
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        let block = u64::from(raw.first_data_block.get()) + 1;
        return match read(device, raw, block) {
            Ok(found) => contents(&found).into_iter().chain(users(&found)).collect(),
            Err(error) => vec![damage(&error)],
        };
    }
    if !features.compatible.contains(Compatible::HAS_JOURNAL) {
        return Vec::new();
    }
    let number = raw.journal_inode.get();
    let external = uuid(raw.journal_uuid);
    let mut facts = vec![match number {
        0 => fact("journal", "Journal", format!("external, {external}")),
        number => fact("journal", "Journal", format!("internal, inode {number}")),
    }];
    if raw.journal_uuid != [0; 16] {
        facts.push(fact("journal_uuid", "Journal's UUID", external));
    }
    if raw.journal_device.get() != 0 {
        let device = hex(raw.journal_device.get());
        facts.push(fact("journal_device", "Journal's device", device));
    }
    if number != 0 {
        facts.push(fact("journal_inode", "Journal's inode", number));
        if raw.journal_backup_type == JOURNAL_BACKUP_BLOCKS {
            facts.push(fact("journal_backup", "Journal's backup", "inode blocks"));
        }
        let found = first_block(device, raw, number).and_then(|block| read(device, raw, block));
        match found {
            Ok(found) => facts.extend(contents(&found)),
            Err(error) => facts.push(damage(&error)),
        }
    }
    facts
}

/// Returns the fact that states why the journal cannot be read.
fn damage(error: &anyhow::Error) -> Fact {
    fact("journal_damage", "Journal's damage", format!("{error:#}"))
}

/// Reads the journal superblock in a block of the device.
fn read(device: &Arc<dyn BlockDevice>, raw: &Superblock, block: u64) -> Result<JournalSuperblock> {
    let Some(block_bytes) = raw.block_size() else {
        bail!("the size of blocks is unknown");
    };
    let offset = block * u64::from(block_bytes);
    let bytes = device.read_block(offset, SUPERBLOCK_SIZE as u32)?;
    let (found, _) = JournalSuperblock::read_from_prefix(&bytes).expect("as many bytes were read");
    if found.version().is_none() {
        bail!("the journal's superblock, in block {block}, has no magic number");
    }
    Ok(found)
}

/// Returns the first block of the journal's file, from its block map or the root of its extent
/// tree.
fn first_block(device: &Arc<dyn BlockDevice>, raw: &Superblock, number: u32) -> Result<u64> {
    let block_bytes = raw.block_size().context("the size of blocks is unknown")?;
    let (per_group, size) = (raw.inodes_per_group.get(), u64::from(raw.inode_size()));
    if number > raw.inodes_count.get() || per_group == 0 {
        bail!("there is no inode {number}");
    }
    let index = number - 1;
    let table = descriptor(device, raw, index / per_group)?.inode_table();
    let offset = table * u64::from(block_bytes) + u64::from(index % per_group) * size;
    let start = offset - offset % u64::from(block_bytes);
    let bytes = device.read_block(start, block_bytes)?;
    let Ok((inode, _)) = Inode::read_from_prefix(&bytes[(offset - start) as usize..]) else {
        bail!("inode {number} does not lie in one block");
    };
    let first = if inode.flags().contains(InodeFlags::EXTENTS) {
        first_of_extents(&inode)
    } else {
        Some(u64::from(inode.map()[0])).filter(|block| *block != 0)
    };
    first.with_context(|| format!("inode {number} has no first block"))
}

/// Returns the first block from an extent in the inode itself, where a journal's extents normally
/// are.
fn first_of_extents(inode: &Inode) -> Option<u64> {
    let (header, rest) = extent::Header::read_from_prefix(inode.map_words.as_bytes()).ok()?;
    let (first, _) = Extent::read_from_prefix(rest).ok()?;
    let is_leaf = header.magic.get() == extent::MAGIC && header.depth.get() == 0;
    let start = u64::from(first.start_high.get()) << 32 | u64::from(first.start_low.get());
    (is_leaf && header.entry_count.get() > 0).then_some(start)
}

/// Returns the facts of the journal superblock.
fn contents(found: &JournalSuperblock) -> Vec<Fact> {
    let (compatible, incompatible) = (found.compatible(), found.incompatible());
    let names = COMPATIBLE_NAMES
        .iter()
        .filter(|(bit, _)| compatible.contains(*bit))
        .map(|(_, name)| *name);
    let more = INCOMPATIBLE_NAMES
        .iter()
        .filter(|(bit, _)| incompatible.contains(*bit))
        .map(|(_, name)| *name);
    let features: Vec<&str> = names.chain(more).collect();
    let (block_bytes, blocks) = (found.block_size.get(), found.length.get());
    let fast = match found.fast_commit_blocks.get() {
        0 if incompatible.contains(JournalIncompatible::FAST_COMMIT) => FAST_COMMIT_BLOCKS_DEFAULT,
        count => count,
    };
    let bytes = u64::from(block_bytes) * u64::from(blocks);
    let mut facts = vec![
        fact("journal_version", "Journal's version", found.version()),
        fact("journal_features", "Journal's features", features),
        fact("journal_bytes", "Journal's bytes", bytes),
        fact("journal_block_bytes", "Journal's block bytes", block_bytes),
        fact("journal_blocks", "Journal's blocks", blocks),
        fact(
            "journal_transaction_blocks_max",
            "Longest transaction",
            blocks.saturating_sub(fast),
        ),
        fact("journal_fast_commit_blocks", "Fast commit blocks", fast),
        fact(
            "journal_first",
            "Journal's first block",
            found.first_block.get(),
        ),
        fact(
            "journal_sequence",
            "Journal's sequence",
            found.sequence.get(),
        ),
        fact("journal_start", "Journal's start", found.start.get()),
    ];
    let with_checksum = JournalIncompatible::CHECKSUM_V2 | JournalIncompatible::CHECKSUM_V3;
    if incompatible.intersects(with_checksum) {
        let kind = match ChecksumType::from_raw(found.checksum_type) {
            Some(ChecksumType::Crc32c) => "crc32c".to_owned(),
            _ => format!("unknown ({})", found.checksum_type),
        };
        let checksum = hex(found.checksum.get());
        facts.push(fact("journal_checksum_type", "Journal's checksums", kind));
        facts.push(fact("journal_checksum", "Journal's checksum", checksum));
    } else if !compatible.is_empty() {
        facts.push(fact(
            "journal_checksum_type",
            "Journal's checksums",
            "crc32",
        ));
    }
    let error = found.error.get().cast_signed();
    if error != 0 {
        facts.push(fact("journal_error", "Journal aborted with", error));
    }
    facts
}

/// Returns the file systems that use a journal device.
fn users(found: &JournalSuperblock) -> Vec<Fact> {
    let count = found.user_count.get();
    let named = found.users.iter().take((count as usize).min(USERS_MAX));
    let named: Vec<String> = named.map(|user| uuid(*user)).collect();
    vec![
        fact("journal_user_count", "Journal's users", count),
        fact("journal_users", "  file systems", named),
    ]
}

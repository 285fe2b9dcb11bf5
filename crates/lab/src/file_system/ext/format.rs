//! Creates the file system of a trial, and its journal device if it has one.

use std::sync::Arc;

use anyhow::{Context, Result};
use block::BlockDevice;
use ext::mkfs::{self, FeatureEdits, JournalOption, Options};

use super::super::{FormatSetup, JournalPlace};
use super::ExtSetup;

/// Volume size from which mkfs makes blocks of 4 KiB by default; below it, 1 KiB.
const LARGE_BLOCKS_FROM: u64 = 512 << 20;
const LARGE_BLOCK_BYTES: u32 = 4096;
const SMALL_BLOCK_BYTES: u32 = 1024;

pub(super) fn format(
    setup: &ExtSetup,
    home: &Arc<dyn BlockDevice>,
    log: Option<&Arc<dyn BlockDevice>>,
) -> Result<()> {
    let options = options(setup)?;
    let Some(log) = log else {
        mkfs::format(home, &options)?;
        return Ok(());
    };
    let block_bytes = block_bytes(&setup.format, home.geometry().size_bytes);
    mkfs::format_journal_device(log, block_bytes, random_bytes()).context("journal device")?;
    mkfs::format_with_journal(home, log, &options)?;
    Ok(())
}

/// Returns the block size of a volume of a size, as mkfs chooses it if it is not set.
pub(super) fn block_bytes(format: &FormatSetup, size_bytes: u64) -> u32 {
    let given = format
        .block_bytes
        .and_then(|bytes| u32::try_from(bytes).ok());
    given.unwrap_or(match size_bytes >= LARGE_BLOCKS_FROM {
        true => LARGE_BLOCK_BYTES,
        false => SMALL_BLOCK_BYTES,
    })
}

/// Returns the options of mkfs. Random values come from the world, so that a simulated trial is
/// repeatable.
fn options(setup: &ExtSetup) -> Result<Options> {
    let format = &setup.format;
    let defaults = if format.is_classic {
        Options::classic2002()
    } else {
        Options::default()
    };
    let journal = match (&setup.journal, format.journal_bytes) {
        (JournalPlace::Internal, Some(bytes)) => {
            JournalOption::Megabytes(u32::try_from(bytes >> 20)?)
        }
        _ => JournalOption::Default,
    };
    let small = |bytes: Option<u64>| bytes.map(u32::try_from).transpose();
    Ok(Options {
        file_system: setup.file_system,
        features: FeatureEdits::parse(&format.features)?,
        journal,
        block_bytes: small(format.block_bytes)?,
        bytes_per_inode: small(format.bytes_per_inode)?.or(defaults.bytes_per_inode),
        inode_bytes: format
            .inode_bytes
            .map(u16::try_from)
            .transpose()?
            .or(defaults.inode_bytes),
        reserved_percent: f64::from(format.reserved_percent),
        lazy_inode_tables: format.is_lazy,
        uuid: Some(random_bytes()),
        hash_seed: Some(random_bytes()),
        seconds: Some(rt::wall().seconds),
        ..defaults
    })
}

fn random_bytes() -> [u8; 16] {
    let [high, low] = [rt::random_u64(), rt::random_u64()];
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

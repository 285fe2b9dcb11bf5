//! The location of a journal: inside a file system, on its external device, or a journal device by
//! itself.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::Args;
use ext::{MountOptions, Volume, mkfs};
use jbd2::{Location, LogExtent};
use layout::InodeNr;
use layout::feature::{Compatible, Incompatible};
use layout::superblock::Superblock;
use uuid::Uuid;

use super::super::info::raw_superblock;
use crate::image::{Access, MountArguments, open_device};

/// The journal to show, and the output format.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file system with a journal, or a journal device.
    #[arg(value_name = "DEVICE")]
    pub(super) device: String,
    /// Also list the blocks of each transaction and their uses.
    #[arg(long)]
    pub(super) blocks: bool,
    /// File system that uses the journal device, to show the uses of its blocks.
    #[arg(long, value_name = "DEVICE")]
    pub(super) filesystem: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) mount: MountArguments,
}

/// A journal that was found.
pub(super) struct Found {
    /// The location in words.
    pub(super) place: String,
    pub(super) log: Location,
    /// The device of the file system that uses the journal, if known.
    pub(super) home: Option<Arc<dyn BlockDevice>>,
}

/// Finds the journal to show.
pub(super) fn locate(arguments: &Arguments) -> Result<Found> {
    let text = &arguments.device;
    let context = || text.clone();
    let device = open_device(text, Access::Read)?;
    let raw = raw_superblock(&device).with_context(context)?;
    let features = raw.features();
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        let log = of_device(&device, None).with_context(context)?;
        let home = arguments.filesystem.as_deref();
        let home = home.map(|text| file_system(text, raw.uuid)).transpose()?;
        let place = "external".to_owned();
        return Ok(Found { place, log, home });
    }
    if arguments.filesystem.is_some() {
        bail!("{text}: is a file system itself; --filesystem goes with a journal device");
    }
    if !features.compatible.contains(Compatible::HAS_JOURNAL) {
        bail!("{text}: has no journal");
    }
    let (place, log) = match raw.journal_inode.get() {
        0 => {
            let journal = arguments.mount.parse()?.journal_path;
            let log = beside(&raw, journal).with_context(context)?;
            ("external".to_owned(), log)
        }
        number => {
            let log = inside(&device, InodeNr::new(number)).with_context(context)?;
            (format!("internal, inode {number}"), log)
        }
    };
    let home = Some(device);
    Ok(Found { place, log, home })
}

/// Returns the location of the journal on a journal device; fails if `uuid` is given and differs.
fn of_device(device: &Arc<dyn BlockDevice>, uuid: Option<[u8; 16]>) -> Result<Location> {
    let found = mkfs::journal_device(device)?;
    let uuid = uuid.unwrap_or(found.uuid);
    let device = Arc::clone(device);
    Ok(jbd2::format::open_external(
        device,
        found.block_bytes,
        uuid,
    )?)
}

/// Returns the location of a file system's external journal.
fn beside(raw: &Superblock, journal: Option<String>) -> Result<Location> {
    let Some(journal) = journal else {
        let uuid = Uuid::from_bytes(raw.journal_uuid);
        bail!(
            "the journal is on another device, {uuid}: name it with --journal DEVICE, or show that one"
        );
    };
    let device = open_device(&journal, Access::Read)?;
    of_device(&device, Some(raw.journal_uuid)).with_context(|| journal)
}

/// Returns the location of a file system's internal journal.
fn inside(device: &Arc<dyn BlockDevice>, number: InodeNr) -> Result<Location> {
    let options = MountOptions {
        read_only: true,
        no_recovery: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(device), None, options)?;
    let blocks = volume.blocks_of(number)?;
    let block_bytes = volume.superblock().geometry.block_bytes;
    volume.close()?;
    let extents = blocks.into_iter().filter_map(|extent| {
        extent.file_block.map(|_| LogExtent {
            first: extent.first,
            count: extent.count,
        })
    });
    Ok(Location {
        device: Arc::clone(device),
        block_bytes,
        extents: extents.collect(),
    })
}

/// Returns the device of a file system, if it uses the journal with this UUID.
fn file_system(text: &str, journal: [u8; 16]) -> Result<Arc<dyn BlockDevice>> {
    let device = open_device(text, Access::Read)?;
    let raw = raw_superblock(&device).with_context(|| text.to_owned())?;
    let named = raw.journal_uuid;
    if named == [0; 16] {
        bail!("{text}: has no journal on another device");
    }
    if named != journal {
        let (named, journal) = (Uuid::from_bytes(named), Uuid::from_bytes(journal));
        bail!("{text}: its journal is {named}, not {journal}");
    }
    Ok(device)
}

//! The disks of a world: a small volume and, for an external journal, its device.
//!
//! A volume is made once for each setting. Its journal is as long as the format requires, but its
//! superblock limits the log to the first blocks, so that recovery reads little and the log wraps
//! soon. All free blocks are poisoned, and on ext4 all metadata that was never used (`unused`). On
//! a nearly full volume a file in `lost+found` (`filler`) holds the excess blocks.

mod filler;
mod unused;

use std::sync::Arc;

use block::BlockDevice;
use ext::mkfs::{self, FileSystemType, JournalOption};
use ext::options::Memory;
use ext::{Error, MountOptions, Volume};
use layout::feature::{Incompatible, ReadOnlyCompatible};
use layout::journal::{
    BLOCK_COUNT_MIN, ChecksumType, JournalCompatible, JournalIncompatible, JournalSuperblock,
};
use layout::superblock::{State, Superblock};
use layout::{Block, InodeNr, checksum};
use rt::Nanos;
use zerocopy::FromBytes;

use crate::crowd::Kind as CrowdKind;
use crate::device::{ImageDevice, Reads};
use crate::image::{BLOCK_BYTES, Image};
use crate::mode::Structures;
use crate::setting::{CLUSTER_BLOCKS, Checksums, JournalPlace, Schedule, Setting, Synchronous};
use crate::tag::poison;
use crate::timetable::MADE_AT;
use crate::world::world;

pub use crate::tested::quiet;

/// Number of inodes of a volume: the reserved ones, and more than any workload creates.
const INODE_COUNT: u32 = 64;
/// The same of ext4, where values of attributes take inodes.
const INODE_COUNT_EXT4: u32 = 128;
/// Number of clusters of a group of ext4, the smallest: some groups are not initialised.
const GROUP_BLOCKS: u32 = 256;
/// Number of blocks of a volume with an external journal.
const VOLUME_BLOCKS: u32 = 512;
/// Number of blocks of a volume with an internal journal, of which the shortest takes at most half.
const VOLUME_BLOCKS_WITH_JOURNAL: u32 = 2 * BLOCK_COUNT_MIN + 192;
/// Number of clients for which these suffice.
const LANES: u32 = 4;
/// Numbers of inodes and blocks for each further client.
const INODES_OF_LANE: u32 = 12;
const BLOCKS_OF_LANE: u32 = 64;
/// UUID of an external journal.
const JOURNAL_UUID: [u8; 16] = [0x5A; 16];
/// The block of the file system's superblock.
pub(crate) const SUPERBLOCK: u64 = 1;
/// The block of an external journal's superblock.
const EXTERNAL_SUPERBLOCK: u64 = 2;

/// The contents of a volume's devices.
#[derive(Clone)]
pub struct Disks {
    /// The file system's device.
    pub home: Image,
    /// The journal's device, if it is external.
    pub log: Option<Image>,
    /// Block of the journal's superblock on its device.
    pub journal_block: u64,
    /// Blocks of an internal journal on the file-system device, in log order.
    pub journal_blocks: Arc<Vec<u64>>,
}

/// The devices of a volume.
pub struct Devices {
    /// The file system's device.
    pub home: Arc<ImageDevice>,
    /// The journal's device, if it is external.
    pub log: Option<Arc<ImageDevice>>,
}

impl Disks {
    /// Creates an empty or nearly full volume.
    ///
    /// # Errors
    /// - Errors of mkfs or the filler.
    pub fn make(setting: &Setting) -> Result<Self, Error> {
        // In a world: what is made has no time or random number of the machine.
        let inside = *setting;
        let config = world(Schedule::Fair, MADE_AT, None);
        let made = sim::run(config, move || Self::format(&inside));
        let mut disks = made.expect("a world that only makes a volume ends").value?;
        if setting.free_blocks > 0 {
            disks = filler::fill(disks, setting.free_blocks.into())?;
        }
        if disks.has_journal() {
            disks.adapt_journal(setting);
        }
        Ok(disks)
    }

    /// Creates an empty volume.
    fn format(setting: &Setting) -> Result<Self, Error> {
        let more_lanes = setting.lanes.saturating_sub(LANES);
        let blocks = match setting.cell.place {
            JournalPlace::Internal => VOLUME_BLOCKS_WITH_JOURNAL,
            JournalPlace::External | JournalPlace::None => VOLUME_BLOCKS,
        } + more_lanes * BLOCKS_OF_LANE;
        let is_clustered = setting.cell.structures == Structures::Clustered;
        let size = if is_clustered { CLUSTER_BLOCKS } else { 1 };
        let blocks = match setting.cell.place {
            JournalPlace::Internal => blocks + (size - 1) * VOLUME_BLOCKS,
            JournalPlace::External | JournalPlace::None => blocks * size,
        };
        let home = ImageDevice::new(Image::new(u64::from(blocks) * BLOCK_BYTES as u64, poison));
        let home_device: Arc<dyn BlockDevice> = Arc::<ImageDevice>::clone(&home);
        let (file_system, inode_bytes) = match (setting.cell.structures, setting.cell.place) {
            (
                Structures::Ext4
                | Structures::Clustered
                | Structures::Quota
                | Structures::MultiMount
                | Structures::GroupChecksums,
                _,
            ) => (FileSystemType::Ext4, 256),
            (Structures::Inline, _) => (FileSystemType::Ext4, BLOCK_BYTES as u16),
            (Structures::Ext3, JournalPlace::None) => (FileSystemType::Ext2, 128),
            (Structures::Ext3, _) => (FileSystemType::Ext3, 128),
        };
        let inode_count = match setting.cell.structures {
            Structures::Ext3 => INODE_COUNT,
            _ => INODE_COUNT_EXT4,
        };
        let mut options = mkfs::Options {
            file_system,
            block_bytes: Some(BLOCK_BYTES as u32),
            inode_count: Some(inode_count + more_lanes * INODES_OF_LANE),
            inode_bytes: Some(inode_bytes),
            reserved_percent: 0.0,
            uuid: Some([0x11; 16]),
            hash_seed: Some([0x22; 16]),
            seconds: Some(MADE_AT),
            ..mkfs::Options::default()
        };
        if setting.cell.structures.is_ext4() {
            options.blocks_per_group = Some(GROUP_BLOCKS * size);
            // It would take most of the volume.
            options.features.add("^resize_inode,ea_inode")?;
            let has_quota = setting.cell.structures == Structures::Quota;
            if setting.cell.has_journal() && !has_quota {
                options.features.add("orphan_file")?;
            }
            if setting.cell.is_fast {
                options.features.add("fast_commit")?;
            }
            if is_clustered {
                options.features.add("bigalloc")?;
                options.cluster_bytes = Some(BLOCK_BYTES as u32 * size);
            }
            if setting.cell.structures == Structures::Inline {
                options.features.add("inline_data")?;
            }
            if setting.cell.structures == Structures::MultiMount {
                options.features.add("mmp")?;
            }
            if setting.cell.structures == Structures::GroupChecksums {
                options.features.add("^metadata_csum,uninit_bg")?;
            }
            if has_quota {
                options.features.add("quota,project")?;
            }
        }
        let mut log = None;
        match setting.cell.place {
            JournalPlace::External => {
                let bytes = u64::from(BLOCK_COUNT_MIN + 8) * BLOCK_BYTES as u64;
                let device = ImageDevice::new(Image::new(bytes, poison));
                let journal: Arc<dyn BlockDevice> = Arc::<ImageDevice>::clone(&device);
                mkfs::format_journal_device(&journal, BLOCK_BYTES as u32, JOURNAL_UUID)?;
                mkfs::format_with_journal(&home_device, &journal, &options)?;
                log = Some(device.image());
            }
            JournalPlace::Internal => {
                options.journal = JournalOption::Blocks(BLOCK_COUNT_MIN);
                mkfs::format(&home_device, &options)?;
            }
            JournalPlace::None => {
                options.features.add("^has_journal")?;
                mkfs::format(&home_device, &options)?;
            }
        }
        let mut disks = Self {
            home: home.image(),
            log,
            journal_block: EXTERNAL_SUPERBLOCK,
            journal_blocks: Arc::default(),
        };
        if setting.cell.structures.is_ext4() {
            let made = *superblock(disks.home.block(SUPERBLOCK));
            unused::fill(&mut disks.home, &made);
        }
        if setting.cell.place == JournalPlace::Internal {
            disks.find_journal()?;
        }
        Ok(disks)
    }

    /// Returns true if there is a journal, internal or external.
    fn has_journal(&self) -> bool {
        self.log.is_some() || !self.journal_blocks.is_empty()
    }

    fn find_journal(&mut self) -> Result<(), Error> {
        let read_only = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        let volume = Volume::open(ImageDevice::new(self.home.clone()), None, read_only)?;
        let mapped = volume.blocks_of(InodeNr::JOURNAL)?;
        volume.close()?;
        let runs = mapped.iter().filter(|extent| extent.file_block.is_some());
        let blocks: Vec<u64> = runs.flat_map(|extent| extent.blocks()).collect();
        self.journal_block = blocks[0];
        self.journal_blocks = Arc::new(blocks);
        Ok(())
    }

    /// Limits the journal to a part of its blocks, and sets its next number and its features as the
    /// setting requires.
    fn adapt_journal(&mut self, setting: &Setting) {
        let image = self.log.as_mut().unwrap_or(&mut self.home);
        let mut block = Block::clone(image.block(self.journal_block));
        let (superblock, _) = JournalSuperblock::mut_from_prefix(&mut block)
            .expect("a block holds the journal's superblock");
        if setting.cell.is_fast {
            // Their area lies behind the shortest log.
            let first = log_end(superblock) - setting.log_blocks;
            superblock.first_block = first.into();
        } else {
            let first = superblock.first_block.get();
            superblock.length = (first + setting.log_blocks).into();
        }
        superblock.sequence = setting.tid.into();
        let mut compatible = superblock.compatible();
        compatible.set(
            JournalCompatible::CHECKSUM,
            setting.checksums == Checksums::V1,
        );
        let mut incompatible = superblock.incompatible();
        for (feature, is_on) in [
            (JournalIncompatible::IS_64BIT, setting.is_wide),
            (
                JournalIncompatible::CHECKSUM_V2,
                setting.checksums == Checksums::V2,
            ),
            (
                JournalIncompatible::CHECKSUM_V3,
                setting.checksums == Checksums::V3,
            ),
        ] {
            incompatible.set(feature, is_on);
        }
        superblock.compatible_bits = compatible.bits().into();
        superblock.incompatible_bits = incompatible.bits().into();
        if matches!(setting.checksums, Checksums::V2 | Checksums::V3) {
            superblock.checksum_type = ChecksumType::Crc32c.raw();
            superblock.checksum = checksum::journal_superblock(superblock).into();
        }
        image.set_block(self.journal_block, block.into_arc());
    }

    /// Replaces the log by another one and so discards all writes to it.
    fn with_log_of(mut self, other: &Self) -> Self {
        self.log.clone_from(&other.log);
        for block in self.journal_blocks.iter() {
            let image = Arc::clone(other.home.block(*block));
            self.home.set_block(*block, image);
        }
        self
    }

    /// Creates devices with these contents.
    pub fn devices(&self) -> Devices {
        Devices {
            home: ImageDevice::new(self.home.clone()),
            log: self.log.clone().map(ImageDevice::new),
        }
    }

    /// Returns true if one of the superblocks records an error.
    pub fn has_error(&self) -> bool {
        let log = self.log.as_ref().unwrap_or(&self.home);
        let is_noted = || {
            let superblock = journal_superblock(log.block(self.journal_block));
            superblock.error.get() != 0
        };
        has_error(self.home.block(SUPERBLOCK)) || self.has_journal() && is_noted()
    }

    /// Returns true if the log may hold an image of the volume's superblock that records an error.
    pub fn may_log_error(&self) -> bool {
        let log = self.log.as_ref().unwrap_or(&self.home);
        let own = superblock(self.home.block(SUPERBLOCK));
        (0..log.size_bytes() / BLOCK_BYTES as u64).any(|nr| {
            let logged = superblock(log.block(nr));
            let is_own = logged.magic == own.magic && logged.uuid == own.uuid;
            is_own && logged.state().contains(State::ERROR)
        })
    }

    /// Returns the block of multiple mount protection; 0 without it.
    pub(crate) fn protection_block(&self) -> u64 {
        superblock(self.home.block(SUPERBLOCK)).mmp_block.get()
    }

    /// Returns true if the superblock says that the volume needs recovery.
    pub(crate) fn needs_recovery(&self) -> bool {
        let words = superblock(self.home.block(SUPERBLOCK)).features();
        words.incompatible.contains(Incompatible::NEEDS_RECOVERY)
    }

    /// Returns true if the superblock has a checksum that does not match.
    pub(crate) fn is_superblock_torn(&self) -> bool {
        let own = superblock(self.home.block(SUPERBLOCK));
        let words = own.features().read_only_compatible;
        words.contains(ReadOnlyCompatible::METADATA_CSUM)
            && own.checksum.get() != checksum::superblock(own)
    }

    /// Returns the contents without the mark that slots of the orphan file may be in use. An open
    /// volume has it, and e2fsck calls that a problem if no slot is.
    #[must_use]
    pub(crate) fn without_orphan_mark(&self) -> Self {
        let mut disks = self.clone();
        let mut block = Block::clone(disks.home.block(SUPERBLOCK));
        let (own, _) =
            Superblock::mut_from_prefix(&mut block).expect("a block holds the superblock");
        let mut features = own.features();
        features
            .read_only_compatible
            .remove(ReadOnlyCompatible::ORPHAN_PRESENT);
        own.set_features(features);
        if features
            .read_only_compatible
            .contains(ReadOnlyCompatible::METADATA_CSUM)
        {
            own.checksum = checksum::superblock(own).into();
        }
        disks.home.set_block(SUPERBLOCK, block.into_arc());
        disks
    }

    /// Returns one hash of both devices.
    pub fn hash(&self) -> u64 {
        let log = self.log.as_ref().map_or(0, Image::hash);
        self.home.hash() ^ log.rotate_left(1)
    }

    /// Returns true if the contents are those of `before`. The block of multiple mount protection,
    /// which is written before anything is read, does not count.
    pub(crate) fn are_as(&self, before: &Self) -> bool {
        let mut same = self.clone();
        let protection = superblock(before.home.block(SUPERBLOCK)).mmp_block.get();
        if protection != 0 {
            let block = Arc::clone(before.home.block(protection));
            same.home.set_block(protection, block);
        }
        same.hash() == before.hash()
    }

    /// Copies the contents to separate memory, for another thread.
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self {
            home: self.home.unshared(),
            log: self.log.as_ref().map(Image::unshared),
            ..self.clone()
        }
    }
}

impl Devices {
    /// Returns the present contents.
    pub fn disks(&self, before: &Disks) -> Disks {
        Disks {
            home: self.home.image(),
            log: self.log.as_ref().map(|log| log.image()),
            ..before.clone()
        }
    }

    /// Returns the reads so far of both devices; none of a journal's device that does not exist.
    pub(crate) fn reads(&self) -> [Reads; 2] {
        let log = self.log.as_ref().map(|log| log.reads());
        [self.home.reads(), log.unwrap_or_default()]
    }

    /// Returns the file-system device.
    pub fn home_device(&self) -> Arc<dyn BlockDevice> {
        Arc::<ImageDevice>::clone(&self.home)
    }

    /// Returns the journal's device, if it is external.
    pub fn log_device(&self) -> Option<Arc<dyn BlockDevice>> {
        let log = self.log.as_ref()?;
        Some(Arc::<ImageDevice>::clone(log))
    }

    /// Returns true if the volume's superblock records an error.
    pub fn has_error(&self) -> bool {
        has_error(&self.home.block(SUPERBLOCK))
    }
}

/// Returns the journal's superblock in its block.
pub(crate) fn journal_superblock(block: &Block) -> &JournalSuperblock {
    let (superblock, _) =
        JournalSuperblock::ref_from_prefix(block).expect("a block holds the journal's superblock");
    superblock
}

/// Returns the block after the last one of the log: behind it there may be fast commits.
pub(crate) fn log_end(superblock: &JournalSuperblock) -> u32 {
    superblock.length.get() - superblock.fast_commit_blocks.get()
}

/// Returns true if the superblock of a volume records an error.
fn has_error(block: &Block) -> bool {
    superblock(block).state().contains(State::ERROR)
}

/// Returns the superblock of a volume in its block.
fn superblock(block: &Block) -> &Superblock {
    let (superblock, _) = Superblock::ref_from_prefix(block).expect("a block holds the superblock");
    superblock
}

/// Returns mount options under which nothing runs in the background except as the setting requires.
pub fn mount_options(setting: &Setting) -> MountOptions {
    let or_never = |millis| match millis {
        0 => Nanos::from_secs(100_000),
        some => Nanos::from_millis(some),
    };
    let mut options = MountOptions {
        ordered: setting.ordered.into(),
        async_commit: setting.cell.is_async,
        delayed_allocation: setting.is_delayed,
        abort_on_data_error: setting.is_abort,
        discard: setting.is_discarding,
        commit_interval: or_never(setting.commit_ms),
        sync: setting.synchronous == Synchronous::All,
        directory_sync: setting.synchronous == Synchronous::Directories,
        memory: Memory {
            writer_interval: or_never(setting.writer_ms),
            dirty_expiry: or_never(setting.writer_ms),
            budget_bytes: 1 << 24,
            ..Memory::default()
        },
        ..quiet(setting.cell.data)
    };
    options.tuning.log_policy.restart_every = setting.restart_every;
    let is_of_numbers = |crowd: crate::crowd::Crowd| crowd.kind == CrowdKind::Numbers;
    options.tuning.reuse_inodes = setting.crowd.is_some_and(is_of_numbers);
    options
}

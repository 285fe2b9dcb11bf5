//! A new image of trees: its number of inodes, its size, and the copy of the trees.
//!
//! The volume is sized for its contents, filled without its journal, and sealed as if it had never
//! been mounted. [`Plan::new`] reads the trees and decides everything; [`Plan::make`] writes
//! the image to a device of that size.

pub mod fit;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::{BlockDevice, FileDevice, OpenOptions, SliceDevice};
use ext::mkfs::{self, JournalDevice, JournalOption, Options, Summary};
use ext::options::{AccessTime, Memory};
use ext::superblock::Superblock;
use ext::{MountOptions, Volume};
use layout::inode::EXTRA_SIZE;
use layout::superblock;
use layout::time::InodeTime;

use fit::{Free, Used};

use super::edits::Edits;
use super::merge::{self, Merge, MergedSource};
use super::stop::StoppableSink;
use super::tally::{Tally, Units};
use super::{Counter, Filling, ImageSink, Origin, Sink, Stop, Times, digest, run};

/// Default block size in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Supported block sizes in bytes.
const BLOCK_BYTES_ALL: [u32; 3] = [1024, 2048, BLOCK_BYTES];
/// Memory budget while the image is filled, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Inodes in addition to those of the tree: the reserved ones, and a few free ones.
const INODES_MORE: u64 = 64;
/// Maximum number of attempts to find a size.
const SIZE_ROUNDS_MAX: u32 = 64;

/// Rule for the size of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SizeRule {
    /// This number of bytes.
    Bytes(u64),
    /// The space that the trees need, and this percentage of it.
    Slack(u32),
    /// Exactly the space that the trees take, which is counted before, and this free space. Without
    /// free space there are no free inodes either, unless the options have their number.
    Exact(Free),
}

/// Settings of a new image.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Options of mkfs. If they have a time, it is the upper bound of all times, and the same trees
    /// give the same bytes: UUID and hash seed are then derived from the trees.
    pub options: Options,
    /// Rule for the size.
    pub size: SizeRule,
    /// The device of an external journal, whose block size is the default of the image.
    pub journal: Option<JournalDevice>,
    /// Seconds since 1970, for times if the options have none.
    pub now: i64,
    /// Changes of the trees.
    pub edits: Edits,
    /// UUID if the options have none and none is derived; by default mkfs draws one.
    pub random_uuid: Option<[u8; 16]>,
    /// Ends the reading of the trees before the image is made.
    pub stop: Stop,
}

/// A new image of which everything is decided.
pub struct Plan {
    /// Complete options of mkfs.
    pub options: Options,
    /// Size of the image in bytes.
    pub bytes: u64,
    /// Space that the trees need.
    pub tally: Tally,
    /// Times of the inodes.
    pub times: Times,
    trees: Trees,
    /// Number of blocks that the trees took when they were counted, and the free space.
    exact: Option<(u64, Free)>,
}

/// Opens the device of an image of this number of bytes, without contents.
pub type OpenDevice<'o> = &'o mut dyn FnMut(u64) -> Result<Arc<dyn BlockDevice>>;

impl Plan {
    /// Counts the trees and completes the options. Later trees replace files of earlier ones.
    ///
    /// # Errors
    /// Fails if a tree cannot be read, or no image can have the options and this size.
    pub fn new(origins: Vec<Origin>, settings: &Settings) -> Result<Self> {
        let options = with_blocks(settings)?;
        let times = Times {
            seconds: options.seconds.unwrap_or(settings.now),
            clamps: options.seconds.is_some(),
        };
        let units = Units {
            block_bytes: options.block_bytes.unwrap_or(BLOCK_BYTES).into(),
            cluster_bytes: options.allocation_bytes().into(),
        };
        // The UUID is derived from the trees.
        let digested = (times.clamps && options.uuid.is_none()).then_some(times);
        let edits = settings.edits.clone();
        let (trees, tally, digests) =
            Trees::survey(origins, edits, units, digested, &settings.stop)?;
        let options = Options {
            inode_count: Some(inode_count(&options, &tally)?),
            seconds: Some(times.seconds),
            journal: match &settings.journal {
                Some(journal) => JournalOption::External(journal.uuid),
                None => options.journal,
            },
            ..options
        };
        let is_fixed = options.uuid.is_some() || times.clamps;
        let uuid = match digested {
            Some(_) => Some(digest::uuid(&digests, &options, &trees.edits)),
            None => options.uuid.or(settings.random_uuid),
        };
        let mut options = Options {
            uuid,
            hash_seed: options.hash_seed.or(uuid.filter(|_| is_fixed)),
            ..options
        };
        let mut exact = None;
        let bytes = match settings.size {
            SizeRule::Bytes(bytes) => bytes,
            SizeRule::Slack(percent) => size(&options, &tally, percent)?,
            SizeRule::Exact(free) => {
                // Directories split by hashes: the seed decides how many blocks they take.
                let seed = options.hash_seed.or(uuid);
                options.hash_seed = Some(seed.unwrap_or_else(random_seed));
                let used = fit::count(&trees, &options, &tally, times)?;
                let given = &settings.options;
                let has_inodes = given.inode_count.is_some() || given.bytes_per_inode.is_some();
                exact = Some((used.blocks, free));
                let found = if free.is_none() && !has_inodes {
                    fit::smallest_of(&mut options, used)?
                } else {
                    fit::smallest(&options, used.blocks, free)?
                };
                options.block_count = Some(found.geometry.block_count);
                size_of(&found)
            }
        };
        mkfs::preview(&geometry(bytes), &options)?;
        Ok(Self {
            options,
            bytes,
            tally,
            times,
            trees,
            exact,
        })
    }

    /// Makes the image: formats a device, fills it and seals it. Calls `count` with the number of
    /// bytes of data. Returns the description of the image and its size in bytes, which may differ
    /// from the planned one: files of many extents may take other numbers of blocks in a volume of
    /// another size, so that an exact size is corrected.
    ///
    /// An external journal is not changed. It has to get the image as its user.
    ///
    /// # Errors
    /// Fails with the first error of reading a tree, of `open` or of the device.
    pub fn make(&self, open: OpenDevice<'_>, count: Counter<'_>) -> Result<(Summary, u64)> {
        let Some((blocks, free)) = self.exact else {
            let made = self.make_in(&self.options, &open(self.bytes)?, count);
            return Ok((made?, self.bytes));
        };
        let mut made = None;
        fit::search(&self.options, blocks, free, &mut |wanted| {
            let device = open(size_of(wanted))?;
            let options = Options {
                block_count: Some(wanted.geometry.block_count),
                ..self.options.clone()
            };
            match self.make_in(&options, &device, count) {
                Ok(summary) => {
                    let used = used(&device, &summary)?;
                    made = Some(summary);
                    Ok(Some(used))
                }
                Err(error) if fit::is_full(&error) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        let made = made.context("no image was made")?;
        let bytes = size_of(&made);
        Ok((made, bytes))
    }

    fn make_in(
        &self,
        options: &Options,
        device: &Arc<dyn BlockDevice>,
        count: Counter<'_>,
    ) -> Result<Summary> {
        let summary = mkfs::format(device, options)?;
        self.trees.fill(device, self.times, count)?;
        Ok(summary)
    }
}

/// Trees that become one, and their edits.
struct Trees {
    origins: Vec<Origin>,
    edits: Edits,
    /// Unless there is only one tree, which can be copied as it is.
    merge: Option<Merge>,
    stop: Stop,
}

impl Trees {
    /// Reads the trees. Returns also the space that they need, and with `times` their digests.
    fn survey(
        origins: Vec<Origin>,
        edits: Edits,
        units: Units,
        times: Option<Times>,
        stop: &Stop,
    ) -> Result<(Self, Tally, Vec<u128>)> {
        let (merge, tally, digests) = match &origins[..] {
            [only] if only.is_plain() => {
                let tally = Tally::of(only, &edits, units, stop)?;
                let digest = times
                    .map(|times| digest::of(only, times, stop))
                    .transpose()?;
                (None, tally, digest.into_iter().collect())
            }
            all => {
                let survey = merge::survey(all, &edits, units, times, stop)?;
                (Some(survey.merge), survey.tally, survey.digests)
            }
        };
        let trees = Self {
            origins,
            edits,
            merge,
            stop: stop.clone(),
        };
        Ok((trees, tally, digests))
    }

    /// Fills a newly made volume and seals it.
    fn fill(&self, device: &Arc<dyn BlockDevice>, times: Times, count: Counter<'_>) -> Result<()> {
        let filling = Filling {
            times,
            edits: &self.edits,
            count,
        };
        let volume = open_new(device)?;
        if let (None, [Origin::Directory(directory)]) = (&self.merge, &self.origins[..]) {
            directory.fill(device, volume, &filling)?;
        } else {
            let mut sink = ImageSink::with_device(&volume, device, &filling);
            let filled = self.send(times, &mut sink);
            let closed = volume.close();
            filled?;
            closed?;
        }
        Ok(mkfs::seal(device, times.seconds)?)
    }

    /// Allocates the blocks that the trees take in a newly made volume, without the data of files.
    fn count(&self, device: &Arc<dyn BlockDevice>, times: Times) -> Result<()> {
        let filling = Filling {
            times,
            edits: &self.edits,
            count: &|_| {},
        };
        let volume = open_new(device)?;
        let mut sink = StoppableSink {
            sink: &mut ImageSink::counting(&volume, &filling),
            stop: &self.stop,
        };
        let counted = match (&self.merge, &self.origins[..]) {
            (None, [Origin::Directory(directory)]) => directory.count(&mut sink),
            _ => self.send(times, &mut sink),
        };
        let closed = volume.close();
        counted?;
        Ok(closed?)
    }

    /// Sends what is left of the trees.
    fn send(&self, times: Times, sink: &mut dyn Sink) -> Result<()> {
        match (&self.merge, &self.origins[..]) {
            (None, [Origin::Directory(directory)]) => run(&**directory, sink),
            (None, [Origin::Archive(archive)]) => run(archive, sink),
            (None, _) => Ok(()),
            (Some(merge), origins) => {
                let source = MergedSource {
                    merge,
                    origins,
                    made: InodeTime::new(times.seconds, 0),
                };
                run(&source, sink)
            }
        }
    }
}

/// Fills a newly made volume with a tree, and seals it.
///
/// # Errors
/// Fails with the first error of reading the tree or of the volume.
pub fn fill(
    device: &Arc<dyn BlockDevice>,
    origin: Origin,
    times: Times,
    count: Counter<'_>,
) -> Result<()> {
    let bytes = u64::from(BLOCK_BYTES);
    let units = Units {
        block_bytes: bytes,
        cluster_bytes: bytes,
    };
    let (trees, _, _) = Trees::survey(
        vec![origin],
        Edits::default(),
        units,
        None,
        &Stop::default(),
    )?;
    trees.fill(device, times, count)
}

/// Returns the device of an image of this size, without contents, at an offset of a file. What the
/// file holds is cut off.
///
/// # Errors
/// Fails if the file cannot have the size, or is locked.
pub fn device_in(file: &File, name: &str, offset: u64, bytes: u64) -> Result<Arc<dyn BlockDevice>> {
    file.set_len(0)?;
    file.set_len(offset + bytes)?;
    let file = file.try_clone()?;
    let device = FileDevice::of_file(file.into(), name, &OpenOptions::default())?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    if offset == 0 {
        return Ok(device);
    }
    Ok(Arc::new(SliceDevice::new(device, offset, offset + bytes)?))
}

/// Returns the size of a volume in bytes.
fn size_of(summary: &Summary) -> u64 {
    summary.geometry.block_count * u64::from(summary.geometry.block_bytes)
}

fn random_seed() -> [u8; 16] {
    let random = || u128::from(RandomState::new().hash_one(0));
    (random() << 64 | random()).to_le_bytes()
}

/// Returns what the contents of a volume take besides what it had when it was empty.
fn used(device: &Arc<dyn BlockDevice>, empty: &Summary) -> Result<Used> {
    let bytes = device.read_block(superblock::OFFSET, superblock::SIZE as u32)?;
    let found = Superblock::decode(&bytes, device.geometry().size_bytes)?;
    let free_inodes = found.raw.free_inodes_count.get();
    Ok(Used {
        blocks: empty
            .free_blocks
            .saturating_sub(found.raw.free_blocks_count()),
        inodes: empty.geometry.inode_count.saturating_sub(free_inodes),
    })
}

/// Returns the options with a block size.
fn with_blocks(settings: &Settings) -> Result<Options> {
    let given = settings.options.block_bytes;
    // The journal and the image have the same block size.
    let journal = settings.journal.as_ref().map(|journal| journal.block_bytes);
    if given.is_some_and(|given| journal.is_some_and(|journal| journal != given)) {
        bail!("the blocks of the journal device have another size");
    }
    let block_bytes = given.or(journal).unwrap_or(BLOCK_BYTES);
    if !BLOCK_BYTES_ALL.contains(&block_bytes) {
        bail!("blocks of {block_bytes} bytes: expected 1024, 2048 or 4096");
    }
    Ok(Options {
        block_bytes: Some(block_bytes),
        ..settings.options.clone()
    })
}

/// Returns the number of inodes for a tree, if the options do not have it.
///
/// # Errors
/// Fails if there would be more than 2^32.
fn inode_count(options: &Options, tally: &Tally) -> Result<u32> {
    if let Some(count) = options.inode_count {
        return Ok(count);
    }
    let by_share = options
        .bytes_per_inode
        .and_then(|bytes| tally.bytes.checked_div(bytes.into()));
    let count = tally.inodes + INODES_MORE + by_share.unwrap_or(tally.inodes / 10);
    u32::try_from(count).context("more than 2^32 inodes")
}

/// Returns the geometry of an image of this size in bytes.
fn geometry(size_bytes: u64) -> block::Geometry {
    block::Geometry {
        size_bytes,
        sector_bytes: 512,
        has_volatile_cache: false,
        has_force_unit_access: false,
        can_flush: true,
        atomic_write_bytes: 512,
        queue_depth: 1,
        is_read_only: false,
    }
}

/// Returns the smallest size in bytes that holds the tree, the reserved blocks and the slack, which
/// is a percentage of the space that the tree needs.
///
/// # Errors
/// Fails if no size allows the options.
fn size(options: &Options, tally: &Tally, slack_percent: u32) -> Result<u64> {
    let block_bytes = u64::from(options.block_bytes.unwrap_or(BLOCK_BYTES));
    // The tree was counted in clusters, where blocks are allocated by them.
    let in_unit = u64::from(options.allocation_bytes()) / block_bytes;
    let units = tally.blocks + tally.blocks * u64::from(slack_percent) / 100 + 16;
    let needed = units * in_unit;
    let inode_bytes = u64::from(options.inode_bytes.unwrap_or(128 + EXTRA_SIZE as u16));
    let tables = u64::from(options.inode_count.unwrap_or_default()) * inode_bytes / block_bytes;
    let mut blocks = needed + tables + 2048;
    let mut refused = None;
    for _ in 0..SIZE_ROUNDS_MAX {
        let geometry = geometry((blocks * block_bytes).next_multiple_of(u64::from(BLOCK_BYTES)));
        let free = match mkfs::preview(&geometry, options) {
            Ok(summary) => summary.free_blocks.saturating_sub(summary.reserved_blocks),
            // Too small for the requested options, such as the number of inodes or the journal
            // size.
            Err(ext::Error::Invalid(why)) => {
                refused = Some(why);
                0
            }
            Err(error) => return Err(error.into()),
        };
        if free >= needed {
            return Ok(geometry.size_bytes);
        }
        blocks += (needed - free) + (needed - free) / 16 + 8;
    }
    match refused {
        Some(why) => bail!("no size can be found that holds the tree: {why}"),
        None => bail!("no size can be found that holds the tree; give one"),
    }
}

/// Opens a volume that is being made.
fn open_new(device: &Arc<dyn BlockDevice>) -> Result<Volume> {
    let options = MountOptions {
        is_being_made: true,
        privileged: true,
        access_time: AccessTime::Never,
        memory: Memory {
            budget_bytes: MEMORY_BYTES,
            ..Memory::default()
        },
        ..MountOptions::default()
    };
    Ok(Volume::open(Arc::clone(device), None, options)?)
}

//! The exact size of an image: the smallest that holds a tree, or leaves a given space free.
//!
//! The blocks that a tree takes cannot be computed from its names and sizes: directories split by
//! the hashes of their names, and attributes share blocks. So they are counted: the tree is made
//! once without the data of its files, in a volume with more than enough space. From the count
//! follows the number of blocks, which the descriptors, tables and journal of the volume depend on;
//! then the tree is made for good.
//!
//! The other way, to cut a filled volume down, would move blocks: the tables of the groups that
//! drop out, the journal in the middle, copies of the superblock, reserved descriptors. Here each
//! image is one that `mkfs` makes with this number of blocks. Only the extents of files over
//! several groups may need other numbers of blocks in the smaller volume: if the tree does not fit
//! after all, the size is searched around the count.

use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use block::text::Size;
use block::{BlockDevice, FileDevice, OpenOptions};
use ext::mkfs::{self, Options, Summary};

use super::{BLOCK_BYTES, Trees, geometry, size, used};
use crate::{Tally, Times, scratch};

/// Maximum number of steps to the size of an image.
const STEPS_MAX: u32 = 10_000;
/// Largest size of an image in units of what it would have without the volume's own blocks, and
/// what may be added to it, in blocks.
const OWN_FACTOR_MAX: u64 = 64;
const OWN_BLOCKS_MAX: u64 = 1 << 29;
/// Maximum number of smaller sizes that are tried after a size is found: a larger volume may need
/// fewer blocks, since the inodes of a group fill whole blocks.
const STEPS_BACK_MAX: u64 = 64;
/// Largest number of blocks that are added at once to a count that was too small, or the count.
const STEP_MAX: u64 = 1 << 20;
/// Largest number of blocks beyond the double of a number that is none of a volume. The largest
/// journal needs a volume of twice its length.
const INVALID_BLOCKS_MAX: u64 = 1 << 26;
/// Unit of the inodes of a group, and the smallest number of inodes that is asked for.
const INODES_STEP: u32 = 8;
const INODES_MIN: u32 = 16;
/// An image that is all free space.
const WHOLE_PERCENT: f64 = 100.0;
/// Largest number of blocks of a volume.
const BLOCKS_MAX: u64 = 1 << 48;

/// Space that a new image leaves free, besides its reserved blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Free {
    /// At least this number of bytes.
    Bytes(u64),
    /// At least this percentage of the blocks of the image.
    Percent(f64),
}

impl Free {
    /// Nothing: the smallest image.
    pub const NONE: Self = Self::Bytes(0);

    /// Parses a share of the image, as `20%`, or a size, as `100M`.
    ///
    /// # Errors
    /// Fails with what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return match Size::parse(text) {
                Ok(size) => Ok(Self::Bytes(size.bytes())),
                Err(expected) => Err(format!("a percentage of the image, as 20%, or {expected}")),
            };
        };
        match percent.parse() {
            Ok(percent) if (0.0..WHOLE_PERCENT).contains(&percent) => Ok(Self::Percent(percent)),
            _ => Err("a part of the image, from 0% to less than 100%".to_owned()),
        }
    }

    /// Returns true if nothing is left free.
    #[must_use]
    pub fn is_none(self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == 0,
            Self::Percent(percent) => percent <= 0.0,
        }
    }

    /// Returns the percentage of the image that is free.
    fn percent(self) -> f64 {
        match self {
            Self::Bytes(_) => 0.0,
            Self::Percent(percent) => percent,
        }
    }

    /// Returns the number of free blocks of a volume.
    fn blocks(self, summary: &Summary) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.div_ceil(summary.geometry.block_bytes.into()),
            Self::Percent(percent) => {
                (percent / WHOLE_PERCENT * summary.geometry.block_count as f64).ceil() as u64
            }
        }
    }
}

/// Blocks and inodes that a tree took of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Number of blocks, besides those of the empty volume.
    pub blocks: u64,
    /// Number of inodes, with the reserved ones.
    pub inodes: u32,
}

/// Space in the volume in which trees are counted, besides what they are estimated to need, in
/// percent; the factor of it if that does not suffice; and the largest that is tried.
const COUNTING_SLACK: u32 = 25;
const COUNTING_SLACK_FACTOR: u32 = 4;
const COUNTING_SLACK_MAX: u32 = COUNTING_SLACK * COUNTING_SLACK_FACTOR.pow(8);

/// Makes trees without the data of files in a volume in an unnamed file, and returns what they
/// take.
///
/// # Errors
/// Fails with the first error of reading a tree, or of the file.
pub(super) fn count(trees: &Trees, options: &Options, tally: &Tally, times: Times) -> Result<Used> {
    let mut slack = COUNTING_SLACK;
    loop {
        let bytes = size(options, tally, slack)?;
        match count_in(bytes, trees, options, times) {
            Err(error) if is_without_blocks(&error) && slack < COUNTING_SLACK_MAX => {
                slack *= COUNTING_SLACK_FACTOR;
            }
            counted => return counted,
        }
    }
}

fn count_in(bytes: u64, trees: &Trees, options: &Options, times: Times) -> Result<Used> {
    let file = scratch::file()?;
    file.set_len(bytes).with_context(scratch::folder)?;
    let name = "the image that is made to count blocks";
    let device = FileDevice::of_file(file.into(), name, &OpenOptions::default())?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let count = || {
        let empty = mkfs::format(&device, options)?;
        trees.count(&device, times)?;
        used(&device, &empty)
    };
    count().map_err(|error: Error| {
        let is_of_device = has_cause(&error, |cause| {
            matches!(cause, ext::Error::Device(_) | ext::Error::DataLost { .. })
        });
        match is_of_device {
            true => error.context(scratch::folder()),
            false => error,
        }
    })
}

/// The judgement of a number of blocks.
enum Judged {
    Fits,
    /// More blocks are missing.
    Short(u64),
    /// No volume has so few.
    Invalid(&'static str),
}

/// Returns the description of the smallest volume that has this number of blocks for a tree, and
/// the free space.
///
/// # Errors
/// Fails if there is none.
pub(super) fn smallest(options: &Options, blocks: u64, free: Free) -> Result<Summary> {
    let block_bytes = options.block_bytes.unwrap_or(BLOCK_BYTES);
    let unit = u64::from(options.allocation_bytes() / block_bytes);
    let judge = |count: u64| judge(options, block_bytes, count, blocks, free);
    // The part of the image that is neither free nor reserved.
    let rest = 1.0 - (free.percent() + options.reserved_percent) / WHOLE_PERCENT;
    if rest <= 0.0 {
        bail!(
            "{}% free and {}% reserved blocks leave nothing of the image for the tree: less of \
             either makes room",
            free.percent(),
            options.reserved_percent
        );
    }
    // With a block more of the image, only this part of a block more is left for the tree.
    let for_missing = |missing: u64| (missing as f64 / rest) as u64;
    let count_max = for_missing(blocks.max(1)).saturating_mul(OWN_FACTOR_MAX);
    let count_max = count_max.saturating_add(OWN_BLOCKS_MAX).min(BLOCKS_MAX);
    // No size is valid, or some are and the larger ones are not.
    let (mut invalid, mut is_short) = (None, false);
    let (mut low, mut count) = (0, blocks.max(1).next_multiple_of(unit));
    for _ in 0..STEPS_MAX {
        match judge(count)? {
            Judged::Fits => {
                count = first_fitting(low, count, unit, &judge)?;
                let mut found = count;
                for fewer in (1..=STEPS_BACK_MAX).map(|steps| steps * unit) {
                    let Some(fewer) = count.checked_sub(fewer).filter(|count| *count > 0) else {
                        break;
                    };
                    if matches!(judge(fewer)?, Judged::Fits) {
                        found = fewer;
                    }
                }
                return Ok(preview(options, block_bytes, found)?);
            }
            Judged::Short(missing) => {
                (low, is_short) = (count, true);
                count += for_missing(missing).next_multiple_of(unit);
            }
            Judged::Invalid(why) => {
                let Some(valid) = first_valid(count, unit, &judge)? else {
                    invalid = Some(why);
                    break;
                };
                (low, count) = (count, valid);
            }
        }
        if count > count_max {
            break;
        }
    }
    match (free, invalid) {
        (Free::Percent(percent), _) if percent > 0.0 && is_short => bail!(
            "no image has {percent}% free blocks besides {}% reserved ones and its own tables: \
             less of either makes room",
            options.reserved_percent
        ),
        (_, Some(why)) => bail!("no size can be found that holds the tree: {why}"),
        (_, None) => bail!("no size can be found that holds the tree and the free space"),
    }
}

/// Returns the smallest number of blocks that is enough, between one that is not and one that is.
fn first_fitting(low: u64, high: u64, unit: u64, judge: Judge<'_>) -> Result<u64> {
    let (mut low, mut high) = (low / unit, high / unit);
    while high - low > 1 {
        let middle = low.midpoint(high);
        match judge(middle * unit)? {
            Judged::Fits => high = middle,
            Judged::Short(_) | Judged::Invalid(_) => low = middle,
        }
    }
    Ok(high * unit)
}

/// Returns the description of the smallest volume that has the blocks and inodes of a tree, and
/// sets the number of inodes. mkfs rounds the inodes of a group down to a multiple of 8.
///
/// # Errors
/// Fails if there is none.
pub(super) fn smallest_of(options: &mut Options, used: Used) -> Result<Summary> {
    let mut inodes = used.inodes.max(INODES_MIN).next_multiple_of(INODES_STEP);
    loop {
        options.inode_count = Some(inodes);
        let found = smallest(options, used.blocks, Free::NONE)?;
        if found.geometry.inode_count >= used.inodes {
            return Ok(found);
        }
        let missing = used.inodes - found.geometry.inode_count;
        inodes = inodes.saturating_add(missing.next_multiple_of(INODES_STEP));
    }
}

type Judge<'j> = &'j dyn Fn(u64) -> Result<Judged>;

/// Returns the smallest number of blocks of a volume above `count`, which is none, if there is one.
fn first_valid(count: u64, unit: u64, judge: Judge<'_>) -> Result<Option<u64>> {
    let is_valid = |count| Ok::<_, Error>(!matches!(judge(count)?, Judged::Invalid(_)));
    let (mut low, mut high) = (count / unit, count / unit * 2);
    while !is_valid(high * unit)? {
        (low, high) = (high, high * 2);
        if high * unit > count * 2 + INVALID_BLOCKS_MAX {
            return Ok(None);
        }
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        match is_valid(middle * unit)? {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok(Some(high * unit))
}

fn judge(
    options: &Options,
    block_bytes: u32,
    count: u64,
    blocks: u64,
    free: Free,
) -> Result<Judged> {
    match preview(options, block_bytes, count) {
        Ok(summary) => {
            let has = summary.free_blocks.saturating_sub(summary.reserved_blocks);
            let missing = (blocks + free.blocks(&summary)).saturating_sub(has);
            Ok(match missing {
                0 => Judged::Fits,
                missing => Judged::Short(missing),
            })
        }
        Err(ext::Error::Invalid(why)) => Ok(Judged::Invalid(why)),
        Err(ext::Error::NoSpace) => Ok(Judged::Invalid("the first files have no place")),
        Err(error) => Err(error.into()),
    }
}

fn preview(options: &Options, block_bytes: u32, count: u64) -> ext::Result<Summary> {
    let options = Options {
        block_count: Some(count),
        ..options.clone()
    };
    mkfs::preview(&geometry(count * u64::from(block_bytes)), &options)
}

/// Makes an image of a size that is searched around a count of its blocks. `attempt` makes it in a
/// volume and returns what the tree took; none if it does not fit. The last attempt is successful.
///
/// # Errors
/// Fails with the first error of `attempt`, or if no size is found.
pub(super) fn search(
    options: &Options,
    counted: u64,
    free: Free,
    attempt: &mut dyn FnMut(&Summary) -> Result<Option<Used>>,
) -> Result<()> {
    // The largest number of blocks that was too few, and the smallest that was enough.
    let (mut low, mut high) = (0, None);
    let (mut blocks, mut step) = (counted, 1);
    loop {
        let summary = smallest(options, blocks, free)?;
        match (attempt(&summary)?, high) {
            (Some(used), _) => {
                let fewer = used.blocks.max(low + 1);
                // A few more free blocks than were asked for are not worth another attempt.
                if fewer >= blocks || high == Some(blocks) || !free.is_none() {
                    return Ok(());
                }
                high = Some(blocks);
                blocks = fewer;
            }
            (None, Some(high)) if blocks < high => {
                low = blocks;
                // The last number that was enough, if none is left between.
                blocks = (low + high).div_ceil(2);
            }
            (None, None) if step <= counted.max(STEP_MAX) => {
                low = blocks;
                blocks += step;
                step *= 2;
            }
            (None, _) => bail!("no size can be found that holds the tree"),
        }
    }
}

/// Returns true if an error says that a volume is full.
pub(super) fn is_full(error: &Error) -> bool {
    is_without_blocks(error) || has_cause(error, |cause| matches!(cause, ext::Error::NoInodes))
}

/// Returns true if an error says that a volume has no free block.
fn is_without_blocks(error: &Error) -> bool {
    has_cause(error, |cause| matches!(cause, ext::Error::NoSpace))
}

fn has_cause(error: &Error, is_wanted: impl Fn(&ext::Error) -> bool) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| cause.downcast_ref().is_some_and(&is_wanted))
}

#[cfg(test)]
mod tests {
    use ext::mkfs::{FeatureEdits, FileSystemType};

    use super::*;

    fn options(file_system: FileSystemType, block_bytes: u32) -> Options {
        Options {
            file_system,
            block_bytes: Some(block_bytes),
            inode_count: Some(100),
            reserved_percent: 0.0,
            uuid: Some([7; 16]),
            ..Options::default()
        }
    }

    #[test]
    fn no_smaller_volume_has_the_blocks() {
        for (file_system, block_bytes) in [
            (FileSystemType::Ext2, 1024),
            (FileSystemType::Ext3, 2048),
            (FileSystemType::Ext4, 4096),
        ] {
            let options = options(file_system, block_bytes);
            // The last of them lie on both sides of the default journal, and of several groups.
            for blocks in [0, 1, 1900, 8200, 33_000] {
                let found = smallest(&options, blocks, Free::NONE).expect("a size");
                let count = found.geometry.block_count;
                assert!(found.free_blocks >= blocks);
                for fewer in count.saturating_sub(60)..count {
                    let smaller = preview(&options, block_bytes, fewer);
                    let fits = smaller.is_ok_and(|summary| summary.free_blocks >= blocks);
                    assert!(
                        !fits,
                        "{blocks} blocks of {block_bytes}: {fewer}, not {count}"
                    );
                }
            }
        }
    }

    /// The inode tables take more space than the tree.
    #[test]
    fn many_empty_files_have_a_size() {
        let options = Options {
            inode_count: Some(60_000),
            ..options(FileSystemType::Ext4, 4096)
        };
        let found = smallest(&options, 1000, Free::NONE).expect("a size");
        assert_eq!(found.free_blocks, 1000);
    }

    #[test]
    fn free_space_is_left_besides_the_reserve() {
        let options = Options {
            reserved_percent: 10.0,
            ..options(FileSystemType::Ext4, 4096)
        };
        let share = smallest(&options, 10_000, Free::Percent(20.0)).expect("a size");
        let free = share.free_blocks - share.reserved_blocks - 10_000;
        let wanted = share.geometry.block_count / 5;
        assert!((wanted..=wanted + 2).contains(&free), "{free}, {wanted}");
        let bytes = smallest(&options, 10_000, Free::Bytes(5 << 20)).expect("a size");
        let free = bytes.free_blocks - bytes.reserved_blocks - 10_000;
        assert!((1280..=1282).contains(&free), "{free}");
    }

    #[test]
    fn free_space_that_no_image_has_is_refused() {
        let options = |reserved_percent| Options {
            reserved_percent,
            ..options(FileSystemType::Ext4, 4096)
        };
        for (percent, reserved) in [(99.0, 1.0), (95.0, 5.0), (99.9, 5.0), (60.0, 50.0)] {
            let refused = smallest(&options(reserved), 10_000, Free::Percent(percent));
            let error = refused.expect_err("nothing is left").to_string();
            assert!(error.contains("leave nothing of the image"), "{error}");
        }
        for (percent, reserved) in [(94.0, 5.0), (99.0, 0.0), (99.9, 0.0)] {
            let free = Free::Percent(percent);
            let found = smallest(&options(reserved), 10_000, free).expect("a size");
            let has = found.free_blocks - found.reserved_blocks - 10_000;
            let wanted = free.blocks(&found);
            assert!((wanted..=wanted + 2).contains(&has), "{has}, {wanted}");
        }
        // Bitmaps and tables of many small groups.
        let small = Options {
            blocks_per_group: Some(256),
            features: FeatureEdits::parse("^resize_inode").expect("a feature"),
            ..options(0.0)
        };
        let error = smallest(&small, 10_000, Free::Percent(99.0)).expect_err("no such image");
        assert!(error.to_string().contains("its own tables"), "{error}");
    }

    /// Searches where the tree takes `real` blocks in a volume that has so many.
    fn found(counted: u64, real: u64) -> (u64, u32) {
        let options = options(FileSystemType::Ext4, 4096);
        let (mut attempts, mut last) = (0, None);
        let searched = search(&options, counted, Free::NONE, &mut |summary| {
            attempts += 1;
            let used = Used {
                blocks: real,
                inodes: 20,
            };
            last = Some(summary.free_blocks).filter(|blocks| *blocks >= real);
            Ok(last.map(|_| used))
        });
        searched.expect("a size");
        (last.expect("the last attempt is successful"), attempts)
    }

    #[test]
    fn a_wrong_count_is_corrected() {
        assert_eq!(found(20_000, 20_000), (20_000, 1));
        for (counted, real) in [(20_000, 20_001), (20_000, 20_013), (20_000, 19_990)] {
            let (blocks, attempts) = found(counted, real);
            assert_eq!(blocks, real);
            assert!(attempts < 9, "{counted} {real}: {attempts}");
        }
    }
}

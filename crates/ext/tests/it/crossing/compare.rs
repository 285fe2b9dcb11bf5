//! Two images are the same: every byte, but for fields that tell when and how often somebody looked.

use core::mem::offset_of;
use core::ops::Range;

use jbd2::Location;
use layout::group::GroupDescriptor;
use layout::inode::{Inode, InodeExtra};
use layout::journal::JournalSuperblock;
use layout::superblock::{self, Superblock};
use zerocopy::FromBytes;

use super::log_format;
use crate::image::Image;

/// A field that may differ: its name and its place.
type Field = (&'static str, Range<usize>);

macro_rules! fields {
    ($structure:ty: $($name:ident $bytes:literal),* $(,)?) => {
        &[$((
            stringify!($name),
            offset_of!($structure, $name)..offset_of!($structure, $name) + $bytes,
        )),*]
    };
}

/// Fields of the file system's superblock: times, counters, counts that nobody believes, the number of the device at which
/// the kernel last found the external journal, and the checksum over these.
const SUPERBLOCK: &[Field] = fields![Superblock:
    s_free_blocks_count_lo 4, s_free_inodes_count 4,
    s_mtime 4, s_mtime_hi 1, s_wtime 4, s_wtime_hi 1, s_lastcheck 4, s_lastcheck_hi 1,
    s_mnt_count 2, s_kbytes_written 8, s_journal_dev 4, s_checksum 4,
];

/// Fields of the journal's superblock: the number and place with which an empty log goes on, the features, which the kernel
/// takes away or adds when it opens a log, and the checksum over these.
const JOURNAL: &[Field] = fields![JournalSuperblock:
    s_sequence 4, s_head 4, s_feature_compat 4, s_feature_incompat 4, s_checksum_type 1, s_checksum 4,
];

/// Fields of a group's descriptor, with checksums of metadata: e2fsck counts the inodes that were never used down again,
/// which nobody else does; and the checksum over this.
const DESCRIPTOR: &[Field] = fields![GroupDescriptor: bg_itable_unused_lo 2, bg_checksum 2];

/// Fields of an inode whose deletion or truncation was finished: when that was.
const FINISHED: &[Field] = fields![Inode: i_dtime 4, i_ctime 4, i_mtime 4];
/// The parts of these in the inode's extra bytes.
const FINISHED_EXTRA: &[Field] = fields![InodeExtra: i_ctime_extra 4, i_mtime_extra 4];
/// Fields of a deleted inode that e2fsck leaves as they were.
const DELETED: &[Field] = fields![Inode: i_size_lo 4, i_blocks_lo 4, i_block 60];

/// How many differences are told.
const TOLD: usize = 8;

/// Where else two images may differ.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// The log may hold other things; it has to be empty all the same.
    pub log: bool,
    /// Blocks that the first image has free may hold anything.
    pub free_blocks: bool,
    /// Bytes at which inodes begin whose deletion or truncation was finished: they tell when.
    pub finished: Vec<usize>,
    /// Bytes at which deleted inodes begin that may still have their map.
    pub deleted: Vec<usize>,
    /// Bytes behind the end of a truncated file, in its last block.
    pub tail: Option<Range<usize>>,
}

/// Where two images differ, run by run.
fn differences(a: &Image, b: &Image, allowed: &Allowed) -> Vec<String> {
    let log = log_format::location(a);
    let free = if allowed.free_blocks {
        free_blocks(a)
    } else {
        Vec::new()
    };
    let read = |image: &Image| {
        let paths = core::iter::once(&image.path).chain(&image.journal_path);
        let mut files: Vec<_> = paths
            .map(|path| std::fs::read(path).expect("the image is there"))
            .collect();
        blank_volume(image, &mut files[0], allowed);
        if let Some(tail) = &allowed.tail {
            files[0][tail.clone()].fill(0);
        }
        for block in &free {
            let first = block * image.block_bytes as usize;
            files[0][first..first + image.block_bytes as usize].fill(0);
        }
        let last = files.len() - 1;
        blank_log(&log, &mut files[last], allowed);
        files
    };
    let (files, others) = (read(a), read(b));
    let mut told = Vec::new();
    let names = ["file system", "external journal"];
    for ((file, other), name) in files.iter().zip(&others).zip(names) {
        assert_eq!(file.len(), other.len(), "sizes");
        if file == other {
            continue;
        }
        let mut at = 0;
        while let Some(step) = file[at..]
            .iter()
            .zip(&other[at..])
            .position(|(x, y)| x != y)
        {
            at += step;
            let length = file[at..]
                .iter()
                .zip(&other[at..])
                .take_while(|(x, y)| x != y)
                .count();
            let (block, offset) = (at / log.block_bytes as usize, at % log.block_bytes as usize);
            let (x, y) = (
                &file[at..at + length.min(8)],
                &other[at..at + length.min(8)],
            );
            told.push(format!(
                "{name}, block {block}, {length} bytes from {offset} (byte {at} of all): {x:02x?} and {y:02x?}"
            ));
            at += length;
        }
    }
    told
}

/// Byte of the group descriptor: the images have one group, and its descriptor is in the block after the superblock's.
fn descriptor_offset(image: &Image) -> usize {
    let block_bytes = image.block_bytes as usize;
    (1024 / block_bytes + 1) * block_bytes
}

/// The blocks that the bitmap has free.
fn free_blocks(image: &Image) -> Vec<usize> {
    let bytes = std::fs::read(&image.path).expect("the image is there");
    let block_bytes = image.block_bytes as usize;
    let (descriptor, _) = GroupDescriptor::ref_from_prefix(&bytes[descriptor_offset(image)..])
        .expect("an image is longer");
    let bitmap = descriptor.bg_block_bitmap_lo.get() as usize * block_bytes;
    let first = usize::from(block_bytes == 1024);
    (first..bytes.len() / block_bytes)
        .filter(|block| {
            let bit = block - first;
            bytes[bitmap + bit / 8] & 1 << (bit % 8) == 0
        })
        .collect()
}

fn blank_volume(image: &Image, bytes: &mut [u8], allowed: &Allowed) {
    blank(bytes, superblock::OFFSET as usize, SUPERBLOCK);
    if image.has_metadata_checksums() {
        blank(bytes, descriptor_offset(image), DESCRIPTOR);
    }
    for inode in &allowed.finished {
        blank(bytes, *inode, FINISHED);
        blank(bytes, inode + size_of::<Inode>(), FINISHED_EXTRA);
    }
    for inode in &allowed.deleted {
        blank(bytes, *inode, DELETED);
    }
}

fn blank_log(log: &Location, bytes: &mut [u8], allowed: &Allowed) {
    let block_bytes = log.block_bytes as usize;
    let superblock = log.extents[0].first.index() * block_bytes;
    blank(bytes, superblock, JOURNAL);
    if !allowed.log {
        return;
    }
    let kept = bytes[superblock..superblock + block_bytes].to_vec();
    for extent in &log.extents {
        let first = extent.first.index() * block_bytes;
        bytes[first..first + extent.count as usize * block_bytes].fill(0);
    }
    bytes[superblock..superblock + block_bytes].copy_from_slice(&kept);
}

fn blank(bytes: &mut [u8], at: usize, fields: &[Field]) {
    for (_, range) in fields {
        bytes[at + range.start..at + range.end].fill(0);
    }
}

/// That two images are the same but for what is allowed.
pub fn assert_same(a: &Image, b: &Image, allowed: &Allowed, what: &str) {
    let told = differences(a, b, allowed);
    let first = &told[..told.len().min(TOLD)];
    assert!(
        told.is_empty(),
        "{what}: {} differences: {first:#?}",
        told.len()
    );
}

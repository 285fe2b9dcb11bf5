//! Equality of two volumes: every byte, except fields that record when and how often a volume was
//! used.

use core::mem::offset_of;
use core::ops::Range;

use layout::feature::ReadOnlyCompatible;
use layout::group::{self, GroupDescriptor};
use layout::inode::{Inode, InodeExtra};
use layout::journal::JournalSuperblock;
use layout::superblock::{self, Superblock};
use zerocopy::FromBytes;

/// A field that may differ: its name and its byte range.
type Field = (&'static str, Range<usize>);

macro_rules! fields {
    ($structure:ty: $($name:ident $bytes:literal),* $(,)?) => {
        &[$((
            stringify!($name),
            offset_of!($structure, $name)..offset_of!($structure, $name) + $bytes,
        )),*]
    };
}

/// Fields of the file system's superblock that may differ: times, counters, free counts (hints
/// only), the device number of the external journal as last seen by the kernel, and the checksum
/// over these.
const SUPERBLOCK: &[Field] = fields![Superblock:
    free_blocks_count_low 4, free_inodes_count 4,
    mount_time 4, mount_time_high 1, write_time 4, write_time_high 1, check_time 4, check_time_high 1,
    mount_count 2, kibibytes_written 8, journal_device 4, checksum 4,
];

/// The field that records errors.
const ERRORS: &[Field] = fields![Superblock: state_bits 2];

/// Fields of the journal superblock that may differ: the next transaction number and the head of an
/// empty log, the features, which the kernel changes when it opens a log, and the checksum over
/// these.
const JOURNAL: &[Field] = fields![JournalSuperblock:
    sequence 4, head 4, compatible_bits 4, incompatible_bits 4, checksum_type 1, checksum 4,
];

/// Fields of a group descriptor that may differ under `metadata_csum`: the count of unused inodes,
/// which only e2fsck decreases, and the checksum over it.
const DESCRIPTOR: &[Field] = fields![GroupDescriptor: unused_inodes_count_low 2, checksum 2];

/// The field that says of an empty group that its bitmaps need not be read.
const UNINITIALISED: &[Field] = fields![GroupDescriptor: flag_bits 2];

/// Fields of an inode whose deletion or truncation was completed: the time of completion.
const FINISHED: &[Field] = fields![Inode: deletion_time 4, change_time 4, modification_time 4];
/// The parts of those fields in the inode's extra part.
const FINISHED_EXTRA: &[Field] =
    fields![InodeExtra: change_time_extra 4, modification_time_extra 4];
/// Fields of a deleted inode that e2fsck leaves unchanged.
const DELETED: &[Field] = fields![Inode: size_low 4, blocks_low 4, map_words 60];

/// Further differences that are allowed.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// True if the log may differ; it must still be empty.
    pub log: bool,
    /// True if the error flag and the flags of groups may differ: e2fsck clears the one after a
    /// complete check, and sets the others for groups that have become empty.
    pub errors: bool,
    /// True if blocks that are free in the first image may differ.
    pub free_blocks: bool,
    /// Byte offsets of inodes whose deletion or truncation was completed; their times may differ.
    pub finished: Vec<usize>,
    /// Byte offsets of deleted inodes that may still have their block map.
    pub deleted: Vec<usize>,
    /// Byte range after the end of a truncated file, in its last block.
    pub tail: Option<Range<usize>>,
}

/// All bytes of a volume. With `free_blocks` it has one group.
#[derive(Debug, Clone)]
pub struct Bytes {
    /// Contents of the file-system device.
    pub home: Vec<u8>,
    /// Contents of the external journal, if there is one.
    pub journal: Option<Vec<u8>>,
    /// Block size in bytes.
    pub block_bytes: usize,
    /// Location of the log on its device, in blocks; the first one is the journal superblock.
    pub log: Vec<Range<usize>>,
}

/// Returns the ranges in which two volumes differ.
///
/// # Panics
/// Panics if their sizes differ.
pub fn differences(mut a: Bytes, mut b: Bytes, allowed: &Allowed) -> Vec<String> {
    let free = if allowed.free_blocks {
        a.free_blocks()
    } else {
        Vec::new()
    };
    a.blank(allowed, &free);
    b.blank(allowed, &free);
    let mut found = runs("file system", &a.home, &b.home, a.block_bytes);
    if let (Some(one), Some(other)) = (&a.journal, &b.journal) {
        found.extend(runs("external journal", one, other, a.block_bytes));
    }
    found
}

fn runs(name: &str, file: &[u8], other: &[u8], block_bytes: usize) -> Vec<String> {
    assert_eq!(file.len(), other.len(), "sizes");
    let mut found = Vec::new();
    if file == other {
        return found;
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
        let (block, offset) = (at / block_bytes, at % block_bytes);
        let (x, y) = (
            &file[at..at + length.min(8)],
            &other[at..at + length.min(8)],
        );
        found.push(format!(
            "{name}, block {block}, {length} bytes from {offset} (byte {at} of all): {x:02x?} and {y:02x?}"
        ));
        at += length;
    }
    found
}

impl Bytes {
    fn has_metadata_checksums(&self) -> bool {
        let (raw, _) = Superblock::ref_from_prefix(&self.home[superblock::OFFSET as usize..])
            .expect("an image is longer");
        let features = raw.features().read_only_compatible;
        features.contains(ReadOnlyCompatible::METADATA_CSUM)
    }

    /// Returns the offsets of all group descriptors.
    fn descriptor_offsets(&self) -> Vec<usize> {
        let (raw, _) = Superblock::ref_from_prefix(&self.home[superblock::OFFSET as usize..])
            .expect("an image is longer");
        let blocks = raw.blocks_count_low.get() - raw.first_data_block.get();
        let count = blocks.div_ceil(raw.blocks_per_group.get()) as usize;
        let bytes = match raw.descriptor_size.get() {
            0 => group::SIZE,
            bytes => bytes.into(),
        };
        let first = self.descriptor_offset();
        (0..count).map(|number| first + number * bytes).collect()
    }

    /// Returns the offset of the first descriptor, which is in the block after the superblock's.
    fn descriptor_offset(&self) -> usize {
        (1024 / self.block_bytes + 1) * self.block_bytes
    }

    /// Returns the blocks that are free in the bitmap.
    fn free_blocks(&self) -> Vec<usize> {
        let block_bytes = self.block_bytes;
        let (descriptor, _) =
            GroupDescriptor::ref_from_prefix(&self.home[self.descriptor_offset()..])
                .expect("an image is longer");
        let bitmap = descriptor.block_bitmap_low.get() as usize * block_bytes;
        let first = usize::from(block_bytes == 1024);
        (first..self.home.len() / block_bytes)
            .filter(|block| {
                let bit = block - first;
                self.home[bitmap + bit / 8] & 1 << (bit % 8) == 0
            })
            .collect()
    }

    /// Zeroes everything that may differ.
    fn blank(&mut self, allowed: &Allowed, free: &[usize]) {
        let (has_checksums, descriptors) =
            (self.has_metadata_checksums(), self.descriptor_offsets());
        let home = &mut self.home;
        blank(home, superblock::OFFSET as usize, SUPERBLOCK);
        if allowed.errors {
            blank(home, superblock::OFFSET as usize, ERRORS);
        }
        for descriptor in descriptors.into_iter().filter(|_| has_checksums) {
            blank(home, descriptor, DESCRIPTOR);
            if allowed.errors {
                blank(home, descriptor, UNINITIALISED);
            }
        }
        for inode in &allowed.finished {
            blank(home, *inode, FINISHED);
            blank(home, inode + size_of::<Inode>(), FINISHED_EXTRA);
        }
        for inode in &allowed.deleted {
            blank(home, *inode, DELETED);
        }
        if let Some(tail) = &allowed.tail {
            home[tail.clone()].fill(0);
        }
        for block in free {
            home[block * self.block_bytes..(block + 1) * self.block_bytes].fill(0);
        }
        self.blank_log(allowed.log);
    }

    fn blank_log(&mut self, is_all: bool) {
        let block_bytes = self.block_bytes;
        let bytes = self.journal.as_mut().unwrap_or(&mut self.home);
        let superblock = self.log[0].start * block_bytes;
        blank(bytes, superblock, JOURNAL);
        if !is_all {
            return;
        }
        let kept = bytes[superblock..superblock + block_bytes].to_vec();
        for blocks in &self.log {
            bytes[blocks.start * block_bytes..blocks.end * block_bytes].fill(0);
        }
        bytes[superblock..superblock + block_bytes].copy_from_slice(&kept);
    }
}

fn blank(bytes: &mut [u8], at: usize, fields: &[Field]) {
    for (_, range) in fields {
        bytes[at + range.start..at + range.end].fill(0);
    }
}

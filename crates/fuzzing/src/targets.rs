//! The targets.

mod fast_commits;
mod orphan_file;

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::MountOptions;
use ext::options::OnError;
use ext::superblock::Superblock;
use jbd2::{Location, LogExtent};
use layout::BlockNr;

use crate::base::{Base, DESCRIPTORS_AT, KINDS, Kind, LARGE_INODE_BYTES, base};
use crate::edits::{self, apply, put};
use crate::exercise::{in_world, volume};

const BLOCK_BYTES: usize = 1024;
/// Size of the area after the boot block that holds superblock, descriptors, bitmaps and the first
/// inodes.
const METADATA_BYTES: u64 = 16 << 10;
/// Offset and size of the superblock in bytes.
const SUPERBLOCK: usize = 1024;

/// A fuzz target: one structure that is read from an image.
pub struct Target {
    /// Name, on the command line and in `fuzz/corpus`.
    pub name: &'static str,
    /// Meaning of the input.
    pub about: &'static str,
    /// Function that uses an input.
    pub run: fn(&[u8]),
    /// Initial inputs, all of them valid.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "superblock",
        about: "1024 bytes in place of the superblock",
        run: superblock,
        seeds: || {
            vec![
                read(base(Kind::Ext2), &[1024], SUPERBLOCK),
                read(base(Kind::Ext3Dirty), &[1024], SUPERBLOCK),
            ]
        },
    },
    Target {
        name: "groups",
        about: "bytes in place of the group descriptors",
        run: groups,
        seeds: || vec![read(base(Kind::Ext2), &[DESCRIPTORS_AT], 32)],
    },
    Target {
        name: "inode",
        about: "128 bytes in place of an inode, then blocks of its map",
        run: inode,
        seeds: inode_seeds,
    },
    Target {
        name: "inline",
        about: "twice 256 bytes in place of the inodes of a file and a directory within them",
        run: inline,
        seeds: || {
            let base = base(Kind::Ext4Inline);
            vec![read(
                base,
                &base.inline_inodes_at,
                LARGE_INODE_BYTES as usize,
            )]
        },
    },
    Target {
        name: "extents",
        about: "one byte that chooses an ext4, then an inode in place of that of a file in pieces, and blocks of its extents",
        run: extent_tree,
        seeds: || (0..2).map(extent_seed).collect(),
    },
    Target {
        name: "orphan-file",
        about: "blocks of the orphan file; their checksums are made right",
        run: orphan_file::run,
        seeds: orphan_file::seeds,
    },
    Target {
        name: "directory",
        about: "blocks of a directory without an index",
        run: |bytes| blocks(bytes, |base| &base.linear_blocks_at),
        seeds: || {
            vec![read(
                base(Kind::Ext2),
                &base(Kind::Ext2).linear_blocks_at,
                BLOCK_BYTES,
            )]
        },
    },
    Target {
        name: "htree",
        about: "blocks of an indexed directory, its root first",
        run: |bytes| blocks(bytes, |base| &base.indexed_blocks_at),
        seeds: || {
            vec![read(
                base(Kind::Ext2),
                &base(Kind::Ext2).indexed_blocks_at,
                BLOCK_BYTES,
            )]
        },
    },
    Target {
        name: "attributes",
        about: "1024 bytes in place of the attributes that two files share",
        run: |bytes| blocks(bytes, |base| &base.attribute_blocks_at),
        seeds: || {
            vec![read(
                base(Kind::Ext2),
                &base(Kind::Ext2).attribute_blocks_at,
                BLOCK_BYTES,
            )]
        },
    },
    Target {
        name: "journal-superblock",
        about: "1024 bytes in place of the journal's superblock",
        run: journal_superblock,
        seeds: || {
            [Kind::Ext3, Kind::Ext3Dirty]
                .map(|kind| read(base(kind), &base(kind).log_blocks_at[..1], BLOCK_BYTES))
                .to_vec()
        },
    },
    Target {
        name: "log",
        about: "one byte that chooses a log, then edits of it",
        run: log,
        seeds: || (0..2).map(log_seed).collect(),
    },
    Target {
        name: "fast-commits",
        about: "blocks of fast commits; their checksums are made right",
        run: fast_commits::run,
        seeds: fast_commits::seeds,
    },
    Target {
        name: "image",
        about: "one byte that chooses an image, then edits of it; opened, walked, changed, closed",
        run: image,
        seeds: || (0..KINDS.len() as u8).map(image_seed).collect(),
    },
];

/// Returns the target with a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the first bytes at each of several offsets.
fn read(base: &Base, places: &[u64], bytes: usize) -> Vec<u8> {
    let device: &dyn BlockDevice = &base.device;
    let mut all = Vec::new();
    for place in places {
        let start = place - place % 512;
        let within = (place - start) as usize;
        let block = device.read_block(start, (within + bytes).next_multiple_of(512) as u32);
        all.extend_from_slice(&block.expect("memory does not fail")[within..within + bytes]);
    }
    all
}

/// Returns options that mount a corrupted image despite errors.
fn bold() -> MountOptions {
    MountOptions {
        on_error: OnError::Continue,
        ..MountOptions::default()
    }
}

fn use_volume(device: Arc<MemoryDevice>) {
    in_world(move || {
        let seen: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        take_census(&seen);
        volume(device, bold());
    });
}

/// Takes a census of every block.
fn take_census(device: &Arc<dyn BlockDevice>) {
    let count = device.geometry().size_bytes / BLOCK_BYTES as u64;
    let blocks = (0..count).chain([u64::MAX]).map(BlockNr::new);
    drop(ext::census::census(device, blocks));
}

fn superblock(bytes: &[u8]) {
    let device = base(Kind::Ext2).copy();
    let mut whole = read(base(Kind::Ext2), &[1024], SUPERBLOCK);
    let length = bytes.len().min(SUPERBLOCK);
    whole[..length].copy_from_slice(&bytes[..length]);
    put(&device, 1024, &whole);
    let size = device.geometry().size_bytes;
    if let Ok(decoded) = Superblock::decode(&whole, size) {
        // All bytes except the checksum at the end, which is recomputed.
        let kept = SUPERBLOCK - 4;
        let encoded = decoded.encode();
        assert_eq!(encoded[..kept], whole[..kept], "what is decoded is kept");
        use_volume(device);
    }
}

fn groups(bytes: &[u8]) {
    let device = base(Kind::Ext2).copy();
    put(
        &device,
        DESCRIPTORS_AT,
        &bytes[..bytes.len().min(BLOCK_BYTES)],
    );
    use_volume(device);
}

fn inode(bytes: &[u8]) {
    let base = base(Kind::Ext2);
    let device = base.copy();
    let (inode, map) = bytes.split_at(bytes.len().min(128));
    put(&device, base.sparse_inode_at, inode);
    for (place, block) in base.map_blocks_at.iter().zip(map.chunks(BLOCK_BYTES)) {
        put(&device, *place, block);
    }
    use_volume(device);
}

fn inline(bytes: &[u8]) {
    let base = base(Kind::Ext4Inline);
    let device = base.copy();
    let inodes = bytes.chunks(LARGE_INODE_BYTES as usize);
    for (place, inode) in base.inline_inodes_at.iter().zip(inodes) {
        put(&device, *place, inode);
    }
    use_volume(device);
}

fn extent_kind(choice: u8) -> Kind {
    [Kind::Ext4, Kind::Ext4Clusters][usize::from(choice % 2)]
}

fn extent_tree(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let base = base(extent_kind(*choice));
    let device = base.copy();
    let (inode, nodes) = bytes.split_at(bytes.len().min(base.inode_bytes()));
    put(&device, base.sparse_inode_at, inode);
    for (place, block) in base.map_blocks_at.iter().zip(nodes.chunks(BLOCK_BYTES)) {
        put(&device, *place, block);
    }
    use_volume(device);
}

fn extent_seed(choice: u8) -> Vec<u8> {
    let base = base(extent_kind(choice));
    let inode = read(base, &[base.sparse_inode_at], base.inode_bytes());
    let nodes = read(base, &base.map_blocks_at, BLOCK_BYTES);
    [&[choice][..], &inode, &nodes].concat()
}

fn inode_seeds() -> Vec<Vec<u8>> {
    let base = base(Kind::Ext2);
    let mut seed = read(base, &[base.sparse_inode_at], 128);
    let inode = seed.clone();
    seed.extend(read(base, &base.map_blocks_at, BLOCK_BYTES));
    vec![inode, seed]
}

/// Writes an input's blocks to locations in the image without a journal.
fn blocks(bytes: &[u8], places: fn(&Base) -> &Vec<u64>) {
    let base = base(Kind::Ext2);
    let device = base.copy();
    for (place, block) in places(base).iter().zip(bytes.chunks(BLOCK_BYTES)) {
        put(&device, *place, block);
    }
    use_volume(device);
}

fn journal_superblock(bytes: &[u8]) {
    let base = base(Kind::Ext3Dirty);
    let device = base.copy();
    put(
        &device,
        base.log_blocks_at[0],
        &bytes[..bytes.len().min(BLOCK_BYTES)],
    );
    recover(device, base);
}

fn log(bytes: &[u8]) {
    let Some((choice, edits)) = bytes.split_first() else {
        return;
    };
    let base = base(log_kind(*choice));
    let device = base.copy();
    let (start, length) = written_log(base);
    apply(&device, start, length, edits);
    recover(device, base);
}

fn log_kind(choice: u8) -> Kind {
    [Kind::Ext3Dirty, Kind::Ext3DirtyJournaled][usize::from(choice % 2)]
}

/// Returns the range of the log that was written, in bytes: it is at the start, contiguous with the
/// superblock.
fn written_log(base: &Base) -> (u64, u64) {
    let first = extents(&base.log_blocks_at)[0];
    let block_bytes = BLOCK_BYTES as u64;
    (
        first.first.get() * block_bytes,
        u64::from(first.count) * block_bytes,
    )
}

fn log_seed(choice: u8) -> Vec<u8> {
    let base = base(log_kind(choice));
    let (start, length) = written_log(base);
    [&[choice][..], &edits::of(&base.device, start, length)].concat()
}

/// Returns a seed of the metadata at the start of an image.
fn image_seed(choice: u8) -> Vec<u8> {
    let base = base(KINDS[usize::from(choice)]);
    let edits = edits::of(&base.device, 0, 1024 + METADATA_BYTES);
    [&[choice][..], &edits].concat()
}

/// Returns the place of the log of an image.
fn location(device: Arc<MemoryDevice>, base: &Base) -> Location {
    Location {
        device,
        block_bytes: BLOCK_BYTES as u32,
        extents: extents(&base.log_blocks_at),
    }
}

/// Recovers a log and reads the file system through it; then opens the volume, which replays it.
fn recover(device: Arc<MemoryDevice>, base: &'static Base) {
    in_world(move || {
        let log = location(Arc::clone(&device), base);
        drop(jbd2::recovery::inspect(&log));
        let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        if let Ok(view) = jbd2::recovery::view(&log, &home) {
            take_census(&view);
        }
        volume(device, bold());
    });
}

fn extents(places: &[u64]) -> Vec<LogExtent> {
    let runs = places.chunk_by(|before, after| before + BLOCK_BYTES as u64 == *after);
    runs.map(|run| LogExtent {
        first: BlockNr::new(run[0] / BLOCK_BYTES as u64),
        count: u32::try_from(run.len()).expect("a small log"),
    })
    .collect()
}

fn image(bytes: &[u8]) {
    let Some((choice, edits)) = bytes.split_first() else {
        return;
    };
    let base = base(KINDS[usize::from(*choice) % KINDS.len()]);
    let device = base.copy();
    let size = device.geometry().size_bytes;
    apply(&device, 0, size, edits);
    use_volume(device);
}

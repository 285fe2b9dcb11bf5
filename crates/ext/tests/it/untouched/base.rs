//! Small volumes with one file of each kind.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::Volume;
use ext::mkfs::{self, FileSystemType, JournalOption};
use ext::options::DataMode;
use ext::volume::{DeviceNumber, FileKind, RangeChange, SetMode};
use layout::InodeNr;

use super::claims::Claims;
use super::made;
use crate::rig::{Rig, device, quiet};

/// The directory for renamed files.
pub const MOVED: &str = "/moved";
/// A directory that is an htree if the volume has indexes.
pub const INDEXED: &str = "/indexed";
/// Number of blocks of the journal, the minimum.
const JOURNAL_BLOCKS: u32 = 1024;

/// Number of free blocks.
const FREE_BLOCKS: u64 = 150;

/// An undamaged volume.
pub struct Base {
    pub rig: Rig,
    pub data: DataMode,
    pub claims: Claims,
}

struct Shape {
    block_bytes: u32,
    blocks: u64,
    per_group: u32,
    inode_bytes: u16,
    has_journal: bool,
    has_index: bool,
    data: DataMode,
}

/// Returns volumes with and without a journal, of one group and of several, with large and small
/// inodes, with and without `dir_index`.
pub fn bases() -> Vec<Base> {
    let small = Shape {
        block_bytes: 1024,
        blocks: 1400,
        per_group: 512,
        inode_bytes: 256,
        has_journal: false,
        has_index: true,
        data: DataMode::Ordered,
    };
    let shapes = [
        Shape {
            blocks: 2900,
            per_group: 8192,
            has_journal: true,
            ..small
        },
        Shape {
            blocks: 2900,
            per_group: 1024,
            has_journal: true,
            data: DataMode::Journal,
            ..small
        },
        Shape {
            block_bytes: 4096,
            blocks: 2600,
            per_group: 32768,
            has_journal: true,
            ..small
        },
        Shape {
            inode_bytes: 128,
            has_index: false,
            ..small
        },
        small,
    ];
    shapes.iter().map(base).collect()
}

fn base(shape: &Shape) -> Base {
    let home = Arc::new(MemoryDevice::new(
        shape.blocks * u64::from(shape.block_bytes),
    ));
    let mut options = mkfs::Options {
        file_system: FileSystemType::Ext2,
        block_bytes: Some(shape.block_bytes),
        blocks_per_group: Some(shape.per_group),
        inode_bytes: Some(shape.inode_bytes),
        inode_count: Some(192),
        reserved_percent: 0.0,
        uuid: Some([0x11; 16]),
        hash_seed: Some([0x22; 16]),
        seconds: Some(1_000_000_000),
        ..mkfs::Options::default()
    };
    if shape.has_journal {
        options.file_system = FileSystemType::Ext3;
        options.journal = JournalOption::Blocks(JOURNAL_BLOCKS);
    }
    if !shape.has_index {
        options.features = mkfs::FeatureEdits::parse("^dir_index").expect("features");
    }
    mkfs::format(&device(&home), &options).expect("the volume is made");
    let rig = Rig {
        home,
        log: None,
        block_bytes: shape.block_bytes,
    };
    let data = shape.data;
    let volume = rig.open(quiet(data));
    populate(&volume, u64::from(shape.block_bytes));
    leave_free(&volume);
    volume.close().expect("close");
    rig.assert_fsck_clean("with one of everything");
    let claims = Claims::of(&rig.home);
    Base { rig, data, claims }
}

/// Takes all but a number of free blocks, so that a volume is filled quickly.
fn leave_free(volume: &Volume) {
    let usage = volume.usage();
    let taken = usage.blocks_free.saturating_sub(FREE_BLOCKS) * u64::from(usage.block_bytes);
    let ballast = volume.create(InodeNr::ROOT, b"ballast", &made());
    let ballast = ballast.expect("create");
    let what = RangeChange::Allocate;
    volume
        .change_range(ballast, 0, taken, what, false)
        .expect("the volume has room");
}

fn populate(volume: &Volume, block_bytes: u64) {
    let contents = |mark: u8, blocks: u64| vec![mark; (blocks * block_bytes + 77) as usize];
    let write = |path: &str, bytes: &[u8]| volume.write_file(path, bytes).expect("write");
    let mkdir = |path: &str| volume.create_directory(path).expect("mkdir");
    for path in [MOVED, "/dir", "/dir/empty", "/dir/sub", "/named"] {
        mkdir(path);
    }
    let blocks_of_double = if block_bytes == 1024 { 290 } else { 30 };
    for (path, mark, blocks) in [
        ("/small", b'a', 0),
        ("/direct", b'b', 8),
        ("/single", b'c', 30),
        ("/double", b'd', blocks_of_double),
        ("/dir/one", b'e', 1),
        ("/dir/two", b'f', 14),
        ("/dir/sub/deep", b'g', 3),
        ("/attributes", b'h', 2),
        ("/shared-1", b'i', 1),
        ("/shared-2", b'j', 1),
    ] {
        write(path, &contents(mark, blocks));
    }
    let sparse = volume.create_file("/sparse", &made()).expect("create");
    for block in [0, 20, 290, 66_000] {
        let at = block * block_bytes;
        sparse.write_at(at, &contents(b'k', 0)).expect("write");
    }
    sparse.close().expect("close");
    let nr = |path: &str| volume.resolve(path, false).expect("it is there");
    volume
        .link(nr("/dir/one"), InodeNr::ROOT, b"hard-link")
        .expect("link");
    for (name, length) in [(&b"fast"[..], 20), (b"slow", 300)] {
        let target = vec![b'x'; length];
        let linked = volume.symlink(InodeNr::ROOT, name, &target, &made());
        linked.expect("symlink");
    }
    let device = DeviceNumber {
        major: 4,
        minor: 64,
    };
    for (name, kind) in [
        (&b"device"[..], FileKind::CharacterDevice),
        (b"fifo", FileKind::Fifo),
    ] {
        let node = volume.make_node(InodeNr::ROOT, name, kind, device, &made());
        node.expect("mknod");
    }
    for (path, length) in [
        ("/small", 16),
        ("/attributes", 500),
        ("/shared-1", 400),
        ("/shared-2", 400),
        ("/named", 300),
    ] {
        let value = vec![length as u8; length];
        let set = volume.set_attribute(nr(path), b"user.value", &value, SetMode::Any);
        set.expect("setxattr");
    }
    // An htree of three leaves, or two blocks without an index.
    let indexed = mkdir(INDEXED);
    for number in 0..block_bytes / 110 {
        let name = format!("{number:0200}");
        volume
            .create(indexed, name.as_bytes(), &made())
            .expect("create");
    }
}

//! The valid images that inputs are inserted into, and the locations of their parts.

#![allow(
    clippy::disallowed_types,
    reason = "the images are made once in a process, outside all worlds"
)]

use std::sync::{Arc, OnceLock};

use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FeatureEdits, FileSystemType, JournalOption};
use ext::options::DataMode;
use ext::volume::{NewInode, RangeChange, SetMode};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use layout::group::GroupDescriptor;
use zerocopy::FromBytes;

/// Number of names in the large directory: enough for an index over several leaves.
const NAMES: u32 = 90;
const BLOCK_BYTES: u64 = 1024;
/// Number of the pieces of a file of ext4, and the offset of the first.
const PIECES: u64 = 100;
const PIECES_AT: u64 = 1 << 20;
/// Size of an inode, and of one with room for contents and fields of ext4.
const INODE_BYTES: u64 = 128;
pub(crate) const LARGE_INODE_BYTES: u64 = 256;
/// Offset of the only group's descriptor.
pub(crate) const DESCRIPTORS_AT: u64 = 2 * BLOCK_BYTES;

/// An image, and the byte offsets of its parts.
pub(crate) struct Base {
    pub(crate) device: MemoryDevice,
    /// The inode table.
    inode_table_at: u64,
    /// Size of an inode in bytes.
    inode_bytes: u64,
    /// Inodes of a file and of a directory with contents in words and attribute; none in images of
    /// other kinds.
    pub(crate) inline_inodes_at: Vec<u64>,
    /// Inode of a file with attributes in a block.
    attributed_inode_at: u64,
    /// Inode of a file with holes up to triple indirection.
    pub(crate) sparse_inode_at: u64,
    /// Indirect blocks of that file.
    pub(crate) map_blocks_at: Vec<u64>,
    /// Blocks of a directory without an index.
    pub(crate) linear_blocks_at: Vec<u64>,
    /// Blocks of a directory with an index, its root first.
    pub(crate) indexed_blocks_at: Vec<u64>,
    /// Attribute block that two files share.
    pub(crate) attribute_blocks_at: Vec<u64>,
    /// Blocks of the journal, its superblock first; none without a journal.
    pub(crate) log_blocks_at: Vec<u64>,
    /// Blocks of the orphan file; none without one.
    pub(crate) orphan_blocks_at: Vec<u64>,
}

/// The kinds of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No journal.
    Ext2,
    /// Cleanly closed.
    Ext3,
    /// The log holds transactions that have not been replayed.
    Ext3Dirty,
    /// The same, with file data in the log.
    Ext3DirtyJournaled,
    /// An ext4 whose journal has room for fast commits, and whose log holds transactions.
    Ext4FastCommits,
    /// An ext4 without journal and checksums, with contents within inodes.
    Ext4Inline,
    /// An ext4 without journal and checksums, with a file in many extents.
    Ext4,
    /// The same with clusters of four blocks, and values of attributes in inodes of their own.
    Ext4Clusters,
    /// An ext4 with checksums and an orphan file, whose log holds transactions.
    Ext4Dirty,
    /// The same, cleanly closed.
    Ext4Orphans,
}

/// The kinds that the first byte of an input chooses from.
pub(crate) const KINDS: [Kind; 7] = [
    Kind::Ext2,
    Kind::Ext3,
    Kind::Ext3Dirty,
    Kind::Ext3DirtyJournaled,
    Kind::Ext4,
    Kind::Ext4Clusters,
    Kind::Ext4Dirty,
];

/// Returns the image of a kind.
pub(crate) fn base(kind: Kind) -> &'static Base {
    const COUNT: usize = Kind::Ext4Orphans as usize + 1;
    static BASES: [OnceLock<Base>; COUNT] = [const { OnceLock::new() }; COUNT];
    BASES[kind as usize].get_or_init(|| Base::make(kind))
}

impl Base {
    fn make(kind: Kind) -> Self {
        sim::run(sim::Config::fair(7), move || {
            make(kind).expect("a good image is made")
        })
        .expect("making an image ends well")
        .value
    }

    /// Returns the number of a file with attributes and two names, one of them `second name`.
    pub(crate) fn inode_of_file(&self) -> u32 {
        let index = (self.attributed_inode_at - self.inode_table_at) / self.inode_bytes;
        u32::try_from(index).expect("few inodes") + 1
    }

    /// Returns the size of an inode in bytes.
    pub(crate) fn inode_bytes(&self) -> usize {
        self.inode_bytes as usize
    }

    /// Returns the offset of an inode.
    pub(crate) fn inode_at(&self, nr: u32) -> u64 {
        self.inode_table_at + u64::from(nr - 1) * self.inode_bytes
    }

    /// Returns a copy to be corrupted.
    pub(crate) fn copy(&self) -> Arc<MemoryDevice> {
        Arc::new(self.device.snapshot())
    }
}

fn make(kind: Kind) -> ext::Result<Base> {
    let has_journal = !matches!(
        kind,
        Kind::Ext2 | Kind::Ext4Inline | Kind::Ext4 | Kind::Ext4Clusters
    );
    let memory = Arc::new(MemoryDevice::new(match kind {
        Kind::Ext4Clusters => 2 << 20,
        _ if has_journal => 3 << 20,
        _ => 1 << 20,
    }));
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let options = mkfs::Options {
        file_system: match kind {
            Kind::Ext2 => FileSystemType::Ext2,
            Kind::Ext3 | Kind::Ext3Dirty | Kind::Ext3DirtyJournaled => FileSystemType::Ext3,
            _ => FileSystemType::Ext4,
        },
        features: FeatureEdits::parse(match kind {
            Kind::Ext4FastCommits => "fast_commit",
            Kind::Ext4Inline => "^has_journal,^metadata_csum,inline_data",
            Kind::Ext4 => "^has_journal,^metadata_csum,large_dir,uninit_bg",
            Kind::Ext4Clusters => "^has_journal,^metadata_csum,bigalloc,ea_inode",
            Kind::Ext4Dirty | Kind::Ext4Orphans => "orphan_file,metadata_csum_seed",
            _ => "",
        })?,
        block_bytes: Some(BLOCK_BYTES as u32),
        cluster_bytes: (kind == Kind::Ext4Clusters).then_some(4 * BLOCK_BYTES as u32),
        inode_bytes: Some(inode_bytes(kind) as u16),
        inode_count: Some(256),
        uuid: Some(*b"fuzzed by jext 1"),
        hash_seed: Some(*b"fuzzed by jext 2"),
        journal: if has_journal {
            JournalOption::Blocks(1024)
        } else {
            JournalOption::Default
        },
        ..mkfs::Options::default()
    };
    mkfs::format(&device, &options)?;
    let mount = || MountOptions {
        data: match kind {
            Kind::Ext3DirtyJournaled => DataMode::Journal,
            _ => DataMode::Ordered,
        },
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(&device), None, mount())?;
    fill(&volume)?;
    match kind {
        Kind::Ext4Inline => fill_inline(&volume)?,
        Kind::Ext4 | Kind::Ext4Clusters | Kind::Ext4Dirty => fill_pieces(&volume)?,
        _ => {}
    }
    let mut base = locate(&volume, &device, inode_bytes(kind))?;
    volume.close()?;
    base.attribute_blocks_at = vec![attribute_block(&device, base.attributed_inode_at)?];
    base.device = match kind {
        Kind::Ext2
        | Kind::Ext3
        | Kind::Ext4Inline
        | Kind::Ext4
        | Kind::Ext4Clusters
        | Kind::Ext4Orphans => memory.snapshot(),
        Kind::Ext3Dirty | Kind::Ext3DirtyJournaled | Kind::Ext4FastCommits | Kind::Ext4Dirty => {
            let volume = Volume::open(device, None, mount())?;
            churn(&volume)?;
            let cut = memory.snapshot();
            volume.close()?;
            cut
        }
    };
    Ok(base)
}

/// Returns the size of an inode in bytes.
fn inode_bytes(kind: Kind) -> u64 {
    match kind {
        Kind::Ext4Inline
        | Kind::Ext4
        | Kind::Ext4Clusters
        | Kind::Ext4Dirty
        | Kind::Ext4Orphans => LARGE_INODE_BYTES,
        _ => INODE_BYTES,
    }
}

/// Fills a volume with files of every kind.
fn fill(volume: &Volume) -> ext::Result<()> {
    volume.write_file("/file", &[b'f'; 5000])?;
    let sparse = volume.create_file("/sparse", &NewInode::default())?;
    for offset in [0, 20 << 10, 400 << 10, 100 << 20] {
        sparse.write_at(offset, b"here")?;
    }
    sparse.close()?;
    volume.create_directory_all("/d/e/f")?;
    volume.write_file("/d/e/inner", b"inner")?;
    volume.create_directory("/indexed")?;
    for number in 0..NAMES {
        volume.write_file(&format!("/indexed/a name of some length {number:03}"), b"")?;
    }
    volume.symlink(InodeNr::ROOT, b"fast", b"d/e", &NewInode::default())?;
    volume.symlink(InodeNr::ROOT, b"slow", &[b'x'; 100], &NewInode::default())?;
    let file = volume.resolve("/file", true)?;
    volume.link(file, InodeNr::ROOT, b"second name")?;
    for path in ["/file", "/d/e/inner"] {
        let nr = volume.resolve(path, true)?;
        volume.set_attribute(nr, b"user.colour", b"green", SetMode::Any)?;
        volume.set_attribute(nr, b"user.size", &[b's'; 100], SetMode::Any)?;
    }
    let directory = volume.resolve("/d", true)?;
    volume.set_attribute(directory, b"system.posix_acl_default", &LIST, SetMode::Any)
}

/// Makes a file and a directory with contents in words and attribute.
fn fill_inline(volume: &Volume) -> ext::Result<()> {
    volume.create_directory("/within")?;
    volume.write_file("/within/file", &[b'w'; 100])?;
    volume.create_directory("/within/another directory")?;
    volume.write_file("/within/a name for which the words lack room", b"")
}

/// Writes the file with holes in more pieces than a block of extents has room for, some of them
/// unwritten, and a large attribute.
fn fill_pieces(volume: &Volume) -> ext::Result<()> {
    let sparse = volume.open_file("/sparse", ext::volume::OpenFlags::READ_WRITE)?;
    for number in 0..PIECES {
        sparse.write_at(PIECES_AT + number * 8 * BLOCK_BYTES, b"piece")?;
    }
    let behind = PIECES_AT + PIECES * 8 * BLOCK_BYTES;
    sparse.close()?;
    let nr = volume.resolve("/sparse", true)?;
    volume.change_range(nr, behind, 9 * BLOCK_BYTES, RangeChange::Allocate, true)?;
    let nr = volume.resolve("/d/e/inner", true)?;
    volume.set_attribute(nr, b"user.long", &[b'l'; 800], SetMode::Any)
}

/// An access control list in the form of programs: owner, user 1000, group, mask, others.
const LIST: [u8; 44] = [
    2, 0, 0, 0, // version
    1, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF, // owner
    2, 0, 7, 0, 0xE8, 3, 0, 0, // user 1000
    4, 0, 5, 0, 0xFF, 0xFF, 0xFF, 0xFF, // group
    16, 0, 5, 0, 0xFF, 0xFF, 0xFF, 0xFF, // mask
    32, 0, 5, 0, 0xFF, 0xFF, 0xFF, 0xFF, // others
];

/// Commits several transactions, with revokes, a deletion and an open inode without a name.
fn churn(volume: &Volume) -> ext::Result<()> {
    volume.write_file("/new", &[b'n'; 3000])?;
    volume.sync()?;
    volume.remove_file("/indexed/a name of some length 007")?;
    volume.rename_path("/file", "/d/renamed")?;
    volume.sync()?;
    volume.create_directory("/short-lived")?;
    volume.sync()?;
    volume.remove_directory_at("/short-lived")?;
    volume.write_file("/d/e/inner", &[0xC0, 0x3B, 0x39, 0x98, 1, 2, 3, 4])?;
    volume.sync()?;
    let open = volume.open_file("/sparse", ext::volume::OpenFlags::READ)?;
    volume.remove_file("/sparse")?;
    volume.sync()?;
    open.close()
}

/// Returns the offset of an inode's attribute block.
fn attribute_block(device: &Arc<dyn BlockDevice>, inode_at: u64) -> ext::Result<u64> {
    let block = device.read_block(inode_at - inode_at % BLOCK_BYTES, BLOCK_BYTES as u32)?;
    let (inode, _) =
        layout::inode::Inode::read_from_prefix(&block[(inode_at % BLOCK_BYTES) as usize..])
            .expect("a block holds an inode");
    Ok(u64::from(inode.attribute_block_low.get()) * BLOCK_BYTES)
}

fn locate(volume: &Volume, device: &Arc<dyn BlockDevice>, inode_bytes: u64) -> ext::Result<Base> {
    let blocks_of = |nr: InodeNr, wants_map: bool| -> ext::Result<Vec<u64>> {
        let mut all = Vec::new();
        for extent in volume.blocks_of(nr)? {
            if extent.file_block.is_none() == wants_map {
                all.extend(extent.blocks().map(|block| block * BLOCK_BYTES));
            }
        }
        Ok(all)
    };
    let sparse = volume.resolve("/sparse", true)?;
    let descriptor = device.read_block(DESCRIPTORS_AT, BLOCK_BYTES as u32)?;
    let (descriptor, _) =
        GroupDescriptor::read_from_prefix(&descriptor).expect("a block holds a descriptor");
    let table = u64::from(descriptor.inode_table_low.get()) * BLOCK_BYTES;
    let inode_at = |nr: InodeNr| table + u64::from(nr.get() - 1) * inode_bytes;
    let inline = ["/within/file", "/within"].map(|path| volume.resolve(path, true));
    let has_journal = volume.journal_stats().is_some();
    Ok(Base {
        device: MemoryDevice::new(0),
        inode_table_at: table,
        inode_bytes,
        inline_inodes_at: inline.into_iter().flatten().map(inode_at).collect(),
        attributed_inode_at: inode_at(volume.resolve("/file", true)?),
        attribute_blocks_at: Vec::new(),
        sparse_inode_at: inode_at(sparse),
        map_blocks_at: blocks_of(sparse, true)?,
        linear_blocks_at: blocks_of(volume.resolve("/d", true)?, false)?,
        indexed_blocks_at: blocks_of(volume.resolve("/indexed", true)?, false)?,
        log_blocks_at: if has_journal {
            blocks_of(InodeNr::new(8), false)?
        } else {
            Vec::new()
        },
        orphan_blocks_at: match volume.superblock().raw.orphan_file_inode.get() {
            0 => Vec::new(),
            nr => blocks_of(InodeNr::new(nr), false)?,
        },
    })
}

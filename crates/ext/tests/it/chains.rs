//! Block maps, indexes and orphan lists with invalid pointers: cycles, and pointers outside the
//! volume, into metadata, and to free inodes. The result is one typed error, no hang, no unbounded
//! memory.

use std::sync::Arc;

use block::BlockDevice;
use block::memory::MemoryDevice;
use ext::error::Corrupt;
use ext::options::DataMode;
use ext::volume::{FileExtent, InodeFlags, NewInode, SetAttributes};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::damage::refusal;
use crate::rig::{Place, Rig, device, quiet};

const SUPERBLOCK: u64 = 1024;
const S_INODE_SIZE: u64 = SUPERBLOCK + 0x58;
const S_LAST_ORPHAN: u64 = SUPERBLOCK + 0xE8;
const BG_INODE_TABLE: u64 = 8;
const I_SIZE: u64 = 4;
const I_LINKS: u64 = 26;
const I_DTIME: u64 = 20;
const I_BLOCK: u64 = 40;
/// Number of names in the indexed directory, which fill more than three blocks.
const NAMES: u32 = 60;

/// A closed volume whose bytes are changed directly.
struct Image {
    rig: Rig,
    /// A data block of a file that the tests may overwrite.
    spare: u64,
}

impl Image {
    fn new(block_bytes: u32) -> Self {
        let rig = Rig::new(Place::Internal, block_bytes, u64::from(block_bytes) * 8192);
        let volume = rig.open(quiet(DataMode::Ordered));
        volume.write_file("/spare", &[1; 100]).expect("write");
        for path in ["/f", "/a", "/b"] {
            volume.write_file(path, &[2; 70_000]).expect("write");
        }
        let directory = volume.create_directory("/d").expect("mkdir");
        for number in 0..NAMES {
            let name = format!("{number:0200}");
            volume
                .create(directory, name.as_bytes(), &NewInode::default())
                .expect("create");
        }
        let spare = volume.resolve("/spare", true).expect("it is there");
        let spare = volume.blocks_of(spare).expect("blocks")[0].first.get();
        volume.close().expect("close");
        Self { rig, spare }
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.rig.block_bytes)
    }

    fn device(&self) -> Arc<dyn BlockDevice> {
        device(&self.rig.home)
    }

    fn put(&self, at: u64, value: &[u8]) {
        let (sector, within) = (at / 512 * 512, (at % 512) as usize);
        let mut block = self.device().read_block(sector, 512).expect("memory");
        Arc::make_mut(&mut block)[within..within + value.len()].copy_from_slice(value);
        self.device()
            .write_blocks(sector, vec![block])
            .expect("memory");
    }

    fn word(&self, at: u64) -> u32 {
        let block = self.device().read_block(at / 512 * 512, 512);
        let block = block.expect("memory");
        let within = (at % 512) as usize;
        u32::from_le_bytes(block[within..within + 4].try_into().unwrap())
    }

    /// Fills a block with one word.
    fn fill(&self, block: u64, word: u32) {
        for at in (0..self.block_bytes()).step_by(4) {
            self.put(block * self.block_bytes() + at, &word.to_le_bytes());
        }
    }

    /// Returns the byte offset of an inode. All are in the first group.
    fn inode_at(&self, nr: InodeNr) -> u64 {
        let descriptor = if self.block_bytes() == 1024 {
            2048
        } else {
            self.block_bytes()
        };
        let table = u64::from(self.word(descriptor + BG_INODE_TABLE));
        let bytes = u64::from(self.word(S_INODE_SIZE) & 0xFFFF);
        table * self.block_bytes() + (u64::from(nr.get()) - 1) * bytes
    }

    fn inode(&self, path: &str) -> InodeNr {
        let volume = self.open();
        let nr = volume.resolve(path, false).expect("it is there");
        volume.close().expect("close");
        nr
    }

    fn blocks(&self, path: &str) -> Vec<u64> {
        let volume = self.open();
        let nr = volume.resolve(path, false).expect("it is there");
        let blocks = volume.blocks_of(nr).expect("blocks");
        volume.close().expect("close");
        blocks.into_iter().flat_map(FileExtent::blocks).collect()
    }

    fn set_map(&self, nr: InodeNr, word: u64, value: u32) {
        self.put(self.inode_at(nr) + I_BLOCK + 4 * word, &value.to_le_bytes());
    }

    fn open(&self) -> Volume {
        self.rig.open(quiet(DataMode::Ordered))
    }

    fn memory(&self) -> Arc<MemoryDevice> {
        Arc::clone(&self.rig.home)
    }
}

fn is_map_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt(Corrupt::Mapping { .. } | Corrupt::MapCycle { .. })
    )
}

type Work = fn(&Volume, InodeNr) -> Result<(), Error>;

/// Operations that need the whole block map of a file.
const WHOLE_MAP: &[(&str, Work)] = &[
    ("blocks_of", |volume, nr| volume.blocks_of(nr).map(drop)),
    ("truncate", |volume, nr| {
        let change = SetAttributes {
            size: Some(0),
            ..Default::default()
        };
        volume.set_attributes(nr, &change)
    }),
    ("unlink", |volume, _| volume.remove_file("/f")),
    ("chattr +j", |volume, nr| {
        let change = SetAttributes {
            flags: Some(InodeFlags::JOURNAL_DATA),
            ..Default::default()
        };
        volume.set_attributes(nr, &change)
    }),
];

/// An indirect block that is its own child, at each of the three roots: operations on the whole
/// block map end with an error, or with blocks that the file does not own.
#[test]
fn maps_in_circles() {
    for block_bytes in [1024, 4096] {
        for word in [13, 14] {
            for (what, work) in WHOLE_MAP {
                let image = Image::new(block_bytes);
                let nr = image.inode("/f");
                image.fill(image.spare, image.spare as u32);
                image.set_map(nr, word, image.spare as u32);
                let volume = image.open();
                let error = work(&volume, nr).expect_err("the map cannot be");
                assert!(
                    matches!(error, Error::Corrupt(_)),
                    "{what}, word {word}: {error}"
                );
                drop(volume.close());
            }
        }
    }
}

/// A pointer in an indirect block that leads outside or into metadata stops operations that follow
/// it, and no others.
#[test]
fn map_blocks_that_lead_astray() {
    for block_bytes in [1024, 4096] {
        for pointer in [0u32, 1, 3, 8192, 0x8000_0000, u32::MAX] {
            for (what, work) in WHOLE_MAP {
                let image = Image::new(block_bytes);
                let nr = image.inode("/f");
                image.fill(image.spare, pointer);
                image.set_map(nr, 13, image.spare as u32);
                let volume = image.open();
                match work(&volume, nr) {
                    Err(error) => assert!(is_map_damage(&error), "{what}, {pointer}: {error}"),
                    Ok(()) => assert_eq!(pointer, 0, "{what}: holes are no damage"),
                }
                volume.read_file("/a").expect("the others are sound");
                drop(volume.close());
            }
        }
    }
}

/// The block map of the journal's inode is followed before anything else is known.
#[test]
fn a_log_in_circles() {
    for block_bytes in [1024, 4096] {
        for word in [12, 13, 14] {
            let image = Image::new(block_bytes);
            image.fill(image.spare, image.spare as u32);
            image.set_map(InodeNr::JOURNAL, word, image.spare as u32);
            let error = refusal(&image.memory(), "a log in circles");
            assert!(matches!(error, Error::Corrupt(_)), "word {word}: {error}");
        }
    }
}

#[test]
fn directories_longer_than_the_volume() {
    for block_bytes in [1024, 4096] {
        let image = Image::new(block_bytes);
        let nr = image.inode("/d");
        let at = image.inode_at(nr);
        image.put(at + I_SIZE, &0xFFFF_F000_u32.to_le_bytes());
        let volume = image.open();
        let refused = volume.list("/d");
        assert!(
            matches!(
                refused,
                Err(Error::Corrupt(Corrupt::Inode {
                    field: "i_size",
                    ..
                }))
            ),
            "{refused:?}"
        );
        volume.close().expect("close");
    }
}

/// An index in which all leaves appear to share a hash.
#[test]
fn indexes_with_endless_chains() {
    let image = Image::new(1024);
    let blocks = image.blocks("/d");
    let put_pairs = |block: u64, offset: u64, limit: u16, child: u32| {
        let at = block * 1024 + offset;
        for index in 0..u64::from(limit) {
            image.put(at + 8 * index, &0x11_u32.to_le_bytes());
            image.put(at + 8 * index + 4, &child.to_le_bytes());
        }
        image.put(at, &limit.to_le_bytes());
        image.put(at + 2, &limit.to_le_bytes());
    };
    // The root, with one level below it; then a node: an empty entry over the whole block, and
    // pairs.
    image.put(blocks[0] * 1024 + 30, &[1]);
    put_pairs(blocks[0], 32, 124, 1);
    image.put(blocks[1] * 1024, &[0, 0, 0, 0, 0, 4, 0, 0]);
    put_pairs(blocks[1], 8, 127, 2);
    let volume = image.open();
    let refused = volume.list("/d");
    let Err(Error::Corrupt(Corrupt::Directory { why, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("more leaves"), "{why}");
    volume.close().expect("close");
}

/// Opens an image after its orphan list was set to a chain of inodes.
fn open_with_orphans(
    image: &Image,
    chain: &[u32],
) -> Result<(Volume, ext::volume::OpenReport), Error> {
    for pair in chain.windows(2) {
        let at = image.inode_at(InodeNr::new(pair[0]));
        image.put(at + I_DTIME, &pair[1].to_le_bytes());
    }
    image.put(S_LAST_ORPHAN, &chain[0].to_le_bytes());
    Volume::open_with_report(image.device(), None, quiet(DataMode::Ordered))
}

#[test]
fn orphan_lists_that_cannot_be() {
    let image = Image::new(1024);
    let [a, b] = ["/a", "/b"].map(|path| image.inode(path).get());
    let free = 200;
    let cases: &[(&str, &[u32], &str)] = &[
        ("a circle of one", &[a, a], "circle"),
        ("a circle of two", &[a, b, a], "circle"),
        ("beyond the last inode", &[a, 1 << 30], "no such inode"),
        ("a reserved inode", &[a, 8], "reserved"),
        ("a free inode", &[a, free], "free"),
    ];
    for (what, chain, word) in cases {
        let image = Image::new(1024);
        match open_with_orphans(&image, chain).map(drop) {
            Err(Error::Corrupt(Corrupt::Orphan { why, .. })) => {
                assert!(why.contains(word), "{what}: {why}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// Inodes on the list that need nothing leave it: files whose blocks match their size, directories,
/// inodes without a block map.
#[test]
fn orphans_that_need_nothing() {
    let image = Image::new(1024);
    let [a, d] = ["/a", "/d"].map(|path| image.inode(path).get());
    let (volume, report) = open_with_orphans(&image, &[a, d, 0]).expect("it opens");
    assert_eq!((report.orphans_deleted, report.orphans_truncated), (0, 2));
    assert!(volume.read_file("/a").expect("read") == [2; 70_000]);
    assert_eq!(volume.list("/d").expect("readdir").len(), NAMES as usize);
    volume.close().expect("close");
    image
        .rig
        .assert_fsck_clean("after orphans that need nothing");
}

/// An orphan with a damaged block map stays on the list, the others are completed, and the volume
/// opens.
#[test]
fn orphans_that_cannot_be_deleted() {
    let image = Image::new(1024);
    let [a, b] = ["/a", "/b"].map(|path| image.inode(path));
    for nr in [a, b] {
        image.put(image.inode_at(nr) + I_LINKS, &[0, 0]);
    }
    image.set_map(b, 0, u32::MAX);
    let opened = open_with_orphans(&image, &[a.get(), b.get(), 0]);
    let (volume, report) = opened.expect("it opens");
    assert_eq!(report.orphans_deleted, 1);
    volume.read_file("/f").expect("the others are sound");
    drop(volume.close());
    assert_eq!(image.word(S_LAST_ORPHAN), b.get(), "it is still there");
}

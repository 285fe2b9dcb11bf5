//! Files that have blocks of the volume's own: of superblock copies, descriptors, bitmaps, inode
//! tables and the log, of whichever group. These are neither read nor written as the file's, and
//! are not freed with it.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::error::Corrupt;
use ext::options::{DataMode, OnError};
use ext::volume::OpenFlags;
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use super::{INODE_BYTES, INODE_MAP, put};
use crate::rig::{Place, Rig, device, quiet};

const BLOCK_BYTES: usize = 1024;
const BLOCKS_PER_GROUP: u32 = 8 * BLOCK_BYTES as u32;
/// Three groups, the second of which has a copy of the superblock.
const VOLUME_BYTES: u64 = 3 * BLOCKS_PER_GROUP as u64 * BLOCK_BYTES as u64;
/// The first block of group 0, and that of the descriptors.
const FIRST: u32 = 1;
const DESCRIPTORS: usize = 2;
const FILE_BLOCKS: usize = 40;
/// Index of the word of an inode with the indirect block.
const INDIRECT: usize = 12;

struct Image {
    bytes: Vec<u8>,
    file: InodeNr,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

impl Image {
    fn new() -> Self {
        let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
        let volume = rig.open(quiet(DataMode::Ordered));
        let contents = [7; FILE_BLOCKS * BLOCK_BYTES];
        volume.write_file("/file", &contents).expect("write");
        let file = volume.resolve("/file", true).expect("there");
        volume.close().expect("close");
        let bytes = rig.home.to_bytes();
        Self { bytes, file }
    }

    fn inode_at(&self, nr: InodeNr) -> usize {
        let table = word(&self.bytes, DESCRIPTORS * BLOCK_BYTES + 8) as usize;
        table * BLOCK_BYTES + (nr.get() as usize - 1) * INODE_BYTES
    }

    /// Returns one block of each zone.
    fn zones(&self) -> Vec<(String, u32)> {
        let mut zones = vec![
            ("the superblock".to_owned(), FIRST),
            ("the descriptors".to_owned(), DESCRIPTORS as u32),
            ("a superblock copy".to_owned(), FIRST + BLOCKS_PER_GROUP),
            ("a descriptor copy".to_owned(), FIRST + BLOCKS_PER_GROUP + 1),
        ];
        let log = self.inode_at(InodeNr::JOURNAL) + INODE_MAP;
        zones.push(("the log".to_owned(), word(&self.bytes, log) + 1));
        for group in 0..3 {
            let descriptor = DESCRIPTORS * BLOCK_BYTES + 32 * group;
            for (field, of) in ["block bitmap", "inode bitmap", "table"].iter().enumerate() {
                let block = word(&self.bytes, descriptor + 4 * field);
                zones.push((format!("{of} of group {group}"), block));
            }
        }
        zones
    }
}

fn open(bytes: &[u8]) -> (Volume, Arc<MemoryDevice>) {
    let memory = Arc::new(MemoryDevice::from_bytes(bytes));
    let options = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(&memory), None, options).expect("it opens");
    (volume, memory)
}

/// Checks that nothing is done with a block that a pointer of the file names.
fn check(what: &str, bytes: &[u8], image: &Image, file_block: u64, zone: u32) {
    let refused = |result: Result<(), Error>| {
        let Err(Error::Corrupt(Corrupt::Mapping { inode, block, .. })) = result else {
            panic!("{what}, {file_block}: {result:?}")
        };
        assert_eq!(
            (inode, block.get()),
            (image.file, u64::from(zone)),
            "{what}"
        );
    };
    let (volume, memory) = open(bytes);
    let open_file = volume
        .open_file("/file", OpenFlags::READ_WRITE)
        .expect("open");
    let offset = file_block * BLOCK_BYTES as u64;
    refused(open_file.read_at(offset, &mut [0; 16]).map(drop));
    refused(open_file.write_at(offset, b"x").map(drop));
    open_file.close().expect("close");
    refused(volume.create_file("/file", &Default::default()).map(drop));
    volume.close().expect("close");
    let group = (zone - FIRST) / BLOCKS_PER_GROUP;
    let bitmap = word(bytes, DESCRIPTORS * BLOCK_BYTES + 32 * group as usize) as usize;
    let bit = (zone - FIRST) % BLOCKS_PER_GROUP;
    let after = memory.to_bytes();
    let byte = after[bitmap * BLOCK_BYTES + bit as usize / 8];
    assert!(
        byte >> (bit % 8) & 1 == 1,
        "{what}, {file_block}: it is in use"
    );
}

#[test]
fn no_file_has_blocks_of_a_zone() {
    let image = Image::new();
    let map = image.inode_at(image.file) + INODE_MAP;
    let indirect = word(&image.bytes, map + 4 * INDIRECT) as usize * BLOCK_BYTES;
    for (what, zone) in image.zones() {
        let places = [
            (3, map + 12),
            (12, map + 4 * INDIRECT),
            (20, indirect + 4 * (20 - INDIRECT)),
        ];
        for (file_block, at) in places {
            let mut bytes = image.bytes.clone();
            put(&mut bytes, at, &zone.to_le_bytes());
            check(&what, &bytes, &image, file_block, zone);
        }
    }
}

#[test]
fn a_bitmap_that_shows_a_zone_as_free_is_refused() {
    let image = Image::new();
    for (what, zone) in image.zones() {
        let group = ((zone - FIRST) / BLOCKS_PER_GROUP) as usize;
        let descriptor = DESCRIPTORS * BLOCK_BYTES + 32 * group;
        let bitmap = word(&image.bytes, descriptor) as usize * BLOCK_BYTES;
        let bit = ((zone - FIRST) % BLOCKS_PER_GROUP) as usize;
        let mut bytes = image.bytes.clone();
        bytes[bitmap + bit / 8] &= !(1 << (bit % 8));
        // The other groups have no free blocks, so that this one is asked.
        for other in (0..3).filter(|other| *other != group) {
            put(
                &mut bytes,
                DESCRIPTORS * BLOCK_BYTES + 32 * other + 12,
                &[0, 0],
            );
        }
        let (volume, memory) = open(&bytes);
        let made = volume
            .write_file("/new", &[1; BLOCK_BYTES])
            .and_then(|_| volume.sync());
        let Err(Error::Corrupt(Corrupt::Bitmap { why, .. })) = made else {
            panic!("{what}: {made:?}")
        };
        assert!(why.contains("is marked free"), "{what}: {why}");
        drop(volume.close());
        let after = memory.to_bytes();
        assert!(after[bitmap..bitmap + 1024] == bytes[bitmap..bitmap + 1024]);
    }
}

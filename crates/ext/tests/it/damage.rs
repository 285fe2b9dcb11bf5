//! Invalid images: one typed error that names the invalid state, no panic, and nothing written.

mod changes;
mod kept;
mod kinds;
mod moves;
mod noted;
mod zones;

use std::sync::Arc;

use block::BlockDevice;
use block::file::{FileDevice, OpenOptions};
use block::memory::MemoryDevice;
use ext::error::Corrupt;
use ext::options::DataMode;
use ext::volume::OpenFlags;
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use crate::rig::{Place, Rig, device, quiet};

pub use changes::assert_notices;

const VOLUME_BYTES: u64 = 24 << 20;
const BLOCK_BYTES: usize = 4096;
const SUPERBLOCK: usize = 1024;
const INODE_BYTES: usize = 256;
/// Offset of the block map in an inode, in bytes.
const INODE_MAP: usize = 40;

/// Opens an image that must be refused. Returns the error, after a check that nothing was written.
pub fn refusal(memory: &Arc<MemoryDevice>, what: &str) -> Error {
    let before = memory.snapshot();
    let opened = Volume::open(device(memory), None, quiet(DataMode::Ordered));
    let Err(error) = opened else {
        panic!("{what}: it opens")
    };
    assert_eq!(
        memory.first_difference(&before),
        None,
        "{what}: something was written"
    );
    error
}

fn image() -> Vec<u8> {
    Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES)
        .home
        .to_bytes()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn superblock_fields() {
    // Field, offset, and its bytes.
    let cases: &[(&str, usize, &[u8])] = &[
        ("s_inodes_count", 0x00, &[1, 2, 3, 0]),
        ("s_blocks_count", 0x04, &[0; 4]),
        ("s_r_blocks_count", 0x08, &[0xFF; 4]),
        ("s_first_data_block", 0x14, &[1, 0, 0, 0]),
        ("s_log_block_size", 0x18, &[9, 0, 0, 0]),
        ("s_blocks_per_group", 0x20, &[0; 4]),
        ("s_inodes_per_group", 0x28, &[0; 4]),
        ("s_first_ino", 0x54, &[3, 0, 0, 0]),
        ("s_inode_size", 0x58, &[100, 0]),
        ("s_journal_inum", 0xE0, &[0; 4]),
        ("s_last_orphan", 0xE8, &[0xFF; 4]),
    ];
    let good = image();
    for (field, offset, value) in cases {
        let mut bytes = good.clone();
        put(&mut bytes, SUPERBLOCK + offset, value);
        let error = refusal(&Arc::new(MemoryDevice::from_bytes(&bytes)), field);
        let text = error.to_string();
        assert!(
            matches!(error, Error::Corrupt(Corrupt::Superblock { .. })),
            "{field}: {error:?}"
        );
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[test]
fn what_is_no_file_system() {
    let text = "It was a dark and stormy night; the rain fell in torrents.\n".repeat(200_000);
    let text = &text.as_bytes()[..VOLUME_BYTES as usize / 4];
    let mut xfs = vec![0; VOLUME_BYTES as usize];
    put(&mut xfs, 0, b"XFSB");
    for (what, bytes) in [
        ("a text", text),
        ("XFS", &xfs),
        ("zeroes", &[0; 65_536]),
        ("nothing", &[]),
    ] {
        let error = refusal(&Arc::new(MemoryDevice::from_bytes(bytes)), what);
        assert!(matches!(error, Error::Corrupt(_)), "{what}: {error:?}");
        let text = error.to_string();
        let names_it = text.contains("0xef53") || text.contains("too small");
        assert!(names_it, "{what}: {text}");
    }
}

#[test]
fn truncated_images() {
    let good = image();
    let mut larger = good.clone();
    put(&mut larger, SUPERBLOCK + 4, &[0xFF; 4]);
    let error = refusal(&Arc::new(MemoryDevice::from_bytes(&larger)), "larger");
    assert!(
        matches!(error, Error::Corrupt(Corrupt::Truncated { .. })),
        "{error}"
    );
    for part in [2, 4, 10, 1000] {
        let length = good.len() / part / 512 * 512;
        let error = refusal(
            &Arc::new(MemoryDevice::from_bytes(&good[..length])),
            "truncated",
        );
        let text = error.to_string();
        assert!(
            text.contains("but the device only") && text.contains(&length.to_string()),
            "{text}"
        );
    }
}

#[test]
fn features_that_are_not_known() {
    let good = image();
    let cases: &[(&str, u32)] = &[("compression", 0x1), ("dirdata", 0x1000)];
    for (name, bit) in cases {
        let mut bytes = good.clone();
        let at = SUPERBLOCK + 0x60;
        let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        put(&mut bytes, at, &(old | bit).to_le_bytes());
        let error = refusal(&Arc::new(MemoryDevice::from_bytes(&bytes)), name);
        assert!(matches!(error, Error::Unsupported(_)), "{name}: {error:?}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
    // An unknown read-only compatible feature: the volume can be read, and nothing is written.
    let mut bytes = good.clone();
    put(&mut bytes, SUPERBLOCK + 0x64 + 1, &[0x40]);
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let before = memory.snapshot();
    let (volume, report) =
        Volume::open_with_report(device(&memory), None, quiet(DataMode::Ordered))
            .expect("it opens");
    assert!(
        report
            .read_only_because
            .is_some_and(|why| why.contains("shared_blocks"))
    );
    assert!(volume.is_read_only());
    assert!(matches!(
        volume.create_directory("/d"),
        Err(Error::ReadOnly)
    ));
    volume.close().expect("close");
    assert_eq!(memory.first_difference(&before), None, "nothing is written");
}

#[test]
fn group_descriptors() {
    let good = image();
    let cases: &[(&str, usize)] = &[
        ("bg_block_bitmap", 0),
        ("bg_inode_bitmap", 4),
        ("bg_inode_table", 8),
    ];
    for (field, offset) in cases {
        for value in [0u32, 5_000_000, u32::MAX] {
            let mut bytes = good.clone();
            put(&mut bytes, BLOCK_BYTES + offset, &value.to_le_bytes());
            let error = refusal(&Arc::new(MemoryDevice::from_bytes(&bytes)), field);
            assert!(
                error.to_string().contains(field),
                "{field} = {value}: {error}"
            );
        }
    }
}

/// A closed volume with a file, a large file and a directory, and the places of inodes and blocks.
struct Populated {
    bytes: Vec<u8>,
    file: InodeNr,
    large: InodeNr,
    directory: InodeNr,
    directory_block: usize,
}

fn populated() -> Populated {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.write_file("/file", &[1; 100]).expect("write");
    volume.write_file("/large", &[2; 200_000]).expect("write");
    let directory = volume.create_directory("/d").expect("mkdir");
    volume.write_file("/d/inner", &[3; 100]).expect("write");
    let [file, large] = ["/file", "/large"].map(|path| volume.resolve(path, true).expect("there"));
    let directory_block = volume.blocks_of(directory).expect("blocks")[0].first.get() as usize;
    volume.close().expect("close");
    Populated {
        bytes: rig.home.to_bytes(),
        file,
        large,
        directory,
        directory_block,
    }
}

impl Populated {
    fn inode_at(&self, nr: InodeNr) -> usize {
        let table = u32::from_le_bytes(
            self.bytes[BLOCK_BYTES + 8..BLOCK_BYTES + 12]
                .try_into()
                .unwrap(),
        );
        table as usize * BLOCK_BYTES + (nr.get() as usize - 1) * INODE_BYTES
    }

    /// Damages the image, asserts that an operation reports the damage, and that the rest works.
    fn expect(&self, what: &str, at: usize, value: &[u8], work: fn(&Volume) -> Result<(), Error>) {
        let mut bytes = self.bytes.clone();
        put(&mut bytes, at, value);
        let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
        let volume =
            Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
        let result = work(&volume);
        assert!(
            matches!(result, Err(Error::Corrupt(_))),
            "{what}: {result:?}"
        );
        volume.resolve("/", true).expect("the root is sound");
        drop(volume.write_file("/rest", &[4; 100]));
        drop(volume.close());
    }
}

fn read(path: &str) -> impl Fn(&Volume) -> Result<(), Error> + '_ {
    move |volume| volume.read_file(path).map(drop)
}

#[test]
fn inodes_maps_and_directories() {
    let image = populated();
    let (file, large) = (image.inode_at(image.file), image.inode_at(image.large));
    let directory = image.inode_at(image.directory);
    let block = image.directory_block * BLOCK_BYTES;
    let read_file = |volume: &Volume| read("/file")(volume);
    let read_large = |volume: &Volume| read("/large")(volume);
    let list = |volume: &Volume| volume.list("/d").map(drop);
    image.expect("a mode of no kind", file, &[0xFF, 0x0F], read_file);
    image.expect(
        "a direct block outside",
        file + INODE_MAP,
        &[0xFF; 4],
        read_file,
    );
    image.expect(
        "a direct block in the inode table",
        file + INODE_MAP,
        &[2, 0, 0, 0],
        read_file,
    );
    image.expect(
        "an indirect block outside",
        large + INODE_MAP + 48,
        &[0xFF; 4],
        read_large,
    );
    image.expect(
        "a directory block outside",
        directory + INODE_MAP,
        &[0xFF; 4],
        list,
    );
    image.expect("an entry length of 0", block + 4, &[0, 0], list);
    image.expect(
        "an entry that is too long",
        block + 24 + 4,
        &[0xFF, 0x7F],
        list,
    );
    image.expect(
        "a name longer than its entry",
        block + 24 + 4,
        &[16, 0, 0xFF],
        list,
    );
    image.expect(
        "an inode that does not exist",
        block + 24,
        &[0xFF; 4],
        |volume| volume.resolve("/d/inner", true).map(drop),
    );
}

#[test]
fn a_file_that_takes_blocks_of_the_log_is_damaged() {
    let image = populated();
    let file = image.inode_at(image.file) + INODE_MAP;
    let log = image.inode_at(InodeNr::JOURNAL) + INODE_MAP;
    let of_log = image.bytes[log..log + 4].to_vec();
    image.expect("reading", file, &of_log, |volume| read("/file")(volume));
    image.expect("cutting", file, &of_log, |volume| {
        volume.create_file("/file", &Default::default()).map(drop)
    });
    image.expect("writing", file, &of_log, |volume| {
        let file = volume.open_file("/file", OpenFlags::READ_WRITE)?;
        file.write_at(0, b"x")?;
        file.sync_all()
    });
}

#[test]
fn a_map_that_leads_to_itself_loses_no_block_that_it_still_has() {
    let image = populated();
    let word = |bytes: &[u8], at: usize| -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    };
    let map = word(&image.bytes, image.inode_at(image.large) + INODE_MAP + 48);
    let mut bytes = image.bytes.clone();
    put(
        &mut bytes,
        map * BLOCK_BYTES + 20,
        &(map as u32).to_le_bytes(),
    );
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let open = || Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
    let volume = open();
    let cut = volume.create_file("/large", &Default::default()).map(drop);
    assert!(
        matches!(cut, Err(Error::Corrupt(Corrupt::MapCycle { .. }))),
        "{cut:?}"
    );
    drop(volume.close());
    // The rest of a log is replayed.
    drop(open().close());
    let bytes = memory.to_bytes();
    let bitmap = word(&bytes, BLOCK_BYTES) * BLOCK_BYTES;
    let pointers = (0..BLOCK_BYTES / 4).map(|index| word(&bytes, map * BLOCK_BYTES + 4 * index));
    for block in pointers.filter(|block| *block != 0).chain([map]) {
        let is_taken = bytes[bitmap + block / 8] >> (block % 8) & 1 == 1;
        assert!(is_taken, "the file still has block {block}");
    }
}

#[test]
fn an_image_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("image");
    std::fs::write(&path, image()).expect("written");
    let open = || FileDevice::open(&path, &OpenOptions::default());
    let volume = Volume::open(
        Arc::new(open().expect("it opens")),
        None,
        quiet(DataMode::Ordered),
    );
    let volume = volume.expect("the volume opens");
    let refused = open().map(drop);
    assert!(
        matches!(refused, Err(block::DeviceError::InUse { .. })),
        "{refused:?}"
    );
    volume.close().expect("close");
    open().expect("it is free again");
}

/// A log that has to be replayed, on a read-only device.
#[test]
fn read_only_devices() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.write_file("/f", &[1; 5000]).expect("write");
    volume.sync().expect("sync");
    drop(volume);
    let frozen: Arc<dyn BlockDevice> = Arc::new(
        rig.home
            .snapshot()
            .with_geometry(|geometry| geometry.is_read_only = true),
    );
    for read_only in [false, true] {
        let options = MountOptions {
            read_only,
            ..quiet(DataMode::Ordered)
        };
        let opened = Volume::open(Arc::clone(&frozen), None, options).map(drop);
        let Err(Error::NeedsRecovery { device }) = opened else {
            panic!("{opened:?}")
        };
        assert_eq!(device, frozen.name());
    }
    let as_it_lies = MountOptions {
        read_only: true,
        no_recovery: true,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(Arc::clone(&frozen), None, as_it_lies).expect("it opens as it lies");
    assert!(
        volume.resolve("/f", true).is_err(),
        "the log has the file, its home does not"
    );
    volume.close().expect("close");
    // A clean volume can be read.
    rig.open(quiet(DataMode::Ordered)).close().expect("close");
    let frozen: Arc<dyn BlockDevice> = Arc::new(
        rig.home
            .snapshot()
            .with_geometry(|geometry| geometry.is_read_only = true),
    );
    let volume = Volume::open(frozen, None, quiet(DataMode::Ordered)).expect("it opens");
    assert!(volume.is_read_only());
    assert!(volume.read_file("/f").expect("read") == [1; 5000]);
    assert!(matches!(
        volume.write_file("/g", &[1]),
        Err(Error::ReadOnly)
    ));
    volume.close().expect("close");
}

#[test]
fn a_journal_whose_inode_is_free_is_named() {
    let image = populated();
    let at = image.inode_at(InodeNr::JOURNAL);
    let mut bytes = image.bytes;
    bytes[at..at + INODE_BYTES].fill(0);
    let error = refusal(&Arc::new(MemoryDevice::from_bytes(&bytes)), "no inode");
    let text = error.to_string();
    assert!(text.contains("inode 8 is not in use"), "{text}");
}

/// A journal device that is missing, belongs to another volume, or is no journal device.
#[test]
fn the_wrong_journal() {
    let rig = Rig::new(Place::External, BLOCK_BYTES as u32, VOLUME_BYTES);
    let before = rig.copy();
    let open = |log| Volume::open(device(&rig.home), log, quiet(DataMode::Ordered)).map(drop);
    assert!(
        matches!(open(None), Err(Error::NoJournalDevice)),
        "it is named as missing"
    );
    let other: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(8 << 20));
    let result = open(Some(Arc::clone(&other)));
    assert!(
        matches!(result, Err(Error::Journal(jbd2::Error::Corrupt(_)))),
        "{result:?}"
    );
    ext::mkfs::format_journal_device(&other, BLOCK_BYTES as u32, [7; 16])
        .expect("a journal device");
    let result = open(Some(other));
    assert!(
        matches!(
            result,
            Err(Error::Journal(jbd2::Error::WrongJournal { .. }))
        ),
        "{result:?}"
    );
    assert_eq!(
        rig.home.first_difference(&before.home),
        None,
        "nothing is written"
    );
}

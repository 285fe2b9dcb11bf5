//! Directories larger than the lower half of a size counts.

use block::{BlockDevice, MemoryDevice};
use testkit::privilege;

use super::*;
use crate::file::testing::Bench;
use crate::format::mkfs::{FeatureEdits, FileSystemType, Options, format};
use crate::options::MountOptions;

/// Number of blocks of 4 GiB.
const BLOCKS: u64 = (4 << 30) / 4096;
/// Number of names before the directory gets its size; they fill about four leaves.
const NAMES: usize = 60;

fn name(number: usize) -> String {
    format!("{number:03}-{}", "n".repeat(200))
}

/// Gives the root directory blocks up to one before 4 GiB, which no name is in.
fn enlarge(bench: &Bench) {
    let core = &*bench.core;
    let root = core.inode(InodeNr::ROOT).expect("the root");
    let mut state = root.state.write();
    let credits = jbd2::Credits {
        blocks: 8,
        revokes: 0,
    };
    let mut handle = core.begin(credits).expect("writable");
    let mut next = block_count(core, &state);
    while next < BLOCKS - 1 {
        let count = (BLOCKS - 1 - next).min(32_768) as u32;
        let map = FileMap::of(&state);
        let start = FileBlock::new(next);
        let found = map.find_or_allocate(core, &mut handle, &root, &mut state, start, count);
        next += u64::from(found.expect("there is room").0.count);
    }
    state.size = (BLOCKS - 1) * 4096;
    state
        .store(core, &mut handle, InodeNr::ROOT, false)
        .expect("the size fits");
    handle.finish().expect("it is finished");
}

#[test]
fn a_directory_grows_beyond_4_gib() {
    let device = Arc::new(MemoryDevice::new(5 << 30));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let features = FeatureEdits::parse("large_dir,^has_journal,^metadata_csum");
    let options = Options {
        file_system: FileSystemType::Ext4,
        inode_count: Some(400),
        features: features.expect("known features"),
        ..Options::default()
    };
    format(&shared, &options).expect("it is made");
    let bench = Bench::open(Arc::clone(&shared), MountOptions::default());
    for number in 0..NAMES {
        bench.create(&name(number));
    }
    enlarge(&bench);
    for number in NAMES..4 * NAMES {
        bench.create(&name(number));
    }
    let root = bench.core.inode(InodeNr::ROOT).expect("the root");
    let size = root.state.read().size;
    assert!(size > (1 << 32) + 4096, "{size}");
    drop(root);
    bench.close();

    let bench = Bench::open(shared, MountOptions::default());
    let root = bench.core.inode(InodeNr::ROOT).expect("the root");
    assert_eq!(root.state.read().size, size);
    drop(root);
    for number in 0..4 * NAMES {
        bench.find(&name(number));
    }
    bench.close();
    if !privilege::is_granted() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory for the image");
    let path = directory.path().join("image");
    device.write_to_file(&path).expect("the image is written");
    let mount = testkit::Mount::new(&path, None, "ext4", "ro").expect("the kernel mounts it");
    let root = std::fs::metadata(mount.path()).expect("the root");
    assert_eq!(root.len(), size);
    for number in 0..4 * NAMES {
        let file = mount.path().join(name(number));
        std::fs::metadata(file).expect("it is there");
    }
}

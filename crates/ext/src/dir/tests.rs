//! Directories larger than the lower half of a size counts.

use block::{BlockDevice, MemoryDevice};
use layout::device::DeviceNumber;
use testkit::privilege;

use super::*;
use crate::disk::new_inode::NewInode;
use crate::file::testing::{self, Bench};
use crate::format::mkfs::{FeatureEdits, FileSystemType, Options, format};
use crate::namei;
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

/// Returns a volume without checksums, whose directory `one` has 20 names and `two` none.
fn with_two_directories() -> Arc<MemoryDevice> {
    let device = testing::image(4 << 20, &["-t", "ext2", "-b", "1024", "-I", "128"]);
    let bench = Bench::open(Arc::<MemoryDevice>::clone(&device), MountOptions::default());
    let core = &*bench.core;
    for name in ["one", "two"] {
        let new = NewInode::default();
        let made = namei::make_directory(core, InodeNr::ROOT, name.as_bytes(), &new);
        core.inodes.unpin(&made.expect("there is room"));
    }
    let directory = bench.find("one").nr;
    for number in 0..20 {
        add(core, directory, &format!("file-{number}"));
    }
    bench.close();
    device
}

/// Gives the directory `two` the block of `one`, too.
fn share_block(device: &MemoryDevice) -> MemoryDevice {
    let block = testing::debugfs(device, "bmap one 0");
    let directory = tempfile::tempdir().expect("a directory for the image");
    let path = directory.path().join("image");
    device.write_to_file(&path).expect("the image is written");
    let path = path.to_str().expect("UTF-8");
    let request = format!("set_inode_field two block[0] {}", block.trim());
    let said = testing::run("debugfs", &["-w", "-R", &request, path]);
    assert!(said.status.success(), "{said:?}");
    MemoryDevice::load_from_file(path).expect("the image loads")
}

fn add(core: &Core, directory: InodeNr, name: &str) {
    let (device, new) = (DeviceNumber::default(), NewInode::default());
    let kind = FileKind::Regular;
    let made = namei::create(core, directory, name.as_bytes(), kind, device, &new);
    core.inodes.unpin(&made.expect("there is room"));
}

/// Without checksums nothing shows that a block has two owners.
#[test]
fn a_block_of_two_directories_has_the_names_that_either_gave_it() {
    let device = Arc::new(share_block(&with_two_directories()));
    let bench = Bench::open(device, MountOptions::default());
    let core = &*bench.core;
    let [one, two] = ["one", "two"].map(|name| bench.find(name).nr);
    let has = |directory, name: &str| namei::lookup(core, directory, name.as_bytes()).is_ok();
    for directory in [one, two] {
        assert!(has(directory, "file-19"));
    }
    namei::unlink(core, one, b"file-7").expect("it is there");
    add(core, one, "new");
    for directory in [one, two] {
        for number in 0..20 {
            let name = format!("file-{number}");
            assert_eq!(has(directory, &name), number != 7, "{name}");
        }
        assert!(has(directory, "new"));
    }
    namei::unlink(core, two, b"file-8").expect("it is there");
    namei::unlink(core, one, b"file-9").expect("it is there");
    add(core, two, "newer");
    for directory in [one, two] {
        assert!(!has(directory, "file-8") && has(directory, "newer"));
    }
}

#[test]
fn a_block_that_is_read_again_has_the_names_that_it_has_now() {
    let device: Arc<dyn BlockDevice> = with_two_directories();
    let bench = Bench::open(Arc::clone(&device), MountOptions::default());
    let core = &*bench.core;
    let one = bench.find("one");
    let has = |name: &str| namei::lookup(core, one.nr, name.as_bytes()).is_ok();
    assert!(has("file-19") && !has("file-2x"));
    let block = hold(core, &one, &one.state.read(), b"file-19");
    let block = block.expect("sound").expect("there").nr();
    core.buffers.shrink(0);
    assert!(core.buffers.peek(block).is_none());
    let image = device.read_block(block.get() * 1024, 1024);
    let mut image = image.expect("memory").to_vec();
    for at in 0..1024 - 7 {
        if image[at..].starts_with(b"file-19") {
            image[at..at + 7].copy_from_slice(b"file-2x");
        }
    }
    let image = layout::Block::copy_from(&image).into_arc();
    let written = device.write_blocks(block.get() * 1024, vec![image]);
    written.expect("memory");
    assert!(has("file-2x") && !has("file-19"));
}

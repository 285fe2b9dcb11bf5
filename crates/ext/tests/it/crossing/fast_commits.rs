//! Fast commits of the kernel, replayed by the engine and by the kernel: the same tree, and an
//! image in which e2fsck and this project's checker find nothing. e2fsck 1.47 replays no fast
//! commits, so it is no reader here.
//!
//! Both are compared with the tree that was there, except for what the kernel's replay gets wrong,
//! which [`comparable`] removes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{BlockDevice, DeviceError, MemoryDevice, Request, Ticket};
use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use layout::feature::Incompatible;
use layout::journal::JournalSuperblock;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::{Shutdown, privilege, tool};
use zerocopy::{FromBytes, IntoBytes};

use super::log_format::{inspect, location};
use crate::image::{Image, look_at};
use crate::oracle;
use crate::tree::{Tree, assert_same, of_folder};

const MIB: u64 = 1 << 20;

/// Work on a file system after its first full commits; each fsync of it is a fast commit.
type Script = fn(&Path);

const SCRIPTS: &[(&str, Script)] = &[
    ("new files", new_files),
    ("names", names),
    ("directories", directories),
    ("ranges", ranges),
    ("many extents", many_extents),
    ("a large directory", large_directory),
    ("numbers used again", reused),
    ("attributes of inodes", inode_fields),
    ("open and removed", removed_while_open),
];

/// Scripts whose fast commits the kernel may not be able to replay: an inode without links.
const KERNEL_REFUSES: &[&str] = &["open and removed"];

/// Makes the changes of a file durable.
fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Writes bytes at an offset of a file, durably.
fn put(path: &Path, offset: u64, byte: u8, count: usize) {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .write(true)
        .mode(0o640)
        .open(path)
        .unwrap();
    file.write_all_at(&vec![byte; count], offset).unwrap();
    file.sync_all().unwrap();
}

fn new_files(root: &Path) {
    for number in 0..12 {
        put(
            &root.join(format!("new{number}")),
            0,
            number,
            700 * usize::from(number),
        );
    }
    let mut file = OpenOptions::new()
        .append(true)
        .open(root.join("old0"))
        .unwrap();
    for number in 0..10 {
        file.write_all(&[number; 3000]).unwrap();
        file.sync_data().unwrap();
    }
}

fn names(root: &Path) {
    fs::rename(root.join("old0"), root.join("renamed")).unwrap();
    sync(&root.join("renamed"));
    fs::hard_link(root.join("old1"), root.join("second")).unwrap();
    fs::hard_link(root.join("old1"), root.join("third")).unwrap();
    sync(&root.join("old1"));
    fs::remove_file(root.join("old1")).unwrap();
    sync(&root.join("third"));
    fs::rename(root.join("old2"), root.join("old3")).unwrap();
    sync(&root.join("old3"));
    fs::remove_file(root.join("old4")).unwrap();
    put(&root.join("old4"), 0, 9, 5000);
    fs::hard_link(root.join("old4"), root.join("base/fourth")).unwrap();
    sync(&root.join("old4"));
    fs::rename(root.join("old5"), root.join("base/old5")).unwrap();
    sync(&root.join("base/old5"));
}

fn directories(root: &Path) {
    fs::create_dir(root.join("a")).unwrap();
    put(&root.join("a/file"), 0, 1, 100);
    fs::create_dir(root.join("a/b")).unwrap();
    fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    put(&root.join("a/b/file"), 0, 2, 9000);
    fs::create_dir(root.join("a/c")).unwrap();
    sync(&root.join("a/file"));
    fs::remove_dir(root.join("a/c")).unwrap();
    sync(&root.join("a/file"));
    fs::rename(root.join("a/file"), root.join("a/b/moved")).unwrap();
    sync(&root.join("a/b/moved"));
}

fn ranges(root: &Path) {
    let path = root.join("old0");
    put(&path, 400_000, 7, 50_000);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(420_000).unwrap();
    file.sync_all().unwrap();
    file.set_len(600_000).unwrap();
    file.sync_all().unwrap();
    allocate(&path, &["-o", "700000", "-l", "300000"]);
    sync(&path);
    put(&path, 800_000, 8, 30_000);
    allocate(&path, &["-p", "-o", "405000", "-l", "9000"]);
    sync(&path);
    put(&path, 406_000, 6, 2000);
    File::create(root.join("old1")).unwrap().sync_all().unwrap();
    put(&root.join("old1"), 0, 3, 20_000);
}

fn allocate(path: &Path, arguments: &[&str]) {
    let path = path.to_str().unwrap();
    tool::run_well("fallocate", &[arguments, &[path]].concat());
}

fn many_extents(root: &Path) {
    let path = root.join("old0");
    for number in 0..150 {
        put(&path, number * 20_000, number as u8, 500);
    }
    for number in (0..150).step_by(3) {
        let offset = (number * 20_000).to_string();
        allocate(&path, &["-p", "-o", &offset, "-l", "4096"]);
        sync(&path);
    }
}

fn large_directory(root: &Path) {
    for number in 0..200 {
        let name = format!("base/{number:0>100}");
        File::create(root.join(&name)).unwrap();
        if number % 20 == 19 {
            sync(&root.join(&name));
        }
    }
    for number in (0..200).step_by(3) {
        fs::remove_file(root.join(format!("base/{number:0>100}"))).unwrap();
    }
    put(&root.join("old0"), 0, 1, 1);
}

fn reused(root: &Path) {
    for round in 0..5 {
        for number in 0..4 {
            let name = root.join(format!("old{number}"));
            fs::remove_file(&name).unwrap();
            sync(&root.join("old5"));
            if round % 2 == 0 {
                fs::create_dir(root.join(format!("d{number}"))).unwrap();
                sync(&root.join("old5"));
                fs::remove_dir(root.join(format!("d{number}"))).unwrap();
            }
            put(&name, 0, round * 4 + number, 6000);
        }
    }
}

fn inode_fields(root: &Path) {
    let path = root.join("old0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    sync(&path);
    std::os::unix::fs::chown(&path, Some(70_000), Some(5)).unwrap();
    sync(&path);
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    let file = File::options().write(true).open(root.join("old1")).unwrap();
    file.set_modified(time).unwrap();
    file.sync_all().unwrap();
}

fn removed_while_open(root: &Path) {
    let file = File::options().write(true).open(root.join("old0")).unwrap();
    fs::remove_file(root.join("old0")).unwrap();
    sync(&root.join("old1"));
    file.write_all_at(b"gone", 0).unwrap();
    put(&root.join("new"), 0, 1, 5000);
}

/// An image with fast commits of the kernel, and a full commit before them.
struct Written {
    image: Image,
    /// The tree at the end.
    tree: Tree,
}

/// Makes an image by a script.
fn written(block_bytes: u32, is_external: bool, more: &[&str], script: Script) -> Written {
    let features = ["-O", "fast_commit,^orphan_file"];
    let arguments = [&features[..], more].concat();
    let image = Image::with_arguments("ext4", block_bytes, 64 * MIB, is_external, &arguments);
    make_room(&image);
    let mount = image.mount("commit=1000,barrier=0");
    let mount = mount.unwrap_or_else(|why| panic!("{why}"));
    fs::create_dir(mount.at("/base")).unwrap();
    for number in 0..6 {
        put(&mount.at(&format!("/old{number}")), 0, 100 + number, 9000);
    }
    mount.sync();
    put(&mount.at("/first"), 0, 1, 10);
    mount.sync();
    script(mount.path());
    let tree = of_folder(mount.path());
    mount.shut_down(Shutdown::CutsLog);
    drop(mount);
    Written { image, tree }
}

/// Gives an external journal fewer blocks for fast commits than the kernel's default, which leaves
/// too few for its log.
fn make_room(image: &Image) {
    let Some(device) = image.journal_device() else {
        return;
    };
    assert_eq!(image.block_bytes, 1024);
    let place = 2 * u64::from(image.block_bytes);
    let block = device
        .read_block(place, image.block_bytes)
        .expect("it is there");
    let (mut raw, _) = JournalSuperblock::read_from_prefix(&block).expect("as many bytes");
    raw.fast_commit_blocks = 64.into();
    let block = layout::Block::copy_from(raw.as_bytes()).into_arc();
    device
        .write_blocks(place, vec![block])
        .expect("it is written");
    device.flush().expect("it is a file");
}

/// Removes the times of directories from a tree: those of a replay are others.
fn without_times(mut tree: Tree) -> Tree {
    for node in tree.values_mut().filter(|node| node.kind == 'd') {
        node.mtime = None;
    }
    tree
}

/// Removes from a tree what the kernel's replay gets wrong, too: link counts of directories, and
/// times of files whose numbers were used again.
fn comparable(tree: Tree) -> Tree {
    let mut tree = without_times(tree);
    for node in tree.values_mut() {
        node.mtime = None;
        if node.kind == 'd' {
            node.links = None;
        }
    }
    tree
}

/// Replays and closes, and returns the tree.
fn by_engine(image: &Image) -> (Tree, OpenReport) {
    let options = MountOptions::default();
    let opened = Volume::open_with_report(image.device(), image.journal_device(), options);
    let (volume, report) = opened.unwrap_or_else(|error| panic!("{error}"));
    let tree = image.own_tree(&volume);
    volume.close().expect("close");
    (tree, report)
}

/// Replays by a mount; none if the kernel refuses.
fn by_kernel(image: &Image) -> Option<Tree> {
    let mount = image.mount("noatime").ok()?;
    Some(of_folder(mount.path()))
}

/// Asserts that neither checker finds anything, and e2fsck corrects nothing.
fn assert_clean(image: &Image, when: &str) {
    oracle::assert_fsck_clean(image, when);
    let (_, said) = super::readers::e2fsck(&["-fn"], image);
    assert!(!said.contains("? no"), "{when}: {said}");
}

/// Asserts that the engine replays an image to the tree that was there, and the kernel, if it does
/// not refuse.
fn check(written: &Written, what: &str) {
    let Written { image: dirty, tree } = written;
    let found = inspect(dirty)
        .fast_commits
        .expect("the log has the feature");
    assert!(!found.is_empty(), "{what}: no fast commit: {:?}", found.end);
    let ours = dirty.copy();
    let (own, report) = by_engine(&ours);
    assert_eq!(report.replayed_fast_commits, found.count, "{what}");
    assert_same(&without_times(tree.clone()), &without_times(own), what);
    assert_clean(&ours, what);
    let seen = oracle::kernel_tree(&ours).expect("there is root");
    assert_same(
        &without_times(tree.clone()),
        &without_times(seen),
        &format!("{what}: as it is"),
    );
    let is_refused = KERNEL_REFUSES.iter().any(|name| what.starts_with(name));
    match by_kernel(&dirty.copy()) {
        Some(theirs) => {
            let who = format!("{what}: the kernel");
            assert_same(&comparable(tree.clone()), &comparable(theirs), &who);
        }
        None => assert!(is_refused, "{what}: the kernel refuses"),
    }
}

#[test]
fn fast_commits_of_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    for (name, script) in SCRIPTS {
        for block_bytes in [4096, 1024] {
            let written = written(block_bytes, false, &[], *script);
            check(&written, &format!("{name}, blocks of {block_bytes}"));
        }
    }
}

#[test]
fn fast_commits_in_external_journals() {
    if !privilege::is_granted() {
        return;
    }
    for (name, script) in &SCRIPTS[..3] {
        check(
            &written(1024, true, &[], *script),
            &format!("{name}, outside"),
        );
    }
}

#[test]
fn fast_commits_with_other_features() {
    if !privilege::is_granted() {
        return;
    }
    for more in [
        "^metadata_csum",
        "^metadata_csum,uninit_bg,^64bit",
        "^flex_bg,^dir_index",
    ] {
        for (name, script) in SCRIPTS {
            let written = written(1024, false, &["-O", more], *script);
            check(&written, &format!("{name}, {more}"));
        }
    }
}

/// Returns the device of an image with the blocks of its fast commits cleared from one on.
fn cut_from(image: &Image, first: u32) -> Arc<MemoryDevice> {
    let bytes = fs::read(&image.path).expect("the image is there");
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let extents = location(image).extents;
    let blocks = extents
        .iter()
        .flat_map(|extent| (0..u64::from(extent.count)).map(|index| extent.first + index));
    let seen: &dyn BlockDevice = &*device;
    for block in blocks.skip(first as usize) {
        let zeroes = layout::Block::zeroed(image.block_bytes as usize).into_arc();
        let at = block.get() * u64::from(image.block_bytes);
        seen.write_blocks(at, vec![zeroes]).expect("memory");
    }
    device
}

/// Every prefix of the fast commits: the complete ones in it, as the kernel replays them. The
/// kernel refuses an area whose first fast commit is torn.
#[test]
fn every_prefix_of_fast_commits() {
    if !privilege::is_granted() {
        return;
    }
    for (name, script) in [SCRIPTS[1], SCRIPTS[2], SCRIPTS[5]] {
        let image = written(1024, false, &[], script).image;
        let found = inspect(&image)
            .fast_commits
            .expect("the log has the feature");
        let mut counts = Vec::new();
        for first in found.first..=found.end.0 {
            let what = format!("{name}, cut from block {first} on");
            let cut = image.copy();
            cut_from(&image, first)
                .write_to_file(&cut.path)
                .expect("the image is written");
            let theirs = by_kernel(&cut.copy());
            let (tree, report) = by_engine(&cut);
            assert_clean(&cut, &what);
            if let Some(theirs) = theirs {
                assert_same(&comparable(theirs), &comparable(tree), &what);
            } else {
                assert_eq!(
                    report.replayed_fast_commits, 0,
                    "{what}: the kernel refuses it"
                );
            }
            counts.push(report.replayed_fast_commits);
        }
        assert!(
            counts.is_sorted() && counts.first() == Some(&0),
            "{name}: {counts:?}"
        );
        assert_eq!(counts.last(), Some(&found.count), "{name}");
    }
}

/// Volumes whose log has the feature are written with full commits, which the kernel replays.
#[test]
fn full_commits_beside_the_kernels_fast_ones() {
    if !privilege::is_granted() {
        return;
    }
    let image = written(1024, false, &[], new_files).image;
    let bytes = fs::read(&image.path).expect("the image is there");
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(home, None, MountOptions::default()).expect("the volume opens");
    for number in 0..30 {
        let path = format!("/base/full{number}");
        volume.write_file(&path, &[number; 2000]).expect("write");
        volume.sync().expect("sync");
    }
    let cut = image.copy();
    device
        .snapshot()
        .write_to_file(&cut.path)
        .expect("the image is written");
    let found = inspect(&cut);
    assert!(found.fast_commits.is_none() && !found.features.contains(&"fast_commit"));
    assert!(!found.transactions.is_empty());
    let tree = image.own_tree(&volume);
    volume.close().expect("close");
    let theirs = by_kernel(&cut).expect("the kernel replays");
    assert_same(&comparable(tree), &comparable(theirs), "full commits");
    let raw = look_at(&cut.path)
        .read_block(OFFSET, SIZE as u32)
        .expect("a superblock");
    let (raw, _) = Superblock::read_from_prefix(&raw).expect("as many bytes were read");
    let features = raw.features().incompatible;
    assert!(!features.contains(Incompatible::NEEDS_RECOVERY));
}

/// A device that loses its power after a number of requests that write.
struct PowerCut {
    inner: Arc<MemoryDevice>,
    left: AtomicUsize,
}

impl BlockDevice for PowerCut {
    fn geometry(&self) -> block::Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let answers = batch.into_iter().map(|request| {
            let cost = usize::from(request.is_write());
            let take = |left: usize| left.checked_sub(cost);
            let order = Ordering::SeqCst;
            if self.left.fetch_update(order, order, take).is_err() {
                return Err(DeviceError::Gone);
            }
            let answer = self.inner.submit(vec![request]).wait().pop();
            answer.expect("an answer for each request")
        });
        Ticket::ready(answers.collect())
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// A replay that loses its power after each of its writes, and is repeated, comes to the same (U6).
#[test]
fn an_interrupted_replay_is_repeated() {
    if !privilege::is_granted() {
        return;
    }
    let read_only = || MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    for (name, script) in [SCRIPTS[1], SCRIPTS[5]] {
        let image = written(1024, false, &[], script).image;
        let bytes = fs::read(&image.path).expect("the image is there");
        let mut expected = None;
        for cut in 0.. {
            let inner = Arc::new(MemoryDevice::from_bytes(&bytes));
            let first: Arc<dyn BlockDevice> = Arc::new(PowerCut {
                inner: Arc::clone(&inner),
                left: AtomicUsize::new(cut),
            });
            let is_whole = match Volume::open(first, None, read_only()) {
                Ok(volume) => volume.close().is_ok(),
                Err(_) => false,
            };
            let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&inner);
            let volume = Volume::open(home, None, read_only());
            let volume = volume.unwrap_or_else(|error| panic!("{name}, cut {cut}: {error}"));
            let tree = image.own_tree(&volume);
            volume.close().expect("close");
            match &expected {
                None => expected = Some(tree),
                Some(expected) => assert_same(expected, &tree, &format!("{name}, cut {cut}")),
            }
            if is_whole {
                assert!(cut > 3, "{name}: {cut} writes");
                inner
                    .write_to_file(&image.path)
                    .expect("the image is written");
                by_engine(&image);
                assert_clean(&image, name);
                break;
            }
        }
    }
}

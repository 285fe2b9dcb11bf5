//! Fast commits of the kernel, replayed by the engine and by the kernel: the same tree, and an
//! image in which e2fsck and this project's checker find nothing. e2fsck 1.47 replays no fast
//! commits, so it is no reader here.
//!
//! Both are compared with the tree that was there, except for what the kernel's replay gets wrong,
//! which [`comparable`] removes.

mod scripts;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{BlockDevice, DeviceError, MemoryDevice, Request, Ticket};
use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use layout::feature::Incompatible;
use layout::journal::JournalSuperblock;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::{Shutdown, privilege, share};
use zerocopy::{FromBytes, IntoBytes};

use self::scripts::{SCRIPTS, Script, put};
use super::log_format::{inspect, location};
use crate::image::{Image, look_at};
use crate::oracle;
use crate::tree::{Tree, assert_same, difference, of_folder};

const MIB: u64 = 1 << 20;

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
    with_fast_commits(|| {
        let image = Image::with_arguments("ext4", block_bytes, 64 * MIB, is_external, &arguments);
        make_room(&image);
        write(image, script)
    })
}

/// Writes an image until it has fast commits: on a busy machine the kernel may have made whole
/// transactions of all.
fn with_fast_commits(write: impl Fn() -> Written) -> Written {
    const ATTEMPTS: usize = 5;
    for _ in 1..ATTEMPTS {
        let written = write();
        let found = inspect(&written.image).fast_commits;
        if found.is_some_and(|found| !found.is_empty()) {
            return written;
        }
    }
    write()
}

/// Runs a script on a new image.
fn write(image: Image, script: impl FnOnce(&Path)) -> Written {
    let mount = image.mount("commit=1000,barrier=0,noinit_itable");
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
pub(super) fn without_times(mut tree: Tree) -> Tree {
    for node in tree.values_mut().filter(|node| node.kind == 'd') {
        node.mtime = None;
    }
    tree
}

/// Removes from a tree what the kernel's replay gets wrong, too: link counts of directories, and
/// times of files whose numbers were used again.
pub(super) fn comparable(tree: Tree) -> Tree {
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
pub(super) fn by_engine(image: &Image) -> (Tree, OpenReport) {
    let options = MountOptions::default();
    let opened = Volume::open_with_report(image.device(), image.journal_device(), options);
    let (volume, report) = opened.unwrap_or_else(|error| panic!("{error}"));
    let tree = image.own_tree(&volume);
    volume.close().expect("close");
    (tree, report)
}

/// Replays by a mount; none if the kernel refuses.
pub(super) fn by_kernel(image: &Image) -> Option<Tree> {
    let mount = image.mount("noatime").ok()?;
    Some(of_folder(mount.path()))
}

/// Returns true if e2fsck would correct something. With an external journal it notes by which
/// device it found the log: any that is attached now. Nodes of an extent tree need not be full.
pub(super) fn is_correction(line: &str) -> bool {
    let others = ["Superblock hint", "could be narrower"];
    line.contains("? no") && !others.iter().any(|other| line.contains(other))
}

/// Asserts that neither checker finds anything, and e2fsck corrects nothing.
pub(super) fn assert_clean(image: &Image, when: &str) {
    oracle::assert_fsck_clean(image, when);
    let (_, said) = super::readers::e2fsck(&["-fn"], image);
    assert!(!said.lines().any(is_correction), "{when}: {said}");
}

/// Asserts that the engine replays an image to the tree that was there, and the kernel, unless it
/// refuses: at times it cannot replay what it wrote itself, more often on a busy machine. Returns
/// true if it did.
fn check(written: &Written, what: &str) -> bool {
    if !check_own(written, what) {
        return false;
    }
    let Some(theirs) = by_kernel(&written.image.copy()) else {
        eprintln!("{what}: the kernel refuses");
        return false;
    };
    let who = format!("{what}: the kernel");
    assert_same(&comparable(written.tree.clone()), &comparable(theirs), &who);
    true
}

/// Asserts that the engine replays an image to the tree that was there. Returns false if the log
/// lacks changes, as a replay by the kernel shows: on a busy machine, Linux 6.18 at times leaves
/// names out of its fast commits that were removed.
fn check_own(written: &Written, what: &str) -> bool {
    let Written { image: dirty, tree } = written;
    let found = inspect(dirty)
        .fast_commits
        .expect("the log has the feature");
    assert!(!found.is_empty(), "{what}: no fast commit: {:?}", found.end);
    let ours = dirty.copy();
    let (own, report) = by_engine(&ours);
    assert_eq!(report.replayed_fast_commits, found.count, "{what}");
    assert_clean(&ours, what);
    let (wanted, own) = (without_times(tree.clone()), without_times(own));
    if let Some(difference) = difference(&wanted, &own) {
        let theirs = by_kernel(&dirty.copy());
        let theirs = theirs.unwrap_or_else(|| panic!("{what}: {difference}"));
        assert_same(&comparable(theirs), &comparable(own), what);
        eprintln!("{what}: not in the log: {difference}");
        return false;
    }
    let seen = oracle::kernel_tree(&ours).expect("there is root");
    assert_same(
        &without_times(tree.clone()),
        &without_times(seen),
        &format!("{what}: as it is"),
    );
    true
}

#[test]
fn fast_commits_of_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let mut replayed = 0;
    let mut runs = 0;
    for (index, (name, script)) in SCRIPTS.iter().enumerate() {
        for (column, block_bytes) in [4096, 1024].into_iter().enumerate() {
            if !share::takes(index + column, 2) {
                continue;
            }
            let written = written(block_bytes, false, &[], *script);
            let what = format!("{name}, blocks of {block_bytes}");
            replayed += usize::from(check(&written, &what));
            runs += 1;
        }
    }
    assert!(
        2 * replayed > runs,
        "the kernel has replayed {replayed} of {runs}"
    );
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
    let mut replayed = 0;
    let mut runs = 0;
    let features = [
        "^metadata_csum",
        "^metadata_csum,uninit_bg,^64bit",
        "^flex_bg,^dir_index",
        "orphan_file",
    ];
    for (column, more) in features.into_iter().enumerate() {
        for (index, (name, script)) in SCRIPTS.iter().enumerate() {
            if !share::takes(index + column, 3) {
                continue;
            }
            let written = written(1024, false, &["-O", more], *script);
            replayed += usize::from(check(&written, &format!("{name}, {more}")));
            runs += 1;
        }
    }
    assert!(
        2 * replayed > runs,
        "the kernel has replayed {replayed} of {runs}"
    );
}

/// Files without extents, of which the kernel writes fast commits that it does not replay.
#[test]
fn fast_commits_of_indirect_blocks() {
    if !privilege::is_granted() {
        return;
    }
    let more = ["-O", "^extent,^64bit,^metadata_csum"];
    for (name, script) in [SCRIPTS[0], SCRIPTS[1], SCRIPTS[4], SCRIPTS[6]] {
        check_own(
            &written(1024, false, &more, script),
            &format!("{name}, indirect"),
        );
    }
}

/// Files in clusters of several blocks, of which a range may have a part.
#[test]
fn fast_commits_of_clusters() {
    if !privilege::is_granted() {
        return;
    }
    for (column, cluster_bytes) in ["4096", "16384"].into_iter().enumerate() {
        let more = ["-O", "bigalloc", "-C", cluster_bytes];
        for (index, (name, script)) in SCRIPTS.iter().enumerate() {
            if !share::takes(index + column, 2) {
                continue;
            }
            check_own(
                &written(1024, false, &more, *script),
                &format!("{name}, clusters of {cluster_bytes}"),
            );
        }
    }
}

/// Files and directories within their inodes, which move out.
#[test]
fn fast_commits_of_inline_data() {
    if !privilege::is_granted() {
        return;
    }
    let more = ["-O", "inline_data"];
    for (name, script) in SCRIPTS.iter().chain(&[("small", scripts::small as Script)]) {
        check_own(
            &written(1024, false, &more, *script),
            &format!("{name}, inline"),
        );
    }
}

/// Inode tables, bitmaps and free blocks that hold anything.
#[test]
fn fast_commits_over_garbage() {
    if !privilege::is_granted() {
        return;
    }
    for (name, script) in &SCRIPTS[..3] {
        let more = ["-O", "fast_commit,^orphan_file", "-g", "2048"];
        let written = with_fast_commits(|| {
            let image = Image::over_garbage("ext4", 1024, 32 * MIB, false, &more);
            write(image, script)
        });
        check_own(&written, &format!("{name}, over garbage"));
    }
}

/// Random operations, each made durable.
#[test]
fn random_fast_commits() {
    if !privilege::is_granted() {
        return;
    }
    for seed in 0..4 {
        let written = with_fast_commits(|| {
            let features = ["-O", "fast_commit"];
            let image = Image::with_arguments("ext4", 1024, 64 * MIB, false, &features);
            write(image, |root| scripts::random_operations(root, seed))
        });
        check_own(&written, &format!("seed {seed}"));
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
/// kernel refuses an area whose first fast commit is torn, and at times what it wrote itself.
#[test]
fn every_prefix_of_fast_commits() {
    if !privilege::is_granted() {
        return;
    }
    for (name, script) in [SCRIPTS[1], SCRIPTS[5]] {
        let image = written(1024, false, &[], script).image;
        let found = inspect(&image)
            .fast_commits
            .expect("the log has the feature");
        let mut counts = Vec::new();
        for first in found.first..=found.end.0 {
            let is_end = first == found.first || first == found.end.0;
            if !is_end && !share::takes(first as usize, 2) {
                continue;
            }
            let what = format!("{name}, cut from block {first} on");
            let cut = image.copy();
            cut_from(&image, first)
                .write_to_file(&cut.path)
                .expect("the image is written");
            let theirs = by_kernel(&cut.copy());
            let (tree, report) = by_engine(&cut);
            assert_clean(&cut, &what);
            match theirs {
                Some(theirs) => assert_same(&comparable(theirs), &comparable(tree), &what),
                None => eprintln!("{what}: the kernel refuses"),
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
    let image = written(1024, false, &[], SCRIPTS[0].1).image;
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
    let fast_commits = found
        .fast_commits
        .as_ref()
        .expect("the log has the feature");
    assert!(fast_commits.is_empty());
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

//! Fast commits of the engine, cut off at an instant and replayed by the engine, by the kernel and
//! by e2fsck 1.47.2 where it is there: the tree that was made durable, and nothing to correct.
//!
//! Each script ends with a sync call that a fast commit can serve. The trees are those of
//! [`super::fast_commits`], which says what the kernel's replay gets wrong.

mod changes;

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::options::DataMode;
use ext::{Error, MountOptions, Volume};
use layout::feature::ReadOnlyCompatible;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::{privilege, share, tool};
use zerocopy::FromBytes;

use self::changes::{CHANGES, WHOLE};
use super::fast_commits::{assert_clean, by_engine, by_kernel, comparable, without_times};
use super::log_format::inspect;
use crate::image::{Image, look_at};
use crate::oracle;
use crate::rig::quiet;
use crate::tree::{Tree, assert_same};

/// An image after a power cut.
struct Cut {
    image: Image,
    /// The tree at the instant of the cut.
    tree: Tree,
    stats: jbd2::Stats,
}

/// Runs a script on a new volume after a full commit, and cuts the power.
fn cut(block_bytes: u32, more: &[&str], options: MountOptions, script: fn(&Volume)) -> Cut {
    // An area that each script fits.
    let size = ["-O", "fast_commit", "-J", "fast_commit_size=1024"];
    let arguments = [&size, more].concat();
    let image = Image::with_arguments("ext4", block_bytes, 64 << 20, false, &arguments);
    let device = Arc::new(MemoryDevice::load_from_file(&image.path).expect("the image loads"));
    let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(home, None, options).expect("the volume opens");
    changes::prepare(&volume);
    let before = volume.journal_stats().expect("there is a journal");
    script(&volume);
    let stats = volume.journal_stats().expect("there is a journal") - before;
    let left = device.snapshot();
    let tree = image.own_tree(&volume);
    left.write_to_file(&image.path)
        .expect("the image is written");
    volume.close().expect("close");
    Cut { image, tree, stats }
}

fn features_of(image: &Image) -> ReadOnlyCompatible {
    let raw = look_at(&image.path).read_block(OFFSET, SIZE as u32);
    let raw = raw.expect("a superblock");
    let (raw, _) = Superblock::read_from_prefix(&raw).expect("as many bytes were read");
    raw.features().read_only_compatible
}

/// Asserts that all programs replay a cut to the tree that was there.
fn check(cut: &Cut, what: &str) {
    let ours = cut.image.copy();
    let (own, report) = by_engine(&ours);
    assert_eq!(
        u64::from(report.replayed_fast_commits),
        cut.stats.fast_commits,
        "{what}"
    );
    assert_same(
        &without_times(cut.tree.clone()),
        &without_times(own),
        &format!("{what}: the engine"),
    );
    assert_clean(&ours, what);
    if privilege::is_granted() {
        let theirs = cut.image.copy();
        let tree = by_kernel(&theirs).unwrap_or_else(|| panic!("{what}: the kernel refuses"));
        let who = format!("{what}: the kernel");
        assert_same(&comparable(cut.tree.clone()), &comparable(tree), &who);
        assert_clean(&theirs, &who);
    }
    // With checksums it fails at the superblock after its replay, and for the nodes of trees it
    // takes blocks of other files.
    let has_tree = what.starts_with(changes::PIECES);
    let has_checksums = features_of(&cut.image).contains(ReadOnlyCompatible::METADATA_CSUM);
    if let Some(e2fsck) = oracle::newer_e2fsck().filter(|_| !has_checksums && !has_tree) {
        let theirs = cut.image.copy();
        let path = theirs.path.to_str().expect("UTF-8");
        let output = tool::run(&e2fsck, &["-fy", path]);
        let said = tool::said(&output);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{what}: {said}"
        );
        let (mut tree, _) = by_engine(&theirs);
        // It keeps what has lost its last name.
        tree.retain(|path, _| !path.starts_with(b"/lost+found/"));
        let who = format!("{what}: e2fsck 1.47.2");
        assert_same(&comparable(cut.tree.clone()), &comparable(tree), &who);
    }
}

#[test]
fn fast_commits_are_replayed_by_all() {
    for (index, (name, script)) in CHANGES.iter().enumerate() {
        for (row, block_bytes) in [4096, 1024].into_iter().enumerate() {
            for (column, is_delayed) in [true, false].into_iter().enumerate() {
                if !share::takes(index + row + column, 2) {
                    continue;
                }
                let options = MountOptions {
                    delayed_allocation: is_delayed,
                    ..quiet(DataMode::Ordered)
                };
                let cut = cut(block_bytes, &[], options, *script);
                let what = format!("{name}, blocks of {block_bytes}, delalloc: {is_delayed}");
                assert_eq!(cut.stats.commits, 0, "{what}");
                assert!(cut.stats.fast_commits > 0, "{what}");
                check(&cut, &what);
            }
        }
    }
}

#[test]
fn fast_commits_with_other_features_are_replayed_by_all() {
    let features = ["^metadata_csum,uninit_bg,^64bit", "orphan_file,^flex_bg"];
    for (column, more) in features.into_iter().enumerate() {
        for (index, (name, script)) in CHANGES.iter().enumerate() {
            if !share::takes(index + column, 2) {
                continue;
            }
            let options = quiet(DataMode::Writeback);
            let cut = cut(1024, &["-O", more], options, *script);
            let what = format!("{name}, {more}");
            assert!(cut.stats.fast_commits > 0, "{what}");
            check(&cut, &what);
        }
    }
}

/// Blocks that a write converts besides its own are described, too: a later write to them changes
/// no metadata.
#[test]
fn what_a_write_converts_besides_its_blocks_is_described() {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        let work = || {
            let options = quiet(DataMode::Ordered);
            cut(1024, &["-m", "0"], options, changes::converted_sides)
        };
        let cut = sim::run(config, work).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cut.value.stats.fast_commits, 1);
        cut.value
    };
    check(&run(None), "a side of a conversion on a full volume");
    if rt::mutant::IS_POSSIBLE {
        // The part alone cannot be split off by a replay, either.
        let image = run(Some("fast-commit/converted-sides-not-noted")).image;
        let options = MountOptions::default();
        let opened = Volume::open(image.device(), None, options);
        assert!(matches!(opened, Err(Error::NoSpace)), "nobody notices");
    }
}

/// Changes that tags do not describe: their transactions are committed as a whole.
#[test]
fn changes_without_tags_are_committed_as_a_whole() {
    for (name, script) in WHOLE {
        let cut = cut(1024, &[], quiet(DataMode::Ordered), *script);
        assert_eq!(
            (cut.stats.fast_commits, cut.stats.commits),
            (0, 1),
            "{name}"
        );
        check(&cut, name);
    }
}

/// Contents within inodes are not described by tags.
#[test]
fn a_volume_with_contents_within_inodes_gets_no_fast_commits() {
    let arguments = ["-I", "256", "-O", "inline_data"];
    let cut = cut(1024, &arguments, quiet(DataMode::Ordered), CHANGES[0].1);
    assert_eq!(cut.stats.fast_commits, 0);
    assert!(cut.stats.commits > 0);
    check(&cut, "inline_data");
}

/// The area is used from its start again after each full commit.
#[test]
fn full_commits_empty_the_area() {
    fn script(volume: &Volume) {
        changes::new_files(volume);
        volume.sync().expect("sync");
        volume.remove_file("/base/new3").expect("unlink");
        volume
            .rename_path("/base/new4", "/base/new5")
            .expect("rename");
        let nr = volume.resolve("/base", true).expect("it is there");
        volume.sync_directory(nr).expect("fsync");
    }
    let mut cut = cut(1024, &[], quiet(DataMode::Ordered), script);
    assert_eq!(cut.stats.commits, 1);
    // Those before the full commit are not replayed.
    cut.stats.fast_commits = 1;
    check(&cut, "after a full commit");
}

/// Without the option, and with a mode in which data is journaled, there is none.
#[test]
fn fast_commits_are_an_option() {
    let off = MountOptions {
        fast_commits: false,
        ..quiet(DataMode::Ordered)
    };
    for options in [off, quiet(DataMode::Journal)] {
        let cut = cut(1024, &[], options, CHANGES[0].1);
        assert_eq!(cut.stats.fast_commits, 0);
        assert!(cut.stats.commits > 0);
        let found = inspect(&cut.image);
        assert!(found.fast_commits.is_none() && !found.features.contains(&"fast_commit"));
    }
}

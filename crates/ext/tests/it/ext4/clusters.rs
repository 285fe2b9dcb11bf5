//! Clusters of several blocks (`bigalloc`): images of mke2fs and of this crate, filled by the
//! kernel and by the engine in turn.

mod cut;

use std::os::unix::fs::FileExt;

use ext::mkfs::{self, FeatureEdits};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags, RangeChange};
use layout::InodeNr;
use testkit::{Random, privilege, tool};

use super::written::{change_by_engine, change_by_kernel};
use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::rig::{device, quiet, take_free_blocks};
use crate::tree::assert_same;

/// Sizes of blocks and clusters in bytes.
const SIZES: [(u32, u32); 4] = [(1024, 4096), (1024, 16384), (4096, 16384), (4096, 65536)];

fn made(block_bytes: u32, cluster_bytes: u32, mib: u64) -> Image {
    let more = format!("-O bigalloc -C {cluster_bytes} -N 4096");
    let more: Vec<&str> = more.split_whitespace().collect();
    Image::over_garbage("ext4", block_bytes, mib * MIB, false, &more)
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, MountOptions::default()).expect("the volume opens")
}

fn debugfs(image: &Image, request: &str) -> String {
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", request, path])
}

/// Returns the sectors that the kernel or the engine counts for each file of a folder.
fn engine_sectors(volume: &Volume, paths: &[String]) -> Vec<u64> {
    let of = |path: &String| {
        let file = volume.open_file(path, OpenFlags::READ).unwrap();
        let sectors = file.metadata().unwrap().sectors;
        file.close().unwrap();
        sectors
    };
    paths.iter().map(of).collect()
}

#[test]
fn the_kernel_and_the_engine_write_in_turn() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, cluster_bytes) in SIZES {
        println!("blocks of {block_bytes}, clusters of {cluster_bytes}");
        let mib = 16 + u64::from(cluster_bytes >> 10) * 3;
        let image = made(block_bytes, cluster_bytes, mib);
        for round in 0..3 {
            let mounted = mount(&image);
            change_by_kernel(mounted.path(), round);
            drop(mounted);
            oracle::assert_fsck_clean(&image, "after the kernel");
            let volume = open_on(&image);
            change_by_engine(&volume, round);
            let own = image.own_tree(&volume);
            volume.close().unwrap();
            oracle::assert_fsck_clean(&image, "after the engine");
            let kernel = oracle::kernel_tree(&image).expect("the kernel mounts it");
            assert_same(&own, &kernel, "the kernel");
            assert!(oracle::has_view(&image));
            assert_same(&own, &oracle::view_tree(&image), "ext4-view");
        }
    }
}

/// Changes random ranges of files in turn with a model and the kernel.
#[test]
fn ranges_within_clusters_are_shared_with_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    const FILE_MAX: u64 = 300 << 10;
    for (block_bytes, cluster_bytes) in SIZES {
        println!("blocks of {block_bytes}, clusters of {cluster_bytes}");
        let image = made(block_bytes, cluster_bytes, 64);
        let mut random = Random::new(u64::from(block_bytes + cluster_bytes));
        let mut model: Vec<Vec<u8>> = vec![Vec::new(); 4];
        for round in 0..6 {
            if round % 2 == 0 {
                let mounted = mount(&image);
                for (number, contents) in model.iter_mut().enumerate() {
                    let path = mounted.path().join(format!("file{number}"));
                    let file = std::fs::OpenOptions::new()
                        .create(true)
                        .truncate(false)
                        .write(true)
                        .open(&path)
                        .unwrap();
                    for _ in 0..25 {
                        let step = Step::draw(&mut random, FILE_MAX);
                        step.on_kernel(&file);
                        step.on_model(contents);
                    }
                }
            } else {
                let volume = open_on(&image);
                for (number, contents) in model.iter_mut().enumerate() {
                    let nr = volume
                        .lookup(InodeNr::ROOT, format!("file{number}").as_bytes())
                        .unwrap();
                    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
                    for _ in 0..25 {
                        let step = Step::draw(&mut random, FILE_MAX);
                        step.on_engine(&volume, nr, file);
                        step.on_model(contents);
                        if random.below(5) == 0 {
                            volume.sync().unwrap();
                        }
                    }
                    volume.release(file).unwrap();
                }
                volume.close().unwrap();
            }
            oracle::assert_fsck_clean(&image, "after a round");
            let volume = open_on(&image);
            for (number, contents) in model.iter().enumerate() {
                let found = volume.read_file(&format!("/file{number}")).unwrap();
                assert!(found == *contents, "file {number} by the engine");
            }
            volume.close().unwrap();
            let mounted = image.mount("ro,noatime").unwrap();
            for (number, contents) in model.iter().enumerate() {
                let found = std::fs::read(mounted.path().join(format!("file{number}"))).unwrap();
                assert!(found == *contents, "file {number} by the kernel");
            }
        }
    }
}

/// A change of a file.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write { at: u64, count: u64, byte: u8 },
    Truncate { size: u64 },
    Punch { at: u64, count: u64 },
    Zero { at: u64, count: u64 },
    Allocate { at: u64, count: u64 },
}

impl Step {
    fn draw(random: &mut Random, size_max: u64) -> Self {
        let at = random.below(size_max);
        let most = random.below(40_000) + 1;
        let count = 1 + random.below(most);
        match random.below(10) {
            0..=4 => Self::Write {
                at,
                count,
                byte: random.below(255) as u8 + 1,
            },
            5 => Self::Truncate { size: at },
            6 | 7 => Self::Punch { at, count },
            8 => Self::Zero { at, count },
            _ => Self::Allocate { at, count },
        }
    }

    fn on_model(self, contents: &mut Vec<u8>) {
        let mut put = |at: u64, count: u64, byte: u8, grows: bool| {
            let end = (at + count) as usize;
            if grows && contents.len() < end {
                contents.resize(end, 0);
            }
            let end = end.min(contents.len());
            if (at as usize) < end {
                contents[at as usize..end].fill(byte);
            }
        };
        match self {
            Self::Write { at, count, byte } => put(at, count, byte, true),
            Self::Punch { at, count } | Self::Zero { at, count } => put(at, count, 0, false),
            Self::Truncate { size } => contents.resize(size as usize, 0),
            Self::Allocate { .. } => {}
        }
    }

    fn on_kernel(self, file: &std::fs::File) {
        use rustix::fs::{FallocateFlags, fallocate};
        let keep = FallocateFlags::KEEP_SIZE;
        match self {
            Self::Write { at, count, byte } => {
                file.write_all_at(&vec![byte; count as usize], at).unwrap();
            }
            Self::Truncate { size } => file.set_len(size).unwrap(),
            Self::Punch { at, count } => {
                fallocate(file, keep | FallocateFlags::PUNCH_HOLE, at, count).unwrap();
            }
            Self::Zero { at, count } => {
                fallocate(file, keep | FallocateFlags::ZERO_RANGE, at, count).unwrap();
            }
            Self::Allocate { at, count } => fallocate(file, keep, at, count).unwrap(),
        }
    }

    fn on_engine(self, volume: &Volume, nr: InodeNr, file: ext::volume::FileId) {
        let range = |at, count, what| volume.change_range(nr, at, count, what, true).unwrap();
        match self {
            Self::Write { at, count, byte } => {
                volume
                    .write_all(file, at, &vec![byte; count as usize])
                    .unwrap();
            }
            Self::Truncate { size } => {
                let change = ext::volume::SetAttributes {
                    size: Some(size),
                    ..Default::default()
                };
                volume.set_attributes(nr, &change).unwrap();
            }
            Self::Punch { at, count } => range(at, count, RangeChange::PunchHole),
            Self::Zero { at, count } => range(at, count, RangeChange::Zero),
            Self::Allocate { at, count } => range(at, count, RangeChange::Allocate),
        }
    }
}

#[test]
fn new_volumes_are_those_of_mke2fs() {
    for (block_bytes, cluster_bytes, mib) in [
        (1024, 4096, 100),
        (1024, 16384, 300),
        (2048, 8192, 60),
        (4096, 16384, 200),
        (4096, 65536, 300),
        (4096, 4096, 50),
    ] {
        let more = format!("-O bigalloc -C {cluster_bytes}");
        let theirs = image(block_bytes, mib * MIB, &more);
        let own = Image::empty("ext4", block_bytes, mib * MIB, false);
        let mut features = FeatureEdits::default();
        features.add("bigalloc").unwrap();
        let options = mkfs::Options {
            block_bytes: Some(block_bytes),
            cluster_bytes: Some(cluster_bytes),
            features,
            ..mkfs::Options::default()
        };
        let summary = mkfs::format(&own.device(), &options).expect("the volume is made");
        oracle::assert_fsck_clean(&own, "after mkfs");
        let (raw, expected) = (superblock(&own), superblock(&theirs));
        println!("blocks of {block_bytes}, clusters of {cluster_bytes}");
        assert_eq!(summary.free_blocks, raw.free_blocks_count());
        let facts = |raw: &Superblock| {
            [
                raw.blocks_count(),
                raw.free_blocks_count(),
                raw.reserved_blocks_count(),
                raw.overhead_clusters.get().into(),
                raw.inodes_count.get().into(),
                raw.first_data_block.get().into(),
                raw.log_cluster_size.get().into(),
                raw.blocks_per_group.get().into(),
                raw.clusters_per_group.get().into(),
                raw.reserved_descriptor_blocks.get().into(),
            ]
        };
        assert_eq!(facts(&raw), facts(&expected));
        let volume = open_on(&own);
        volume.write_file("/file", &vec![7; 100_000]).unwrap();
        let tree = own.own_tree(&volume);
        volume.close().unwrap();
        oracle::assert_fsck_clean(&own, "after a file");
        if let Some(kernel) = oracle::kernel_tree(&own) {
            assert_same(&tree, &kernel, "the kernel");
        }
    }
}

#[test]
fn the_space_is_that_of_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, cluster_bytes) in SIZES {
        let image = made(block_bytes, cluster_bytes, 80);
        let volume = open_on(&image);
        for number in 0..20_u64 {
            let contents = vec![1; (number * 1500) as usize];
            volume
                .write_file(&format!("/file{number}"), &contents)
                .unwrap();
        }
        volume.sync().unwrap();
        let usage = volume.usage();
        let paths: Vec<String> = (0..20).map(|number| format!("/file{number}")).collect();
        let sectors = engine_sectors(&volume, &paths);
        volume.close().unwrap();
        let mounted = image.mount("ro").unwrap();
        let theirs = rustix::fs::statvfs(mounted.path()).unwrap();
        assert_eq!(
            [usage.blocks, usage.blocks_free],
            [theirs.f_blocks, theirs.f_bfree],
            "blocks of {block_bytes}, clusters of {cluster_bytes}"
        );
        for (number, sectors) in sectors.into_iter().enumerate() {
            let path = mounted.path().join(format!("file{number}"));
            let metadata = std::fs::metadata(path).unwrap();
            assert_eq!(sectors, std::os::unix::fs::MetadataExt::blocks(&metadata));
            assert_eq!(sectors % u64::from(cluster_bytes / 512), 0);
        }
    }
}

/// Every write that was accepted is there after the volume was filled, however the pages lie.
#[test]
fn accepted_writes_find_their_clusters() {
    for (block_bytes, cluster_bytes) in SIZES {
        for stride in [1, 3, 7] {
            let image = made(block_bytes, cluster_bytes, 24);
            let volume = Volume::open(image.device(), None, quiet(DataMode::Ordered)).unwrap();
            let step = u64::from(block_bytes) * stride;
            let mut accepted: Vec<Vec<u64>> = Vec::new();
            'full: for number in 0..40 {
                let name = format!("file{number}");
                let Ok(nr) = volume.create(InodeNr::ROOT, name.as_bytes(), &NewInode::default())
                else {
                    break;
                };
                let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
                accepted.push(Vec::new());
                for at in (0..3 << 20).step_by(step as usize) {
                    let bytes = [number as u8 + 1; 700];
                    let written = volume.write_all(file, at, &bytes);
                    match written {
                        Ok(()) => accepted.last_mut().unwrap().push(at),
                        Err(Error::NoSpace) => {
                            volume.release(file).unwrap();
                            break 'full;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                volume.release(file).unwrap();
            }
            volume.sync().expect("what was accepted has room");
            volume.close().unwrap();
            oracle::assert_fsck_clean(&image, "when full");
            let volume = open_on(&image);
            for (number, places) in accepted.iter().enumerate() {
                let found = volume.read_file(&format!("/file{number}")).unwrap();
                for at in places {
                    let at = *at as usize;
                    assert!(
                        found[at..at + 700]
                            .iter()
                            .all(|byte| *byte == number as u8 + 1)
                    );
                }
            }
            for number in 0..accepted.len() {
                volume.remove_file(&format!("/file{number}")).unwrap();
            }
            volume.close().unwrap();
            oracle::assert_fsck_clean(&image, "when empty");
        }
    }
}

#[test]
fn claims_are_counted_in_clusters() {
    assert_notices("clusters/claimed-in-blocks", fill_with_clusters);
}

/// Writes one block into each cluster of a file, until the volume is full.
fn fill_with_clusters() {
    const CLUSTER_BYTES: u32 = 16384;
    let memory = Arc::new(MemoryDevice::new(24 * MIB));
    let mut features = FeatureEdits::default();
    features.add("bigalloc").unwrap();
    let options = mkfs::Options {
        block_bytes: Some(1024),
        cluster_bytes: Some(CLUSTER_BYTES),
        features,
        ..mkfs::Options::default()
    };
    mkfs::format(&device(&memory), &options).unwrap();
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).unwrap();
    let file = volume.create_file("/file", &NewInode::default()).unwrap();
    let mut places = (0..).step_by(CLUSTER_BYTES as usize);
    let accepted = places.position(|at| file.write_at(at, b"contents").is_err());
    assert!(accepted.unwrap() > 1000);
    volume.sync().expect("what was accepted has room");
    file.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn a_file_without_extents_is_damaged() {
    let image = made(1024, 4096, 24);
    let volume = open_on(&image);
    volume.write_file("/file", b"contents").unwrap();
    volume.write_file("/empty", b"").unwrap();
    let nr = volume.lookup(InodeNr::ROOT, b"file").unwrap();
    let block = volume.blocks_of(nr).unwrap()[0].blocks().next().unwrap();
    volume.close().unwrap();
    for path in ["/file", "/empty"] {
        debugfs(&image, &format!("sif {path} flags 0"));
        for word in 0..12 {
            debugfs(&image, &format!("sif {path} block[{word}] 0"));
        }
    }
    debugfs(&image, &format!("sif /file block[0] {block}"));
    let path = image.path.to_str().unwrap();
    let output = tool::run("e2fsck", &["-fn", path]);
    assert!(tool::said(&output).contains("on bigalloc filesystem cannot be block mapped"));
    let report = fsck::check(&*image.device(), None, &fsck::Options::default()).unwrap();
    let kinds: Vec<_> = report.problems.iter().map(|problem| problem.kind).collect();
    assert!(
        kinds.contains(&fsck::ProblemKind::ClustersWithoutExtents),
        "{kinds:?}"
    );
    let volume = open_on(&image);
    assert_eq!(volume.read_file("/file").unwrap(), b"contents");
    // A file without blocks is none.
    volume.remove_file("/empty").unwrap();
    let file = volume.open_file("/file", OpenFlags::READ_WRITE).unwrap();
    let changed = file.write_at(5000, b"more").and_then(|()| file.sync_all());
    assert!(matches!(changed, Err(Error::Corrupt(_))), "{changed:?}");
}

#[test]
fn free_clusters_are_discarded() {
    let image = made(4096, 16384, 64);
    let volume = open_on(&image);
    volume.write_file("/file", &vec![1; 1 << 20]).unwrap();
    volume.sync().unwrap();
    volume.remove_file("/file").unwrap();
    let discarded = volume.trim(0).unwrap();
    let free = volume.usage().blocks_free * 4096;
    assert_eq!(discarded, free, "all that is free");
    volume.write_file("/again", &vec![2; 1 << 20]).unwrap();
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after a trim");
}

#[test]
fn impossible_clusters_are_refused() {
    let memory = Arc::new(MemoryDevice::new(64 * MIB));
    let make = |features: &str, cluster_bytes| {
        let mut edits = FeatureEdits::default();
        edits.add(features).unwrap();
        let options = mkfs::Options {
            block_bytes: Some(4096),
            cluster_bytes,
            features: edits,
            ..mkfs::Options::default()
        };
        mkfs::format(&device(&memory), &options)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let refused = |features, cluster_bytes| make(features, cluster_bytes).unwrap_err();
    assert!(refused("bigalloc", Some(2048)).contains("clusters have a power of two"));
    assert!(refused("bigalloc", Some(20480)).contains("clusters have a power of two"));
    assert!(refused("", Some(16384)).contains("needs the feature bigalloc"));
    assert!(refused("bigalloc,^extent,^64bit", None).contains("bigalloc needs extent"));
    make("bigalloc", None).unwrap();
    let volume = open(&memory).unwrap();
    assert_eq!(volume.superblock().geometry.cluster_blocks(), 16);
}

/// Blocks keep their places within their clusters: ranges that move others are whole clusters, and
/// files exchange no blocks.
#[test]
fn ranges_move_by_whole_clusters() {
    let image = made(1024, 4096, 16);
    let volume = open_on(&image);
    let mut contents: Vec<u8> = (0..40_000_u32).map(|at| (at / 1000) as u8).collect();
    for path in ["/one", "/other"] {
        volume.write_file(path, &contents).unwrap();
    }
    let [one, other] = ["/one", "/other"].map(|path| volume.resolve(path, true).unwrap());
    for what in [RangeChange::Collapse, RangeChange::Insert] {
        let changed = volume.change_range(one, 1024, 1024, what, false);
        assert!(matches!(changed, Err(Error::Invalid(_))), "{changed:?}");
    }
    let exchanged = volume.exchange_range([one, other], [0; 2], 4096);
    assert!(
        matches!(exchanged, Err(Error::Unsupported(_))),
        "{exchanged:?}"
    );
    let moved = volume.defragment("/one");
    assert!(matches!(moved, Err(Error::Unsupported(_))), "{moved:?}");
    let what = RangeChange::Collapse;
    volume.change_range(one, 4096, 4096, what, false).unwrap();
    contents.drain(4096..8192);
    assert_eq!(volume.read_file("/one").unwrap(), contents);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the move");
}

/// The last free cluster is taken for data, and none is left for the node that its extent needs.
#[test]
fn a_cluster_whose_extent_finds_no_node_is_given_back() {
    const CLUSTER: u64 = 4096;
    for features in ["bigalloc", "bigalloc,^has_journal"] {
        let memory = Arc::new(MemoryDevice::new(16 * MIB));
        let options = mkfs::Options {
            block_bytes: Some(1024),
            cluster_bytes: Some(CLUSTER as u32),
            features: FeatureEdits::parse(features).unwrap(),
            ..mkfs::Options::default()
        };
        mkfs::format(&device(&memory), &options).unwrap();
        let options = MountOptions {
            delayed_allocation: false,
            ..quiet(DataMode::Ordered)
        };
        let volume = Volume::open(device(&memory), None, options).unwrap();
        let file = volume.create_file("/file", &NewInode::default()).unwrap();
        // Four extents fill the root.
        for number in 0..4 {
            file.write_at(number * 2 * CLUSTER, &[1; CLUSTER as usize])
                .unwrap();
        }
        volume.write_file("/last", &[2; CLUSTER as usize]).unwrap();
        take_free_blocks(&volume);
        volume.remove_file("/last").unwrap();
        volume.sync().unwrap();
        let facts = || {
            let sectors = file.metadata().unwrap().sectors;
            (volume.usage().blocks_free, sectors)
        };
        let before = facts();
        assert_eq!(before.0, 4, "one cluster is free");
        for _ in 0..2 {
            let refused = file.write_at(8 * CLUSTER, &[3; CLUSTER as usize]);
            assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
            volume.sync().unwrap();
            assert_eq!(facts(), before, "{features}");
        }
        file.close().unwrap();
        volume.close().unwrap();
        let report = fsck::check(&*device(&memory), None, &fsck::Options::default());
        let report = report.expect("a superblock");
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

//! New volumes are compared with those of mke2fs, and checked by e2fsck.

mod empty;
mod ext4;

use std::process::Command;

use block::MemoryDevice;
use layout::BlockNr;
use tempfile::TempDir;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const UUID: [u8; 16] = *b"0123456789abcdef";
const SEED: [u8; 16] = *b"fedcba9876543210";
const SECONDS: i64 = 1_000_000_000;
/// Lines that differ between two volumes created at different times.
const IGNORED: [&str; 6] = [
    "Checksum:",
    "Filesystem created",
    "Last write time",
    "Last checked",
    "Lifetime writes",
    // It lies behind the journal, whose place is another one on ext3.
    "MMP block number",
];

/// Returns a geometry for tests of parts.
pub(super) fn geometry() -> Geometry {
    Geometry {
        block_bytes: 4096,
        block_count: 100_000,
        first_data_block: BlockNr::new(0),
        cluster_log: 0,
        blocks_per_group: 32768,
        group_count: 4,
        inodes_per_group: 8192,
        inode_bytes: 128,
        inode_count: 32768,
        first_inode: layout::InodeNr::new(11),
        descriptor_bytes: 32,
        reserved_descriptor_blocks: 0,
        backups: layout::superblock::Backups::Sparse,
        first_meta_group: None,
        has_flexible_groups: false,
    }
}

fn options(file_system: FileSystemType) -> Options {
    Options {
        file_system,
        uuid: Some(UUID),
        hash_seed: Some(SEED),
        seconds: Some(SECONDS),
        ..Options::default()
    }
}

/// A number of blocks without their size is one of blocks as large as those of the whole device.
#[test]
fn a_part_of_a_device_has_the_blocks_of_the_device() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 30));
    let part = Options {
        block_count: Some(20_000),
        ..options(FileSystemType::Ext4)
    };
    let geometry = format(&device, &part).expect("it is made").geometry;
    assert_eq!((geometry.block_bytes, geometry.block_count), (4096, 20_000));
}

fn ext2() -> Options {
    options(FileSystemType::Ext2)
}

fn ext3() -> Options {
    options(FileSystemType::Ext3)
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-test-tools"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.success(),
        text + &String::from_utf8_lossy(&output.stderr),
    )
}

fn path(directory: &TempDir, name: &str) -> String {
    directory
        .path()
        .join(name)
        .to_str()
        .expect("a plain path")
        .to_owned()
}

fn make(size: u64, options: &Options) -> (Arc<MemoryDevice>, Summary) {
    let device = Arc::new(MemoryDevice::new(size));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let summary = format(&shared, options).expect("the options fit");
    (device, summary)
}

fn check_clean(image: &str, further: &[&str]) {
    let mut arguments = vec!["-fn"];
    arguments.extend(further);
    arguments.push(image);
    let (is_clean, output) = run("e2fsck", &arguments);
    assert!(is_clean, "{output}");
}

/// Returns the lines of dumpe2fs that have to be equal: the superblock, and the places of each
/// group's metadata.
fn dump(image: &str) -> Vec<String> {
    let (is_good, output) = run("dumpe2fs", &[image]);
    assert!(is_good, "{output}");
    let is_header = |line: &&str| !line.starts_with(' ') && !line.starts_with("Group ");
    let header = output
        .lines()
        .take_while(|line| !line.starts_with("Group "));
    let header = header
        .filter(is_header)
        .filter(|line| !IGNORED.iter().any(|ignored| line.starts_with(ignored)));
    let groups = output.lines().filter(|line| {
        [
            "Group ",
            "  Primary",
            "  Backup",
            "  Group descriptor",
            "  Reserved GDT",
            "  Block bitmap",
            "  Inode bitmap",
            "  Inode table",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    });
    header
        .chain(groups)
        // A group's flags and checksum follow.
        .map(|line| line.split(" csum ").next().unwrap_or(line))
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Creates a volume with this crate and with mke2fs, and compares the two.
fn compare(size: u64, options: &Options, arguments: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (path(&directory, "ours"), path(&directory, "theirs"));
    let (device, summary) = make(size, options);
    device.write_to_file(&ours).expect("room for the image");
    std::fs::File::create(&theirs)
        .expect("a file")
        .set_len(size)
        .expect("room");
    let file_system = match options.file_system {
        FileSystemType::Ext2 => "ext2",
        FileSystemType::Ext3 => "ext3",
        FileSystemType::Ext4 => "ext4",
    };
    let (uuid, seed) = (uuid_text(UUID), format!("hash_seed={}", uuid_text(SEED)));
    let mut all = vec!["-F", "-q", "-t", file_system, "-U", &uuid, "-E", &seed];
    all.extend(arguments);
    all.push(&theirs);
    let (is_made, output) = run("mke2fs", &all);
    assert!(is_made, "{output}");
    let what = format!("{size} bytes, {all:?}, {summary:?}");
    let (our_lines, their_lines) = (dump(&ours), dump(&theirs));
    for (our_line, their_line) in our_lines.iter().zip(&their_lines) {
        assert_eq!(our_line, their_line, "{what}");
    }
    assert_eq!(our_lines.len(), their_lines.len(), "{what}");
    check_clean(&ours, &[]);
}

/// Sizes around the limits of usage types, journals and last groups.
const SIZES: &[u64] = &[
    720 * KIB,
    1440 * KIB,
    2 * MIB,
    3 * MIB,
    8 * MIB,
    8 * MIB + 60 * KIB,
    8 * MIB + 1000 * KIB,
    33 * MIB,
    100 * MIB,
    257 * MIB,
    511 * MIB,
    512 * MIB,
    641 * MIB,
];

#[test]
fn defaults_by_size_are_those_of_mke2fs() {
    for size in SIZES {
        compare(*size, &ext2(), &[]);
        compare(*size, &ext3(), &[]);
    }
}

#[test]
fn every_size_of_blocks_and_inodes_is_like_mke2fs() {
    for block_bytes in [1024, 2048, 4096] {
        for inode_bytes in [128, 256, 512] {
            for size in [20 * MIB, 131 * MIB, 600 * MIB] {
                for base in [ext2(), ext3()] {
                    let options = Options {
                        block_bytes: Some(block_bytes),
                        inode_bytes: Some(inode_bytes),
                        ..base
                    };
                    let (b, i) = (block_bytes.to_string(), inode_bytes.to_string());
                    compare(size, &options, &["-b", &b, "-I", &i]);
                }
            }
        }
    }
}

#[test]
fn a_large_volume_is_like_that_of_mke2fs() {
    compare(5 << 30, &ext3(), &[]);
}

const OPTIONS_SIZE: u64 = 70 * MIB;

#[test]
fn counts_asked_for_are_those_of_mke2fs() {
    let compare = |options: Options, arguments: &[&str]| compare(OPTIONS_SIZE, &options, arguments);
    compare(
        Options {
            bytes_per_inode: Some(1024),
            ..ext2()
        },
        &["-i", "1024"],
    );
    compare(
        Options {
            bytes_per_inode: Some(65536),
            ..ext2()
        },
        &["-i", "65536"],
    );
    compare(
        Options {
            inode_count: Some(100),
            ..ext2()
        },
        &["-N", "100"],
    );
    compare(
        Options {
            inode_count: Some(60000),
            ..ext2()
        },
        &["-N", "60000"],
    );
    compare(
        Options {
            reserved_percent: 0.0,
            ..ext2()
        },
        &["-m", "0"],
    );
    compare(
        Options {
            reserved_percent: 12.5,
            ..ext2()
        },
        &["-m", "12.5"],
    );
    compare(
        Options {
            blocks_per_group: Some(2048),
            ..ext2()
        },
        &["-g", "2048"],
    );
    compare(
        Options {
            blocks_per_group: Some(1000),
            ..ext3()
        },
        &["-g", "1000"],
    );
    let label = "sixteen bytes ok";
    compare(
        Options {
            label: label.to_owned(),
            ..ext2()
        },
        &["-L", label],
    );
}

/// The volumes are so small that no reserved GDT blocks fit, or that no inode is asked for.
#[test]
fn the_smallest_volumes_are_like_those_of_mke2fs() {
    for size in [500 * KIB, MIB] {
        for block_bytes in [1024, 2048, 4096] {
            let options = Options {
                block_bytes: Some(block_bytes),
                ..ext2()
            };
            let b = block_bytes.to_string();
            compare(size, &options, &["-b", &b]);
            let none_by_ratio = Options {
                bytes_per_inode: Some(4 << 20),
                ..options.clone()
            };
            compare(size, &none_by_ratio, &["-b", &b, "-i", "4194304"]);
            let none = Options {
                inode_count: Some(0),
                ..options
            };
            compare(size, &none, &["-b", &b, "-N", "0"]);
        }
    }
    let error = plan::plan(&geometry_of(64 * KIB), &ext2()).map(drop);
    assert!(
        matches!(error, Err(Error::Invalid(why)) if why.contains("11 inodes")),
        "{error:?}"
    );
}

fn geometry_of(size: u64) -> block::Geometry {
    MemoryDevice::new(size).geometry()
}

/// A volume may already have all the descriptors for the size to which it can grow.
#[test]
fn growth_that_needs_no_room_is_taken_for_none() {
    let options = Options {
        resize_blocks_max: Some(100_000),
        block_bytes: Some(1024),
        ..ext2()
    };
    let extended = format!("hash_seed={},resize=100000", uuid_text(SEED));
    compare(OPTIONS_SIZE, &options, &["-b", "1024", "-E", &extended]);
}

#[test]
fn usage_types_and_journal_sizes_are_those_of_mke2fs() {
    let compare = |options: Options, arguments: &[&str]| compare(OPTIONS_SIZE, &options, arguments);
    let large = Options {
        usage: Some(UsageType::LargeFile),
        ..ext2()
    };
    compare(large, &["-T", "largefile", "-b", "4096"]);
    compare(
        Options {
            usage: Some(UsageType::News),
            ..ext2()
        },
        &["-T", "news"],
    );
    let journal = JournalOption::Megabytes(9);
    compare(Options { journal, ..ext3() }, &["-J", "size=9"]);
    let journal = JournalOption::Megabytes(5);
    compare(Options { journal, ..ext2() }, &["-J", "size=5"]);
}

#[test]
fn features_are_edited_as_by_mke2fs() {
    let compare = |list: &str, base: Options| {
        let features = FeatureEdits::parse(list).expect("known features");
        compare(OPTIONS_SIZE, &Options { features, ..base }, &["-O", list]);
    };
    compare("^resize_inode,^dir_index", ext3());
    compare("none,has_journal", ext2());
    compare(
        "^resize_inode,^sparse_super,^filetype,^large_file,^ext_attr",
        ext2(),
    );
    compare("^has_journal", ext3());
}

#[test]
fn a_part_of_the_device_can_be_used() {
    let options = Options {
        block_count: Some(20_000),
        ..ext2()
    };
    let (device, summary) = make(OPTIONS_SIZE, &options);
    assert_eq!(summary.geometry.block_count, 20_000);
    assert!(device.populated_bytes() < 20_000 * 1024);
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    device.write_to_file(&image).expect("room for the image");
    check_clean(&image, &[]);
}

#[test]
fn growth_can_be_limited() {
    let options = Options {
        resize_blocks_max: Some(2_000_000),
        ..ext2()
    };
    let resize = format!("resize=2000000,hash_seed={}", uuid_text(SEED));
    compare(100 * MIB, &options, &["-E", &resize]);
}

#[test]
fn the_same_parameters_give_the_same_bytes() {
    let first = make(40 * MIB, &ext3()).0;
    let second = make(40 * MIB, &ext3()).0;
    assert_eq!(first.first_difference(&second), None);
    let other = make(
        40 * MIB,
        &Options {
            uuid: None,
            ..ext3()
        },
    )
    .0;
    assert!(first.first_difference(&other).is_some());
}

#[test]
fn an_old_volume_leaves_nothing_behind() {
    let device = Arc::new(MemoryDevice::from_bytes(&vec![0xA5; 20 << 20]));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    format(&shared, &ext3()).expect("the options fit");
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    device.write_to_file(&image).expect("room for the image");
    check_clean(&image, &[]);
}

#[test]
fn the_classic_default_is_that_of_2002() {
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    for (size, block_bytes, journal_blocks) in [
        (100 * MIB, 1024, 4096),
        (600 * MIB, 4096, 4096),
        (1100 * MIB, 4096, 8192),
    ] {
        let (device, summary) = make(size, &Options::classic2002());
        assert_eq!(summary.geometry.block_bytes, block_bytes);
        assert_eq!(summary.journal_blocks, journal_blocks);
        assert_eq!(summary.geometry.inode_bytes, 128);
        let (wanted, made) = (size / 8192, u64::from(summary.geometry.inode_count));
        assert!(
            (wanted..wanted + wanted / 50).contains(&made),
            "{made} inodes"
        );
        assert_eq!(
            summary.features.to_string(),
            "has_journal filetype sparse_super"
        );
        device.write_to_file(&image).expect("room for the image");
        check_clean(&image, &[]);
        let (_, output) = run("debugfs", &["-R", "blocks <8>", &image]);
        let blocks: Vec<u64> = output
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        assert!(*blocks.iter().max().expect("the journal has blocks") < 40_000);
    }
}

#[test]
fn a_journal_can_be_on_another_device() {
    let directory = tempfile::tempdir().expect("a directory");
    let (image, log) = (path(&directory, "image"), path(&directory, "log"));
    for block_bytes in [1024, 2048, 4096] {
        let device = Arc::new(MemoryDevice::new(50 << 20));
        let journal = Arc::new(MemoryDevice::new(9 << 20));
        let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let journal_shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&journal);
        assert!(format_with_journal(&shared, &journal_shared, &ext3()).is_err());
        let made = format_journal_device(&journal_shared, block_bytes, *b"journal's uuid..")
            .expect("large enough");
        assert_eq!(journal_device(&journal_shared).expect("made above"), made);
        let summary = format_with_journal(&shared, &journal_shared, &ext3()).expect("fits");
        assert_eq!(summary.geometry.block_bytes, block_bytes);
        assert!(summary.has_journal());
        device.write_to_file(&image).expect("room for the image");
        journal.write_to_file(&log).expect("room for the image");
        check_clean(&image, &["-j", &log]);
        let (_, output) = run("dumpe2fs", &[&log]);
        assert!(output.contains(&uuid_text(UUID)), "{output}");
    }
}

/// Returns options with one invalid value each.
fn refused() -> Vec<Options> {
    vec![
        Options {
            block_bytes: Some(8192),
            ..ext2()
        },
        Options {
            block_bytes: Some(1000),
            ..ext2()
        },
        Options {
            inode_bytes: Some(200),
            ..ext2()
        },
        Options {
            inode_bytes: Some(2048),
            block_bytes: Some(1024),
            ..ext2()
        },
        Options {
            bytes_per_inode: Some(512),
            ..ext2()
        },
        Options {
            reserved_percent: 51.0,
            ..ext2()
        },
        Options {
            reserved_percent: f64::NAN,
            ..ext2()
        },
        Options {
            label: "seventeen bytes!!".to_owned(),
            ..ext2()
        },
        Options {
            blocks_per_group: Some(1001),
            ..ext2()
        },
        Options {
            block_count: Some(1 << 20),
            ..ext2()
        },
        Options {
            inode_count: Some(1 << 20),
            ..ext2()
        },
        Options {
            journal: JournalOption::Blocks(1023),
            ..ext3()
        },
        Options {
            journal: JournalOption::Megabytes(8),
            ..ext3()
        },
        Options {
            resize_blocks_max: Some(100),
            ..ext2()
        },
        Options {
            features: FeatureEdits::parse("^sparse_super").expect("known"),
            ..ext2()
        },
    ]
}

#[test]
fn impossible_options_are_refused_before_anything_is_written() {
    let device = Arc::new(MemoryDevice::new(10 << 20));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    for options in refused() {
        let error = format(&shared, &options).expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert!(FeatureEdits::parse("encrypt").is_err());
    assert!(FeatureEdits::parse("no_such_feature").is_err());
    assert_eq!(device.populated_bytes(), 0);
    let tiny: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(16 << 10));
    assert!(format(&tiny, &ext2()).is_err());
}

/// The number of inodes is not the reason.
#[test]
fn small_groups_have_no_room_for_reserved_descriptors() {
    let try_with = |edits| {
        let options = Options {
            blocks_per_group: Some(256),
            features: FeatureEdits::parse(edits).expect("edits"),
            ..options(FileSystemType::Ext3)
        };
        preview(&block::Geometry::new(1 << 30), &options)
    };
    let refused = try_with("resize_inode").expect_err("no room");
    assert!(refused.to_string().contains("^resize_inode"), "{refused}");
    try_with("^resize_inode").expect("room");
}

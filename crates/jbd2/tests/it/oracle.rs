//! Beside e2fsprogs: what we write, e2fsck replays; what debugfs writes, we replay as e2fsck does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use jbd2::{Buffer, Config, Credits, Journal, Location, LogExtent};
use layout::{Block, BlockNr};
use testkit::{Random, tool};

use crate::harness::{Notes, pattern};

/// An image that mke2fs makes, and what debugfs is told when it opens its journal.
struct Image {
    path: PathBuf,
    block_bytes: u32,
    _directory: tempfile::TempDir,
}

/// mke2fs's arguments and debugfs's `journal_open`.
const KINDS: [(&[&str], &str); 6] = [
    (&["-t", "ext3", "-b", "1024"], "jo"),
    (&["-t", "ext3", "-b", "4096"], "jo"),
    (&["-t", "ext3", "-b", "1024"], "jo -c"),
    (
        &["-t", "ext4", "-b", "1024", "-O", "metadata_csum,64bit"],
        "jo -c -v 3",
    ),
    (
        &["-t", "ext4", "-b", "4096", "-O", "metadata_csum,^64bit"],
        "jo -c -v 3",
    ),
    (
        &["-t", "ext4", "-b", "2048", "-O", "metadata_csum,64bit"],
        "jo -c -v 2",
    ),
];

fn run(name: &str, arguments: &[&str], path: &Path) -> Output {
    let mut all = arguments.to_vec();
    all.push(path.to_str().expect("a plain path"));
    tool::run(name, &all)
}

fn debugfs(path: &Path, commands: &str) -> String {
    let script = path.with_extension("commands");
    std::fs::write(&script, commands).unwrap();
    let script = script.to_str().expect("a plain path");
    let output = run("debugfs", &["-w", "-f", script], path);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Image {
    fn new(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fs.img");
        let block_bytes: u32 = arguments[3].parse().unwrap();
        let size = 8192 * u64::from(block_bytes);
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        let mut all = vec!["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        all.extend(arguments);
        let output = run("mke2fs", &all, &path);
        assert!(output.status.success(), "{output:?}");
        Self {
            path,
            block_bytes,
            _directory: directory,
        }
    }

    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.path.with_file_name(name);
        std::fs::copy(&self.path, &copy).unwrap();
        copy
    }

    /// Returns the places of the journal inode's blocks, one by one.
    fn journal_extents(&self) -> Vec<LogExtent> {
        let mut commands = String::new();
        for block in 0..1024 {
            writeln!(commands, "bmap <8> {block}").unwrap();
        }
        debugfs(&self.path, &commands)
            .lines()
            .filter_map(|line| line.parse().ok())
            .map(|first| LogExtent {
                first: BlockNr::new(first),
                count: 1,
            })
            .collect()
    }

    fn location(&self, device: &Arc<MemoryDevice>, extents: &[LogExtent]) -> Location {
        Location {
            device: Arc::<MemoryDevice>::clone(device),
            block_bytes: self.block_bytes,
            extents: extents.to_vec(),
        }
    }
}

/// Says in the ext superblock that the journal has to be replayed, with its checksum.
fn set_needs_recovery(device: &Arc<MemoryDevice>) {
    let device: &dyn BlockDevice = &**device;
    let block = device.read_block(1024, 1024).unwrap();
    let mut bytes = Block::copy_from(&block);
    bytes[0x60] |= 4;
    let checksum = layout::checksum::crc32c(!0, &bytes[..1020]);
    if u32::from_le_bytes(bytes[0x64..0x68].try_into().unwrap()) & 0x400 != 0 {
        bytes[1020..].copy_from_slice(&checksum.to_le_bytes());
    }
    device.write_blocks(1024, vec![bytes.into_arc()]).unwrap();
}

/// Sets the feature in the journal's superblock, which mke2fs never does.
fn enable_v1_checksums(image: &Image, device: &Arc<MemoryDevice>, extents: &[LogExtent]) {
    let device: &dyn BlockDevice = &**device;
    let offset = extents[0].first.get() * u64::from(image.block_bytes);
    let mut bytes = Block::copy_from(&device.read_block(offset, 1024).unwrap());
    bytes[0x27] |= 1;
    device.write_blocks(offset, vec![bytes.into_arc()]).unwrap();
}

/// All blocks but the superblock's and the log's: these differ by counters and by how each empties
/// the log.
fn contents(image: &Image, device: &MemoryDevice, extents: &[LogExtent]) -> Vec<(usize, Vec<u8>)> {
    let bytes = device.to_bytes();
    let is_skipped = |nr: usize| {
        let superblock = 1024 / image.block_bytes as usize;
        nr == superblock || extents.iter().any(|extent| extent.first.index() == nr)
    };
    let blocks = bytes.chunks(image.block_bytes as usize).enumerate();
    blocks
        .filter(|(nr, _)| !is_skipped(*nr))
        .map(|(nr, bytes)| (nr, bytes.to_vec()))
        .collect()
}

/// Recovers copies of an image with e2fsck and with ours, and compares all blocks.
fn compare(image: &Image, extents: &[LogExtent], context: &str) -> Arc<MemoryDevice> {
    let theirs = image.copy("theirs.img");
    let output = run("e2fsck", &["-fy"], &theirs);
    assert!(
        output.status.code().is_some_and(|code| code <= 1),
        "{context}: {output:?}"
    );
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("recovering journal"), "{context}: {text}");
    let theirs = MemoryDevice::load_from_file(&theirs).unwrap();

    let ours = Arc::new(MemoryDevice::load_from_file(&image.path).unwrap());
    let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&ours);
    let log = image.location(&ours, extents);
    let recovered = jbd2::recovery::recover(&log, &home).unwrap();
    assert!(!recovered.was_clean);
    for (our, their) in contents(image, &ours, extents)
        .iter()
        .zip(contents(image, &theirs, extents))
    {
        assert!(*our == their, "block {} differs: {context}", our.0);
    }
    ours
}

#[test]
fn e2fsck_replays_what_we_write() {
    for (number, (arguments, open)) in KINDS.iter().enumerate() {
        let context = format!("{arguments:?}");
        let image = Image::new(arguments);
        let extents = image.journal_extents();
        assert_eq!(extents.len(), 1024, "{context}");
        let device = Arc::new(MemoryDevice::load_from_file(&image.path).unwrap());
        if *open == "jo -c" {
            enable_v1_checksums(&image, &device, &extents);
        }
        let log = image.location(&device, &extents);
        let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        let journal = Journal::open(log, home, Config::default(), Notes::new()).unwrap();
        let expected = write_some(&journal, image.block_bytes, number as u64);
        // The power goes.
        set_needs_recovery(&device);
        device.write_to_file(&image.path).unwrap();
        drop(journal);
        let ours = compare(&image, &extents, &context);
        let bytes = ours.to_bytes();
        for (nr, content) in expected {
            let at = nr as usize * image.block_bytes as usize;
            assert!(
                bytes[at..at + content.len()] == content[..],
                "block {nr}: {context}"
            );
        }
    }
}

/// Transactions over free blocks: images, escapes, revokes, reuse. What must be there after
/// recovery.
fn write_some(journal: &Arc<Journal>, block_bytes: u32, seed: u64) -> Vec<(u64, Arc<Block>)> {
    let mut random = Random::new(seed);
    let mut expected: std::collections::BTreeMap<u64, (Arc<Buffer>, Arc<Block>)> =
        std::collections::BTreeMap::new();
    for round in 0..12u64 {
        let mut handle = journal
            .start(Credits {
                blocks: 60,
                revokes: 20,
            })
            .unwrap();
        for _ in 0..50 {
            let nr = 7000 + random.below(300);
            let image = pattern(block_bytes, nr, round * 100 + random.below(100));
            let zero = Block::zeroed(block_bytes as usize).into_arc();
            let (buffer, held) = expected
                .entry(nr)
                .or_insert_with(|| (Buffer::new(BlockNr::new(nr), Arc::clone(&zero)), zero));
            handle.replace(buffer, Arc::clone(&image)).unwrap();
            *held = image;
        }
        let freed: Vec<u64> = expected
            .keys()
            .copied()
            .filter(|_| random.below(16) == 0)
            .take(20)
            .collect();
        for nr in freed {
            let (buffer, _) = expected.remove(&nr).unwrap();
            handle
                .forget(BlockNr::new(nr), Some(&buffer), true)
                .unwrap();
        }
        let tid = handle.finish().unwrap();
        journal.commit(tid).unwrap();
    }
    expected
        .into_iter()
        .map(|(nr, (_, image))| (nr, image))
        .collect()
}

#[test]
fn we_replay_what_debugfs_writes() {
    for (number, (arguments, open)) in KINDS.iter().enumerate() {
        let context = format!("{arguments:?} {open}");
        let image = Image::new(arguments);
        let extents = image.journal_extents();
        let source = image.path.with_file_name("source");
        let mut random = Random::new(number as u64);
        let mut commands = format!("{open}\n");
        let mut bytes = Vec::new();
        for version in 0..250 {
            bytes.extend_from_slice(&pattern(image.block_bytes, 7000, version));
        }
        std::fs::write(&source, bytes).unwrap();
        let source = source.to_str().expect("a plain path");
        for count in [3, 1, 200, 17, 40] {
            let numbers: Vec<String> = (0..count)
                .map(|index| (7000 + index * 2 + random.below(2)).to_string())
                .collect();
            writeln!(commands, "jw -b {} {source}", numbers.join(",")).unwrap();
            if *open == "jo -c" {
                // debugfs takes revoke blocks into its v1 checksums, which e2fsck then rejects.
                continue;
            }
            let revoked = 7000 + random.below(400);
            writeln!(commands, "jw -r {revoked},{}", revoked + 1).unwrap();
        }
        commands.push_str("jc\n");
        debugfs(&image.path, &commands);
        let device = Arc::new(MemoryDevice::load_from_file(&image.path).unwrap());
        let log = image.location(&device, &extents);
        let inspection = jbd2::recovery::inspect(&log).unwrap();
        let count = if *open == "jo -c" { 5 } else { 10 };
        assert_eq!(
            inspection.transactions.len(),
            count,
            "{context}: {:?}",
            inspection.end
        );
        compare(&image, &extents, &context);
    }
}

#[test]
fn the_end_of_an_uncommitted_transaction_is_where_e2fsck_sees_it() {
    let image = Image::new(KINDS[0].0);
    let extents = image.journal_extents();
    let source = image.path.with_file_name("source");
    std::fs::write(&source, &pattern(1024, 1, 1)[..]).unwrap();
    let source = source.to_str().expect("a plain path");
    // With -c debugfs leaves the commit block out.
    let commands = format!("jo\njw -b 7000 {source}\njw -b 7001 -c {source}\njc\n");
    debugfs(&image.path, &commands);
    let ours = compare(&image, &extents, "uncommitted");
    let bytes = ours.to_bytes();
    assert!(bytes[7000 * 1024..7001 * 1024] == pattern(1024, 1, 1)[..]);
    assert!(
        bytes[7001 * 1024..7002 * 1024]
            .iter()
            .all(|byte| *byte == 0)
    );
}

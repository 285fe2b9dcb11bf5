//! Journals cross: logs that we leave dirty are replayed by `e2fsck` to the same image as by our recovery, and logs that the
//! kernel leaves dirty are replayed by us to the same image as by `e2fsck`.

use std::path::Path;
use std::sync::Arc;

use block::BlockDevice;
use block::file::{FileDevice, OpenOptions};
use block::memory::MemoryDevice;
use ext::Volume;
use ext::options::DataMode;
use layout::InodeNr;

use crate::cell::{Cell, Journal};
use crate::image::Image;
use crate::model::Model;
use crate::oracle::{self, Loop};
use crate::random::Random;
use crate::script::Script;

const VOLUME_BYTES: u64 = 24 << 20;
/// Operations before the log is left dirty.
const OPERATIONS: u32 = 300;

/// Superblock fields that depend on when and how often somebody looked, as byte ranges of its 1024 bytes: last mount, last
/// write, mount count, last check, lifetime written, free counts (believed only after a recount), recovery flag.
const VOLATILE: &[core::ops::Range<usize>] = &[
    0x0C..0x14,
    0x2C..0x34,
    0x34..0x36,
    0x3A..0x3C,
    0x40..0x44,
    0x60..0x64,
    0x178..0x180,
    0x3FC..0x400,
];

/// Compares two images block by block; of the superblock only what does not change by looking, and the journal's own
/// superblock not at all.
fn assert_equal_images(
    a: &Path,
    b: &Path,
    block_bytes: usize,
    journal_superblock: usize,
    what: &str,
) {
    let (mut a, mut b) = (
        std::fs::read(a).expect("image"),
        std::fs::read(b).expect("image"),
    );
    assert_eq!(a.len(), b.len(), "{what}: sizes");
    for image in [&mut a, &mut b] {
        for range in VOLATILE {
            image[1024 + range.start..1024 + range.end].fill(0);
        }
        let at = journal_superblock * block_bytes;
        image[at..at + block_bytes].fill(0);
    }
    for (number, (x, y)) in a.chunks(block_bytes).zip(b.chunks(block_bytes)).enumerate() {
        let at = x.iter().zip(y).position(|(x, y)| x != y);
        assert!(
            at.is_none(),
            "{what}: block {number} differs at byte {at:?}"
        );
    }
}

/// Where the first block of the internal journal lies.
fn journal_block(image: &Path) -> usize {
    let path = image.to_str().expect("UTF-8");
    let output = oracle::run("debugfs", &["-R", "bmap <8> 0", path]);
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("debugfs bmap said {text:?}"))
}

fn replay_by_e2fsck(image: &Path) {
    let path = image.to_str().expect("UTF-8");
    let output = oracle::run("e2fsck", &["-fy", "-E", "journal_only", path]);
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "e2fsck replays: {text}{error}"
    );
}

/// Replays by opening the volume read-only, which changes nothing beyond the replay.
fn replay_by_us(image: &Path) -> u32 {
    let device = FileDevice::open(image, &OpenOptions::default()).expect("the image opens");
    let options = ext::MountOptions {
        read_only: true,
        ..Default::default()
    };
    let (volume, report) =
        Volume::open_with_report(Arc::new(device), None, options).expect("the volume opens");
    volume.close().expect("close");
    report.replayed_transactions
}

fn copy(from: &Path, name: &str) -> std::path::PathBuf {
    let to = from.with_extension(name);
    std::fs::copy(from, &to).expect("a copy of the image");
    to
}

/// Our dirty log: what was on the device after so many operations, without a close.
fn leave_dirty(block_bytes: u32, mode: DataMode, seed: u64) {
    let cell = Cell {
        block_bytes,
        journal: Journal::Internal(mode),
    };
    let image = Image::by_mke2fs(cell, VOLUME_BYTES);
    let memory = MemoryDevice::load_from_file(&image.path).expect("the image loads");
    let memory = Arc::new(memory);
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let volume = Volume::open(device, None, cell.options()).expect("the volume opens");
    let lost_found = volume
        .lookup(InodeNr::ROOT, b"lost+found")
        .expect("lost+found");
    let mut model = Model::new(lost_found);
    let mut random = Random::new(seed);
    for _ in 0..OPERATIONS {
        Script {
            volume: &volume,
            model: &mut model,
            random: &mut random,
            block_bytes,
        }
        .step();
    }
    volume.sync().expect("the log is written");
    memory
        .snapshot()
        .write_to_file(&image.path)
        .expect("the image is written");
    drop(volume);
    let (theirs, ours) = (copy(&image.path, "theirs"), copy(&image.path, "ours"));
    let journal = journal_block(&image.path);
    replay_by_e2fsck(&theirs);
    let replayed = replay_by_us(&ours);
    assert!(replayed > 0, "the log was dirty");
    let what = format!("{block_bytes} byte blocks, {mode:?}, seed {seed}");
    assert_equal_images(&theirs, &ours, block_bytes as usize, journal, &what);
}

#[test]
fn e2fsck_replays_our_logs_as_we_do() {
    for block_bytes in [1024, 4096] {
        for (seed, mode) in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal]
            .into_iter()
            .enumerate()
        {
            leave_dirty(block_bytes, mode, seed as u64);
        }
    }
}

/// Lets the kernel work on the image and stops it in the middle.
fn kernel_leaves_dirty(image: &Path, mode: &str, flushes_log: bool) {
    let directory = image.with_extension("mount");
    std::fs::create_dir_all(&directory).expect("a mount point");
    let at = directory.to_str().expect("UTF-8");
    let device = Loop::attach(image, false);
    let options = format!("data={mode},commit=1000");
    let output = oracle::run("mount", &["-t", "ext3", "-o", &options, &device.path, at]);
    assert!(output.status.success(), "mount needs root: {output:?}");
    for number in 0..60 {
        let file = directory.join(format!("file{number}"));
        std::fs::write(&file, vec![number as u8; 3000 + number * 97]).expect("written");
        if number % 3 == 0 {
            std::fs::remove_file(&file).expect("removed");
        }
        std::fs::create_dir_all(directory.join(format!("d{}/e", number % 7))).expect("mkdir");
    }
    oracle::run("sync", &["-f", at]);
    for number in 0..60 {
        let file = directory.join(format!("later{number}"));
        std::fs::write(&file, vec![number as u8; 200]).expect("written");
        // A removal that is cut in the middle leaves an orphan, which e2fsck finishes and a read-only open leaves alone:
        // so only where the log is flushed, and nothing is cut.
        if flushes_log && number % 5 == 0 {
            std::fs::remove_dir_all(directory.join(format!("d{}", number % 7))).ok();
        }
    }
    let command = if flushes_log {
        "shutdown -f"
    } else {
        "shutdown"
    };
    let output = oracle::run("xfs_io", &["-x", "-c", command, at]);
    assert!(output.status.success(), "xfs_io: {output:?}");
    oracle::run("umount", &[at]);
}

#[test]
fn we_replay_the_kernels_logs_as_e2fsck_does() {
    for block_bytes in [1024, 4096] {
        for mode in ["ordered", "writeback", "journal"] {
            for flushes_log in [true, false] {
                let cell = Cell {
                    block_bytes,
                    journal: Journal::Internal(DataMode::Ordered),
                };
                let image = Image::by_mke2fs(cell, VOLUME_BYTES);
                kernel_leaves_dirty(&image.path, mode, flushes_log);
                let (theirs, ours) = (copy(&image.path, "theirs"), copy(&image.path, "ours"));
                let journal = journal_block(&image.path);
                replay_by_e2fsck(&theirs);
                let replayed = replay_by_us(&ours);
                assert!(replayed > 0, "the kernel's log was dirty");
                let what = format!("{block_bytes} byte blocks, {mode}, log flushed: {flushes_log}");
                assert_equal_images(&theirs, &ours, block_bytes as usize, journal, &what);
            }
        }
    }
}

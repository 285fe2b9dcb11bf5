//! Blocks that files exchange: what a crash, a failing device and the end of a file leave to the
//! other file.

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags, RangeChange, SetAttributes};
use layout::InodeNr;

use super::*;
use crate::damage::assert_notices;
use crate::rig::quiet;

const BLOCK: u64 = 4096;

fn opened(memory: &Arc<MemoryDevice>) -> Volume {
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(memory);
    Volume::open(device, None, quiet(DataMode::Ordered)).expect("the volume opens")
}

/// Returns what a crash at this instant leaves.
fn copy(memory: &Arc<MemoryDevice>) -> Arc<MemoryDevice> {
    Arc::new(memory.snapshot())
}

fn make(volume: &Volume, path: &str, bytes: &[u8]) -> InodeNr {
    volume.write_file(path, bytes).expect("write");
    volume.resolve(path, true).expect("it is there")
}

fn overwrite(volume: &Volume, nr: InodeNr, offset: u64, byte: u8) {
    let flags = OpenFlags {
        direct: true,
        ..OpenFlags::READ_WRITE
    };
    let file = volume.open_inode(nr, flags).expect("open");
    let bytes = [byte; BLOCK as usize];
    volume.write(file, offset, &bytes).expect("write");
}

/// Data that goes to the device before the next commit does not show in the file that had the block
/// before the exchange.
#[test]
fn a_write_after_an_exchange_stays_out_of_the_other_file() {
    assert_notices("exchange/not-committed", || {
        let memory = in_memory(&image(4096, 32 * MIB, ""));
        let volume = opened(&memory);
        let one = make(&volume, "/one", &[b'a'; BLOCK as usize]);
        let other = make(&volume, "/other", &[b'b'; BLOCK as usize]);
        volume.sync().expect("sync");
        volume
            .exchange_range([one, other], [0; 2], BLOCK)
            .expect("exchange");
        overwrite(&volume, other, 0, b'c');
        let found = opened(&copy(&memory)).read_file("/one").expect("read");
        assert!(found[0] != b'c', "bytes that another file was given");
    });
}

/// The same where blocks move within a file.
#[test]
fn a_write_after_a_move_stays_where_it_was_made() {
    assert_notices("ranges/move-not-committed", || {
        for what in [RangeChange::Collapse, RangeChange::Insert] {
            let memory = in_memory(&image(4096, 32 * MIB, ""));
            let volume = opened(&memory);
            let mut bytes = Vec::new();
            for byte in b'a'..b'f' {
                bytes.extend([byte; BLOCK as usize]);
            }
            let nr = make(&volume, "/f", &bytes);
            volume.sync().expect("sync");
            volume
                .change_range(nr, BLOCK, BLOCK, what, false)
                .expect("a move");
            overwrite(&volume, nr, 2 * BLOCK, b'X');
            let found = opened(&copy(&memory)).read_file("/f").expect("read");
            let is_written = found[2 * BLOCK as usize] == b'X';
            let count = found.iter().filter(|byte| **byte == b'X').count();
            assert!(
                count == 0 || is_written && count == BLOCK as usize,
                "{what:?}: bytes at a place to which they were not written"
            );
        }
    });
}

/// The bytes behind the end of a file within its last block do not become another file's contents.
#[test]
fn bytes_behind_the_end_are_not_given_away() {
    assert_notices("exchange/tail-not-cleared", || {
        let memory = in_memory(&image(4096, 32 * MIB, ""));
        let volume = opened(&memory);
        let short = make(&volume, "/short", &[b'a'; 10_000]);
        let secret = make(&volume, "/secret", &[b's'; 12_288]);
        let third = make(&volume, "/third", &[b't'; 12_288]);
        for other in [secret, third] {
            volume
                .exchange_range([short, other], [0; 2], 12_288)
                .expect("exchange");
        }
        let found = volume.read_file("/third").expect("read");
        assert!(
            found[10_000..].iter().all(|byte| *byte == 0),
            "bytes of a file that it has never exchanged with"
        );
    });
}

/// An image with files whose nodes lie in other groups than their data: they have exchanged it.
fn far_nodes() -> Image {
    let image = image(
        1024,
        12 * MIB,
        "-g 1024 -O ^flex_bg,^resize_inode -J size=1 -N 256",
    );
    let memory = in_memory(&image);
    let volume = opened(&memory);
    let mut files = Vec::new();
    for (directory, name) in [(&b"x"[..], "/x/f"), (b"y", "/y/f"), (b"z", "/z/f")] {
        volume
            .make_directory(InodeNr::ROOT, directory, &NewInode::default())
            .expect("mkdir");
        let nr = make(&volume, name, b"");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let count = if directory == b"z" { 5 } else { 200 };
        for number in 0..count {
            let at = number * 2 * 1024;
            volume.write(file, at, &[b'f'; 1024]).expect("write");
        }
        files.push(nr);
    }
    volume.sync().expect("sync");
    volume
        .exchange_range([files[0], files[1]], [0; 2], 399 * 1024)
        .expect("exchange");
    volume.close().expect("close");
    memory.write_to_file(&image.path).expect("written");
    image
}

fn truncate(volume: &Volume, nr: InodeNr, size: u64) -> Result<()> {
    let changes = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    volume.set_attributes(nr, &changes).map(drop)
}

type Change = fn(&Volume) -> Result<()>;

/// Changes that free nodes of extent trees.
const CHANGES: [(&str, Change); 7] = [
    ("unlink", |volume| volume.remove_file("/x/f")),
    ("truncate", |volume| {
        let nr = volume.resolve("/x/f", true)?;
        truncate(volume, nr, 3 * 1024)
    }),
    ("exchange", |volume| {
        let one = volume.resolve("/z/f", true)?;
        let other = volume.resolve("/x/f", true)?;
        volume.exchange_range([one, other], [0; 2], 9 * 1024)?;
        truncate(volume, other, 12 * 1024)?;
        volume.exchange_range([other, one], [0; 2], 9 * 1024)
    }),
    ("exchange with holes", |volume| {
        let one = volume.resolve("/x/f", true)?;
        let other = volume.resolve("/y/f", true)?;
        volume.exchange_range([one, other], [0, 1024], 390 * 1024)
    }),
    ("collapse", |volume| {
        let nr = volume.resolve("/x/f", true)?;
        volume.change_range(nr, 4 * 1024, 380 * 1024, RangeChange::Collapse, false)
    }),
    ("punch", |volume| {
        let nr = volume.resolve("/x/f", true)?;
        volume.change_range(nr, 0, 399 * 1024, RangeChange::PunchHole, false)
    }),
    ("fill", |volume| {
        let nr = volume.resolve("/x/f", true)?;
        volume.change_range(nr, 0, 399 * 1024, RangeChange::Allocate, false)
    }),
];

/// Every read of a change fails once, on a volume that has nothing in memory. Whatever was done,
/// each block has one owner, and what is free is free.
fn fail_each_read(image: &Image) {
    for (name, change) in CHANGES {
        let mut nth = 1;
        loop {
            let memory = in_memory(image);
            let rule = FaultRule {
                operations: Operations::READS,
                when: When::Nth(nth),
                effect: Effect::Fail,
            };
            let plan = FaultPlan {
                seed: 1,
                rules: vec![rule],
                bad_sectors: Vec::new(),
            };
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
            let faulty = Arc::new(FaultDevice::new(device, plan));
            faulty.set_armed(false);
            let home = Arc::<FaultDevice>::clone(&faulty);
            let volume = Volume::open(home, None, quiet(DataMode::Ordered)).expect("it opens");
            faulty.set_armed(true);
            let changed = change(&volume);
            let is_over = faulty.strikes() == 0;
            faulty.set_armed(false);
            let is_device = matches!(&changed, Err(Error::Device(_)));
            assert!(
                changed.is_ok() || is_device && !is_over,
                "{name}, read {nth}: {changed:?}"
            );
            volume.sync().expect("the device works again");
            drop(volume);
            // What is left of a deletion is deleted, with a device that works.
            opened(&memory).close().expect("close");
            let report = fsck::check(&*memory, None, &fsck::Options::default()).expect("a check");
            assert!(
                report.is_clean(),
                "{name}, read {nth}: {:?}",
                report.problems.first()
            );
            if is_over {
                break;
            }
            nth += 1;
        }
        assert!(nth > 2, "{name} reads nothing");
    }
}

#[test]
fn nodes_whose_bitmaps_cannot_be_read() {
    assert_notices("extents/node-not-checked-before-data-freed", || {
        fail_each_read(&far_nodes());
    });
}

/// A range of a journaled file that became unwritten, on a full volume: its synced contents are
/// there after a power cut, whatever became of a write to it.
#[test]
fn zeroes_of_a_journaled_file_go_through_the_log() {
    assert_notices("unwritten/journaled-zeroed-past-log", || {
        let image = image(1024, 8 * MIB, "-m 0 -J size=1 -N 64");
        let memory = in_memory(&image);
        let open = || {
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
            Volume::open(device, None, quiet(DataMode::Journal)).expect("it opens")
        };
        let volume = open();
        let nr = make(&volume, "/f", &[b'a'; 10 * 1024]);
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        // As many extents as the inode has room for.
        for block in [20, 40, 60] {
            volume
                .write(file, block * 1024, &[b'b'; 1024])
                .expect("write");
        }
        let full = make(&volume, "/full", b"");
        let full = volume
            .open_inode(full, OpenFlags::READ_WRITE)
            .expect("open");
        let mut at = 0;
        while volume.write(full, at, &[b'c'; 1024]).is_ok() {
            at += 1024;
        }
        volume.close().expect("close");
        let volume = open();
        volume
            .change_range(nr, 0, 10 * 1024, RangeChange::Zero, true)
            .expect("zero");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let written = volume.write(file, 5 * 1024, &[b'd'; 1024]);
        assert!(
            matches!(written, Ok(_) | Err(Error::NoSpace)),
            "{written:?}"
        );
        let found = opened(&copy(&memory)).read_file("/f").expect("read");
        assert!(found[..10 * 1024] == [b'a'; 10 * 1024], "what was synced");
        drop(volume);
    });
}

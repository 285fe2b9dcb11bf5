//! Logs in which a block has lost its header: for the engine, e2fsck and the kernel alike the log
//! ends there, whatever follows.
//!
//! Each transaction of the log creates a file, so that the files found after a replay show its
//! extent.

use ext::options::DataMode;
use ext::{MountOptions, Volume};
use layout::InodeNr;
use layout::journal::Header;
use testkit::privilege;

use super::log_format::{self, LARGE, LogFormat, PLAIN, V1, V2, V3};
use super::{readers, writers};
use crate::image::{Image, look_at};

/// Number of transactions in a log.
const TRANSACTIONS: usize = 5;

/// The block of a transaction that has lost its header.
#[derive(Debug, Clone, Copy)]
enum Lost {
    Descriptor,
    Commit,
}

/// The block that has lost its header, the index of its transaction from the end, and the number of
/// transactions that all readers replay.
const ROWS: [(Lost, usize, usize); 6] = [
    (Lost::Descriptor, 0, TRANSACTIONS - 1),
    (Lost::Commit, 0, TRANSACTIONS - 1),
    (Lost::Descriptor, 1, TRANSACTIONS - 2),
    (Lost::Commit, 1, TRANSACTIONS - 2),
    (Lost::Descriptor, 3, TRANSACTIONS - 4),
    (Lost::Commit, 3, TRANSACTIONS - 4),
];

fn name(number: usize) -> String {
    format!("mark{number}")
}

fn dirty(format: LogFormat) -> Image {
    let image = writers::blank(format, false, false);
    writers::by_engine(&image, DataMode::Ordered, |volume| {
        for number in 0..TRANSACTIONS {
            volume.write_file(&name(number), b"").expect("write");
            volume.sync().expect("sync");
        }
    });
    let log = log_format::inspect(&image);
    assert_eq!(log.transactions.len(), TRANSACTIONS, "{format:?}");
    image
}

/// Zeroes the header of a block of the log.
fn lose(image: &Image, lost: Lost, from_end: usize) {
    let found = &log_format::inspect(image).transactions[TRANSACTIONS - 1 - from_end];
    let log_block = match lost {
        Lost::Descriptor => found.first,
        Lost::Commit => found.commit_block,
    };
    let log = log_format::location(image);
    let mut left = log_block;
    let extent = log.extents.iter().find(|extent| {
        let is_here = left < extent.count;
        left -= if is_here { 0 } else { extent.count };
        is_here
    });
    let block = extent.expect("the block is mapped").first.get() + u64::from(left);
    let offset = block * u64::from(log.block_bytes);
    let before = log.device.read_block(offset, log.block_bytes).unwrap();
    let mut bytes = layout::Block::copy_from(&before);
    bytes[..size_of::<Header>()].fill(0);
    log.device
        .write_blocks(offset, vec![bytes.into_arc()])
        .unwrap();
}

/// Returns the number of files found; those after the first missing one are missing, too.
fn marks(image: &Image) -> usize {
    let options = MountOptions {
        read_only: true,
        no_recovery: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(look_at(&image.path), None, options).expect("the volume opens");
    let is_there = |number: usize| {
        volume
            .lookup(InodeNr::ROOT, name(number).as_bytes())
            .is_ok()
    };
    let there: Vec<bool> = (0..TRANSACTIONS).map(is_there).collect();
    volume.close().expect("close");
    let count = there.iter().take_while(|it| **it).count();
    assert!(there[count..].iter().all(|it| !it), "{there:?}");
    count
}

#[test]
fn the_log_ends_at_a_block_that_lost_its_header() {
    for format in [PLAIN, LARGE, V1, V2, V3] {
        let whole = dirty(format);
        for (lost, from_end, replayed) in ROWS {
            let what =
                format!("{format:?}, {lost:?} of the transaction {from_end} before the last");
            let damaged = whole.copy();
            lose(&damaged, lost, from_end);
            let image = damaged.copy();
            assert_eq!(readers::by_engine(&image) as usize, replayed, "{what}");
            assert_eq!(marks(&image), replayed, "{what}: the engine");
            let image = damaged.copy();
            readers::by_e2fsck(&image);
            assert_eq!(marks(&image), replayed, "{what}: e2fsck");
            if privilege::is_granted() {
                let image = damaged.copy();
                readers::by_kernel(&image);
                assert_eq!(marks(&image), replayed, "{what}: the kernel");
            }
        }
    }
}

//! Measures handles (start, change some blocks, finish) on a journal in memory that commits and
//! checkpoints by itself. The working set is a number of blocks.
//!
//! ```text
//! cargo run --release -p jext-jbd2 --example handles -- [handles] [threads] [working set]
//! ```

#![allow(clippy::disallowed_methods, reason = "a program takes its arguments")]

use std::sync::Arc;

use block::{BlockDevice, DeviceError, MemoryDevice};
use jbd2::format::LogOptions;
use jbd2::{Buffer, Client, Config, Credits, Error, Journal, Location, LogExtent};
use layout::{Block, BlockNr, Tid};

const BLOCK_BYTES: u32 = 4096;
const LOG_BLOCKS: u32 = 8192;

struct Silent;

impl Client for Silent {
    fn commit_begins(&self, _tid: Tid) {}
    fn write_ordered_data(&self, _tid: Tid) -> Result<bool, DeviceError> {
        Ok(false)
    }
    fn committed(&self, _tid: Tid) {}
    fn home_flushed(&self, _started: u64) {}
    fn aborted(&self, error: &Error) {
        eprintln!("aborted: {error}");
    }
}

fn run(journal: &Journal, buffers: &[Arc<Buffer>], handles: u64, seed: u64) -> Result<(), Error> {
    let mut state = seed | 1;
    for _ in 0..handles {
        let mut handle = journal.start(Credits {
            blocks: 8,
            revokes: 2,
        })?;
        for _ in 0..5 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let index = (state >> 33) as usize % buffers.len();
            handle.write(&buffers[index])?[(state >> 20) as usize % 4096] = state as u8;
        }
        handle.finish()?;
    }
    Ok(())
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let (handles, threads, blocks) = (number(0, 1_000_000), number(1, 1), number(2, 1000));
    let size = (blocks + u64::from(LOG_BLOCKS)) * u64::from(BLOCK_BYTES);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(size));
    let extents = vec![LogExtent {
        first: BlockNr::new(blocks),
        count: LOG_BLOCKS,
    }];
    let log = Location {
        device: Arc::clone(&device),
        block_bytes: BLOCK_BYTES,
        extents,
    };
    jbd2::format::create(&log, &LogOptions::default()).expect("memory does not fail");
    let journal = Journal::open(log, device, Config::default(), Arc::new(Silent))
        .expect("the log was just made");
    let buffers: Arc<Vec<_>> = Arc::new(
        (0..blocks)
            .map(|nr| {
                let image = Block::zeroed(BLOCK_BYTES as usize).into_arc();
                Buffer::new(BlockNr::new(nr), image)
            })
            .collect(),
    );
    let began = rt::monotonic();
    let workers: Vec<_> = (0..threads)
        .map(|seed| {
            let (journal, buffers) = (Arc::clone(&journal), Arc::clone(&buffers));
            rt::spawn("worker", move || {
                run(&journal, &buffers, handles / threads, seed)
            })
        })
        .collect();
    for worker in workers {
        worker
            .join()
            .expect("no panic")
            .expect("memory does not fail");
    }
    let took = rt::monotonic() - began;
    println!("{} ns a handle of 5 changes", took.get() / handles);
    println!("{:#?}", journal.stats());
    journal.close().expect("memory does not fail");
}

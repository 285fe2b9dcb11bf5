//! Threads that want blocks on their way to their final location (`home=wait`), in many schedules.

use std::sync::Arc;

use block::{DeviceError, MemoryDevice};
use layout::{Block, BlockNr, Tid};
use rt::Nanos;

use crate::format::{LogOptions, create};
use crate::home_batch::State;
use crate::policy::HomeIo;
use crate::{Buffer, Client, Config, Credits, Error, Journal, Location, LogExtent, LogPolicy};

const BLOCK: usize = 1024;
/// Number of schedules.
const WORLDS: u64 = 100;

/// A client without data.
struct NoData;

impl Client for NoData {
    fn commit_begins(&self, _tid: Tid) {}
    fn write_ordered_data(&self, _tid: Tid) -> Result<bool, DeviceError> {
        Ok(false)
    }
    fn committed(&self, _tid: Tid) {}
    fn home_flushed(&self, _started: u64) {}
    fn aborted(&self, _error: &Error) {}
}

fn journal() -> Arc<Journal> {
    let device = Arc::new(MemoryDevice::new(64 * BLOCK as u64));
    let log = Location {
        device: Arc::<MemoryDevice>::clone(&device),
        block_bytes: BLOCK as u32,
        extents: vec![LogExtent {
            first: BlockNr::new(32),
            count: 32,
        }],
    };
    create(&log, &LogOptions::default()).expect("memory does not fail");
    let config = Config {
        policy: LogPolicy {
            home: HomeIo::Wait,
            ..LogPolicy::default()
        },
        ..Config::default()
    };
    Journal::open_quietly(log, device, config, Arc::new(NoData)).expect("the log is good")
}

/// A thread that looks for the write of a block finds no batch whose results have been recorded: it
/// would not wait for it, and look again at once.
#[test]
fn a_completed_batch_is_not_found() {
    for seed in 0..WORLDS {
        let run = || {
            let journal = journal();
            for nr in [1, 3, 5, 7] {
                let buffer = Buffer::new(BlockNr::new(nr), Block::zeroed(BLOCK).into_arc());
                let mut handle = journal.start(Credits::blocks(1)).expect("it works");
                handle.write(&buffer).expect("it has credits")[0] = 1;
                handle.finish().expect("it works");
            }
            journal.commit_running().expect("it works");
            let own = Arc::clone(&journal);
            let writer = rt::spawn("writer", move || own.write_back(Nanos::MAX, 10));
            let shared = journal.shared();
            for _ in 0..100 {
                let checkpoint = shared.checkpoint.lock();
                for batch in shared.home_batches.lock().iter() {
                    let is_completed = matches!(*batch.state.lock(), State::Completed(_));
                    assert!(!is_completed, "a thread would spin");
                }
                drop(checkpoint);
            }
            writer.join().expect("no panic").expect("it works");
        };
        sim::run(sim::Config::random(seed), run)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

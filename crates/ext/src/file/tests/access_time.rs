//! Access times cost a reader neither a wait nor an error.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use jbd2::Credits;

use crate::format::mkfs;
use crate::options::{AccessTime, MountOptions};
use crate::volume::{OpenFlags, Volume};

fn open(device: &Arc<MemoryDevice>) -> Volume {
    let options = MountOptions {
        access_time: AccessTime::Strict,
        ..MountOptions::default()
    };
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(device);
    Volume::open(device, None, options).unwrap()
}

fn made() -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(24 << 20));
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    memory
}

/// Reads beside a full running transaction: a thread that needs more credits waits for its commit,
/// which waits for this thread.
fn read_beside_a_full_transaction() {
    let volume = open(&made());
    volume.write_file("/file", b"contents").unwrap();
    volume.sync().unwrap();
    let journal = Arc::clone(volume.core().journal.as_ref().unwrap());
    let nr = volume.resolve("/file", true).unwrap();
    let before = volume.attributes(nr).unwrap().atime;
    rt::sleep(rt::Nanos::from_secs(2));
    let mut all = Vec::new();
    for blocks in [journal.max_credits(), 1] {
        let credits = Credits { blocks, revokes: 0 };
        while let Some(handle) = journal.try_start(credits).unwrap() {
            all.push(handle);
        }
    }
    assert_eq!(volume.read_file("/file").unwrap(), b"contents");
    assert_eq!(volume.attributes(nr).unwrap().atime, before, "it stays");
    for handle in all {
        handle.finish().unwrap();
    }
    assert_eq!(volume.read_file("/file").unwrap(), b"contents");
    let after = volume.attributes(nr).unwrap().atime;
    assert!(after.seconds > before.seconds, "the next read renews it");
    volume.close().unwrap();
}

#[test]
fn a_read_waits_for_no_commit() {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, read_beside_a_full_transaction)
    };
    run(None).unwrap_or_else(|error| panic!("with nothing broken: {error}"));
    if rt::mutant::IS_POSSIBLE {
        assert!(run(Some("read/waits-for-access-time")).is_err());
    }
}

#[test]
fn what_was_read_when_the_journal_has_aborted_is_read() {
    let volume = open(&made());
    volume.write_file("/file", b"contents").unwrap();
    let file = {
        let nr = volume.resolve("/file", true).unwrap();
        volume.open_inode(nr, OpenFlags::READ).unwrap()
    };
    volume.abort("a test");
    let mut bytes = [0; 8];
    assert_eq!(volume.read(file, 0, &mut bytes).unwrap(), 8);
    assert_eq!(&bytes, b"contents");
}

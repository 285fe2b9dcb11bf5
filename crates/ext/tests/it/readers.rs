//! Readahead: the number of requests of sequential readers, one at a time and in turns.

use std::sync::Arc;

use block::BlockDevice;
use block::meter::MeterDevice;
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{File, OpenFlags};
use layout::InodeNr;

use crate::rig::{Place, Rig, device, quiet};

const BLOCK_BYTES: usize = 4096;
/// Bytes that each reader reads.
const SHARE_BYTES: u64 = 1 << 20;
const READERS: u64 = 4;
/// Maximum number of requests of a reader: windows of 16 to 128 KiB, ended by indirect blocks.
const REQUESTS_MAX: u64 = 24;

/// A volume with one file, read through a meter.
struct Cold {
    meter: Arc<MeterDevice>,
    volume: Volume,
    file: InodeNr,
}

impl Cold {
    /// Makes the file, and opens the volume again, so that nothing is in its cache.
    fn new() -> Self {
        let rig = Rig::new(Place::Internal, 4096, 64 << 20);
        let volume = rig.open(quiet(DataMode::Ordered));
        let contents = vec![7; (READERS * SHARE_BYTES) as usize];
        volume.write_file("/f", &contents).expect("write");
        volume.close().expect("close");
        let meter = Arc::new(MeterDevice::new(device(&rig.home)));
        let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&meter);
        let volume = Volume::open(home, None, quiet(DataMode::Ordered)).expect("it opens");
        let file = volume.resolve("/f", true).expect("it was made");
        Self {
            meter,
            volume,
            file,
        }
    }

    /// Reads the whole file, a block of each share in turn. Returns the number of requests.
    fn read_in_turns(&self, read: impl Fn(u64, u64, &mut [u8])) -> u64 {
        let before = self.meter.counts().reads;
        let mut bytes = [0; BLOCK_BYTES];
        for at in (0..SHARE_BYTES).step_by(BLOCK_BYTES) {
            for reader in 0..READERS {
                bytes.fill(0);
                read(reader, reader * SHARE_BYTES + at, &mut bytes);
                assert!(bytes.iter().all(|byte| *byte == 7), "reader {reader}, {at}");
            }
        }
        self.meter.counts().reads - before
    }
}

#[test]
fn readers_in_turns_read_ahead_as_one_does() {
    let cold = Cold::new();
    let open = || cold.volume.open_file("/f", OpenFlags::READ).expect("open");
    let files: Vec<File<'_>> = (0..READERS).map(|_| open()).collect();
    let count = cold.read_in_turns(|reader, offset, bytes| {
        let read = files[reader as usize].read_at(offset, bytes);
        assert_eq!(read.expect("it is read"), bytes.len());
    });
    for file in files {
        file.close().expect("close");
    }
    cold.volume.close().expect("close");
    assert!(count <= READERS * REQUESTS_MAX, "{count} requests");
}

/// A reader that has no open file, as in mounts, is recognised by the place where it continues.
#[test]
fn readers_without_an_open_file_read_ahead_too() {
    let cold = Cold::new();
    let count = cold.read_in_turns(|_, offset, bytes| {
        let read = cold.volume.read_node(cold.file, offset, bytes, false);
        assert_eq!(read.expect("it is read"), bytes.len());
    });
    cold.volume.close().expect("close");
    assert!(count <= READERS * REQUESTS_MAX, "{count} requests");
}

/// Checks that windows without a reader hinder neither another reader nor a writer.
#[test]
fn windows_that_nobody_reads_are_in_nobodys_way() {
    let cold = Cold::new();
    let mut bytes = [0; BLOCK_BYTES];
    for start in 0..20 {
        let file = cold.volume.open_file("/f", OpenFlags::READ).expect("open");
        for step in 0..4 {
            let offset = start * 100_000 + step * BLOCK_BYTES as u64;
            file.read_at(offset, &mut bytes).expect("it is read");
        }
        file.close().expect("close");
    }
    let file = cold
        .volume
        .open_file("/f", OpenFlags::READ_WRITE)
        .expect("open");
    file.write_at(0, &[8; BLOCK_BYTES]).expect("write");
    let before = cold.meter.counts().reads;
    for offset in (2 << 20..3 << 20).step_by(BLOCK_BYTES) {
        file.read_at(offset, &mut bytes).expect("it is read");
        assert_eq!(bytes, [7; BLOCK_BYTES], "{offset}");
    }
    let count = cold.meter.counts().reads - before;
    file.read_at(0, &mut bytes).expect("it is read");
    assert_eq!(bytes, [8; BLOCK_BYTES]);
    file.close().expect("close");
    cold.volume.close().expect("close");
    assert!(count <= REQUESTS_MAX, "{count} requests");
}

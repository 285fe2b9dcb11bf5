//! Measures the time of a check: `speed IMAGE...` checks each image repeatedly from memory, as a
//! device and as bytes.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example lives in the real world"
)]

use std::time::Instant;

use block::MemoryDevice;

const RUNS: u32 = 2000;

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("the image can be read");
        let device = MemoryDevice::from_bytes(&bytes);
        let options = fsck::Options::default();
        let report = fsck::check(&device, None, &options);
        match &report {
            Ok(report) => report.problems.iter().for_each(|p| println!("{p}")),
            Err(error) => println!("{error}"),
        }
        let start = Instant::now();
        for _ in 0..RUNS {
            assert_eq!(fsck::check(&device, None, &options), report);
        }
        let of_device = start.elapsed() / RUNS;
        let start = Instant::now();
        for _ in 0..RUNS {
            assert_eq!(fsck::check_bytes(&bytes, None, &options), report);
        }
        let of_bytes = start.elapsed() / RUNS;
        println!("{path}: {of_device:?} from a device, {of_bytes:?} from bytes");
    }
}

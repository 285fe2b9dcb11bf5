//! Arbitrary bytes: no panic, and an end within bounds.

use std::time::{Duration, Instant};

use block::MemoryDevice;
use fsck::Options;
use testkit::{Random, share};

use crate::{maker, recipe};

/// Number of damaged images for each base, of which the default tests take a third.
const IMAGES: u32 = 400;
/// Maximum number of bytes changed in an image.
const CHANGES: u64 = 40;
/// Size of the area with most of the metadata of a small image, in bytes.
const METADATA_BYTES: u64 = 96 << 10;
/// Maximum duration of a check, which takes microseconds; a debug build on a busy machine takes
/// longer.
const TIME_MAX: Duration = Duration::from_secs(5);

#[test]
fn damaged_bytes_end_in_a_report_or_an_error() {
    for (index, (name, base)) in recipe::bases().into_iter().enumerate() {
        let good = maker::make_base(&base);
        for seed in (0..IMAGES).filter(|seed| share::takes(index + *seed as usize, 3)) {
            let mut random = Random::new(u64::from(seed));
            let mut bytes = good.clone();
            for _ in 0..1 + random.below(CHANGES) {
                let limit = if random.below(4) == 0 {
                    good.len() as u64
                } else {
                    METADATA_BYTES
                };
                let at = random.below(limit) as usize;
                bytes[at] = match random.below(3) {
                    0 => 0xFF,
                    1 => bytes[at] ^ (1 << random.below(8)),
                    _ => random.below(256) as u8,
                };
            }
            let start = Instant::now();
            let of_bytes = fsck::check_bytes(&bytes, None, &Options::default());
            let device = MemoryDevice::from_bytes(&bytes);
            let of_device = fsck::check(&device, None, &Options::default());
            assert_eq!(of_bytes, of_device, "base {name}, seed {seed}");
            assert!(start.elapsed() < TIME_MAX, "base {name}, seed {seed}");
        }
    }
}

#[test]
fn short_and_random_images_are_refused() {
    let mut random = Random::new(7);
    for length in [0, 1, 512, 1024, 1536, 2048, 4096, 10_000, 65_536] {
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        assert!(fsck::check_bytes(&bytes, None, &Options::default()).is_err());
    }
}

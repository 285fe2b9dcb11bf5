//! Every device and composition against a plain vector of bytes.

use std::sync::Arc;

use block::text::{no_simulation, open};
use block::{CacheDevice, DeviceText, FaultDevice, MemoryDevice, MeterDevice, OpenOptions, Trace};
use layout::SectorNr;

use crate::support::Modelled;

const STEPS: usize = 300;

/// Compositions, by text. `DIR` is a temporary folder.
const DEVICES: [&str; 24] = [
    "mem:1MiB",
    "slice(mem:4MiB,1MiB..2MiB)",
    "slice(mem:1MiB,4KiB..68KiB)",
    "raid0(mem:512KiB x2)",
    "raid0(mem:512KiB x3,chunk=4KiB)",
    "raid1(mem:1MiB,mem:2MiB)",
    "raid1(mem:512KiB x3)",
    "raid5(mem:512KiB x3)",
    "raid5(mem:512KiB x3,chunk=4KiB)",
    "raid5(mem:512KiB x5,chunk=8KiB)",
    "raid6(mem:512KiB x4)",
    "raid6(mem:512KiB x6,chunk=8KiB)",
    "raid5(mem:512KiB x4,chunk=128KiB)",
    "raid10(mem:512KiB x4,chunk=4KiB)",
    "raid10(mem:512KiB x6)",
    "raid50(mem:512KiB x6,chunk=4KiB)",
    "raid50(mem:512KiB x12,groups=3)",
    "mem:1MiB+cache(64KiB)",
    "mem:1MiB+cache(16MiB)",
    "raid5(mem:512KiB+cache(32KiB) x3,chunk=4KiB)+cache(128KiB)",
    "raid0(raid1(mem:1MiB x2),raid5(mem:1MiB x3),chunk=16KiB)",
    "fault(mem:1MiB,seed=1)",
    "file(DIR/buffered)",
    "raid0(DIR/first,slice(DIR/second,4KiB..600KiB),chunk=4KiB)",
];

fn run(mut modelled: Modelled) {
    for step in 0..STEPS {
        modelled.step();
        if step % 100 == 99 {
            modelled.compare();
        }
    }
}

#[test]
fn every_composition_reads_what_was_written() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = OpenOptions {
        create_bytes: Some(1 << 20),
        ..OpenOptions::default()
    };
    for (seed, text) in DEVICES.iter().enumerate() {
        let text = text.replace("DIR", folder.path().to_str().expect("the path is text"));
        let parsed: DeviceText = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let device = open(&parsed, &options, &no_simulation)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        run(Modelled::new(device, seed as u64));
    }
}

#[test]
fn observers_change_nothing() {
    let memory = Arc::new(MemoryDevice::new(1 << 20));
    let trace = Trace::new();
    let traced = Arc::new(trace.attach(memory).with_volatile_cache(true));
    run(Modelled::new(Arc::new(MeterDevice::new(traced)), 99));
    assert!(trace.len() > STEPS);
}

/// A size that is a multiple of 512 and of nothing more.
#[test]
fn odd_sizes_end_where_they_end() {
    run(Modelled::new(
        Arc::new(MemoryDevice::new(300 * 4096 + 1536)),
        5,
    ));
}

/// After a power cut each sector holds one of its versions since the last flush.
#[test]
fn a_power_cut_leaves_only_what_was_written() {
    for seed in 0..40 {
        let memory = Arc::new(MemoryDevice::new(256 * 1024));
        let cache = Arc::new(CacheDevice::new(Arc::clone(&memory) as _, 64 * 1024));
        let mut modelled = Modelled::new(Arc::clone(&cache) as _, seed);
        let sectors = modelled.bytes.len() / 512;
        (0..20).for_each(|_| modelled.step());
        modelled.device.flush().expect("memory does not fail");
        let sector_of = |bytes: &[u8], sector: usize| bytes[sector * 512..][..512].to_vec();
        let mut allowed: Vec<Vec<Vec<u8>>> = (0..sectors)
            .map(|sector| vec![sector_of(&modelled.bytes, sector)])
            .collect();
        for _ in 0..10 {
            modelled.step();
            for (sector, versions) in allowed.iter_mut().enumerate() {
                versions.push(sector_of(&modelled.bytes, sector));
            }
        }
        cache.power_cut(seed).expect("memory does not fail");
        let left = memory.to_bytes();
        for (sector, versions) in allowed.iter().enumerate() {
            assert!(
                versions.contains(&sector_of(&left, sector)),
                "seed {seed}, sector {sector}"
            );
        }
    }
}

/// An array returns the written data although some members have unreadable sectors.
#[test]
fn arrays_make_up_for_bad_sectors() {
    for level in ["raid1", "raid5", "raid6", "raid10"] {
        for seed in 0..4_u64 {
            let members: Vec<Arc<FaultDevice>> = (0..4)
                .map(|_| {
                    let memory = Arc::new(MemoryDevice::new(256 * 1024));
                    Arc::new(FaultDevice::new(memory, block::FaultPlan::default()))
                })
                .collect();
            let level = block::RaidLevel::ALL
                .into_iter()
                .find(|one| one.to_string() == level)
                .expect("it is a level");
            let devices = members
                .iter()
                .map(|member| Arc::clone(member) as _)
                .collect();
            let array = block::raid::assemble(level, devices, 4096).expect("an array");
            let mut modelled = Modelled::new(array, seed);
            for step in 0..200 {
                // The first member has bad sectors; writes repair them, and others become bad.
                let from = (seed * 31 + step * 17) % 500;
                let (first, end) = (SectorNr::new(from), SectorNr::new(from + 9));
                members[0].add_bad_sectors(first, end);
                modelled.step();
            }
            modelled.compare();
            assert!(members[0].strikes() > 0);
        }
    }
}

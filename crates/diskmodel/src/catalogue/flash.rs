//! Solid-state disks of the market.
//!
//! A data sheet says what the host sees: latencies, rates, and whether capacitors save the cache.
//! The dies, their pages and their times are chosen so that the model shows the same to the host;
//! a test compares the two. What the sheets do not say is as in MQSim (Tavakkol et al., FAST 2018).

use rt::Nanos;

use super::Entry;
use super::memory::Memory;
use crate::model::Provenance;
use crate::ssd::SsdModel;

/// Returns all solid-state disks that have a name.
pub(super) fn drives() -> Vec<(Entry, Memory)> {
    vec![intel_p4500(), samsung_990_pro(), intel_s4500()]
}

fn intel_p4500() -> (Entry, Memory) {
    let entry = Entry {
        name: "intel-p4500",
        description: "NVMe of a data center, 2 TB, PCIe 3 x4, TLC, with power-loss protection",
        source: "Lenovo's product guide of the Intel P4500, table 2: random read 85 us, writes 13 us in sequence and 20 us at \
                 random, 3.2 GB/s read, 1.05 GB/s written; dies and pages chosen for these",
        provenance: Provenance::Calibrated,
    };
    let model = SsdModel {
        dies: 64,
        page_slots: 4,
        read: Nanos::from_micros(60),
        program: Nanos::from_micros(988),
        transfer: Nanos::from_micros(12),
        command: Nanos::from_micros(12),
        bus_bytes_per_second: 3_200_000_000,
        has_power_loss_protection: true,
        ..SsdModel::default()
    };
    (entry, Memory::Ssd(model))
}

fn samsung_990_pro() -> (Entry, Memory) {
    let entry = Entry {
        name: "samsung-990-pro",
        description: "NVMe of a desktop, 2 TB, PCIe 4 x4, TLC, with a volatile cache",
        source: "Samsung: 7450 MB/s read, 6900 MB/s written; a write of 8 KiB and a flush 1643 us (T. Poder, Using Postgres \
                 pg_test_fsync tool for testing low latency writes, 2025: fdatasync); dies and pages chosen for these",
        provenance: Provenance::Calibrated,
    };
    let model = SsdModel {
        dies: 128,
        page_slots: 24,
        read: Nanos::from_micros(40),
        program: Nanos::from_micros(1_600),
        transfer: Nanos::from_micros(25),
        command: Nanos::from_micros(8),
        bus_bytes_per_second: 7_450_000_000,
        cache_slots: 16_384,
        ..SsdModel::default()
    };
    (entry, Memory::Ssd(model))
}

fn intel_s4500() -> (Entry, Memory) {
    let entry = Entry {
        name: "intel-s4500",
        description: "SATA SSD of a data center, TLC, with power-loss protection",
        source: "Intel's product specification of the DC S4500 series: 36 us in sequence, random read 110 us, random write 52 \
                 us, 500 MB/s read, 490 MB/s written; dies and pages chosen for these",
        provenance: Provenance::Calibrated,
    };
    let model = SsdModel {
        dies: 32,
        page_slots: 4,
        read: Nanos::from_micros(60),
        program: Nanos::from_micros(1_045),
        transfer: Nanos::from_micros(14),
        command: Nanos::from_micros(28),
        bus_bytes_per_second: 500_000_000,
        has_power_loss_protection: true,
        ..SsdModel::default()
    };
    (entry, Memory::Ssd(model))
}

//! Memory and flash.

use rt::Nanos;

use super::Entry;
use crate::model::Provenance;
use crate::ssd::SsdModel;

/// NVRAM, or a device with the same behaviour: a bus and a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvramModel {
    /// Latency of each request.
    pub latency: Nanos,
    /// Bandwidth of the bus.
    pub bytes_per_second: u64,
}

/// A device that is not a hard disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Flash with a translation layer.
    Ssd(SsdModel),
    /// Durable memory.
    Nvram(NvramModel),
    /// The host's memory.
    RamDisk,
}

/// Returns all memory devices.
pub(super) fn memories() -> Vec<(Entry, Memory)> {
    vec![ssd(), sata_ssd(), nvme(), nvram(), pmem(), ramdisk()]
}

fn ssd() -> (Entry, Memory) {
    let entry = Entry {
        name: "ssd",
        description: "flash behind a page-mapping translation layer, 64 dies, with a volatile cache",
        source: "defaults of the simulator MQSim (Tavakkol et al., FAST 2018): 8 channels, 4 chips, 2 dies, pages of \
                 8 KiB, read 75 us, program 750 us, erase 3.8 ms",
        provenance: Provenance::Calibrated,
    };
    (entry, Memory::Ssd(SsdModel::default()))
}

fn sata_ssd() -> (Entry, Memory) {
    let entry = Entry {
        name: "sata-ssd",
        description: "the same flash in 16 dies behind SATA 6 Gb/s, as in a desktop of about 2015, with a volatile cache",
        source: "flash as in ssd; SATA 3 moves at most 600 MB/s, of which 550 are left for data",
        provenance: Provenance::Calibrated,
    };
    let model = SsdModel {
        dies: 16,
        command: Nanos::from_micros(30),
        bus_bytes_per_second: 550_000_000,
        ..SsdModel::default()
    };
    (entry, Memory::Ssd(model))
}

fn nvme() -> (Entry, Memory) {
    let entry = Entry {
        name: "nvme",
        description: "the same flash in 128 dies behind four lanes of PCIe 3, cache of 256 MiB saved by capacitors at a \
                      power cut",
        source: "flash and cache as in MQSim (Tavakkol et al., FAST 2018); PCIe 3 x4 moves 3.9 GB/s, of which 3.5 are left \
                 for data",
        provenance: Provenance::Calibrated,
    };
    let model = SsdModel {
        dies: 128,
        command: Nanos::from_micros(5),
        bus_bytes_per_second: 3_500_000_000,
        cache_slots: 65_536,
        has_power_loss_protection: true,
        ..SsdModel::default()
    };
    (entry, Memory::Ssd(model))
}

fn nvram() -> (Entry, Memory) {
    let entry = Entry {
        name: "nvram",
        description: "battery-backed memory on an I/O bus: durable at completion, no moving parts",
        source: "of the class of 64-bit PCI cards of about 2002; latency and bandwidth can be set",
        provenance: Provenance::Calibrated,
    };
    let model = NvramModel {
        latency: Nanos::from_micros(10),
        bytes_per_second: 256 << 20,
    };
    (entry, Memory::Nvram(model))
}

fn pmem() -> (Entry, Memory) {
    let entry = Entry {
        name: "pmem",
        description: "a persistent-memory module on the memory bus, used as a block device",
        source: "an Optane DC module, measured by Izraelevitz et al. (arXiv 1903.05714, 2019): random load 305 ns, write \
                 2.3 GB/s; reads would be faster (6.6 GB/s), the model has one rate",
        provenance: Provenance::Calibrated,
    };
    let model = NvramModel {
        latency: Nanos::new(305),
        bytes_per_second: 2_300_000_000,
    };
    (entry, Memory::Nvram(model))
}

fn ramdisk() -> (Entry, Memory) {
    let entry = Entry {
        name: "ramdisk",
        description: "part of the host's memory: the host's processor copies, nothing waits",
        source: "the host profile's cost of copying",
        provenance: Provenance::Calibrated,
    };
    (entry, Memory::RamDisk)
}

//! The named host profiles. Each number states its derivation; `docs/devices.md` has them in one
//! table. They were declared before any plan was run with them, and no result changes them.

use std::borrow::Cow;

use super::{HostEntry, HostProfile, SCALE_ONE};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A Pentium 4 of 2.66 GHz with Linux 2.4, the machine of the published benchmarks of 2003.
pub const P4_2_66_2003: HostProfile = HostProfile {
    name: Cow::Borrowed("p4-2.66-2003"),
    cpu_count: 1,
    // Intel, A Detailed Look Inside the NetBurst Micro-Architecture, table 1.
    first_cache_bytes: 8 * KIB,
    // Published for this machine.
    second_cache_bytes: 512 * KIB,
    // int 0x80 alone takes about 0.5 us on a Pentium 4, the path through the VFS as much again.
    syscall_ns: 1_000,
    // A copy loads and stores 4 bytes a clock: 1,024 clocks a page, half of them for each side.
    first_cache_page_ns: 192,
    // Besides, 7 clocks a line of 64 bytes: the latency of the second level (Intel, table 1).
    second_cache_page_ns: 361,
    // A third of a copy: 588 MiB/s, Move 32 with DDR266 in tecCHANNEL's tecMEM on a Pentium 4 of
    // 2.4 GHz, 2002. Its Load 32 (1465) and Store 32 (674) are within a fifth of the model's.
    memory_page_ns: 2_214,
    // About 400 MB/s: CRC-32 by table, one byte at a time, at 6 to 7 cycles each.
    checksum_page_ns: 10_240,
    // A hash chain and a string comparison with two or three cache misses of 150 ns each.
    lookup_ns: 500,
    // 50 clocks: some 15 instructions of 2.4.18's search (10), every second time a branch of 20
    // clocks that was predicted wrongly (10), and a string instruction (30).
    entry_ns: 19,
    // Start and stop of a handle: two contended spinlocks and the credit accounting.
    handle_ns: 2_000,
    // Finding a buffer head or a page: two cache misses.
    block_access_ns: 300,
    // ll_rw_block, the elevator, the controller's registers and one interrupt.
    request_ns: 10_000,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// A Xeon 5130 of 2 GHz with Linux 2.6.18, the machine of the published benchmarks of 2007.
pub const XEON_5130: HostProfile = HostProfile {
    name: Cow::Borrowed("xeon-5130"),
    cpu_count: 2,
    // Intel's data sheet of the Xeon 5100 series.
    first_cache_bytes: 32 * KIB,
    // Published for this machine.
    second_cache_bytes: 4 * MIB,
    // sysenter takes about 0.1 us, the path through the VFS twice as much.
    syscall_ns: 300,
    // As for the Pentium 4: 4 bytes a clock of a kernel of 32 bits.
    first_cache_page_ns: 256,
    // Half of a page of `hdparm -T`, 3492.46 MiB/s as published for this machine, less the access:
    // hdparm copies 2 MiB again and again, so that both sides are in the second level.
    second_cache_page_ns: 509,
    // 6.4 GB/s, 60 % of a bus of 1333 MHz: X-bit labs measured 40 % of DDR2-800 with a Core 2 Duo,
    // which are 60 % of its bus.
    memory_page_ns: 640,
    // About 670 MB/s: CRC-32 by table, one byte at a time, at 3 cycles each.
    checksum_page_ns: 6_100,
    // Two cache misses of 100 ns.
    lookup_ns: 200,
    // 28 clocks: some 15 instructions (6), every second time a branch of 15 clocks that was
    // predicted wrongly (7), and a comparison (15).
    entry_ns: 14,
    // Locked instructions and a few hundred others.
    handle_ns: 800,
    // One cache miss.
    block_access_ns: 100,
    // The elevator, the controller's registers and one interrupt.
    request_ns: 5_000,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// A virtual machine of the 2020s with four processors.
pub const CLOUD_VM: HostProfile = HostProfile {
    name: Cow::Borrowed("cloud-vm"),
    cpu_count: 4,
    // As of server processors of that time, without the level that all processors share.
    first_cache_bytes: 32 * KIB,
    second_cache_bytes: MIB,
    // syscall/sysret with mitigations against speculation.
    syscall_ns: 200,
    // 64 bytes a clock of 3 GHz.
    first_cache_page_ns: 21,
    // 4 clocks a line of 64 bytes.
    second_cache_page_ns: 85,
    // A third of a copy of about 10 GB/s.
    memory_page_ns: 137,
    // About 15 GB/s: CRC-32C by instruction.
    checksum_page_ns: 270,
    // Two cache misses of 80 ns.
    lookup_ns: 150,
    // 15 clocks of 3 GHz.
    entry_ns: 5,
    // Uncontended atomics and a few hundred instructions.
    handle_ns: 400,
    // One cache miss.
    block_access_ns: 80,
    // A virtio queue: one exit and one interrupt.
    request_ns: 5_000,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// A host whose work takes no time.
pub const ZERO: HostProfile = HostProfile {
    name: Cow::Borrowed("zero"),
    cpu_count: 1,
    first_cache_bytes: 0,
    second_cache_bytes: 0,
    syscall_ns: 0,
    first_cache_page_ns: 0,
    second_cache_page_ns: 0,
    memory_page_ns: 0,
    checksum_page_ns: 0,
    lookup_ns: 0,
    entry_ns: 0,
    handle_ns: 0,
    block_access_ns: 0,
    request_ns: 0,
    scale_permille: SCALE_ONE,
    jitter_permille: 0,
};

/// The named profiles.
pub(super) const NAMED: [HostEntry; 4] = [
    HostEntry {
        profile: &P4_2_66_2003,
        description: "Pentium 4 of 2.66 GHz, 512 KB of cache, PC2100 memory, Linux 2.4",
        source: "cache as published for the machine of the ext3 benchmarks of 2003; memory as tecCHANNEL measured it; \
                 the rest from clocks and cache misses",
    },
    HostEntry {
        profile: &XEON_5130,
        description: "Xeon 5130 of 2 GHz, two cores, 4 MB of cache, Linux 2.6.18",
        source: "cache and `hdparm -T` as published for the machine of the IOzone runs of 2007; memory from its bus; \
                 the rest from clocks and cache misses",
    },
    HostEntry {
        profile: &CLOUD_VM,
        description: "virtual machine of the 2020s with four processors",
        source: "round numbers from cycles, cache misses and memory bandwidth of such machines; calibrated as a whole by \
                 its scale",
    },
    HostEntry {
        profile: &ZERO,
        description: "a host whose work takes no time",
        source: "by definition",
    },
];

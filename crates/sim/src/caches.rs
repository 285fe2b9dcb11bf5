//! [`Caches`]: the processor's caches, which decide from where a copy takes its bytes.
//!
//! A cache holds pages in sets of [`WAYS`] slots. A hash of its name places a page, as chance
//! places the pages of physical memory; the slot that was used longest ago is replaced. Of a page,
//! the lines that copies have touched are there. So bytes that were copied lately are cheaper than
//! others, the less so the more has been copied since.
//!
//! Left out: the caches of several processors (all share one here), other users of the caches (only
//! copies through [`rt::charge`] fill them), prefetching, and transfers of devices.

use rt::split_mix::mix_pair;
use rt::{Cost, Memory};

use crate::host::HostProfile;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
/// Bytes of a line; a page has as many lines as a word has bits.
const LINE_BYTES: u64 = PAGE_BYTES / LINES_PER_PAGE;
/// Lines of a page.
const LINES_PER_PAGE: u64 = u64::BITS as u64;
/// Number of slots of a set, as in the second-level cache of a Pentium 4.
const WAYS: usize = 8;
/// Crossings of the memory bus by a byte that is read.
const READ_CROSSINGS: u64 = 1;
/// Crossings by a byte that is written: its line is read, and written back later.
const WRITE_CROSSINGS: u64 = 2;

/// The caches of a host's processors: two levels in front of main memory.
#[derive(Debug)]
pub(crate) struct Caches {
    first: Cache,
    second: Cache,
}

/// Bytes that one side of a copy touches.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// Memory with a name.
    Named(Memory),
    /// The buffer of a task, by the task's slot. It is the same in all of the task's calls.
    Buffer(u32),
}

impl Caches {
    pub(crate) fn new(host: &HostProfile) -> Self {
        Self {
            first: Cache::new(host.first_cache_bytes),
            second: Cache::new(host.second_cache_bytes),
        }
    }

    /// Returns the time of some work of a task in nanoseconds. Copies load the caches.
    pub(crate) fn nanos(&mut self, host: &HostProfile, task: u32, cost: Cost) -> u64 {
        match cost {
            Cost::Syscall => host.syscall_ns,
            Cost::Copy(bytes) => host.copy_far(bytes),
            Cost::CopyNear(bytes) => host.copy_near(bytes),
            Cost::CopyOut { from, bytes } => {
                let copied = self.copy(host, Side::Named(from), Side::Buffer(task), bytes);
                copied.saturating_add(host.find_pages(from, bytes))
            }
            Cost::CopyIn { into, bytes } => {
                let copied = self.copy(host, Side::Buffer(task), Side::Named(into), bytes);
                copied.saturating_add(host.find_pages(into, bytes))
            }
            Cost::Checksum(bytes) => nanos_of_bytes(u128::from(host.checksum_page_ns), bytes),
            Cost::Lookup => host.lookup_ns,
            Cost::Search { lookups, entries } => {
                let reached = host.lookup_ns.saturating_mul(lookups);
                reached.saturating_add(host.entry_ns.saturating_mul(entries))
            }
            Cost::Handle => host.handle_ns,
            Cost::BlockAccess => host.block_access_ns,
            Cost::Request => host.request_ns,
        }
    }

    /// Returns the time of a copy in nanoseconds, and loads both sides.
    fn copy(&mut self, host: &HostProfile, from: Side, into: Side, bytes: u64) -> u64 {
        if bytes == 0 || !host.has_copy_costs() {
            return 0;
        }
        let read = self.touch(host, from, bytes, READ_CROSSINGS);
        let written = self.touch(host, into, bytes, WRITE_CROSSINGS);
        nanos_of_lines(read.saturating_add(written))
    }

    /// Loads bytes. Returns the cost of moving their lines, for whole pages instead of lines.
    fn touch(&mut self, host: &HostProfile, side: Side, bytes: u64, crossings: u64) -> u128 {
        let (owner, offset) = match side {
            Side::Named(memory) => ((0, memory.owner), memory.offset),
            Side::Buffer(task) => ((1, u64::from(task)), 0),
        };
        let last = offset.saturating_add(bytes - 1);
        let mut cost = 0;
        for page in offset / PAGE_BYTES..=last / PAGE_BYTES {
            let start = page * PAGE_BYTES;
            let touched = lines(
                offset.max(start) - start,
                (last - start).min(PAGE_BYTES - 1),
            );
            let key = Key { owner, page };
            let in_first = self.first.touch(key, touched);
            let in_second = self.second.touch(key, touched) & !in_first;
            let in_memory = touched & !in_first & !in_second;
            cost += cost_of(in_first, host.first_cache_page_ns);
            cost += cost_of(in_second, host.second_cache_page_ns);
            cost += cost_of(in_memory, host.memory_page_ns) * u128::from(crossings);
        }
        cost
    }
}

impl HostProfile {
    /// Returns the time of copying bytes of which the caches hold nothing, in nanoseconds.
    fn copy_far(&self, bytes: u64) -> u64 {
        let crossings = u128::from(READ_CROSSINGS + WRITE_CROSSINGS);
        nanos_of_bytes(u128::from(self.memory_page_ns) * crossings, bytes)
    }

    /// Returns the time of copying bytes between two buffers that have just been used: both are in
    /// the first cache that has room for them.
    fn copy_near(&self, bytes: u64) -> u64 {
        let both = bytes.saturating_mul(2);
        let page_ns = if both <= self.first_cache_bytes {
            self.first_cache_page_ns
        } else if both <= self.second_cache_bytes {
            self.second_cache_page_ns
        } else {
            return self.copy_far(bytes);
        };
        nanos_of_bytes(u128::from(page_ns) * 2, bytes)
    }

    /// Returns the time of finding the pages that bytes lie in, in nanoseconds.
    fn find_pages(&self, memory: Memory, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let end = memory.offset.saturating_add(bytes);
        let pages = end.div_ceil(PAGE_BYTES) - memory.offset / PAGE_BYTES;
        self.block_access_ns.saturating_mul(pages)
    }

    fn has_copy_costs(&self) -> bool {
        let costs = [
            self.first_cache_page_ns,
            self.second_cache_page_ns,
            self.memory_page_ns,
        ];
        costs.iter().any(|cost| *cost > 0)
    }
}

/// The name of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Key {
    /// The kind of the owner, and its number.
    owner: (u64, u64),
    page: u64,
}

/// A page in a cache.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The lines that are there, one bit each; none if the slot is empty.
    lines: u64,
    used_at: u64,
}

/// A cache of pages.
#[derive(Debug)]
struct Cache {
    /// The slots, set by set.
    slots: Vec<Slot>,
    ways: usize,
    /// Number of touches so far.
    clock: u64,
}

impl Cache {
    /// Returns an empty cache. Bytes that do not fill a set are left out.
    fn new(bytes: u64) -> Self {
        let pages = usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX);
        let ways = pages.clamp(1, WAYS);
        Self {
            slots: vec![Slot::default(); pages / ways * ways],
            ways,
            clock: 0,
        }
    }

    /// Loads lines of a page, and returns those that were there.
    fn touch(&mut self, key: Key, lines: u64) -> u64 {
        let sets = self.slots.len() / self.ways;
        if sets == 0 {
            return 0;
        }
        self.clock += 1;
        let hash = mix_pair(key.owner.1 ^ key.owner.0, key.page);
        let set = usize::try_from(hash % sets as u64).expect("a set's number fits");
        let slots = &mut self.slots[set * self.ways..][..self.ways];
        let found = slots
            .iter_mut()
            .find(|slot| slot.lines != 0 && slot.key == key);
        if let Some(slot) = found {
            let known = slot.lines & lines;
            slot.lines |= lines;
            slot.used_at = self.clock;
            return known;
        }
        let oldest = slots.iter_mut().min_by_key(|slot| slot.used_at);
        *oldest.expect("a set has slots") = Slot {
            key,
            lines,
            used_at: self.clock,
        };
        0
    }
}

/// Returns the lines of a page from one byte to another, both included.
fn lines(first: u64, last: u64) -> u64 {
    let (first, last) = (first / LINE_BYTES, last / LINE_BYTES);
    (u64::MAX << first) & (u64::MAX >> (LINES_PER_PAGE - 1 - last))
}

fn cost_of(lines: u64, page_ns: u64) -> u128 {
    u128::from(lines.count_ones()) * u128::from(page_ns)
}

fn nanos_of_lines(cost: u128) -> u64 {
    u64::try_from(cost.div_ceil(u128::from(LINES_PER_PAGE))).unwrap_or(u64::MAX)
}

/// Returns the time of bytes by the time of a page. A part of a page costs its fraction, rounded
/// up.
fn nanos_of_bytes(page_ns: u128, bytes: u64) -> u64 {
    let product = page_ns.saturating_mul(u128::from(bytes));
    u64::try_from(product.div_ceil(u128::from(PAGE_BYTES))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ZERO;

    /// A host with caches of 2 and 64 pages that take 1 and 10 ns a line; memory takes 100.
    fn host() -> HostProfile {
        HostProfile {
            first_cache_bytes: 2 * PAGE_BYTES,
            second_cache_bytes: 64 * PAGE_BYTES,
            first_cache_page_ns: 64,
            second_cache_page_ns: 640,
            memory_page_ns: 6_400,
            ..ZERO
        }
    }

    fn file(offset: u64) -> Side {
        Side::Named(Memory { owner: 7, offset })
    }

    const BUFFER: Side = Side::Buffer(0);

    #[test]
    fn the_lines_of_a_range_are_exact() {
        for (first, last, expected) in [
            (0, 4095, u64::MAX),
            (0, 0, 1),
            (63, 64, 0b11),
            (4095, 4095, 1 << 63),
            (128, 191, 0b100),
        ] {
            assert_eq!(lines(first, last), expected, "{first}..={last}");
        }
    }

    #[test]
    fn bytes_that_were_copied_lately_are_cheap() {
        let (host, mut caches) = (host(), Caches::new(&host()));
        let mut read = |offset, bytes| caches.copy(&host, file(offset), BUFFER, bytes);
        assert_eq!(
            read(0, 4096),
            64 * (100 + 200),
            "both sides come from memory"
        );
        assert_eq!(read(0, 4096), 64 * 2, "both are in the first cache");
        assert_eq!(read(8192, 1), 100 + 1, "a byte takes a line of each side");
        assert_eq!(
            read(0, 1),
            10 + 1,
            "the file was pushed out of the first cache"
        );
        assert_eq!(
            read(8192 + 64, 64),
            100 + 1,
            "the next line was not touched yet"
        );
    }

    #[test]
    fn a_set_larger_than_the_cache_is_read_from_memory_each_time() {
        for (pages, expected) in [(1, 64), (8, 640), (16, 640), (640, 6_400)] {
            let (host, mut caches) = (host(), Caches::new(&host()));
            let mut pass = || {
                let pages = (0..pages).map(|page| file(page * PAGE_BYTES));
                let cost = |side| caches.touch(&host, side, PAGE_BYTES, READ_CROSSINGS);
                nanos_of_lines(pages.map(cost).sum())
            };
            pass();
            assert_eq!(pass() / pages, expected, "{pages} pages");
        }
    }

    #[test]
    fn a_host_without_costs_loads_nothing() {
        let mut caches = Caches::new(&ZERO);
        assert_eq!(caches.copy(&ZERO, file(0), BUFFER, u64::MAX), 0);
        assert_eq!(caches.second.clock, 0);
    }

    #[test]
    fn work_costs_what_the_profile_says() {
        let host = HostProfile {
            syscall_ns: 1_000,
            checksum_page_ns: 8_192,
            lookup_ns: 500,
            entry_ns: 19,
            block_access_ns: 7,
            ..ZERO
        };
        let mut caches = Caches::new(&host);
        let memory = |offset| Memory { owner: 1, offset };
        let search = |lookups, entries| Cost::Search { lookups, entries };
        for (cost, expected) in [
            (Cost::Syscall, 1_000),
            (Cost::Checksum(0), 0),
            (Cost::Checksum(1), 2),
            (search(0, 0), 0),
            (search(2, 100), 2 * 500 + 1_900),
            (search(u64::MAX, u64::MAX), u64::MAX),
            (Cost::Copy(u64::MAX), 0),
            (
                Cost::CopyOut {
                    from: memory(4_095),
                    bytes: 2,
                },
                14,
            ),
            (
                Cost::CopyIn {
                    into: memory(4_096),
                    bytes: 4_096,
                },
                7,
            ),
            (
                Cost::CopyIn {
                    into: memory(5),
                    bytes: 0,
                },
                0,
            ),
        ] {
            assert_eq!(caches.nanos(&host, 0, cost), expected, "{cost:?}");
        }
        let slow = HostProfile {
            memory_page_ns: 1,
            ..host
        };
        assert_eq!(caches.nanos(&slow, 0, Cost::Copy(u64::MAX)), 3 << 52);
    }

    #[test]
    fn near_copies_take_the_cache_that_holds_both_sides() {
        let host = host();
        for (bytes, expected) in [
            (4096, 128),
            (4097, 1_281),
            (32 * 4096, 32 * 1_280),
            (33 * 4096, 33 * 3 * 6_400),
        ] {
            assert_eq!(host.copy_near(bytes), expected, "{bytes}");
        }
    }
}

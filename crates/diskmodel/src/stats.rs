//! The counters of a simulated device.

use core::ops::AddAssign;

use block::Request;
use rt::Nanos;

/// Counts by powers of two: bucket 0 holds zero, bucket `n` holds 2^(n-1) up to 2^n - 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; 65],
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [0; 65],
            sum: 0,
            max: 0,
        }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, value: u64) {
        self.buckets[64 - value.leading_zeros() as usize] += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the mean, rounded down; zero without values.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// Returns the greatest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the smallest bucket bound that is at least as large as `percent` percent of the
    /// values.
    pub fn percentile_bound(&self, percent: u64) -> u64 {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let border = 1_u64
                    .checked_shl(index as u32)
                    .map_or(u64::MAX, |border| border - 1);
                return border.min(self.max);
            }
        }
        self.max
    }

    /// Returns the nonempty buckets: the largest value that fits into each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| {
                let border = 1_u64
                    .checked_shl(index as u32)
                    .map_or(u64::MAX, |border| border - 1);
                (border, *count)
            })
    }
}

/// A snapshot of a device's counters. Those that do not apply to a device stay zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Read requests of the host.
    pub reads: u64,
    /// Write requests of the host, FUA writes included.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// FUA writes.
    pub force_unit_access_writes: u64,
    /// Discards.
    pub discards: u64,
    /// Sectors read by the host.
    pub sectors_read: u64,
    /// Sectors written by the host.
    pub sectors_written: u64,
    /// Requests, or parts of them, that joined another one in the elevator.
    pub merged: u64,
    /// Commands that the elevator sent to the drive.
    pub commands: u64,
    /// Times at which `submit` had to wait because the queue was full.
    pub submit_waits: u64,
    /// Time from submission to completion of a request in nanoseconds (of each piece, if it was
    /// longer than the elevator's limit).
    pub request_nanos: Histogram,
    /// Number of requests in the elevator and the drive when one is added.
    pub queue_length: Histogram,
    /// Counters of the drive.
    pub drive: DriveStats,
    /// Counters of the flash.
    pub flash: FlashStats,
    /// Counters of the controller's cache.
    pub controller: ControllerStats,
}

/// Counters of a controller with a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerStats {
    /// Reads served entirely from the cache.
    pub read_hits: u64,
    /// Dirty sectors that were written again before they left the cache.
    pub replaced_sectors: u64,
    /// Writes that had to wait for room in the cache.
    pub throttled_writes: u64,
    /// Sectors written to the array.
    pub destaged_sectors: u64,
    /// Extents of adjacent sectors in which they were written.
    pub destaged_runs: u64,
    /// Sectors read from the array before a host asked for them.
    pub read_ahead_sectors: u64,
}

/// Counters of flash memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashStats {
    /// Slots of 4 KiB that the host wrote.
    pub host_slots: u64,
    /// Slots that garbage collection moved.
    pub moved_slots: u64,
    /// Pages programmed, those of garbage collection included.
    pub programs: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Writes that had to wait for room in the cache.
    pub throttled_writes: u64,
}

impl FlashStats {
    /// Returns the number of slots written to flash for each hundred that the host wrote: 100 means
    /// no amplification.
    pub fn write_amplification_percent(&self) -> u64 {
        ((self.host_slots + self.moved_slots) * 100)
            .checked_div(self.host_slots)
            .unwrap_or(100)
    }
}

/// Adds the counters of a member of an array.
impl AddAssign<&Self> for DiskStats {
    fn add_assign(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.force_unit_access_writes += other.force_unit_access_writes;
        self.discards += other.discards;
        self.sectors_read += other.sectors_read;
        self.sectors_written += other.sectors_written;
        self.merged += other.merged;
        self.commands += other.commands;
        self.submit_waits += other.submit_waits;
        self.request_nanos.merge(&other.request_nanos);
        self.queue_length.merge(&other.queue_length);
        self.drive += other.drive;
        self.flash += other.flash;
        self.controller += other.controller;
    }
}

impl AddAssign for ControllerStats {
    fn add_assign(&mut self, other: Self) {
        self.read_hits += other.read_hits;
        self.replaced_sectors += other.replaced_sectors;
        self.throttled_writes += other.throttled_writes;
        self.destaged_sectors += other.destaged_sectors;
        self.destaged_runs += other.destaged_runs;
        self.read_ahead_sectors += other.read_ahead_sectors;
    }
}

impl AddAssign for FlashStats {
    fn add_assign(&mut self, other: Self) {
        self.host_slots += other.host_slots;
        self.moved_slots += other.moved_slots;
        self.programs += other.programs;
        self.page_reads += other.page_reads;
        self.erases += other.erases;
        self.throttled_writes += other.throttled_writes;
    }
}

impl AddAssign for DriveStats {
    fn add_assign(&mut self, other: Self) {
        self.read_hits += other.read_hits;
        self.cached_writes += other.cached_writes;
        self.throttled_writes += other.throttled_writes;
        self.destages += other.destages;
        self.accesses += other.accesses;
        self.seeks += other.seeks;
        self.seek_cylinders += other.seek_cylinders;
        self.seek_time = self.seek_time + other.seek_time;
        self.rotation_time = self.rotation_time + other.rotation_time;
        self.transfer_time = self.transfer_time + other.transfer_time;
    }
}

impl DiskStats {
    /// Counts a request of the host.
    pub(super) fn count(&mut self, request: &Request) {
        let (_, sectors) = request.range();
        match request {
            Request::Read { .. } => {
                self.reads += 1;
                self.sectors_read += sectors;
            }
            Request::Write {
                force_unit_access, ..
            } => {
                self.writes += 1;
                self.sectors_written += sectors;
                self.force_unit_access_writes += u64::from(*force_unit_access);
            }
            Request::Flush => self.flushes += 1,
            Request::Discard { .. } => self.discards += 1,
        }
    }
}

/// Counters of the drive behind the elevator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriveStats {
    /// Reads served from the buffer or from dirty sectors.
    pub read_hits: u64,
    /// Writes acknowledged by the volatile cache.
    pub cached_writes: u64,
    /// Writes that had to wait for room in the volatile cache.
    pub throttled_writes: u64,
    /// Extents of dirty sectors written to the platter.
    pub destages: u64,
    /// Accesses of the arm: reads, writes and destages.
    pub accesses: u64,
    /// Accesses that moved the arm to another cylinder.
    pub seeks: u64,
    /// Cylinders crossed by these accesses.
    pub seek_cylinders: u64,
    /// Time for seeks, head switches and settling.
    pub seek_time: Nanos,
    /// Time in which the head waited over the right track.
    pub rotation_time: Nanos,
    /// Time in which sectors passed.
    pub transfer_time: Nanos,
}

impl DriveStats {
    /// Returns the time for which the arm was busy.
    pub fn busy_time(&self) -> Nanos {
        self.seek_time + self.rotation_time + self.transfer_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_by_powers_of_two() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 1000, u64::MAX] {
            histogram.record(value);
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(
            buckets,
            [(0, 1), (1, 1), (3, 2), (7, 1), (1023, 1), (u64::MAX, 1)]
        );
        assert_eq!(histogram.count(), 7);
        assert_eq!(histogram.percentile_bound(50), 3);
        assert_eq!(histogram.max(), u64::MAX);
        assert_eq!(Histogram::default().mean(), 0);
    }
}

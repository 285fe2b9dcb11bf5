//! The figures and counters of the devices of a trial.

use std::collections::BTreeMap;

use block::MeterCounts;
use diskmodel::{ControllerStats, DiskStats};

use super::devices::{Counted, Reading};
use crate::record::Measured;

const SECTOR_BYTES: u64 = 512;

/// The counters of all devices of a file system at an instant.
pub(crate) struct DevicesReading {
    home: Reading,
    log: Option<Reading>,
}

impl DevicesReading {
    /// Reads the counters.
    pub(crate) fn of(home: &Counted, log: Option<&Counted>) -> Self {
        Self {
            home: home.read(),
            log: log.map(Counted::read),
        }
    }

    /// Adds the difference since an earlier reading, as figures and as raw counters.
    pub(crate) fn add_since(&self, before: &Self, measured: &mut Measured) {
        let home = self.home.requests - before.home.requests;
        let log = match (&self.log, &before.log) {
            (Some(after), Some(before)) => after.requests - before.requests,
            _ => MeterCounts::default(),
        };
        let counts = [
            ("flushes", home.flushes + log.flushes),
            ("forced_writes", home.forced_writes + log.forced_writes),
            ("home_reads", home.reads),
            ("home_writes", home.writes),
            ("home_bytes_read", home.read_sectors * SECTOR_BYTES),
            ("home_bytes_written", home.write_sectors * SECTOR_BYTES),
            ("log_writes", log.writes),
            ("log_bytes_written", log.write_sectors * SECTOR_BYTES),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count as f64));
        measured.metrics.extend(counts);
        let disk = before.home.disk.as_ref().zip(self.home.disk.as_ref());
        let busy = disk.map(|(before, after)| {
            let (before, after) = (before.drive.busy_time(), after.drive.busy_time());
            after.saturating_sub(before).as_secs_f64()
        });
        let busy = busy.unwrap_or_default();
        measured.metrics.insert("disk_time".to_owned(), busy);
        let counters = &mut measured.counters;
        if let Some((before, after)) = disk {
            counters.insert("disk".to_owned(), disk_counters(before, after));
        }
        counters.insert("home".to_owned(), device_counters(&home));
        counters.insert("log".to_owned(), device_counters(&log));
        add_controllers(measured, before, self);
    }
}

/// Adds the statistics of controllers with a cache: counters for each device, figures for their
/// sum.
fn add_controllers(measured: &mut Measured, before: &DevicesReading, after: &DevicesReading) {
    let log = after.log.as_ref().zip(before.log.as_ref());
    let each = [
        ("controller", after.home.controller_since(&before.home)),
        (
            "log_controller",
            log.and_then(|(after, before)| after.controller_since(before)),
        ),
    ];
    let mut sum: Option<ControllerStats> = None;
    for (name, stats) in each {
        let Some(stats) = stats else { continue };
        *sum.get_or_insert_default() += stats;
        let counters = controller_counters(&stats);
        measured.counters.insert(name.to_owned(), counters);
    }
    let Some(sum) = sum else { return };
    let figures = [
        ("controller_read_hits", sum.read_hits),
        ("controller_throttled_writes", sum.throttled_writes),
        (
            "controller_bytes_replaced",
            sum.replaced_sectors * SECTOR_BYTES,
        ),
        (
            "controller_bytes_destaged",
            sum.destaged_sectors * SECTOR_BYTES,
        ),
        ("controller_destages", sum.destaged_runs),
    ];
    let figures = figures.map(|(name, count)| (name.to_owned(), count as f64));
    measured.metrics.extend(figures);
}

fn controller_counters(stats: &ControllerStats) -> BTreeMap<String, u64> {
    named([
        ("read_hits", stats.read_hits),
        ("throttled_writes", stats.throttled_writes),
        ("replaced_sectors", stats.replaced_sectors),
        ("destaged_sectors", stats.destaged_sectors),
        ("destaged_runs", stats.destaged_runs),
        ("read_ahead_sectors", stats.read_ahead_sectors),
    ])
}

fn device_counters(counts: &MeterCounts) -> BTreeMap<String, u64> {
    named([
        ("batches", counts.batches),
        ("reads", counts.reads),
        ("read_sectors", counts.read_sectors),
        ("writes", counts.writes),
        ("write_sectors", counts.write_sectors),
        ("forced_writes", counts.forced_writes),
        ("forced_write_sectors", counts.forced_write_sectors),
        ("flushes", counts.flushes),
        ("discards", counts.discards),
        ("discard_sectors", counts.discard_sectors),
    ])
}

fn disk_counters(before: &DiskStats, after: &DiskStats) -> BTreeMap<String, u64> {
    let (a, b) = (&after.drive, &before.drive);
    named([
        ("merged", after.merged - before.merged),
        ("commands", after.commands - before.commands),
        ("submit_waits", after.submit_waits - before.submit_waits),
        ("read_hits", a.read_hits - b.read_hits),
        ("cached_writes", a.cached_writes - b.cached_writes),
        ("throttled_writes", a.throttled_writes - b.throttled_writes),
        ("destages", a.destages - b.destages),
        ("accesses", a.accesses - b.accesses),
        ("seeks", a.seeks - b.seeks),
        ("seek_cylinders", a.seek_cylinders - b.seek_cylinders),
        ("seek_ns", a.seek_time.get() - b.seek_time.get()),
        ("rotation_ns", a.rotation_time.get() - b.rotation_time.get()),
        ("transfer_ns", a.transfer_time.get() - b.transfer_time.get()),
    ])
}

/// Returns counters by their names.
pub(super) fn named<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counters
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

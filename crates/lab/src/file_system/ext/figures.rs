//! The figures and counters of a trial on a volume of the engine.

use std::collections::BTreeMap;

use block::MeterCounts;
use diskmodel::{ControllerStats, DiskStats};
use ext::CacheStalls;
use jbd2::Stats;

use super::super::devices;
use crate::record::Measured;

const SECTOR_BYTES: u64 = 512;

/// The counters of a volume and its devices at an instant.
pub(super) struct Reading {
    pub(super) home: devices::Reading,
    pub(super) log: Option<devices::Reading>,
    pub(super) journal: Stats,
    pub(super) cache: CacheStalls,
}

/// Adds the difference of two readings, as figures and as raw counters.
pub(super) fn add(measured: &mut Measured, before: &Reading, after: &Reading) {
    let home = after.home.requests - before.home.requests;
    let log = match (&after.log, &before.log) {
        (Some(after), Some(before)) => after.requests - before.requests,
        _ => MeterCounts::default(),
    };
    let journal = after.journal - before.journal;
    let cache = after.cache - before.cache;
    let log_blocks = journal.logged_blocks
        + journal.descriptor_blocks
        + journal.revoke_blocks
        + journal.commit_blocks;
    let counts = [
        ("commits", journal.commits),
        ("log_blocks", log_blocks),
        ("checkpoint_blocks", journal.checkpoint_blocks),
        ("superseded_blocks", journal.superseded_blocks),
        ("tail_moves", journal.tail_moves),
        ("flushes", home.flushes + log.flushes),
        ("forced_writes", home.forced_writes + log.forced_writes),
        ("home_reads", home.reads),
        ("home_writes", home.writes),
        ("home_bytes_read", home.read_sectors * SECTOR_BYTES),
        ("home_bytes_written", home.write_sectors * SECTOR_BYTES),
        ("log_writes", log.writes),
        ("log_bytes_written", log.write_sectors * SECTOR_BYTES),
    ];
    let disk = before.home.disk.as_ref().zip(after.home.disk.as_ref());
    let disk_busy = disk.map(|(before, after)| {
        after
            .drive
            .busy_time()
            .saturating_sub(before.drive.busy_time())
    });
    let spans = [
        ("disk_time", disk_busy.unwrap_or_default()),
        ("stalled_closing", journal.stalled_closing),
        ("stalled_log_space", journal.stalled_log_space),
        ("stalled_log_io", journal.stalled_log_io),
        ("stalled_commit", journal.stalled_commit),
        ("stalled_dirty_limit", cache.dirty_limit),
        ("stalled_memory", cache.memory),
        ("stalled_rewrite", cache.rewrite),
        ("committing", journal.committing),
        ("waited_for_handles", journal.waited_for_handles),
    ];
    let counts = counts.into_iter().map(|(name, count)| (name, count as f64));
    let spans = spans
        .into_iter()
        .map(|(name, span)| (name, span.as_secs_f64()));
    let metrics = counts
        .chain(spans)
        .map(|(name, value)| (name.to_owned(), value));
    measured.metrics.extend(metrics);
    if let Some((before, after)) = disk {
        measured
            .counters
            .insert("disk".to_owned(), disk_counters(before, after));
    }
    add_controllers(measured, before, after);
    measured
        .counters
        .insert("home".to_owned(), device_counters(&home));
    measured
        .counters
        .insert("log".to_owned(), device_counters(&log));
    measured
        .counters
        .insert("journal".to_owned(), journal_counters(&journal));
}

/// Adds the statistics of controllers with a cache: counters for each device, figures for their
/// sum.
fn add_controllers(measured: &mut Measured, before: &Reading, after: &Reading) {
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

fn journal_counters(stats: &Stats) -> BTreeMap<String, u64> {
    named([
        ("handles", stats.handles),
        ("commits", stats.commits),
        ("sync_callers", stats.sync_callers),
        ("logged_blocks", stats.logged_blocks),
        ("escaped_blocks", stats.escaped_blocks),
        ("descriptor_blocks", stats.descriptor_blocks),
        ("revoke_blocks", stats.revoke_blocks),
        ("revoke_records", stats.revoke_records),
        ("commit_blocks", stats.commit_blocks),
        ("log_requests", stats.log_requests),
        ("checkpoint_blocks", stats.checkpoint_blocks),
        ("checkpoint_requests", stats.checkpoint_requests),
        ("superseded_blocks", stats.superseded_blocks),
        ("cancelled_blocks", stats.cancelled_blocks),
        ("tail_moves", stats.tail_moves),
        ("log_flushes", stats.log_flushes),
        ("home_flushes", stats.home_flushes),
        ("group_size_max", stats.group_size_max),
        ("stalled_closing_ns", stats.stalled_closing.get()),
        ("stalled_log_space_ns", stats.stalled_log_space.get()),
        ("stalled_log_io_ns", stats.stalled_log_io.get()),
        ("stalled_commit_ns", stats.stalled_commit.get()),
        ("waited_for_handles_ns", stats.waited_for_handles.get()),
        ("waited_for_group_ns", stats.waited_for_group.get()),
        ("committing_ns", stats.committing.get()),
        ("commit_average_ns", stats.commit_average.get()),
    ])
}

fn named<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counters
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

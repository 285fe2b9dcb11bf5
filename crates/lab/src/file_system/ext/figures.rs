//! The figures and counters of a trial on a volume of the engine.

use std::collections::BTreeMap;

use ext::CacheStalls;
use jbd2::Stats;

use super::super::figures::{DevicesReading, named};
use crate::record::Measured;

/// The counters of a volume and its devices at an instant.
pub(super) struct Reading {
    pub(super) devices: DevicesReading,
    pub(super) journal: Stats,
    pub(super) cache: CacheStalls,
}

/// Adds the difference of two readings, as figures and as raw counters.
pub(super) fn add(measured: &mut Measured, before: &Reading, after: &Reading, block_bytes: u32) {
    after.devices.add_since(&before.devices, measured);
    let journal = after.journal - before.journal;
    let cache = after.cache - before.cache;
    let log_blocks = journal.logged_blocks
        + journal.descriptor_blocks
        + journal.revoke_blocks
        + journal.commit_blocks
        + journal.fast_commit_blocks;
    let counts = [
        ("commits", journal.commits),
        ("log_blocks", log_blocks),
        ("checkpoint_blocks", journal.checkpoint_blocks),
        ("superseded_blocks", journal.superseded_blocks),
        ("tail_moves", journal.tail_moves),
    ];
    let spans = [
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
    // A column of volumes that have them.
    let fast = (journal.fast_commits > 0).then_some(("fast_commits", journal.fast_commits as f64));
    let written = ["home_bytes_written", "log_bytes_written"];
    let written: f64 = written
        .iter()
        .filter_map(|name| measured.metrics.get(*name))
        .sum();
    let logged = log_blocks as f64 * f64::from(block_bytes);
    let share = (written > 0.0).then(|| ("log_share", logged / written));
    let metrics = counts
        .chain(spans)
        .chain(fast)
        .chain(share)
        .map(|(name, value)| (name.to_owned(), value));
    measured.metrics.extend(metrics);
    measured
        .counters
        .insert("journal".to_owned(), journal_counters(&journal));
}

fn journal_counters(stats: &Stats) -> BTreeMap<String, u64> {
    named([
        ("handles", stats.handles),
        ("commits", stats.commits),
        ("fast_commits", stats.fast_commits),
        ("fast_commit_blocks", stats.fast_commit_blocks),
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

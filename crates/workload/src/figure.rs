//! Figures that workloads report: one table of names, titles, units and directions.
//!
//! A name has the same meaning in every workload, so that workloads can share a table.

use crate::metric::Unit;

/// A figure that a run can report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Name, stable across versions: `read_rate`.
    pub name: &'static str,
    /// Title in a few words.
    pub title: &'static str,
    /// Unit of the figure.
    pub unit: Unit,
    /// True if the figure is the duration of one call, which is shown in milliseconds.
    pub is_call: bool,
    /// Direction in which the figure is better, if there is one.
    pub better: Option<Better>,
}

/// Figures that summarise the runs of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headline {
    /// Name of the figure that compares two runs: the time of the same work, or the amount of work
    /// if the time is fixed.
    pub primary: &'static str,
    /// Names of the most important figures including the primary one, in table order.
    pub shown: &'static [&'static str],
}

/// The direction in which a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A higher value is better.
    Higher,
    /// A lower value is better.
    Lower,
}

impl Figure {
    /// Returns the figure of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }
}

const fn time(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::Seconds,
        is_call: false,
        better: Some(Better::Lower),
    }
}

const fn call(name: &'static str, title: &'static str) -> Figure {
    Figure {
        is_call: true,
        ..time(name, title)
    }
}

const fn per_second(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::PerSecond,
        is_call: false,
        better: Some(Better::Higher),
    }
}

const fn bandwidth(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::BytesPerSecond,
        is_call: false,
        better: Some(Better::Higher),
    }
}

const fn count(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::Count,
        is_call: false,
        better: None,
    }
}

const fn bytes(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::Bytes,
        is_call: false,
        better: None,
    }
}

const fn ratio(name: &'static str, title: &'static str, better: Better) -> Figure {
    Figure {
        name,
        title,
        unit: Unit::Ratio,
        is_call: false,
        better: Some(better),
    }
}

/// All figures, in the order of a report.
pub const FIGURES: &[Figure] = &[
    bandwidth("read_rate", "read"),
    bandwidth("write_rate", "write"),
    time("elapsed", "elapsed"),
    time("create_time", "create"),
    time("transaction_time", "transactions"),
    time("delete_time", "delete"),
    time("final_sync_time", "final sync"),
    per_second("transaction_rate", "transactions"),
    per_second("create_rate", "created"),
    per_second("create_alone_rate", "created alone"),
    per_second("create_mixed_rate", "created mixed"),
    per_second("read_files_rate", "files read"),
    per_second("append_files_rate", "files appended"),
    per_second("delete_rate", "deleted"),
    per_second("delete_alone_rate", "deleted alone"),
    per_second("delete_mixed_rate", "deleted mixed"),
    bytes("bytes_read", "read"),
    bytes("bytes_written", "written"),
    count("transactions", "transactions"),
    count("created", "files created"),
    count("read", "files read"),
    count("appended", "files appended"),
    count("appends_skipped", "appends skipped"),
    count("deleted", "files deleted"),
    call("longest_call", "longest call"),
    per_second("files_rate", "files"),
    per_second("operations_rate", "operations"),
    count("operations", "operations"),
    // make-many-files, tree copy
    time("create_sync_time", "sync after create"),
    time("delete_sync_time", "sync after delete"),
    time("copy_time", "copy"),
    time("copy_sync_time", "sync after copy"),
    bandwidth("copy_rate", "copied"),
    // fs_mark
    time("overhead", "outside file operations"),
    // OBLdisk: one row per request size
    bandwidth("read_2k_rate", "read by 2 KiB"),
    bandwidth("read_4k_rate", "read by 4 KiB"),
    bandwidth("read_8k_rate", "read by 8 KiB"),
    bandwidth("read_16k_rate", "read by 16 KiB"),
    bandwidth("read_32k_rate", "read by 32 KiB"),
    bandwidth("read_64k_rate", "read by 64 KiB"),
    bandwidth("read_128k_rate", "read by 128 KiB"),
    bandwidth("read_256k_rate", "read by 256 KiB"),
    bandwidth("read_512k_rate", "read by 512 KiB"),
    bandwidth("read_1m_rate", "read by 1 MiB"),
    bandwidth("write_2k_rate", "write by 2 KiB"),
    bandwidth("write_4k_rate", "write by 4 KiB"),
    bandwidth("write_8k_rate", "write by 8 KiB"),
    bandwidth("write_16k_rate", "write by 16 KiB"),
    bandwidth("write_32k_rate", "write by 32 KiB"),
    bandwidth("write_64k_rate", "write by 64 KiB"),
    bandwidth("write_128k_rate", "write by 128 KiB"),
    bandwidth("write_256k_rate", "write by 256 KiB"),
    bandwidth("write_512k_rate", "write by 512 KiB"),
    bandwidth("write_1m_rate", "write by 1 MiB"),
    ratio("bundling", "4 KiB rate to the best", Better::Higher),
    // dbench
    bandwidth("throughput", "throughput"),
    // filebench
    call("fsync_p99", "99 % of fsyncs"),
    // Bonnie++
    bandwidth("byte_write_rate", "write by bytes"),
    bandwidth("byte_read_rate", "read by bytes"),
    per_second("seek_rate", "seeks"),
    per_second("stat_rate", "looked at"),
    per_second("random_create_rate", "created, random names"),
    per_second("random_stat_rate", "looked at, random names"),
    per_second("random_delete_rate", "deleted, random names"),
    count("short_phases", "phases under 0.5 s"),
    // IOzone
    bandwidth("rewrite_rate", "rewrite"),
    bandwidth("reread_rate", "re-read"),
    bandwidth("random_read_rate", "random read"),
    bandwidth("random_write_rate", "random write"),
    bandwidth("backward_read_rate", "backward read"),
    bandwidth("record_rewrite_rate", "record rewrite"),
    bandwidth("stride_read_rate", "stride read"),
    bandwidth("fwrite_rate", "fwrite"),
    bandwidth("refwrite_rate", "re-fwrite"),
    bandwidth("fread_rate", "fread"),
    bandwidth("refread_rate", "re-fread"),
    bandwidth("mix_rate", "random mix"),
    bandwidth("pwrite_rate", "pwrite"),
    bandwidth("repwrite_rate", "re-pwrite"),
    bandwidth("pread_rate", "pread"),
    bandwidth("repread_rate", "re-pread"),
    bandwidth("pwritev_rate", "pwritev"),
    bandwidth("repwritev_rate", "re-pwritev"),
    bandwidth("preadv_rate", "preadv"),
    bandwidth("repreadv_rate", "re-preadv"),
    // Mongo
    time("symlink_time", "symlinks"),
    time("read_time", "read"),
    time("stat_time", "stat"),
    time("rename_time", "rename"),
    time("sync_time", "syncs between phases"),
    ratio("fragmentation", "extents a file when made", Better::Lower),
    ratio(
        "copy_fragmentation",
        "extents a file when copied",
        Better::Lower,
    ),
    bytes("bytes_allocated", "space taken"),
    // OBLload
    per_second("supported_rate", "supported I/O"),
    count("supported_users", "supported users"),
    call("response_mean", "mean response"),
    call("response_p95", "95 % of responses"),
    call("response_p99", "99 % of responses"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, figure) in FIGURES.iter().enumerate() {
            let before = &FIGURES[..index];
            assert!(
                before.iter().all(|other| other.name != figure.name),
                "{}",
                figure.name
            );
        }
    }
}

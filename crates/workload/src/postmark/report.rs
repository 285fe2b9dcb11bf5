//! The reports: the two of the original, and the additions of the lab mode.
//!
//! The original divides by whole seconds, 0 replaced by 1. It divides the total files created and
//! deleted, and the bytes, by the whole time; files created and deleted alone by the time of their
//! own phase; everything else by the time of the transactions. The lab mode divides by the same
//! durations in nanoseconds.
//!
//! The terse report is one line: total seconds, seconds of transactions, transactions/s; created/s,
//! alone, mixed; read/s, appended/s; deleted/s, alone, mixed; bytes read/s, bytes written/s.

use std::fmt::Write;

use rt::Nanos;

use super::account::Account;
use super::options::Mode;
use super::parameters::ReportFormat;
use crate::outcome::Document;

const KILOBYTE: f64 = 1024.0;
const MEGABYTE: f64 = 1024.0 * 1024.0;
const NANOS_PER_MICROSECOND: f64 = 1000.0;

/// Returns the reports of a run; none if files ran out and the mode is the original's.
pub(super) fn documents(account: &Account) -> Vec<Document> {
    let is_compat = account.options.mode == Mode::Compat;
    if is_compat && account.out_of_files {
        return Vec::new();
    }
    let mut text = verbose(account);
    if !is_compat {
        text.push_str(&measurements(account));
    }
    let document = |format: ReportFormat, text| Document {
        name: format.name(),
        text,
    };
    vec![
        document(ReportFormat::Verbose, text),
        document(ReportFormat::Terse, terse(account)),
    ]
}

/// Returns the original's verbose report.
fn verbose(account: &Account) -> String {
    let (counts, spans) = (&account.counts, Spans::of(account));
    let Spans {
        elapsed,
        create,
        transactions,
        delete,
    } = spans;
    format!(
        "Time:\n\
         \t{} seconds total\n\
         \t{} seconds of transactions ({} per second)\n\n\
         Files:\n\
         \t{} created ({} per second)\n\
         \t\tCreation alone: {} files ({} per second)\n\
         \t\tMixed with transactions: {} files ({} per second)\n\
         \t{} read ({} per second)\n\
         \t{} appended ({} per second)\n\
         \t{} deleted ({} per second)\n\
         \t\tDeletion alone: {} files ({} per second)\n\
         \t\tMixed with transactions: {} files ({} per second)\n\n\
         Data:\n\
         \t{} read ({} per second)\n\
         \t{} written ({} per second)\n",
        elapsed.seconds(),
        transactions.seconds(),
        transactions.each(counts.transactions),
        counts.created,
        elapsed.each(counts.created),
        counts.created_alone,
        create.each(counts.created_alone),
        counts.created_mixed(),
        transactions.each(counts.created_mixed()),
        counts.read,
        transactions.each(counts.read),
        counts.appended,
        transactions.each(counts.appended),
        counts.deleted,
        elapsed.each(counts.deleted),
        counts.deleted_alone,
        delete.each(counts.deleted_alone),
        counts.deleted_mixed(),
        transactions.each(counts.deleted_mixed()),
        amount(Some(counts.bytes_read as f64)),
        amount(elapsed.rate(counts.bytes_read)),
        amount(Some(counts.bytes_written as f64)),
        amount(elapsed.rate(counts.bytes_written)),
    )
}

/// Returns the original's terse report: one line of thirteen fields. A rate over no time is `-`.
fn terse(account: &Account) -> String {
    let (counts, spans) = (&account.counts, Spans::of(account));
    let Spans {
        elapsed,
        create,
        transactions,
        delete,
    } = spans;
    let rates = [
        transactions.rate(counts.transactions),
        elapsed.rate(counts.created),
        create.rate(counts.created_alone),
        transactions.rate(counts.created_mixed()),
        transactions.rate(counts.read),
        transactions.rate(counts.appended),
        elapsed.rate(counts.deleted),
        delete.rate(counts.deleted_alone),
        transactions.rate(counts.deleted_mixed()),
        elapsed.rate(counts.bytes_read),
        elapsed.rate(counts.bytes_written),
    ];
    let rates: Vec<String> = rates.into_iter().map(two_decimals).collect();
    format!(
        "{} {} {}\n",
        elapsed.seconds(),
        transactions.seconds(),
        rates.join(" ")
    )
}

/// Returns the additions of the lab mode: the time of each phase, and the latencies.
fn measurements(account: &Account) -> String {
    let (timing, counts) = (&account.timing, &account.counts);
    let mut text = String::from("\nPhases:\n");
    let phases = [
        ("create", timing.create(), counts.created_alone),
        ("transactions", timing.transactions(), counts.transactions),
        ("delete", timing.delete(), counts.deleted_alone),
        ("final sync", timing.final_sync(), 0),
    ];
    for (name, span, count) in phases {
        let span = Span::Exact(span);
        let rate = two_decimals(span.rate(count));
        let line = format!(
            "\t{name:<12} {:>14} s {count:>10} {rate:>14} /s\n",
            span.seconds()
        );
        text.push_str(&line);
    }
    if account.out_of_files {
        let asked = account.parameters.transactions;
        let done = counts.transactions;
        writeln!(text, "\tout of files: {done} of {asked} transactions done").expect(INFALLIBLE);
    }
    if let Some(latencies) = &account.latencies {
        text.push_str("\nLatencies in microseconds:\n");
        let heads = ["mean", "p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>12}"));
        writeln!(text, "\t{:<12}{:>10}{}", "call", "count", heads.concat()).expect(INFALLIBLE);
        for (label, s) in latencies.summaries() {
            let mut line = format!("\t{label:<12}{:>10}", s.count);
            let micros = [s.p50, s.p90, s.p99, s.p999, s.max].map(|value| value.get() as f64);
            for value in [s.mean_ns].into_iter().chain(micros) {
                write!(line, "{:>12.1}", value / NANOS_PER_MICROSECOND).expect(INFALLIBLE);
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

const INFALLIBLE: &str = "writing to a string does not fail";

/// Durations by which the counts are divided.
struct Spans {
    elapsed: Span,
    create: Span,
    transactions: Span,
    delete: Span,
}

impl Spans {
    fn of(account: &Account) -> Self {
        let timing = &account.timing;
        let span = |from, to: Nanos| match account.options.mode {
            Mode::Compat => Span::Whole(timing.whole_seconds(from, to)),
            Mode::Lab => Span::Exact(to.saturating_sub(from)),
        };
        Self {
            elapsed: span(timing.started, timing.ended),
            create: span(timing.started, timing.created),
            transactions: span(timing.created, timing.transacted),
            delete: span(timing.transacted, timing.deleted),
        }
    }
}

/// A duration by the original's clock or in nanoseconds.
#[derive(Clone, Copy)]
enum Span {
    /// Whole seconds, at least 1.
    Whole(u64),
    Exact(Nanos),
}

impl Span {
    fn seconds(self) -> String {
        match self {
            Self::Whole(seconds) => seconds.to_string(),
            Self::Exact(span) => format!("{:.6}", span.as_secs_f64()),
        }
    }

    /// Returns the count per second, or none if the duration is zero.
    fn rate(self, count: u64) -> Option<f64> {
        let rate = match self {
            Self::Whole(seconds) => count as f64 / seconds as f64,
            Self::Exact(span) => count as f64 / span.as_secs_f64(),
        };
        rate.is_finite().then_some(rate)
    }

    /// Returns the count per second as text; whole seconds use integer division, as in the
    /// original.
    fn each(self, count: u64) -> String {
        match self {
            Self::Whole(seconds) => (count / seconds).to_string(),
            Self::Exact(_) => two_decimals(self.rate(count)),
        }
    }
}

fn two_decimals(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Returns an amount of bytes in the original's units.
fn amount(bytes: Option<f64>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) => large_amount(bytes).unwrap_or_else(|| format!("{bytes:.6} bytes")),
    }
}

/// Returns bytes in kilobytes or megabytes, or none if they are fewer than a kilobyte.
pub(super) fn large_amount(bytes: f64) -> Option<String> {
    if bytes >= MEGABYTE {
        Some(format!("{:.2} megabytes", bytes / MEGABYTE))
    } else if bytes >= KILOBYTE {
        Some(format!("{:.2} kilobytes", bytes / KILOBYTE))
    } else {
        None
    }
}

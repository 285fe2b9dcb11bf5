//! Records as CSV (RFC 4180), for spreadsheets and scripts: a row for each trial, a column for each
//! of its fields except counters and latencies, which have no fixed columns.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::Record;
use crate::metric::{METRICS, MetricKind};

/// The columns of every record before its settings and figures.
const HEAD: [&str; 12] = [
    "plan",
    "plan_hash",
    "block",
    "repetition",
    "is_warmup",
    "seed",
    "workload_seed",
    "started",
    "real_seconds",
    "version",
    "commit",
    "fingerprint",
];

/// Writes records. Each setting and figure of any record has a column; figures are in SI base
/// units, which the header row names.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write(out: &mut impl Write, records: &[Record]) -> io::Result<()> {
    let settings: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| record.context.settings.keys())
        .map(String::as_str)
        .collect();
    let is_known = |kind: &&MetricKind| {
        records
            .iter()
            .any(|record| record.metric(kind.name).is_some())
    };
    let kinds: Vec<&MetricKind> = METRICS.iter().filter(is_known).collect();
    let figures = kinds.iter().map(|kind| match kind.unit {
        "" => kind.name.to_owned(),
        unit => format!("{} ({unit})", kind.name),
    });
    let head = HEAD.iter().chain(&settings).map(|name| (*name).to_owned());
    row(out, head.chain(figures))?;
    for record in records {
        let context = &record.context;
        let program = &context.program;
        let own = [
            context.plan.clone(),
            context.plan_hash.clone(),
            context.block.clone(),
            record.repetition.to_string(),
            record.is_warmup.to_string(),
            format!("{:016x}", record.seed),
            record
                .workload_seed
                .map_or_else(String::new, |seed| seed.to_string()),
            record.started.to_string(),
            record.real_seconds.to_string(),
            program.version.clone(),
            program.commit.clone(),
            program.fingerprint.clone(),
        ];
        let settings = settings
            .iter()
            .map(|key| context.settings.get(*key).cloned());
        let figures = kinds
            .iter()
            .map(|kind| record.metric(kind.name).map(|value| value.to_string()));
        let rest = settings.chain(figures).map(Option::unwrap_or_default);
        row(out, own.into_iter().chain(rest))?;
    }
    Ok(())
}

fn row(out: &mut impl Write, fields: impl Iterator<Item = String>) -> io::Result<()> {
    let fields: Vec<String> = fields.map(|field| quoted(&field)).collect();
    write!(out, "{}\r\n", fields.join(","))
}

/// Returns a field, in quotes if it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::record::Measured;

    #[test]
    fn rows_have_as_many_fields_as_the_head() {
        let text = "[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\ndevice = \"slice(sim:atlas-v-18,1GiB..2GiB)\"\n";
        let plan = Plan::parse("p.toml", text).expect("the plan is right");
        let measured = Measured {
            metrics: [("elapsed".to_owned(), 1.25)].into(),
            ..Measured::default()
        };
        let record = Record::new(&plan, &plan.trials()[0], 7, 0.5, measured);
        let mut out = Vec::new();
        write(&mut out, &[record]).expect("a vector takes it");
        let text = String::from_utf8(out).expect("it is text");
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with(",elapsed (s)") && lines[1].ends_with(",1.25"),
            "{text}"
        );
        assert!(
            lines[1].contains("\"slice(sim:atlas-v-18,1GiB..2GiB)\""),
            "a comma is quoted"
        );
        let outside = |line: &str| {
            let mut is_inside = false;
            line.chars()
                .filter(|letter| {
                    is_inside ^= *letter == '"';
                    *letter == ',' && !is_inside
                })
                .count()
        };
        assert_eq!(outside(lines[0]), outside(lines[1]));
        assert_eq!(quoted("a \"b\"\nc"), "\"a \"\"b\"\"\nc\"");
    }
}

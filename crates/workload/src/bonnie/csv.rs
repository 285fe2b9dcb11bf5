//! The CSV rows that the two versions of Bonnie++ print.

use rt::Nanos;

use super::Parameters;
use super::phase::{Found, KINDS, Kind, Results};

const KIB: f64 = 1024.0;
const MIB: u64 = 1 << 20;
const DEFAULT_CHUNK: usize = 8 << 10;
/// Placeholder for an unknown share of the CPU.
const NO_CPU: &str = "+++";
/// Number of phases on the large file.
const FILE_PHASES: usize = 6;

/// Returns the row of 2.00 with 50 fields: format, version, name, concurrency, seed, size, chunk,
/// seeks, seekers; six rates of the large file with CPU; number, sizes, directories and chunk of
/// the files; six rates of the files with CPU; twelve longest operations.
pub(super) fn row_2_00(parameters: &Parameters, seed: u64, results: &Results) -> String {
    let mut fields = vec![
        "1.98".to_owned(),
        "2.00a".to_owned(),
        "jext".to_owned(),
        "1".to_owned(),
        seed.to_string(),
        size_text(parameters.size),
        format!("{}k", parameters.chunk as u64 / 1024),
        parameters.seeks.to_string(),
        parameters.seekers.to_string(),
    ];
    rates(&mut fields, results, 0..FILE_PHASES);
    let some = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => bytes.to_string(),
    };
    fields.extend([
        parameters.files.to_string(),
        some(parameters.file_max),
        some(parameters.file_min),
        match parameters.directories {
            1 => String::new(),
            directories => directories.to_string(),
        },
        String::new(),
    ]);
    rates(&mut fields, results, FILE_PHASES..KINDS.len());
    for (kind, _, _) in KINDS {
        let longest = results.get(kind).and_then(|found| found.longest);
        fields.push(longest.map(latency_text).unwrap_or_default());
    }
    row(&fields)
}

/// Returns the row of 1.03 with 27 fields: name; size and chunk; six rates of the large file with
/// CPU; number and sizes of the files; six rates of the files with CPU.
pub(super) fn row_1_03(parameters: &Parameters, results: &Results) -> String {
    let chunk = match parameters.chunk {
        DEFAULT_CHUNK => String::new(),
        other => format!(":{}k", other / 1024),
    };
    let size = size_text(parameters.size);
    let mut fields = vec!["jext".to_owned(), format!("{size}{chunk}")];
    rates(&mut fields, results, 0..FILE_PHASES);
    let (most, least) = (parameters.file_max, parameters.file_min);
    let sizes = match (most, parameters.directories) {
        (0, 1) => String::new(),
        (_, 1) => format!(":{most}:{least}"),
        (_, directories) => format!(":{most}:{least}/{directories}"),
    };
    fields.push(format!("{}{sizes}", parameters.files));
    rates(&mut fields, results, FILE_PHASES..KINDS.len());
    row(&fields)
}

/// Appends the rates of some phases, each with its CPU column.
fn rates(fields: &mut Vec<String>, results: &Results, phases: std::ops::Range<usize>) {
    for (kind, _, _) in &KINDS[phases] {
        let rate = results.get(*kind).and_then(Found::rate);
        let text = rate.map(|rate| match kind {
            Kind::WriteBytes
            | Kind::WriteBlocks
            | Kind::Rewrite
            | Kind::ReadBytes
            | Kind::ReadBlocks => format!("{:.0}", rate / KIB),
            Kind::Seeks => format!("{rate:.1}"),
            _ => format!("{rate:.0}"),
        });
        let cpu = text.as_ref().map_or("", |_| NO_CPU);
        fields.extend([text.unwrap_or_default(), cpu.to_owned()]);
    }
}

fn size_text(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) {
        format!("{}M", bytes / MIB)
    } else {
        format!("{}k", bytes / 1024)
    }
}

/// Returns a duration in the smallest unit that needs at most five digits.
fn latency_text(span: Nanos) -> String {
    match span.as_micros() {
        micros @ ..100_000 => format!("{micros}us"),
        micros @ ..100_000_000 => format!("{}ms", micros / 1000),
        micros => format!("{}s", micros / 1_000_000),
    }
}

fn row(fields: &[String]) -> String {
    let mut row = fields.join(",");
    row.push('\n');
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_their_unit() {
        for (micros, text) in [
            (0, "0us"),
            (99_999, "99999us"),
            (100_000, "100ms"),
            (100_000_000, "100s"),
        ] {
            assert_eq!(latency_text(Nanos::from_micros(micros)), text);
        }
    }
}

//! The tests of IOzone: their records, access patterns and calls.

use crate::parameter::ParameterError;

/// Number of the test that mixes random reads and writes.
pub(super) const MIX: u32 = 8;
const LARGEST: u32 = 12;

/// A test.
pub(super) struct Test {
    /// Number of the test for `-i`.
    pub(super) number: u32,
    /// Name of its phase and of its report.
    pub(super) phase: &'static str,
    /// Name of its figure.
    pub(super) figure: &'static str,
    /// Operation on the records.
    pub(super) deed: Deed,
    /// Order of the records.
    pub(super) order: Order,
    /// Calls that transfer the records.
    pub(super) api: Api,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Creates the file.
    Make,
    Read,
    Write,
    /// Threads alternate: one reads, the next one writes.
    Mix,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    Random,
    Backward,
    /// The first record for every request.
    Same,
    Stride,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    /// `read` and `write` at the position.
    Plain,
    /// `fread` and `fwrite`.
    Stdio,
    /// `pread` and `pwrite`.
    Positional,
    /// Several records in one request.
    Vector,
}

const fn test(
    number: u32,
    phase: &'static str,
    figure: &'static str,
    deed: Deed,
    order: Order,
    api: Api,
) -> Test {
    Test {
        number,
        phase,
        figure,
        deed,
        order,
        api,
    }
}

use Api::{Plain, Positional, Stdio, Vector};
use Deed::{Make, Mix, Read, Write};
use Order::{Backward, Forward, Random, Same, Stride};

/// All tests, in order of execution.
pub(super) const TESTS: [Test; 22] = [
    test(0, "Writer", "write_rate", Make, Forward, Plain),
    test(0, "Re-writer", "rewrite_rate", Write, Forward, Plain),
    test(1, "Reader", "read_rate", Read, Forward, Plain),
    test(1, "Re-Reader", "reread_rate", Read, Forward, Plain),
    test(2, "Random read", "random_read_rate", Read, Random, Plain),
    test(2, "Random write", "random_write_rate", Write, Random, Plain),
    test(
        3,
        "Backward read",
        "backward_read_rate",
        Read,
        Backward,
        Plain,
    ),
    test(
        4,
        "Record rewrite",
        "record_rewrite_rate",
        Write,
        Same,
        Plain,
    ),
    test(5, "Stride read", "stride_read_rate", Read, Stride, Plain),
    test(6, "Fwrite", "fwrite_rate", Write, Forward, Stdio),
    test(6, "Re-Fwrite", "refwrite_rate", Write, Forward, Stdio),
    test(7, "Fread", "fread_rate", Read, Forward, Stdio),
    test(7, "Re-Fread", "refread_rate", Read, Forward, Stdio),
    test(MIX, "Random mix", "mix_rate", Mix, Random, Plain),
    test(9, "Pwrite", "pwrite_rate", Write, Forward, Positional),
    test(9, "Re-Pwrite", "repwrite_rate", Write, Forward, Positional),
    test(10, "Pread", "pread_rate", Read, Forward, Positional),
    test(10, "Re-Pread", "repread_rate", Read, Forward, Positional),
    test(11, "Pwritev", "pwritev_rate", Write, Forward, Vector),
    test(11, "Re-Pwritev", "repwritev_rate", Write, Forward, Vector),
    test(12, "Preadv", "preadv_rate", Read, Forward, Vector),
    test(12, "Re-Preadv", "repreadv_rate", Read, Forward, Vector),
];

/// Parses a list of test numbers, which must include 0.
pub(super) fn numbers(text: &str) -> Result<Vec<u32>, ParameterError> {
    let wrong = || {
        let message = format!("{text:?} is not a list of numbers from 0 to 12 with 0 in it");
        ParameterError::new("iozone.tests", message)
    };
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let numbers: Vec<u32> = words
        .map(|word| word.parse().ok().filter(|number| *number <= LARGEST))
        .collect::<Option<_>>()
        .ok_or_else(wrong)?;
    if numbers.contains(&0) {
        Ok(numbers)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tests() {
        assert_eq!(numbers("0 2,12"), Ok(vec![0, 2, 12]));
        for bad in ["", "1 2", "0 13", "0 x", "0 -1"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }
}

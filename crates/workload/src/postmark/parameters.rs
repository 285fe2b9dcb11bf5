//! Parameters of PostMark, with the original's names, defaults and limits.

use std::fmt;

/// The largest number that the original accepts.
pub(super) const LARGEST: u32 = i32::MAX.unsigned_abs();
/// Range of the draw that is compared with the bias to choose a half of a transaction.
pub(super) const BIAS_SCALE: u32 = 10;

/// All parameters. [`Parameters::default`] gives the original's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Minimum size of a file in bytes (`set size`, first number).
    pub size_low: u32,
    /// Exclusive limit in bytes for the size of a new file, and inclusive limit for appends (`set
    /// size`, second number).
    pub size_high: u32,
    /// Number of files in the pool at the start (`set number`).
    pub number: u32,
    /// Number of transactions (`set transactions`).
    pub transactions: u32,
    /// Seed of the random numbers (`set seed`).
    pub seed: u32,
    /// Directories for the files; only the target's root if empty (`set location`).
    pub locations: Vec<Location>,
    /// Number of subdirectories per location; fewer than two mean none (`set subdirectories`).
    pub subdirectories: u32,
    /// Bytes per read (`set read`).
    pub read_block: u32,
    /// Bytes per write (`set write`).
    pub write_block: u32,
    /// True if reads and writes are buffered as in C's stdio (`set buffering`).
    pub buffered: bool,
    /// Share of reads as opposed to appends (`set bias read`).
    pub read_bias: Bias,
    /// Share of creations as opposed to deletions (`set bias create`).
    pub create_bias: Bias,
    /// Format of the report (`set report`).
    pub report: ReportFormat,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            size_low: 500,
            size_high: 10_000,
            number: 500,
            transactions: 500,
            seed: 42,
            locations: Vec::new(),
            subdirectories: 0,
            read_block: 512,
            write_block: 512,
            buffered: true,
            read_bias: Bias::EVEN,
            create_bias: Bias::EVEN,
            report: ReportFormat::Verbose,
        }
    }
}

impl Parameters {
    /// Checks the limits that the command language enforces.
    ///
    /// # Errors
    /// Fails with the first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let in_range = |value: u32| (1..=LARGEST).contains(&value);
        let sizes = in_range(self.size_low) && in_range(self.size_high);
        let weight = self
            .locations
            .iter()
            .try_fold(0_u32, |sum, l| sum.checked_add(l.weight));
        for (good, error) in [
            (
                sizes && self.size_low <= self.size_high,
                ParameterError::Size,
            ),
            (in_range(self.number), ParameterError::Number),
            (in_range(self.transactions), ParameterError::Transactions),
            (in_range(self.seed), ParameterError::Seed),
            (
                self.subdirectories <= LARGEST,
                ParameterError::Subdirectories,
            ),
            (in_range(self.read_block), ParameterError::ReadBlock),
            (in_range(self.write_block), ParameterError::WriteBlock),
            (
                self.locations.iter().all(|l| l.weight > 0) && weight.is_some(),
                { ParameterError::Weight },
            ),
        ] {
            if !good {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// A directory for files, and its weight in the choice of a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Path of the directory, which must exist.
    pub path: String,
    /// Weight, at least 1.
    pub weight: u32,
}

/// Share of the first of two choices in tenths, or neither choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bias(Option<u8>);

impl Bias {
    /// Both choices are equally likely.
    pub const EVEN: Self = Self(Some(5));
    /// Neither choice: this half of the transactions is omitted.
    pub const DISABLED: Self = Self(None);

    /// Returns the bias for a share in tenths, 0 to 10.
    #[must_use]
    pub fn new(tenths: u8) -> Option<Self> {
        (u32::from(tenths) <= BIAS_SCALE).then_some(Self(Some(tenths)))
    }

    /// Returns the tenths, or none if disabled.
    #[must_use]
    pub fn tenths(self) -> Option<u32> {
        self.0.map(u32::from)
    }
}

impl fmt::Display for Bias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tenths) => write!(f, "{tenths}"),
            None => f.write_str("-1"),
        }
    }
}

/// Format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// Readable text.
    Verbose,
    /// One line of thirteen fields.
    Terse,
}

impl ReportFormat {
    /// Returns its name, which is also that of its document in an [`Outcome`](crate::Outcome).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verbose => "verbose",
            Self::Terse => "terse",
        }
    }
}

impl fmt::Display for ReportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an invalid parameter. The messages are the original's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// There is no parameter of that name.
    #[error("no such parameter; the original's `help set` lists them, as in \"number 500\"")]
    Unknown,
    /// The sizes are missing, not positive, or in the wrong order.
    #[error("no file size low or high bounds specified")]
    Size,
    /// The number of files is not positive.
    #[error("invalid number of files")]
    Number,
    /// The number of transactions is not positive.
    #[error("no transactions specified")]
    Transactions,
    /// The seed is not positive.
    #[error("invalid seed for random numbers")]
    Seed,
    /// The number of subdirectories is not positive.
    #[error("invalid number of subdirectories")]
    Subdirectories,
    /// The read block is not positive.
    #[error("invalid read block size")]
    ReadBlock,
    /// The write block is not positive.
    #[error("invalid write block size")]
    WriteBlock,
    /// The bias is not in -1..=10.
    #[error("no bias specified (0-10 for greater chance,-1 to disable)")]
    Bias,
    /// The value is neither `true` nor `false`.
    #[error("no buffering mode (true/false) specified")]
    Buffering,
    /// The value is neither `verbose` nor `terse`.
    #[error("either 'verbose' or 'terse' required")]
    Report,
    /// The directory is missing.
    #[error("no directory name specified")]
    NoLocation,
    /// The list has no such location.
    #[error("cannot find location '{0}'")]
    UnknownLocation(String),
    /// The weight is not a positive number; 1 was used.
    #[error("ignoring invalid weight '{0}'")]
    IgnoredWeight(String),
    /// A weight is 0, or the sum of the weights is too large.
    #[error("cannot build weighted index of locations")]
    Weight,
}

impl From<ParameterError> for crate::parameter::ParameterError {
    fn from(error: ParameterError) -> Self {
        let name = match error {
            ParameterError::Unknown => "postmark",
            ParameterError::Size => "postmark.size",
            ParameterError::Number => "postmark.number",
            ParameterError::Transactions => "postmark.transactions",
            ParameterError::Seed => "postmark.seed",
            ParameterError::Subdirectories => "postmark.subdirectories",
            ParameterError::ReadBlock => "postmark.read",
            ParameterError::WriteBlock => "postmark.write",
            ParameterError::Bias => "postmark.bias_read",
            ParameterError::Buffering => "postmark.buffering",
            ParameterError::Report => "postmark.report",
            ParameterError::NoLocation
            | ParameterError::UnknownLocation(_)
            | ParameterError::IgnoredWeight(_)
            | ParameterError::Weight => "postmark.location",
        };
        Self::new(name, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_parameters_are_named() {
        let check = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            parameters.check()
        };
        assert_eq!(check(|_| {}), Ok(()));
        assert_eq!(check(|p| p.size_low = 0), Err(ParameterError::Size));
        assert_eq!(check(|p| p.size_high = 499), Err(ParameterError::Size));
        assert_eq!(check(|p| p.number = 0), Err(ParameterError::Number));
        assert_eq!(
            check(|p| p.transactions = 0),
            Err(ParameterError::Transactions)
        );
        assert_eq!(check(|p| p.seed = 1 << 31), Err(ParameterError::Seed));
        assert_eq!(check(|p| p.read_block = 0), Err(ParameterError::ReadBlock));
        assert_eq!(
            check(|p| p.write_block = 0),
            Err(ParameterError::WriteBlock)
        );
        let weightless = |p: &mut Parameters| {
            p.locations = vec![Location {
                path: "a".to_owned(),
                weight: 0,
            }];
        };
        assert_eq!(check(weightless), Err(ParameterError::Weight));
        assert_eq!((Bias::new(10).is_some(), Bias::new(11)), (true, None));
    }
}

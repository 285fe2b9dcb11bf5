//! Figures with their units, for records and reports. Values are in SI base units; whoever prints them picks the scale.

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name, stable over versions: `read_rate`.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A plain number of things.
    Count,
    /// Things a second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Something divided by something of the same unit.
    Ratio,
}

impl Unit {
    /// The unit's symbol.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Count | Self::Ratio => "",
            Self::PerSecond => "/s",
            Self::Bytes => "B",
            Self::BytesPerSecond => "B/s",
        }
    }
}

//! Figures with units, for records and reports. Values are in SI base units; the code that prints
//! them chooses the scale.

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Name, stable across versions: `read_rate`.
    pub name: &'static str,
    /// Value in the SI base unit.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A plain number.
    Count,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A quotient of two values of the same unit.
    Ratio,
}

impl Unit {
    /// Returns the unit's symbol.
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

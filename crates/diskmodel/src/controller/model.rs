//! The parameters of a controller: [`ControllerModel`].
//!
//! Sources of the defaults; docs/devices.md has more of them:
//!
//! - *adaptive read-ahead*, after two reads in sequence: the default of Dell's PERC 3, a MegaRAID
//!   (user's guide, p. 177);
//! - *clean data is kept*: the same page, Direct I/O: data goes to the cache and the host at once,
//!   and a block that is read again comes from the cache;
//! - *read-ahead to the end of a stripe*: Mylex' eXtremeRAID (installation guide 771961, p. 4-21);
//! - *destaging from 80 % and down to 80 %*: IBM's DS4000 (Midrange System Storage Hardware Guide,
//!   p. 252), which has the oldest first;
//! - *ascending order of destaging*: IP.com disclosure 000013600 (2000), which sorts dirty pages by
//!   place.

use rt::Nanos;

use crate::model::Provenance;

/// The parameters of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerModel {
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Processor time of a command.
    pub command: Nanos,
    /// Bandwidth between the host and the controller in bytes per second.
    pub bus_bytes_per_second: u64,
    /// Percentage of dirty sectors from which on destaging does not wait for an idle period.
    pub high_water_percent: u32,
    /// Percentage of dirty sectors down to which it then continues.
    pub low_water_percent: u32,
    /// Time without requests after which the controller is idle.
    pub idle: Nanos,
    /// Order of destaging.
    pub destage: DestageOrder,
    /// True if a write is acknowledged when it is in the cache; false if the array must have it, as
    /// without a battery.
    pub is_write_back: bool,
    /// True if sectors stay in the cache after hosts have read them, or after they were destaged.
    pub keeps_reads: bool,
    /// Policy of read-ahead.
    pub read_ahead: ReadAhead,
}

impl ControllerModel {
    /// Description, for lists.
    pub const DESCRIPTION: &str = "RAID controller with a battery-backed write-back cache, bbu(DEV,...) in front of any device";
    /// Source of the parameters.
    pub const SOURCE: &str = "of the class of 64-bit, 66 MHz PCI controllers with an i960 or 80303 of about 2003; policies of reading as \
                              Dell's PERC 3, marks of destaging as IBM's DS4000; all can be set";
}

impl ControllerModel {
    /// Reliability of the source.
    pub const PROVENANCE: Provenance = Provenance::Calibrated;
}

impl Default for ControllerModel {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            command: Nanos::from_micros(100),
            bus_bytes_per_second: 200_000_000,
            high_water_percent: 80,
            low_water_percent: 80,
            idle: Nanos::from_millis(20),
            destage: DestageOrder::Clook,
            is_write_back: true,
            keeps_reads: true,
            read_ahead: ReadAhead::Adaptive,
        }
    }
}

/// The policy of read-ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// Never.
    Off,
    /// After two reads in sequence.
    Adaptive,
    /// After each read.
    On,
}

impl ReadAhead {
    const ALL: [Self; 3] = [Self::Off, Self::Adaptive, Self::On];

    /// Names of all policies, for messages.
    pub(super) const NAMES: &str = "off, adaptive or on";

    /// Returns the policy with that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Adaptive => "adaptive",
            Self::On => "on",
        }
    }
}

/// The order in which dirty sectors go to the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestageOrder {
    /// Ascending sectors, neighbours together.
    Clook,
    /// The stripe with the oldest write first.
    Fifo,
}

impl DestageOrder {
    /// Names of all orders, for messages.
    pub(super) const NAMES: &str = "clook or fifo";

    /// Returns the order with that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Clook, Self::Fifo];
        all.into_iter().find(|order| order.name() == name)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clook => "clook",
            Self::Fifo => "fifo",
        }
    }
}

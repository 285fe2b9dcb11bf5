//! What a hard disk is made of: the numbers from which its tables are built.
//!
//! Times are given in milliseconds as data sheets and measurements do; they become integer nanoseconds when the disk is
//! built, and nothing but integers is used while it runs.

use std::fmt;

/// How much a model's numbers are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Extracted from a real drive and validated against its traces.
    Measured,
    /// What the vendor says.
    DataSheet,
    /// Put together from partial facts so that the known figures come out.
    Calibrated,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::DataSheet => "data sheet",
            Self::Calibrated => "calibrated",
        })
    }
}

/// Neighbouring cylinders whose tracks have the same number of sectors. A zone ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// The first cylinder, counted from the outer edge.
    pub first_cylinder: u32,
    /// Sectors in each track.
    pub track_sectors: u32,
    /// By how many sectors a track begins later than the one before it in the same cylinder.
    pub track_skew: u32,
    /// By how many sectors a cylinder's first track begins later than the last one of the cylinder before.
    pub cylinder_skew: u32,
}

/// Points of a measured seek curve: distance in cylinders, time in milliseconds; distances ascend.
pub type SeekPoints = &'static [(u32, f64)];

/// Where the seek curve comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SeekSource {
    /// A measured curve, with straight lines between its points.
    Measured {
        /// The points.
        points: SeekPoints,
    },
    /// The two-piece curve of Ruemmler and Wilkes through three published numbers.
    ThreePoint {
        /// To the next cylinder.
        single_ms: f64,
        /// The mean over random pairs of cylinders.
        mean_ms: f64,
        /// From edge to edge.
        full_ms: f64,
    },
    /// The shape of another drive's measured curve, stretched over this one's cylinders.
    Rescaled {
        /// The other drive's points.
        points: SeekPoints,
        /// The other drive's cylinders.
        points_cylinders: u32,
        /// To the next cylinder.
        single_ms: f64,
        /// The mean over random pairs of cylinders.
        mean_ms: f64,
    },
}

/// What the drive's controller needs for a command, besides the mechanics and the bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overheads {
    /// A read that is served from the buffer.
    pub read_hit_ms: f64,
    /// A read that needs the arm.
    pub read_miss_ms: f64,
    /// A write that the volatile cache takes.
    pub write_hit_ms: f64,
    /// A write that goes to the platter.
    pub write_miss_ms: f64,
}

/// The drive's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferModel {
    /// How many sequential streams are kept.
    pub segments: u32,
    /// Sectors of each stream.
    pub segment_sectors: u32,
    /// How far the drive reads ahead of what was asked for.
    pub read_ahead_sectors: u32,
    /// How many dirty sectors the volatile write cache holds, when it is on.
    pub cache_sectors: u32,
}

/// A hard disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    /// The name in the catalogue.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Where the numbers come from.
    pub source: &'static str,
    /// What they are worth.
    pub provenance: Provenance,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Data surfaces.
    pub heads: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// The zones, from the outer edge inwards.
    pub zones: Vec<Zone>,
    /// Sectors that the host sees; what the zones have beyond is spare.
    pub capacity_sectors: u64,
    /// The seek curve.
    pub seek: SeekSource,
    /// From one head to another of the same cylinder.
    pub head_switch_ms: f64,
    /// What a write waits for after the arm or the head has moved.
    pub write_settle_ms: f64,
    /// The controller.
    pub overheads: Overheads,
    /// The memory.
    pub buffer: BufferModel,
    /// Bytes per second on the way between host and drive.
    pub bus_bytes_per_second: u64,
    /// Whether a read begins wherever the head arrives on the track.
    pub has_zero_latency: bool,
    /// Whether the volatile write cache is on unless told otherwise.
    pub has_write_cache: bool,
    /// Whether the drive says that it knows FUA. It writes such requests to the platter in any case.
    pub has_force_unit_access: bool,
    /// How many commands the drive queues.
    pub queue_depth: u32,
}

impl DiskModel {
    /// Sectors per track in a cylinder.
    pub fn track_sectors(&self, cylinder: u32) -> u32 {
        let after = self
            .zones
            .partition_point(|zone| zone.first_cylinder <= cylinder);
        self.zones[after.saturating_sub(1)].track_sectors
    }

    /// How many bytes a second pass under a head in a cylinder.
    pub fn media_bytes_per_second(&self, cylinder: u32) -> f64 {
        f64::from(self.track_sectors(cylinder)) * 512.0 * f64::from(self.rpm) / 60.0
    }
}

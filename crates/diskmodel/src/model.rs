//! The parameters of a hard disk, from which its tables are built.
//!
//! Times are in milliseconds, as in data sheets and measurements. They become integer nanoseconds
//! when the disk is built; a running disk uses only integers.

use std::fmt;

use crate::firmware::Firmware;

/// The reliability of a model's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Extracted from a real drive and validated against its traces.
    Measured,
    /// Stated by the vendor.
    DataSheet,
    /// Derived from partial data so that the published figures result.
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

/// Adjacent cylinders with the same number of sectors per track. A zone ends where the next one
/// starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// First cylinder, counted from the outer edge.
    pub first_cylinder: u32,
    /// Number of sectors in each track.
    pub track_sectors: u32,
    /// Offset of a track's start from the previous one's in the same cylinder, in sectors.
    pub track_skew: u32,
    /// Offset of a cylinder's first track from the previous cylinder's last one, in sectors.
    pub cylinder_skew: u32,
}

/// Points of a measured seek curve: distance in cylinders, time in milliseconds; distances ascend.
pub type SeekPoints = &'static [(u32, f64)];

/// The seek curve or its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SeekSource {
    /// A measured curve, with straight lines between its points.
    Measured {
        /// Points of the curve.
        points: SeekPoints,
    },
    /// The two-piece curve of Ruemmler and Wilkes through three published numbers.
    ThreePoint {
        /// Seek to the next cylinder.
        single_ms: f64,
        /// Mean over random pairs of cylinders.
        mean_ms: f64,
        /// Seek from edge to edge.
        full_ms: f64,
    },
    /// The shape of another drive's measured curve through three published numbers.
    Rescaled {
        /// Points of the other drive.
        points: SeekPoints,
        /// Number of cylinders of the other drive.
        points_cylinders: u32,
        /// Seek to the next cylinder.
        single_ms: f64,
        /// Mean over random pairs of cylinders.
        mean_ms: f64,
        /// Seek from edge to edge.
        full_ms: f64,
    },
}

/// The overhead of the drive's controller for a command, besides the mechanics and the bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overheads {
    /// A read that is served from the buffer.
    pub read_hit_ms: f64,
    /// A read that needs the arm.
    pub read_miss_ms: f64,
    /// A write into the volatile cache.
    pub write_hit_ms: f64,
    /// A write that goes to the platter.
    pub write_miss_ms: f64,
}

/// The drive's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferModel {
    /// Number of sequential streams.
    pub segments: u32,
    /// Number of sectors of each stream.
    pub segment_sectors: u32,
    /// Number of sectors read ahead.
    pub read_ahead_sectors: u32,
    /// Number of dirty sectors that the volatile write cache holds, if enabled.
    pub cache_sectors: u32,
    /// Number of segments that hold dirty sectors at a time, one extent each; any number if absent.
    pub write_segments: Option<u32>,
}

/// A hard disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    /// Name in the catalogue.
    pub name: &'static str,
    /// Description of the disk.
    pub description: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
    /// Reliability of the numbers.
    pub provenance: Provenance,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Number of data surfaces.
    pub heads: u32,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Zones, from the outer edge inwards.
    pub zones: Vec<Zone>,
    /// Number of sectors visible to the host; the others of the zones are spare.
    pub capacity_sectors: u64,
    /// Seek curve.
    pub seek: SeekSource,
    /// Switch from one head to another of the same cylinder.
    pub head_switch_ms: f64,
    /// Settling time of a write after the arm or the head has moved.
    pub write_settle_ms: f64,
    /// Overheads of the controller.
    pub overheads: Overheads,
    /// Memory of the drive.
    pub buffer: BufferModel,
    /// Bandwidth between host and drive in bytes per second.
    pub bus_bytes_per_second: u64,
    /// True if a read starts wherever the head arrives on the track.
    pub has_zero_latency: bool,
    /// True if the volatile write cache is enabled by default.
    pub has_write_cache: bool,
    /// True if the drive reports FUA. It writes such requests to the platter in any case.
    pub has_force_unit_access: bool,
    /// Depth of the command queue.
    pub queue_depth: u32,
    /// Order in which the drive serves its queue and its write cache.
    pub firmware: Firmware,
}

impl DiskModel {
    /// Returns the number of sectors per track in a cylinder.
    pub fn track_sectors(&self, cylinder: u32) -> u32 {
        let after = self
            .zones
            .partition_point(|zone| zone.first_cylinder <= cylinder);
        self.zones[after.saturating_sub(1)].track_sectors
    }

    /// Returns the media rate in a cylinder in bytes per second.
    pub fn media_bytes_per_second(&self, cylinder: u32) -> f64 {
        f64::from(self.track_sectors(cylinder)) * 512.0 * f64::from(self.rpm) / 60.0
    }
}

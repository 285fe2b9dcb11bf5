//! The parameters of each kind of model by name, for comparison.

use sim::Parameter;

use crate::catalogue::{Memory, NvramModel};
use crate::controller::ControllerModel;
use crate::model::DiskModel;
use crate::seek::SeekCurve;
use crate::ssd::SsdModel;

/// Size of a slot of the flash's map in bytes.
const SLOT_BYTES: u64 = 4_096;

impl DiskModel {
    /// Returns all parameters except the zones' boundaries and the points of a measured seek curve.
    /// A limit that the drive does not have is absent.
    pub fn parameters(&self) -> Vec<Parameter> {
        let seek = SeekCurve::new(self.seek, self.cylinders);
        let ms = |time: rt::Nanos| time.as_secs_f64() * 1e3;
        let megabytes = |cylinder| self.media_bytes_per_second(cylinder) / 1e6;
        let (overheads, buffer) = (self.overheads, self.buffer);
        let limits = [
            ("write_segments", buffer.write_segments),
            ("reorder_window", self.firmware.window),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(name, limit)| Some(Parameter::new(name, limit?)));
        let mut parameters = vec![
            Parameter::main("capacity_bytes", self.capacity_sectors * 512),
            Parameter::main("rpm", self.rpm),
            Parameter::main("seek_mean_ms", ms(seek.mean())),
            Parameter::main("media_outer_mb_s", megabytes(0)),
            Parameter::main("media_inner_mb_s", megabytes(self.cylinders - 1)),
            Parameter::new("heads", self.heads),
            Parameter::new("cylinders", self.cylinders),
            Parameter::new("zones", self.zones.len() as u64),
            Parameter::new("track_outer_sectors", self.track_sectors(0)),
            Parameter::new(
                "track_inner_sectors",
                self.track_sectors(self.cylinders - 1),
            ),
            Parameter::new("seek_single_ms", ms(seek.time(1))),
            Parameter::new("seek_full_ms", ms(seek.full_stroke())),
            Parameter::new("head_switch_ms", self.head_switch_ms),
            Parameter::new("write_settle_ms", self.write_settle_ms),
            Parameter::new("read_hit_ms", overheads.read_hit_ms),
            Parameter::new("read_miss_ms", overheads.read_miss_ms),
            Parameter::new("write_hit_ms", overheads.write_hit_ms),
            Parameter::new("write_miss_ms", overheads.write_miss_ms),
            Parameter::new("buffer_segments", buffer.segments),
            Parameter::new("buffer_segment_sectors", buffer.segment_sectors),
            Parameter::new("read_ahead_sectors", buffer.read_ahead_sectors),
            Parameter::new("write_cache_sectors", buffer.cache_sectors),
            Parameter::new("bus_bytes_per_second", self.bus_bytes_per_second),
            Parameter::new("zero_latency", self.has_zero_latency),
            Parameter::main("write_cache", self.has_write_cache),
            Parameter::new("fua", self.has_force_unit_access),
            Parameter::new("queue_depth", self.queue_depth),
            Parameter::new("reorder", self.firmware.reorder.name()),
            Parameter::new("destage", self.firmware.destage().name()),
        ];
        parameters.extend(limits);
        parameters
    }
}

impl Memory {
    /// Returns all parameters.
    pub fn parameters(&self) -> Vec<Parameter> {
        match self {
            Self::Ssd(model) => model.parameters(),
            Self::Nvram(model) => model.parameters(),
            Self::RamDisk => Vec::new(),
        }
    }
}

impl SsdModel {
    /// Returns all parameters.
    pub fn parameters(&self) -> Vec<Parameter> {
        let cache = u64::from(self.cache_slots) * SLOT_BYTES;
        vec![
            Parameter::main("dies", self.dies),
            Parameter::main("bus_bytes_per_second", self.bus_bytes_per_second),
            Parameter::main("cache_bytes", cache),
            Parameter::main("power_loss_protection", self.has_power_loss_protection),
            Parameter::new("page_bytes", u64::from(self.page_slots) * SLOT_BYTES),
            Parameter::new("block_pages", self.block_pages),
            Parameter::new("over_provisioning_percent", self.over_provisioning_percent),
            Parameter::new("read_ns", self.read.get()),
            Parameter::new("program_ns", self.program.get()),
            Parameter::new("erase_ns", self.erase.get()),
            Parameter::new("transfer_ns", self.transfer.get()),
            Parameter::new("command_ns", self.command.get()),
            Parameter::new("flush_protected_ns", self.flush_protected.get()),
        ]
    }
}

impl NvramModel {
    /// Returns all parameters.
    pub fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::main("latency_ns", self.latency.get()),
            Parameter::main("bus_bytes_per_second", self.bytes_per_second),
        ]
    }
}

impl ControllerModel {
    /// Returns all parameters.
    pub fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::main("cache_bytes", self.cache_bytes),
            Parameter::main("command_ns", self.command.get()),
            Parameter::main("bus_bytes_per_second", self.bus_bytes_per_second),
            Parameter::new("high_water_percent", self.high_water_percent),
            Parameter::new("low_water_percent", self.low_water_percent),
            Parameter::new("idle_ns", self.idle.get()),
            Parameter::new("destage", self.destage.name()),
            Parameter::main("write_back", self.is_write_back),
            Parameter::new("read_cache", self.keeps_reads),
            Parameter::new("read_ahead", self.read_ahead.name()),
        ]
    }
}

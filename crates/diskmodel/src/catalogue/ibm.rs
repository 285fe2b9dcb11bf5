//! IBM's Ultrastar drives.

use super::zones;
use crate::firmware::Firmware;
use crate::model::{BufferModel, DiskModel, Overheads, Provenance, SeekSource};

/// Returns the DNES. The drive has 43 zones, some divided by spare cylinders; zones with the same
/// rate are merged.
pub(super) fn dnes() -> DiskModel {
    DiskModel {
        name: "ibm-dnes",
        description: "IBM Ultrastar 18ES DNES-309170W, 9.1 GB, 7200 rpm",
        source: "DiskSim 4, validated parameters of the DNES-309170W (rms error there 0.135 ms); seek curve from its \
                 single, mean and full seeks",
        provenance: Provenance::Measured,
        rpm: 7_200,
        heads: 5,
        cylinders: 11_474,
        zones: zones(&[
            [0, 390, 58, 101],
            [378, 374, 56, 97],
            [1_264, 364, 54, 94],
            [2_248, 351, 52, 91],
            [3_467, 338, 51, 87],
            [4_504, 325, 49, 84],
            [5_527, 312, 46, 81],
            [7_045, 286, 43, 74],
            [8_762, 273, 41, 70],
            [9_816, 260, 39, 66],
            [10_683, 247, 37, 63],
        ]),
        capacity_sectors: 17_916_240,
        seek: SeekSource::ThreePoint {
            single_ms: 1.06,
            mean_ms: 7.20,
            full_ms: 12.85,
        },
        head_switch_ms: 0.062,
        write_settle_ms: 0.126,
        overheads: Overheads {
            read_hit_ms: 0.082,
            read_miss_ms: 0.252,
            write_hit_ms: 0.185,
            write_miss_ms: 0.494,
        },
        buffer: BufferModel {
            segments: 6,
            segment_sectors: 511,
            read_ahead_sectors: 511,
            cache_sectors: 511,
            write_segments: Some(1),
        },
        bus_bytes_per_second: 40_000_000,
        has_zero_latency: true,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

//! Quantum's Atlas drives.

use super::quantum_seeks::{ATLAS_III_CYLINDERS, ATLAS_III_SEEKS};
use super::{EvenZones, zones};
use crate::firmware::Firmware;
use crate::model::{BufferModel, DiskModel, Overheads, Provenance, SeekSource};

/// Number of cylinders of the Atlas V model.
const ATLAS_V_CYLINDERS: u32 = 18_400;
/// Zones of the Atlas V model, with a linear decrease of sectors per track from the outer to the
/// inner one.
const ATLAS_V_ZONES: u32 = 15;
const ATLAS_V_OUTER_SECTORS: u32 = 480;
const ATLAS_V_INNER_SECTORS: u32 = 300;
const ATLAS_V_HEAD_SWITCH_US: u32 = 800;
const ATLAS_V_SINGLE_SEEK_US: u32 = 800;

pub(super) fn disks() -> Vec<DiskModel> {
    vec![
        atlas_v(
            "atlas-v-9",
            "Quantum Atlas V class, 9.2 GB, 7200 rpm, short-stroked",
            3,
            17_930_694,
        ),
        atlas_v(
            "atlas-v-18",
            "Quantum Atlas V class, 18.4 GB, 7200 rpm",
            5,
            35_861_388,
        ),
        atlas_v(
            "atlas-v-36",
            "Quantum Atlas V class, 36.7 GB, 7200 rpm",
            10,
            71_720_960,
        ),
        atlas_iii(),
        atlas_10k(),
    ]
}

fn atlas_v(
    name: &'static str,
    description: &'static str,
    heads: u32,
    capacity_sectors: u64,
) -> DiskModel {
    DiskModel {
        name,
        description,
        source: "capacity, tagged queues, write cache on, DPO and FUA from Linux boot logs; turns, seeks of 0.8, 6.3 and \
                 15 ms, Ultra160 and a buffer of 4 MB from table 4.3 of B. Dordevic et al., Performances of Ext3 \
                 Filesystem: Impact of External Journaling; shape of the seek curve of the Atlas III; zones fitted to \
                 the capacities; controller, and one write segment, of the Atlas 10K; order of commands from Quantum's \
                 patents",
        provenance: Provenance::Calibrated,
        rpm: 7_200,
        heads,
        cylinders: ATLAS_V_CYLINDERS,
        zones: EvenZones {
            cylinders: ATLAS_V_CYLINDERS,
            zones: ATLAS_V_ZONES,
            outer_sectors: ATLAS_V_OUTER_SECTORS,
            inner_sectors: ATLAS_V_INNER_SECTORS,
            head_switch_us: ATLAS_V_HEAD_SWITCH_US,
            single_seek_us: ATLAS_V_SINGLE_SEEK_US,
        }
        .zones(),
        capacity_sectors,
        seek: SeekSource::Rescaled {
            points: ATLAS_III_SEEKS,
            points_cylinders: ATLAS_III_CYLINDERS,
            single_ms: f64::from(ATLAS_V_SINGLE_SEEK_US) / 1e3,
            mean_ms: 6.3,
            full_ms: 15.0,
        },
        head_switch_ms: f64::from(ATLAS_V_HEAD_SWITCH_US) / 1e3,
        write_settle_ms: 0.5,
        overheads: Overheads {
            read_hit_ms: 0.2,
            read_miss_ms: 0.3,
            write_hit_ms: 0.19,
            write_miss_ms: 0.35,
        },
        buffer: BufferModel {
            segments: 16,
            segment_sectors: 512,
            read_ahead_sectors: 512,
            cache_sectors: 512,
            write_segments: Some(1),
        },
        bus_bytes_per_second: 160_000_000,
        has_zero_latency: true,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

fn atlas_iii() -> DiskModel {
    DiskModel {
        name: "atlas-iii",
        description: "Quantum Atlas III QM39100TD-SW, 9.1 GB, 7200 rpm",
        source: "DiskSim 4, validated parameters of the QM39100TD-SW (rms error there 0.378 ms)",
        provenance: Provenance::Measured,
        rpm: 7_200,
        heads: 10,
        cylinders: ATLAS_III_CYLINDERS,
        zones: zones(&[
            [0, 256, 75, 86],
            [616, 252, 74, 85],
            [1_824, 240, 71, 81],
            [3_376, 238, 70, 81],
            [4_144, 224, 65, 75],
            [5_200, 208, 61, 71],
            [5_976, 196, 57, 67],
            [6_584, 182, 53, 62],
            [7_344, 168, 49, 57],
        ]),
        capacity_sectors: 17_783_250,
        seek: SeekSource::Measured {
            points: ATLAS_III_SEEKS,
        },
        head_switch_ms: 0.999,
        write_settle_ms: 0.0,
        overheads: Overheads {
            read_hit_ms: 0.374,
            read_miss_ms: 0.0,
            write_hit_ms: 0.396,
            write_miss_ms: 0.5,
        },
        buffer: BufferModel {
            segments: 6,
            segment_sectors: 64,
            read_ahead_sectors: 64,
            cache_sectors: 64,
            write_segments: Some(1),
        },
        bus_bytes_per_second: 40_000_000,
        has_zero_latency: false,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

fn atlas_10k() -> DiskModel {
    DiskModel {
        name: "atlas-10k",
        description: "Quantum Atlas 10K, 9.1 GB, 10025 rpm",
        source: "DiskSim 4, validated parameters of the Atlas 10K (rms error there 0.268 ms); seek curve from its \
                 single, mean and full seeks",
        provenance: Provenance::Measured,
        rpm: 10_025,
        heads: 6,
        cylinders: 10_042,
        zones: zones(&[
            [0, 334, 63, 113],
            [1_265, 324, 63, 101],
            [2_521, 324, 62, 101],
            [2_937, 324, 61, 98],
            [4_609, 306, 58, 98],
            [5_449, 302, 57, 92],
            [5_865, 293, 56, 91],
            [6_281, 288, 55, 91],
            [6_705, 288, 55, 88],
            [7_121, 280, 54, 88],
            [7_537, 270, 51, 87],
            [7_953, 262, 51, 83],
            [8_377, 255, 48, 83],
            [8_793, 246, 47, 75],
            [9_209, 237, 45, 75],
            [9_625, 229, 44, 75],
        ]),
        capacity_sectors: 17_938_986,
        seek: SeekSource::ThreePoint {
            single_ms: 1.245,
            mean_ms: 5.60,
            full_ms: 10.83,
        },
        head_switch_ms: 0.176,
        write_settle_ms: 0.487,
        overheads: Overheads {
            read_hit_ms: 0.184,
            read_miss_ms: 0.0,
            write_hit_ms: 0.189,
            write_miss_ms: 0.345,
        },
        buffer: BufferModel {
            segments: 10,
            segment_sectors: 374,
            read_ahead_sectors: 354,
            cache_sectors: 374,
            write_segments: Some(1),
        },
        bus_bytes_per_second: 80_000_000,
        has_zero_latency: true,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

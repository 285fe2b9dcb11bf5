//! Seagate's Cheetah, Barracuda and Constellation drives.

use super::{EvenZones, zones};
use crate::firmware::Firmware;
use crate::model::{BufferModel, DiskModel, Overheads, Provenance, SeekSource};

pub(super) fn disks() -> Vec<DiskModel> {
    vec![cheetah9lp(), cheetah4lp(), barracuda(), constellation_es3()]
}

/// Returns the Constellation ES.3. With these skews the media rates are the published 175 to 83
/// MB/s; the number of cylinders follows from the capacity.
fn constellation_es3() -> DiskModel {
    const CYLINDERS: u32 = 343_500;
    DiskModel {
        name: "constellation-es3",
        description: "Seagate Constellation ES.3 class, 4 TB, 7200 rpm, SATA or SAS",
        source: "product manual of the Constellation ES.3 (ST4000NM0023, 100671510): capacity, heads, turns, 83 to 175 \
                 MB/s sustained, about 320,800 tracks a surface; seeks, skews and controller as drives of its class have \
                 them",
        provenance: Provenance::Calibrated,
        rpm: 7_200,
        heads: 10,
        cylinders: CYLINDERS,
        zones: EvenZones {
            cylinders: CYLINDERS,
            zones: 24,
            outer_sectors: 3_096,
            inner_sectors: 1_468,
            head_switch_us: 700,
            single_seek_us: 800,
        }
        .zones(),
        capacity_sectors: 7_814_037_168,
        seek: SeekSource::ThreePoint {
            single_ms: 0.8,
            mean_ms: 8.5,
            full_ms: 16.0,
        },
        head_switch_ms: 0.7,
        write_settle_ms: 0.5,
        overheads: Overheads {
            read_hit_ms: 0.05,
            read_miss_ms: 0.1,
            write_hit_ms: 0.05,
            write_miss_ms: 0.1,
        },
        buffer: BufferModel {
            segments: 32,
            segment_sectors: 4_096,
            read_ahead_sectors: 4_096,
            cache_sectors: 131_072,
            write_segments: None,
        },
        bus_bytes_per_second: 600_000_000,
        has_zero_latency: true,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

fn cheetah9lp() -> DiskModel {
    DiskModel {
        name: "cheetah9lp",
        description: "Seagate Cheetah 9LP ST39102LW, 9.1 GB, 10045 rpm",
        source: "DiskSim 4, validated parameters of the ST39102LW (rms error there 0.107 ms); seek curve from its \
                 single, mean and full seeks",
        provenance: Provenance::Measured,
        rpm: 10_045,
        heads: 12,
        cylinders: 6_962,
        zones: zones(&[
            [0, 254, 97, 133],
            [848, 245, 97, 133],
            [1_645, 238, 97, 117],
            [2_394, 227, 97, 116],
            [3_098, 217, 97, 108],
            [3_759, 209, 97, 108],
            [4_381, 201, 97, 108],
            [4_966, 189, 88, 94],
            [5_516, 181, 88, 93],
            [6_032, 174, 88, 93],
            [6_518, 167, 88, 80],
        ]),
        capacity_sectors: 17_783_240,
        seek: SeekSource::ThreePoint {
            single_ms: 0.83,
            mean_ms: 5.47,
            full_ms: 10.63,
        },
        head_switch_ms: 0.03,
        write_settle_ms: 0.461,
        overheads: Overheads {
            read_hit_ms: 0.066,
            read_miss_ms: 0.284,
            write_hit_ms: 0.5,
            write_miss_ms: 0.9,
        },
        buffer: BufferModel {
            segments: 3,
            segment_sectors: 561,
            read_ahead_sectors: 561,
            cache_sectors: 1_683,
            write_segments: Some(3),
        },
        bus_bytes_per_second: 80_000_000,
        has_zero_latency: false,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

fn cheetah4lp() -> DiskModel {
    DiskModel {
        name: "cheetah4lp",
        description: "Seagate Cheetah 4LP ST34501N, 4.5 GB, 10033 rpm",
        source: "DiskSim 4, validated parameters of the ST34501N (rms error there 0.318 ms); seek curve from its \
                 single, mean and full seeks",
        provenance: Provenance::Measured,
        rpm: 10_033,
        heads: 8,
        cylinders: 6_581,
        zones: zones(&[
            [0, 195, 22, 37],
            [1_345, 187, 22, 35],
            [2_450, 176, 20, 33],
            [3_543, 166, 19, 31],
            [4_408, 155, 18, 29],
            [5_225, 145, 17, 27],
            [5_958, 131, 15, 25],
        ]),
        capacity_sectors: 8_887_200,
        seek: SeekSource::ThreePoint {
            single_ms: 0.64,
            mean_ms: 7.96,
            full_ms: 16.1,
        },
        head_switch_ms: 0.195,
        write_settle_ms: 0.0,
        overheads: Overheads {
            read_hit_ms: 0.068,
            read_miss_ms: 0.608,
            write_hit_ms: 0.474,
            write_miss_ms: 0.538,
        },
        buffer: BufferModel {
            segments: 3,
            segment_sectors: 282,
            read_ahead_sectors: 282,
            cache_sectors: 282,
            write_segments: Some(1),
        },
        bus_bytes_per_second: 20_000_000,
        has_zero_latency: false,
        has_write_cache: true,
        has_force_unit_access: true,
        queue_depth: 32,
        firmware: Firmware::default(),
    }
}

fn barracuda() -> DiskModel {
    DiskModel {
        name: "barracuda",
        description: "Seagate Barracuda ST32171W, 2.1 GB, 7200 rpm",
        source: "DiskSim 4, validated parameters of the ST32171W (rms error there 0.349 ms); seek curve from its \
                 single, mean and full seeks",
        provenance: Provenance::Measured,
        rpm: 7_200,
        heads: 5,
        cylinders: 5_172,
        zones: zones(&[
            [0, 186, 37, 52],
            [1_129, 185, 37, 52],
            [2_354, 177, 35, 49],
            [2_763, 170, 34, 47],
            [3_100, 163, 32, 46],
            [3_389, 157, 31, 44],
            [3_702, 148, 29, 41],
            [4_015, 141, 28, 39],
            [4_328, 135, 27, 38],
            [4_617, 126, 25, 35],
            [4_930, 119, 23, 33],
        ]),
        capacity_sectors: 4_110_000,
        seek: SeekSource::ThreePoint {
            single_ms: 1.94,
            mean_ms: 9.33,
            full_ms: 16.7,
        },
        head_switch_ms: 0.1,
        write_settle_ms: 0.0,
        overheads: Overheads {
            read_hit_ms: 0.082,
            read_miss_ms: 0.613,
            write_hit_ms: 0.929,
            write_miss_ms: 1.054,
        },
        buffer: BufferModel {
            segments: 3,
            segment_sectors: 281,
            read_ahead_sectors: 281,
            cache_sectors: 281,
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

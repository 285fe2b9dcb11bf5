//! Named models: the disks, the sources of their numbers, and the reliability of the sources.

mod flash;
mod ibm;
mod memory;
mod quantum;
mod quantum_seeks;
mod seagate;

use crate::model::{DiskModel, Provenance, Zone};
pub use memory::{Memory, NvramModel};

/// An entry of the catalogue, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name, as in `sim:NAME`.
    pub name: &'static str,
    /// Description of the device.
    pub description: &'static str,
    /// Source of the numbers.
    pub source: &'static str,
    /// Reliability of the numbers.
    pub provenance: Provenance,
}

/// Returns all entries of the catalogue.
pub fn catalogue() -> Vec<Entry> {
    let disks = hard_disks().into_iter().map(|model| Entry {
        name: model.name,
        description: model.description,
        source: model.source,
        provenance: model.provenance,
    });
    disks
        .chain(memories().into_iter().map(|(entry, _)| entry))
        .collect()
}

/// Returns the hard disk with that name.
pub fn hard_disk(name: &str) -> Option<DiskModel> {
    hard_disks().into_iter().find(|model| model.name == name)
}

fn hard_disks() -> Vec<DiskModel> {
    let mut disks = quantum::disks();
    disks.push(ibm::dnes());
    disks.extend(seagate::disks());
    disks
}

fn memories() -> Vec<(Entry, Memory)> {
    let mut all = memory::memories();
    all.extend(flash::drives());
    all
}

/// Returns the memory device with that name.
pub fn memory(name: &str) -> Option<Memory> {
    let mut all = memories().into_iter();
    all.find_map(|(entry, memory)| (entry.name == name).then_some(memory))
}

/// Zones of equal width with a linear decrease of sectors per track, for disks with 7200
/// revolutions per minute.
struct EvenZones {
    cylinders: u32,
    zones: u32,
    outer_sectors: u32,
    inner_sectors: u32,
    head_switch_us: u32,
    single_seek_us: u32,
}

/// Duration of a revolution at 7200 revolutions per minute.
const TURN_US: u32 = 8_333;

impl EvenZones {
    fn zones(&self) -> Vec<Zone> {
        let skew = |time: u32, sectors: u32| (time * sectors).div_ceil(TURN_US);
        (0..self.zones)
            .map(|zone| {
                let fall = (self.outer_sectors - self.inner_sectors) * zone;
                let steps = self.zones - 1;
                let track_sectors = self.outer_sectors - (fall + steps / 2) / steps;
                Zone {
                    first_cylinder: self.cylinders * zone / self.zones,
                    track_sectors,
                    track_skew: skew(self.head_switch_us, track_sectors),
                    cylinder_skew: skew(self.single_seek_us, track_sectors),
                }
            })
            .collect()
    }
}

/// Returns zones from rows of first cylinder, sectors per track, track skew, cylinder skew.
fn zones(rows: &[[u32; 4]]) -> Vec<Zone> {
    rows.iter()
        .map(
            |[first_cylinder, track_sectors, track_skew, cylinder_skew]| Zone {
                first_cylinder: *first_cylinder,
                track_sectors: *track_sectors,
                track_skew: *track_skew,
                cylinder_skew: *cylinder_skew,
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanics::Mechanics;
    use crate::model::SeekSource;
    use crate::seek::SeekCurve;

    /// Name, sectors, media rate outside and inside in MB/s, mean and full seek in ms.
    const FIGURES: [(&str, u64, f64, f64, f64, f64); 10] = [
        ("atlas-v-9", 17_930_694, 29.5, 18.4, 6.3, 15.0),
        ("atlas-v-18", 35_861_388, 29.5, 18.4, 6.3, 15.0),
        ("atlas-v-36", 71_720_960, 29.5, 18.4, 6.3, 15.0),
        ("atlas-iii", 17_783_250, 15.7, 10.3, 8.31, 15.36),
        ("atlas-10k", 17_938_986, 28.6, 19.6, 5.60, 10.83),
        ("ibm-dnes", 17_916_240, 24.0, 15.2, 7.20, 12.85),
        ("cheetah9lp", 17_783_240, 21.8, 14.3, 5.47, 10.63),
        ("cheetah4lp", 8_887_200, 16.7, 11.2, 7.96, 16.1),
        ("barracuda", 4_110_000, 11.4, 7.3, 9.33, 16.7),
        ("constellation-es3", 7_814_037_168, 190.2, 90.2, 8.5, 16.0),
    ];

    #[test]
    fn every_model_has_its_published_figures() {
        assert_eq!(hard_disks().len(), FIGURES.len());
        for (name, sectors, outer, inner, mean, full) in FIGURES {
            let model = hard_disk(name).expect("it is in the catalogue");
            let mechanics = Mechanics::new(&model);
            let near = |what: &str, value: f64, wanted: f64| {
                let share = (value - wanted).abs() / wanted;
                assert!(share < 0.01, "{name}: {what} is {value}, not {wanted}");
            };
            assert_eq!(model.capacity_sectors, sectors);
            near("outer rate", model.media_bytes_per_second(0) / 1e6, outer);
            near(
                "inner rate",
                model.media_bytes_per_second(model.cylinders - 1) / 1e6,
                inner,
            );
            near("mean seek", mechanics.seek.mean().as_secs_f64() * 1e3, mean);
            near(
                "full seek",
                mechanics.seek.full_stroke().as_secs_f64() * 1e3,
                full,
            );
        }
    }

    #[test]
    fn the_atlas_v_has_the_published_seeks_and_buffer() {
        for name in ["atlas-v-9", "atlas-v-18", "atlas-v-36"] {
            let model = hard_disk(name).expect("it is in the catalogue");
            let seek = Mechanics::new(&model).seek;
            assert_eq!(seek.time(1).get(), 800_000);
            assert_eq!(seek.full_stroke().get(), 15_000_000);
            assert!(seek.mean().get().abs_diff(6_300_000) < 10);
            let (near, middle) = (seek.time(920).get(), seek.time(9_200).get());
            let measured = hard_disk("atlas-iii").expect("it is in the catalogue");
            let other = Mechanics::new(&measured).seek;
            let beyond = |time: u64, first: u64| (time - first) as f64;
            let share = beyond(near, 800_000) / beyond(middle, 800_000);
            let first = other.time(1).get();
            let wanted =
                beyond(other.time(403).get(), first) / beyond(other.time(4_028).get(), first);
            assert!((share - wanted).abs() < 0.01, "{share}, not {wanted}");
            let buffer = model.buffer;
            assert_eq!(buffer.segments * buffer.segment_sectors * 512, 4 << 20);
        }
    }

    /// Compares the formula for drives with three known numbers with a measured curve.
    #[test]
    fn three_numbers_come_close_to_a_measured_curve() {
        let model = hard_disk("atlas-iii").expect("it is in the catalogue");
        let measured = Mechanics::new(&model).seek;
        let (single_ms, mean_ms, full_ms) = (1.663, 8.31, 15.36);
        let source = SeekSource::ThreePoint {
            single_ms,
            mean_ms,
            full_ms,
        };
        let formula = SeekCurve::new(source, model.cylinders);
        let cylinders = f64::from(model.cylinders);
        let (mut sum, mut weights) = (0.0, 0.0);
        for distance in 1..model.cylinders {
            let weight = cylinders - f64::from(distance);
            let error =
                measured.time(distance).as_secs_f64() - formula.time(distance).as_secs_f64();
            sum += weight * error * error * 1e6;
            weights += weight;
        }
        let error = f64::sqrt(sum / weights);
        assert!(error < 0.30, "{error} ms");
    }

    #[test]
    fn skews_leave_time_for_the_switch() {
        for model in hard_disks() {
            let mechanics = Mechanics::new(&model);
            for zone in &model.zones {
                let turn = 60e3 / f64::from(model.rpm);
                let time = |skew: u32| turn * f64::from(skew) / f64::from(zone.track_sectors);
                assert!(
                    time(zone.track_skew) >= model.head_switch_ms,
                    "{}",
                    model.name
                );
                let single = mechanics.seek.time(1).as_secs_f64() * 1e3;
                assert!(time(zone.cylinder_skew) >= single, "{}", model.name);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = catalogue().into_iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

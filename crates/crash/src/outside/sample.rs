//! Samples: a random workload of a random generator, and one of the states that a power cut at a
//! random event leaves.

use std::rc::Rc;

use block::Replay;
use rt::split_mix::{SplitMix, mix_pair};

use super::Difference;
use crate::cut::Moment;
use crate::disks::Disks;
use crate::explore::{Limits, select};
use crate::generator::{Generator, Kind};
use crate::image::Image;
use crate::recording::Recording;
use crate::replay::ReplayId;
use crate::rule::{Broken, Rule};
use crate::run::record;
use crate::setting::Cell;
use crate::volumes::Volumes;
use crate::workload::Workload;

/// The kinds of generators.
const KINDS: [Kind; 7] = [
    Kind::Exhaustive { length: 1 },
    Kind::Stress,
    Kind::Exhaustive { length: 2 },
    Kind::Tight,
    Kind::Exhaustive { length: 3 },
    Kind::Races,
    Kind::Faults,
];
/// Minimum number of blocks of the log that the kernel accepts, without its superblock.
const LOG_BLOCKS_OF_KERNEL: u32 = layout::journal::BLOCK_COUNT_MIN - 1;

/// A source of samples by number.
pub(super) struct Sampler {
    generators: Vec<Generator>,
    cells: Vec<Cell>,
    seed: u64,
}

/// The contents that a power cut left.
pub(super) struct Sample {
    /// Replay id of the sample.
    pub(super) id: ReplayId,
    /// The whole run.
    pub(super) recording: Rc<Recording>,
    /// The contents.
    pub(super) disks: Disks,
}

impl Sample {
    /// Returns the difference for a violation of this sample.
    pub(super) fn difference(&self, broken: Broken) -> Box<Difference> {
        let id = self.id.clone();
        Box::new(Difference { id, broken })
    }
}

impl Sampler {
    pub(super) fn new(cells: Vec<Cell>, seed: u64) -> Self {
        let generators = KINDS.iter();
        let generators = generators.map(|kind| Generator::new(*kind, cells.clone(), seed));
        Self {
            generators: generators.collect(),
            cells,
            seed,
        }
    }

    /// Returns a sample by its number, with a log that the kernel accepts or as short as the
    /// workload allows.
    pub(super) fn take(
        &self,
        number: u64,
        is_for_kernel: bool,
        volumes: &mut Volumes,
    ) -> Result<Sample, Box<Difference>> {
        let mut workload = self.workload(number);
        if is_for_kernel {
            workload.setting.log_blocks = LOG_BLOCKS_OF_KERNEL;
        }
        let recorded = volumes
            .prepared(&workload)
            .and_then(|disks| record(&workload, &disks));
        let recording = recorded.map_err(|error| {
            let (workload, cuts) = (workload.clone(), Vec::new());
            Box::new(Difference {
                id: ReplayId { workload, cuts },
                broken: Broken::new(Rule::U1, error.to_string()),
            })
        })?;
        let mut random = SplitMix::new(mix_pair(self.seed ^ recording.hash, number));
        Ok(cut(workload, recording, &mut random))
    }

    /// Returns a workload: generators take turns, and for each of them the cells.
    fn workload(&self, number: u64) -> Workload {
        let (kinds, cells) = (self.generators.len() as u64, self.cells.len() as u64);
        let generator = &self.generators[(number % kinds) as usize];
        let round = number / kinds;
        let workload = match generator.count() {
            Some(count) => mix_pair(self.seed, number) % (count / cells),
            None => round,
        };
        generator.workload(workload * cells + round % cells).1
    }
}

/// Cuts the power at a random event of a run.
fn cut(workload: Workload, recording: Recording, random: &mut SplitMix) -> Sample {
    let initial = &recording.initial;
    let images = core::iter::once(&initial.home).chain(&initial.log);
    let replays = images.zip(&recording.geometries).enumerate();
    let mut replays: Vec<Replay<Image>> = replays
        .map(|(device, (image, geometry))| Replay::on(device, geometry.clone(), image))
        .collect();
    let event = random.below(recording.events.len() as u64 + 1) as usize;
    for event in &recording.events[..event] {
        replays.iter_mut().for_each(|replay| replay.apply(event));
    }
    let moment = Moment::new(&replays);
    let mut selections = select::whole(&moment, replays.len());
    let limits = Limits::new(random.next_u64());
    selections.extend(select::parts(&moment, &limits, limits.seed, &|_, _| true));
    let selection = selections.swap_remove(random.below(selections.len() as u64) as usize);
    let disks = moment.disks(&selection, initial);
    let cuts = vec![moment.cut(event, &selection)];
    drop(moment);
    Sample {
        id: ReplayId { workload, cuts },
        disks,
        recording: Rc::new(recording),
    }
}

//! One round: a volume, its clients, and the instant at which all devices are gone.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::mode::{DataMode, OrderedScope};
use block::cache::CacheDevice;
use block::trace::{Trace, TraceDevice};
use block::versions::Versions;
use block::{BlockDevice, Geometry};
use ext::Volume;
use rt::split_mix::{SplitMix, mix_pair};

use super::gate::{Gate, Gated};
use super::keep::Evidence;
use super::lane::{Lane, Work};
use crate::device::{ImageDevice, Plant};
use crate::disks::{Disks, mount_options};
use crate::generator::stress::LOG_BLOCKS_MIN;
use crate::image::Image;
use crate::recording::{Ended, Recording};
use crate::rule::{Broken, Rule};
use crate::setting::{Cell, Setting};
use crate::workload::Workload;

/// Maximum time that clients work, in microseconds.
const WORK_US_MAX: u64 = 120_000;
/// Maximum time that clients may take to end when the devices are gone. Far longer than they ever
/// need: after it, a thread is assumed to wait for an event that never comes.
const HANG: Duration = Duration::from_secs(60);
/// Sizes in bytes of a cache that has to write back in the middle of a round, and of one that has
/// not.
const CACHES: [u64; 2] = [96 << 10, 1 << 30];
/// Durations of flushes and forced writes, in microseconds.
const DELAYS_US: [u64; 4] = [0, 50, 300, 2000];
/// A number from which transaction numbers soon wrap.
const NEARLY_WRAPPED: u32 = 0xFFFF_FFF0;

/// A completed round.
pub(super) struct Round {
    /// The operations, as a recording.
    pub(super) recording: Recording,
    /// The durable contents of each device, and the writes in its cache that no flush covers.
    pub(super) left: Vec<(Image, Versions)>,
}

/// The layers of a device, from the lowest.
struct Stack {
    image: Arc<ImageDevice>,
    cache: Arc<CacheDevice>,
    traced: Arc<TraceDevice>,
}

fn setting(cell: Cell, lanes: u32, random: &mut SplitMix) -> Setting {
    let mut chance = |one_in| random.below(one_in) == 0;
    let (wraps, commits, writes, cannot_force) = (chance(3), chance(2), chance(2), chance(5));
    let is_allocated_only = cell.data == DataMode::Ordered && chance(4);
    let or_never = |is_on: bool, millis| if is_on { millis } else { 0 };
    Setting {
        lanes,
        log_blocks: LOG_BLOCKS_MIN,
        tid: if wraps { NEARLY_WRAPPED } else { 1 },
        commit_ms: or_never(commits, 1 + random.below(20)),
        writer_ms: or_never(writes, 1 + random.below(20)),
        can_force: !cannot_force,
        ordered: if is_allocated_only {
            OrderedScope::Allocated
        } else {
            OrderedScope::All
        },
        ..Setting::new(cell)
    }
}

/// Runs a round.
pub(super) fn run(
    cell: Cell,
    lanes: u32,
    seed: u64,
    plant: Option<Plant>,
) -> Result<Round, Box<Evidence>> {
    let mut random = SplitMix::new(seed);
    let setting = setting(cell, lanes, &mut random).fitting();
    let broken = |what: String| Evidence::without_images(setting, Broken::new(Rule::U1, what));
    let initial = Disks::make(&setting).map_err(|error| broken(error.to_string()))?;
    let (trace, gate) = (Trace::new(), Arc::new(Gate::default()));
    let capacity = CACHES[random.below(CACHES.len() as u64) as usize];
    let delay_us = DELAYS_US[random.below(DELAYS_US.len() as u64) as usize];
    let images = core::iter::once(&initial.home).chain(&initial.log);
    let stacks: Vec<Stack> = images
        .map(|image| {
            let image = ImageDevice::new(image.clone());
            let below = Arc::<ImageDevice>::clone(&image);
            let cache = Arc::new(CacheDevice::new(below, capacity));
            let gated = Gated {
                inner: Arc::<CacheDevice>::clone(&cache),
                gate: Arc::clone(&gate),
                can_force: setting.can_force,
                delay: Duration::from_micros(delay_us),
            };
            let gated: Arc<dyn BlockDevice> = Arc::new(gated);
            let planted = plant.map_or(Arc::clone(&gated), |plant| plant(gated));
            let traced = Arc::new(trace.attach(planted));
            Stack {
                image,
                cache,
                traced,
            }
        })
        .collect();
    let device =
        |stack: &Stack| -> Arc<dyn BlockDevice> { Arc::<TraceDevice>::clone(&stack.traced) };
    let (home, log) = (device(&stacks[0]), stacks.get(1).map(device));
    let volume = Volume::open(home, log, mount_options(&setting));
    let volume = Arc::new(volume.map_err(|error| broken(error.to_string()))?);
    let works = work(&volume, &trace, &gate, &setting, &mut random);
    let works = works.map_err(broken)?;
    let geometries = stacks.iter().map(|stack| stack.traced.geometry());
    let (recording, failure) = recording(setting, &initial, works, &trace, geometries.collect());
    if let Some(what) = failure {
        return Err(Evidence::of(recording, Broken::new(Rule::U1, what)));
    }
    let volume = Arc::into_inner(volume).expect("the clients have ended");
    // Dropping and closing a volume whose devices are gone both end, and neither writes.
    if random.below(2) == 0 {
        drop(volume);
    } else if volume.close().is_ok() {
        let broken = Broken::new(Rule::F4, "closing said yes on devices that are gone");
        return Err(Evidence::of(recording, broken));
    }
    let left = |stack: &Stack| (stack.image.image(), stack.cache.unflushed());
    Ok(Round {
        recording,
        left: stacks.iter().map(left).collect(),
    })
}

/// Lets the clients work, and then cuts off their devices.
fn work(
    volume: &Arc<Volume>,
    trace: &Arc<Trace>,
    gate: &Arc<Gate>,
    setting: &Setting,
    random: &mut SplitMix,
) -> Result<Vec<Work>, String> {
    let races = random.below(3) == 0;
    let seed = random.next_u64();
    let (alive, all_ended) = channel::<()>();
    let start = |number: u32| {
        let (volume, trace, gate) = (Arc::clone(volume), Arc::clone(trace), Arc::clone(gate));
        let alive = alive.clone();
        std::thread::spawn(move || {
            let lane = Lane {
                number: number as usize,
                volume: &volume,
                trace: &trace,
                gate: &gate,
                races,
                random: SplitMix::new(mix_pair(seed, number.into())),
            };
            let work = lane.work();
            drop(volume);
            drop(alive);
            work
        })
    };
    let handles: Vec<JoinHandle<Work>> = (0..setting.lanes).map(start).collect();
    drop(alive);
    std::thread::sleep(Duration::from_micros(random.below(WORK_US_MAX)));
    gate.close();
    if all_ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
        let stuck = handles.iter().enumerate();
        let stuck: Vec<usize> = stuck
            .filter(|(_, handle)| !handle.is_finished())
            .map(|(lane, _)| lane)
            .collect();
        return Err(format!(
            "clients {stuck:?} have not ended {HANG:?} after the devices were gone"
        ));
    }
    let join = |(lane, handle): (usize, JoinHandle<Work>)| {
        handle.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("client {lane} panicked: {}", text.unwrap_or_default())
        })
    };
    handles.into_iter().enumerate().map(join).collect()
}

/// Returns the operations as a recording, and an unexpected failure, if there was one.
fn recording(
    setting: Setting,
    initial: &Disks,
    works: Vec<Work>,
    trace: &Trace,
    geometries: Vec<Geometry>,
) -> (Recording, Option<String>) {
    let failure = works.iter().find_map(|work| work.failure.clone());
    let (lanes, done) = works.into_iter().map(|work| (work.ops, work.done)).unzip();
    let recording = Recording {
        workload: Workload {
            setting,
            prepared: vec![0; setting.lanes as usize],
            lanes,
        },
        initial: initial.clone(),
        events: trace.events(),
        done,
        geometries,
        last: initial.clone(),
        ended: Ended::default(),
        strikes: Vec::new(),
        faults: Vec::new(),
        hash: 0,
    };
    (recording, failure)
}

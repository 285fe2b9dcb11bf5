//! Power cuts at every event: whatever a cut leaves is recovered to a state that some transaction
//! ended with, no earlier than the last that was acknowledged. And again when the power goes during
//! recovery.

use std::sync::Arc;

use block::{BlockDevice, Event, MemoryDevice, Replay, Trace};
use jbd2::format::Checksums;
use jbd2::{Config, Location, LogPolicy};
use testkit::Random;

use crate::harness::{Kind, Model, Small, check};

/// A recorded run.
struct Run {
    kind: Kind,
    events: Vec<Event>,
    replays: Vec<Replay>,
    after: std::collections::BTreeMap<u32, Model>,
}

/// Records a run of random steps with commits, age-based writes, checkpoints and data written past
/// the journal.
fn record(kind: Kind, policy: LogPolicy, has_force: bool, seed: u64, is_closed: bool) -> Run {
    let (home, log_device) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&log_device));
    let (initial_home, initial_log) = (home.snapshot(), log_device.snapshot());
    let trace = Trace::new();
    let traced_home: Arc<dyn BlockDevice> =
        Arc::new(trace.attach(home).with_volatile_cache(has_force));
    let mut replays = vec![Replay::new(0, traced_home.geometry(), &initial_home)];
    let traced_log: Arc<dyn BlockDevice> = if kind.is_external {
        let device = trace.attach(log_device).with_volatile_cache(has_force);
        replays.push(Replay::new(1, device.geometry(), &initial_log));
        Arc::new(device)
    } else {
        Arc::clone(&traced_home)
    };
    let config = Config {
        policy,
        ..kind.config()
    };
    let mut small = Small::open_with(kind, traced_home, kind.location(traced_log), config);
    let mut random = Random::new(seed);
    for _ in 0..24 {
        for _ in 0..random.below(4) {
            small.step(&mut random);
        }
        if let Some(tid) = small.commit() {
            trace.mark(tid.get().into());
        }
        match random.below(6) {
            0 => drop(
                small
                    .journal
                    .write_back(rt::monotonic(), random.below(20) as usize),
            ),
            1 => small
                .journal
                .checkpoint_all()
                .expect("memory does not fail"),
            2 | 3 => small.write_data(),
            _ => {}
        }
    }
    let after = core::mem::take(&mut small.after);
    if is_closed {
        Arc::clone(&small.journal)
            .close()
            .expect("memory does not fail");
    }
    drop(small);
    Run {
        kind,
        events: trace.events(),
        replays,
        after,
    }
}

impl Run {
    /// Cuts the power after every event, in several ways each.
    fn explore(mut self, seeds: u64) -> u64 {
        let events = core::mem::take(&mut self.events);
        let mut acknowledged = self.kind.sequence.wrapping_sub(1);
        let mut states = 0;
        for (index, event) in events.iter().enumerate() {
            if let Event::Mark(tid) = event {
                acknowledged = *tid as u32;
            }
            self.replays
                .iter_mut()
                .for_each(|replay| replay.apply(event));
            let mut images = vec![
                self.images(Replay::image_all_lost),
                self.images(Replay::image_all_kept),
            ];
            for seed in 0..seeds {
                images.push(self.images(|replay| replay.image(seed + 1000 * index as u64)));
            }
            for (number, devices) in images.into_iter().enumerate() {
                let context = format!("event {index} of {}, image {number}", events.len());
                self.recover_and_check(&devices, acknowledged, &context);
                if (index + number) % 41 == 0 {
                    self.cut_recovery(&devices, acknowledged, &context);
                }
                states += 1;
            }
        }
        states
    }

    fn images(&self, image: impl Fn(&Replay) -> MemoryDevice) -> Vec<MemoryDevice> {
        self.replays.iter().map(image).collect()
    }

    fn location(&self, devices: &[Arc<dyn BlockDevice>]) -> Location {
        let device = devices.last().expect("there is one");
        self.kind.location(Arc::clone(device))
    }

    fn recover_and_check(&self, devices: &[MemoryDevice], acknowledged: u32, context: &str) {
        let copies: Vec<Arc<MemoryDevice>> = devices
            .iter()
            .map(|device| Arc::new(device.snapshot()))
            .collect();
        self.recover_in_place(&copies, acknowledged, context);
    }

    fn recover_in_place(&self, copies: &[Arc<MemoryDevice>], acknowledged: u32, context: &str) {
        let opened: Vec<Arc<dyn BlockDevice>> = copies
            .iter()
            .map(|copy| Arc::<MemoryDevice>::clone(copy) as _)
            .collect();
        let recovered = jbd2::recovery::recover(&self.location(&opened), &opened[0])
            .unwrap_or_else(|error| panic!("{error}: {context}, {:?}", self.kind));
        let last = recovered.next.get().wrapping_sub(2);
        let distance = last.wrapping_sub(acknowledged);
        assert!(
            distance < 100,
            "{last} of {acknowledged} acknowledged: {context}"
        );
        let model = self
            .after
            .get(&last)
            .unwrap_or_else(|| panic!("{last}: {context}"));
        check(
            self.kind,
            &copies[0],
            model,
            &format!("{context}, {:?}", self.kind),
        );
    }

    /// Cuts the power during recovery, after each of its events, and recovers what is left.
    fn cut_recovery(&self, devices: &[MemoryDevice], acknowledged: u32, context: &str) {
        let trace = Trace::new();
        let mut replays = Vec::new();
        let traced: Vec<Arc<dyn BlockDevice>> = devices
            .iter()
            .enumerate()
            .map(|(number, device)| {
                let traced = trace
                    .attach(Arc::new(device.snapshot()))
                    .with_volatile_cache(true);
                replays.push(Replay::new(number, traced.geometry(), device));
                Arc::new(traced) as _
            })
            .collect();
        jbd2::recovery::recover(&self.location(&traced), &traced[0]).expect("it was recovered");
        for (index, event) in trace.events().iter().enumerate() {
            replays.iter_mut().for_each(|replay| replay.apply(event));
            let images: Vec<MemoryDevice> = replays
                .iter()
                .map(|replay| replay.image(index as u64))
                .collect();
            let context = format!("{context}, recovery cut after event {index}");
            self.recover_and_check(&images, acknowledged, &context);
        }
    }
}

fn explore(kind: Kind, policy: LogPolicy, has_force: bool, seed: u64) {
    let states = record(kind, policy, has_force, seed, seed.is_multiple_of(2)).explore(2);
    assert!(states > 300, "only {states} states: {kind:?}");
}

#[test]
fn internal_logs_without_checksums() {
    for seed in 0..4 {
        explore(Kind::default(), LogPolicy::DEFAULT, true, seed);
    }
}

#[test]
fn devices_without_forced_writes() {
    for seed in 10..12 {
        explore(Kind::default(), LogPolicy::DEFAULT, false, seed);
    }
}

#[test]
fn logs_with_checksums() {
    for (seed, checksums) in [Checksums::V1, Checksums::V2, Checksums::V3]
        .into_iter()
        .enumerate()
    {
        explore(
            Kind::with_checksums(checksums),
            LogPolicy::DEFAULT,
            true,
            20 + seed as u64,
        );
    }
}

#[test]
fn external_logs() {
    for seed in 30..33 {
        let kind = Kind {
            is_external: true,
            ..Kind::default()
        };
        explore(kind, LogPolicy::DEFAULT, seed != 32, seed);
    }
}

#[test]
fn the_policy_of_linux_2_4() {
    for seed in 40..42 {
        explore(Kind::default(), LogPolicy::LINUX24, true, seed);
    }
}

#[test]
fn small_logs_that_wrap_all_the_time() {
    for seed in 50..52 {
        let kind = Kind {
            log_blocks: 34,
            sequence: 1,
            ..Kind::default()
        };
        explore(kind, LogPolicy::DEFAULT, true, seed);
    }
}

#[test]
fn asynchronous_commits() {
    let plain = Kind {
        is_async: true,
        ..Kind::default()
    };
    for (number, (is_external, has_force, log_blocks)) in [
        (false, true, 64),
        (false, false, 64),
        (true, true, 64),
        (true, false, 64),
        (false, true, 34),
        (true, true, 34),
    ]
    .into_iter()
    .enumerate()
    {
        let kind = Kind {
            is_external,
            log_blocks,
            ..plain
        };
        for seed in 0..2 {
            let seed = 60 + 2 * number as u64 + seed;
            explore(kind, LogPolicy::DEFAULT, has_force, seed);
        }
    }
    let sealed = Kind {
        is_async: true,
        ..Kind::with_checksums(Checksums::V3)
    };
    explore(sealed, LogPolicy::LINUX24, true, 72);
}

impl Run {
    /// Ends the program, but not the power, after every event: what the devices have in their
    /// caches is read by a recovery. The power goes during that, after each of its events.
    fn cut_recovery_after_restart(mut self) {
        let events = core::mem::take(&mut self.events);
        let mut acknowledged = self.kind.sequence.wrapping_sub(1);
        for (index, event) in events.iter().enumerate() {
            if let Event::Mark(tid) = event {
                acknowledged = *tid as u32;
            }
            self.replays
                .iter_mut()
                .for_each(|replay| replay.apply(event));
            let durable = self.images(Replay::image_all_lost);
            let seen = self.images(Replay::image_all_kept);
            let trace = Trace::new();
            let mut replays = Vec::new();
            let mut traced: Vec<Arc<dyn BlockDevice>> = Vec::new();
            for (number, (durable, seen)) in durable.iter().zip(&seen).enumerate() {
                let device = trace.attach(Arc::new(durable.snapshot()));
                let device = device.with_volatile_cache(true);
                replays.push(Replay::new(number, device.geometry(), durable));
                let device: Arc<dyn BlockDevice> = Arc::new(device);
                let seen: &dyn BlockDevice = seen;
                for block in 0..256 {
                    let offset = block * u64::from(self.kind.block_bytes);
                    let cached = seen.read_block(offset, self.kind.block_bytes).unwrap();
                    if device.read_block(offset, self.kind.block_bytes).unwrap() != cached {
                        device.write_blocks(offset, vec![cached]).unwrap();
                    }
                }
                traced.push(device);
            }
            let before = trace.events().len();
            jbd2::recovery::recover(&self.location(&traced), &traced[0]).expect("it is whole");
            for (step, event) in trace.events().iter().enumerate() {
                replays.iter_mut().for_each(|replay| replay.apply(event));
                if step < before {
                    continue;
                }
                for seed in 0..2 {
                    let images: Vec<MemoryDevice> = replays
                        .iter()
                        .map(|replay| replay.image(seed + 2 * step as u64))
                        .collect();
                    let context = format!("restart after event {index}, power cut after {step}");
                    self.recover_and_check(&images, acknowledged, &context);
                }
            }
        }
    }
}

fn restart(is_async: bool, is_external: bool, has_force: bool) {
    for seed in 80..84 {
        let kind = Kind {
            is_async,
            is_external,
            ..Kind::default()
        };
        record(kind, LogPolicy::DEFAULT, has_force, seed, false).cut_recovery_after_restart();
    }
}

#[test]
fn a_power_cut_in_the_recovery_after_a_restart() {
    restart(false, false, true);
}

#[test]
fn a_power_cut_in_the_recovery_after_a_restart_without_forced_writes() {
    restart(false, false, false);
}

#[test]
fn a_power_cut_in_the_recovery_after_a_restart_with_asynchronous_commits() {
    restart(true, false, true);
}

#[test]
fn a_power_cut_in_the_recovery_after_a_restart_with_an_external_log() {
    restart(false, true, true);
}

//! [`Replica`]: what differs between the repetitions of a trial.
//!
//! A file system under load is chaotic: a write that comes a microsecond later changes which
//! requests meet in a queue, and a run of minutes ends seconds sooner or later. One simulated run
//! is one draw from that distribution, exact to the digit and as good as any other. Repetitions
//! are further draws. What they perturb has two parts:
//!
//! | part | what differs |
//! |---|---|
//! | `workload` | the seed of the workload's random numbers |
//! | `world` | phases of platters and timers, the first block to allocate, the host's jitter |
//!
//! - Repetition 0 is unperturbed: the workload has the seed that the plan says.
//! - Each part has a stream of its own, from the plan's seed and the repetition. Levels and blocks
//!   are not in it: repetition *i* meets the same chance in every combination, so that figures are
//!   compared in pairs.
//! - On a real target the world perturbs itself; only the workload's seed is set.

use crate::hash::StableHash;

/// The parts that differ between repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vary {
    /// Both.
    Both,
    /// The workload's seed only.
    Workload,
    /// The world only: the same work each time.
    World,
}

impl Vary {
    /// The words of the key `vary`.
    pub const WORDS: [&str; 3] = ["both", "workload", "world"];

    /// Returns the meaning of a word.
    pub(super) fn of_word(word: &str) -> Self {
        match word {
            "workload" => Self::Workload,
            "world" => Self::World,
            _ => Self::Both,
        }
    }
}

/// The chance that a trial meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replica {
    /// The seed of everything random in its world.
    pub seed: u64,
    /// True if its world is perturbed.
    pub is_perturbed: bool,
    /// The seed of the workload, if it is not the one that the plan says.
    pub workload_seed: Option<u32>,
}

impl Replica {
    /// Returns the replica of a repetition, or of a warm-up.
    pub(super) fn of(plan_seed: u64, vary: Vary, repetition: u32, is_warmup: bool) -> Self {
        let stream = |part: &str, repetition: u32| {
            let mut hash = StableHash::new();
            hash.number(plan_seed);
            hash.text(part);
            hash.number(u64::from(repetition));
            hash.number(u64::from(is_warmup));
            hash.finish()
        };
        let is_first = repetition == 0 && !is_warmup;
        let is_perturbed = vary != Vary::Workload && !is_first;
        let is_reseeded = vary != Vary::World && !is_first;
        Self {
            seed: stream("world", if is_perturbed { repetition } else { 0 }),
            is_perturbed,
            // Every workload takes the seeds from 1 to 2^31 - 1.
            workload_seed: is_reseeded
                .then(|| (stream("workload", repetition) >> 33).max(1) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_repetition_is_unperturbed_whatever_varies() {
        let of = |vary| Replica::of(1, vary, 0, false);
        let first = of(Vary::Both);
        assert_eq!((first.is_perturbed, first.workload_seed), (false, None));
        assert_eq!((of(Vary::World), of(Vary::Workload)), (first, first));
    }

    #[test]
    fn each_part_has_a_stream_of_its_own() {
        let first = Replica::of(1, Vary::Both, 0, false);
        let both = Replica::of(1, Vary::Both, 3, false);
        let world = Replica::of(1, Vary::World, 3, false);
        let workload = Replica::of(1, Vary::Workload, 3, false);
        assert!(both.is_perturbed && both.workload_seed.is_some());
        assert_eq!((world.seed, world.workload_seed), (both.seed, None));
        assert_eq!((workload.seed, workload.is_perturbed), (first.seed, false));
        assert_eq!(workload.workload_seed, both.workload_seed);
        assert_ne!(both.seed, first.seed);
        assert_ne!(
            Replica::of(2, Vary::Both, 3, false),
            both,
            "another plan seed"
        );
        assert_ne!(Replica::of(1, Vary::Both, 4, false), both);
        assert_ne!(Replica::of(1, Vary::Both, 3, true), both, "a warm-up");
    }
}

//! All short sequences of operations, one representative of each orbit.
//!
//! Operations use places: 4 directories with 2 files each. Sequences that become equal by renaming
//! directories, and files within a directory, are one orbit. Its representative names places in the
//! order of their first use: an operation uses a place already used, the next one of a used
//! directory, or the first one of the next directory. So representatives are generated directly,
//! and each only once.
//!
//! The files that a sequence needs are created before the recording and have two blocks; other
//! places are empty. After each operation comes no sync call, fsync, fdatasync or sync, in all
//! combinations.

use crate::model::Tree;
use crate::op::{How, Op, Path};
use crate::setting::Setting;
use crate::workload::Workload;

/// Maximum length of complete runs; longer sequences are sampled.
pub const COMPLETE_MAX: usize = 2;
const DIRECTORIES: usize = 4;
const FILES: usize = 2;
/// Size in sectors of a file created before: two blocks.
const FILE_SECTORS: u32 = 4;

/// Name of an extended attribute, and its length before the recording and when it is set.
const MARK: &str = "a";
const MARK_BYTES: u32 = 60;
const NEW_MARK_BYTES: u32 = 200;

/// A place for a file: directory, number.
type Slot = (usize, usize);

/// The core operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Core {
    Create,
    Mkdir,
    Symlink,
    /// Writes from within the last block to beyond the end.
    Write,
    Append,
    /// Overwrites the first block in place.
    Overwrite,
    /// Overwrites the first block past the cache.
    Direct,
    Truncate,
    /// Allocates from within the last block to beyond the end.
    Allocate,
    /// Punches the first block, and a part of the second.
    Punch,
    Setxattr,
    Removexattr,
    Unlink,
    Rmdir,
    Link,
    /// Renames to a free name.
    Rename,
    /// Moves a directory to a free name.
    Move,
    /// Renames to a name in use.
    Replace,
    Exchange,
}

const CORES: [Core; 19] = [
    Core::Create,
    Core::Mkdir,
    Core::Symlink,
    Core::Write,
    Core::Append,
    Core::Overwrite,
    Core::Direct,
    Core::Truncate,
    Core::Allocate,
    Core::Punch,
    Core::Setxattr,
    Core::Removexattr,
    Core::Unlink,
    Core::Rmdir,
    Core::Link,
    Core::Rename,
    Core::Move,
    Core::Replace,
    Core::Exchange,
];

/// The required state of a place before its first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    File,
    /// A file with an extended attribute.
    MarkedFile,
    Directory,
}

impl Core {
    /// Returns the required states of the operation's places.
    fn needs(self) -> &'static [Need] {
        match self {
            Self::Create | Self::Mkdir | Self::Symlink => &[Need::Nothing],
            Self::Write
            | Self::Append
            | Self::Overwrite
            | Self::Direct
            | Self::Truncate
            | Self::Allocate
            | Self::Punch
            | Self::Setxattr
            | Self::Unlink => &[Need::File],
            Self::Removexattr => &[Need::MarkedFile],
            Self::Rmdir => &[Need::Directory],
            Self::Link | Self::Rename => &[Need::File, Need::Nothing],
            Self::Move => &[Need::Directory, Need::Nothing],
            Self::Replace | Self::Exchange => &[Need::File, Need::File],
        }
    }

    fn op(self, slots: &[Slot]) -> Op {
        let path = |index: usize| path(slots[index]);
        match self {
            Self::Create => Op::Create(path(0)),
            Self::Mkdir => Op::Mkdir(path(0)),
            Self::Symlink => Op::Symlink("somewhere/else".into(), path(0)),
            Self::Write => Op::Write(path(0), FILE_SECTORS - 1, 3),
            Self::Append => Op::Append(path(0), 2),
            Self::Overwrite => Op::Write(path(0), 0, 2),
            Self::Direct => Op::WriteAs(How::Direct, path(0), 0, 2),
            Self::Truncate => Op::Truncate(path(0), 700),
            Self::Allocate => Op::Allocate(path(0), FILE_SECTORS - 1, 3),
            Self::Punch => Op::Punch(path(0), 0, 3),
            Self::Setxattr => Op::Setxattr(path(0), MARK.into(), NEW_MARK_BYTES),
            Self::Removexattr => Op::Removexattr(path(0), MARK.into()),
            Self::Unlink => Op::Unlink(path(0)),
            Self::Rmdir => Op::Rmdir(path(0)),
            Self::Link => Op::Link(path(0), path(1)),
            Self::Rename | Self::Move | Self::Replace => Op::Rename(path(0), path(1)),
            Self::Exchange => Op::Exchange(path(0), path(1)),
        }
    }
}

fn path((directory, file): Slot) -> Path {
    format!("d{directory}/f{file}").into()
}

fn parent((directory, _): Slot) -> Path {
    format!("d{directory}").into()
}

/// One operation of a sequence, and the sync calls that may come after it.
#[derive(Debug, Clone)]
struct Step {
    op: Op,
    syncs: Vec<Option<Op>>,
}

/// A representative of an orbit.
#[derive(Debug, Clone)]
struct Orbit {
    prepared: Vec<Op>,
    steps: Vec<Step>,
    /// Number of the workloads of the orbits before it.
    first: u64,
}

/// The representatives of all orbits of a length.
#[derive(Debug, Clone, Default)]
pub struct Orbits {
    orbits: Vec<Orbit>,
    workloads: u64,
}

impl Orbits {
    /// Computes the representatives of a length.
    pub fn new(length: usize) -> Self {
        let mut orbits = Self::default();
        let mut search = Search::default();
        search.extend(length, &mut |search| orbits.add(search));
        orbits
    }

    /// Returns the number of orbits.
    pub fn count(&self) -> u64 {
        self.orbits.len() as u64
    }

    /// Returns the number of workloads, sync calls included.
    pub fn workload_count(&self) -> u64 {
        self.workloads
    }

    fn add(&mut self, search: &Search) {
        let Some(orbit) = search.orbit(self.workloads) else {
            return;
        };
        let variants = orbit.steps.iter().map(|step| step.syncs.len() as u64);
        self.workloads += variants.product::<u64>();
        self.orbits.push(orbit);
    }

    /// Returns a workload by its number.
    pub fn workload(&self, number: u64, setting: Setting) -> Workload {
        let place = self.orbits.partition_point(|orbit| orbit.first <= number) - 1;
        let orbit = &self.orbits[place];
        let mut variant = number - orbit.first;
        let mut ops = orbit.prepared.clone();
        for step in &orbit.steps {
            ops.push(step.op.clone());
            let count = step.syncs.len() as u64;
            ops.extend(step.syncs[(variant % count) as usize].clone());
            variant /= count;
        }
        Workload {
            setting,
            prepared: vec![orbit.prepared.len()],
            lanes: vec![ops],
        }
    }
}

/// An incomplete sequence.
#[derive(Debug, Clone, Default)]
struct Search {
    cores: Vec<(Core, Vec<Slot>)>,
    /// The places used so far, with the state that the first use needs.
    used: Vec<(Slot, Need)>,
}

impl Search {
    fn extend(&mut self, length: usize, found: &mut dyn FnMut(&Self)) {
        if length == 0 {
            return found(self);
        }
        for core in CORES {
            self.place(core, Vec::new(), length, found);
        }
    }

    /// Chooses places for an operation, one after another.
    fn place(&mut self, core: Core, slots: Vec<Slot>, length: usize, found: &mut dyn FnMut(&Self)) {
        let Some(need) = core.needs().get(slots.len()) else {
            self.cores.push((core, slots));
            self.extend(length - 1, found);
            self.cores.pop();
            return;
        };
        for slot in self.candidates() {
            if slots.contains(&slot) {
                continue;
            }
            let is_new = self.used.iter().all(|(used, _)| *used != slot);
            if is_new {
                self.used.push((slot, *need));
            }
            let mut slots = slots.clone();
            slots.push(slot);
            self.place(core, slots, length, found);
            if is_new {
                self.used.pop();
            }
        }
    }

    /// Returns the places used so far, and one of each kind that is not.
    fn candidates(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.used.iter().map(|(slot, _)| *slot).collect();
        let directories = slots
            .iter()
            .map(|(directory, _)| directory + 1)
            .max()
            .unwrap_or(0);
        for directory in 0..directories {
            let files = self
                .used
                .iter()
                .filter(|(slot, _)| slot.0 == directory)
                .count();
            if files < FILES {
                slots.push((directory, files));
            }
        }
        if directories < DIRECTORIES {
            slots.push((directories, 0));
        }
        slots
    }

    fn prepared(&self) -> Vec<Op> {
        let directories = self
            .used
            .iter()
            .map(|(slot, _)| slot.0 + 1)
            .max()
            .unwrap_or(0);
        let mut ops: Vec<Op> = (0..directories)
            .map(|directory| Op::Mkdir(parent((directory, 0))))
            .collect();
        for (slot, need) in &self.used {
            match need {
                Need::Nothing => {}
                Need::File | Need::MarkedFile => {
                    ops.push(Op::Create(path(*slot)));
                    ops.push(Op::Append(path(*slot), FILE_SECTORS));
                    if *need == Need::MarkedFile {
                        ops.push(Op::Setxattr(path(*slot), MARK.into(), MARK_BYTES));
                    }
                }
                Need::Directory => ops.push(Op::Mkdir(path(*slot))),
            }
        }
        ops
    }

    /// Returns the representative, if the operations can be done one after another.
    fn orbit(&self, first: u64) -> Option<Orbit> {
        let prepared = self.prepared();
        let ops = self.cores.iter().map(|(core, slots)| core.op(slots));
        let workload = Workload {
            setting: Setting::new(crate::setting::CELLS[0]),
            prepared: vec![prepared.len()],
            lanes: vec![prepared.iter().cloned().chain(ops).collect()],
        };
        let states = workload.states(0)?;
        let mut steps = Vec::new();
        for (index, (core, slots)) in self.cores.iter().enumerate() {
            let after = &states[prepared.len() + index + 1];
            if self.contradicts(index, &states[prepared.len() + index]) {
                return None;
            }
            steps.push(Step {
                op: core.op(slots),
                syncs: syncs(slots, after),
            });
        }
        Some(Orbit {
            prepared,
            steps,
            first,
        })
    }

    /// Returns true for a case of another operation: rename and replace differ only in the state of
    /// the new name, rename and move in the kind of the old one.
    fn contradicts(&self, index: usize, before: &Tree) -> bool {
        let (core, slots) = &self.cores[index];
        let old = before.find(&path(slots[0]));
        let is_directory = old.is_some_and(|id| before.names(id).is_some());
        let is_taken = slots
            .get(1)
            .is_some_and(|slot| before.find(&path(*slot)).is_some());
        match core {
            Core::Rename => is_taken || is_directory,
            Core::Move => is_taken || !is_directory,
            Core::Replace => !is_taken,
            _ => false,
        }
    }
}

/// Returns the sync calls after an operation: none, all, and those of its file or of its directory.
fn syncs(slots: &[Slot], after: &Tree) -> Vec<Option<Op>> {
    let slot = slots[slots.len() - 1];
    let path = path(slot);
    let found = after.find(&path);
    if found.is_some_and(|id| after.sectors(id).is_some()) {
        return vec![
            None,
            Some(Op::Fsync(path.clone())),
            Some(Op::Fdatasync(path)),
            Some(Op::Sync),
        ];
    }
    let is_directory = found.is_some_and(|id| after.names(id).is_some());
    let directory = if is_directory { path } else { parent(slot) };
    vec![None, Some(Op::SyncDirectory(directory)), Some(Op::Sync)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::setting::CELLS;

    /// Returns the name of a sequence's orbit: the least text over all namings of the places.
    fn orbit_of(cores: &[(Core, Vec<Slot>)]) -> String {
        let mut least = None;
        for order in permutations(DIRECTORIES) {
            for flips in 0..1 << DIRECTORIES {
                let rename = |(directory, file): Slot| {
                    (
                        order[directory],
                        file ^ usize::from(flips & 1 << directory != 0),
                    )
                };
                let ops = cores.iter().map(|(core, slots)| {
                    let slots: Vec<Slot> = slots.iter().map(|slot| rename(*slot)).collect();
                    format!("{core:?}{slots:?}")
                });
                let text: String = ops.collect();
                least = Some(least.map_or(text.clone(), |least: String| least.min(text)));
            }
        }
        least.expect("there is a way")
    }

    fn permutations(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let shorter = permutations(count - 1);
        let insert = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        };
        shorter
            .iter()
            .flat_map(|order| (0..count).map(move |at| insert(order, at)))
            .collect()
    }

    /// Every sequence of two operations on any places belongs to exactly one representative.
    #[test]
    fn there_is_one_representative_of_each_orbit() {
        let mut made = Vec::new();
        Search::default().extend(2, &mut |search| made.push(orbit_of(&search.cores)));
        let orbits: BTreeSet<String> = made.iter().cloned().collect();
        assert_eq!(orbits.len(), made.len(), "no orbit is there twice");
        let mut random = rt::split_mix::SplitMix::new(5);
        for _ in 0..500 {
            let mut any = || (random.below(4) as usize, random.below(2) as usize);
            let slots = [any(), any(), any(), any()];
            if slots[0] == slots[1] || slots[2] == slots[3] {
                continue;
            }
            let sequence = [
                (Core::Link, slots[..2].to_vec()),
                (Core::Exchange, slots[2..].to_vec()),
            ];
            assert!(orbits.contains(&orbit_of(&sequence)), "{sequence:?}");
        }
    }

    #[test]
    fn all_workloads_can_be_done() {
        for length in [1, 2] {
            let orbits = Orbits::new(length);
            for number in (0..orbits.workload_count()).step_by(7) {
                let workload = orbits.workload(number, Setting::new(CELLS[0]));
                assert!(workload.states(0).is_some(), "{:?}", workload.lanes[0]);
            }
        }
        // 14 operations with one place; 5 with two, in one directory or in two. Of those with one
        // place, 4 leave no file, so that fdatasync promises no more than fsync; nor does the move
        // of a directory.
        let single = Orbits::new(1);
        assert_eq!(
            (single.count(), single.workload_count()),
            (14 + 10, 10 * 4 + 4 * 3 + 8 * 4 + 2 * 3)
        );
    }
}

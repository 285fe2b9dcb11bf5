//! The private directory of a task: a random script with known states.

use ext::{Error, Volume};

use super::{Run, Span, Step, TASKS};
use crate::history::{Bound, Found, History, Op, Rule};
use testkit::Random;

/// Interval between the first operation numbers of tasks; the numbers are in every sector that a
/// task writes.
const NUMBERS_PER_TASK: usize = 1000;
/// Largest offset and length of a write.
const OFFSET_MAX: u64 = 24_000;
const LENGTH_MAX: u64 = 16_000;

macro_rules! paths {
    ($directory:literal) => {
        [
            $directory,
            concat!($directory, "/a"),
            concat!($directory, "/b"),
            concat!($directory, "/c"),
            concat!($directory, "/d"),
        ]
    };
}

/// The directory of each task, and its possible names.
const PATHS: [[&str; 5]; TASKS] = [paths!("/t0"), paths!("/t1"), paths!("/t2"), paths!("/t3")];

/// A task's private script.
pub(super) struct Private {
    history: History,
}

impl Private {
    /// Creates a script of `count` random operations; the first creates the directory.
    pub(super) fn new(task: usize, count: usize, random: &mut Random) -> Self {
        let [directory, names @ ..] = &PATHS[task];
        let first_number = task * NUMBERS_PER_TASK;
        let mut ops = vec![Op::Mkdir(directory)];
        let mut history = History::beside_others(&ops, first_number, true);
        while ops.len() < count {
            let state = history.states.last().expect("there is a state");
            let (old, new): (Vec<&'static str>, Vec<&'static str>) =
                names.iter().partition(|name| state.contains_key(**name));
            let size = |path: &str| state[path].file.as_ref().map_or(0, |file| file.1.len());
            ops.push(random_op(directory, &old, &new, &size, random));
            history = History::beside_others(&ops, first_number, true);
        }
        Self { history }
    }

    /// Runs an operation.
    pub(super) fn run(&self, volume: &Volume, place: usize) -> Result<(), Error> {
        self.history.ops[place].run(volume, self.history.first_number + place)
    }
}

fn one_of(names: &[&'static str], random: &mut Random) -> &'static str {
    names[random.below(names.len() as u64) as usize]
}

fn random_op(
    directory: &'static str,
    old: &[&'static str],
    new: &[&'static str],
    size: &dyn Fn(&str) -> usize,
    random: &mut Random,
) -> Op {
    if old.is_empty() || !new.is_empty() && random.below(6) == 0 {
        return Op::Create(one_of(new, random));
    }
    let path = one_of(old, random);
    let length = 1 + random.below(LENGTH_MAX) as usize;
    match random.below(16) {
        0..=2 => Op::Write(path, size(path), length),
        3..=5 => Op::Write(path, random.below(OFFSET_MAX) as usize, length),
        6..=7 => Op::Truncate(path, random.below(OFFSET_MAX) as usize),
        8 => Op::Unlink(path),
        9 if !new.is_empty() => Op::Rename(path, one_of(new, random)),
        10 => {
            let others: Vec<_> = old.iter().copied().filter(|other| *other != path).collect();
            match others.is_empty() {
                true => Op::Fsync(path),
                false => Op::Rename(path, one_of(&others, random)),
            }
        }
        11 if !new.is_empty() => Op::Link(path, one_of(new, random)),
        12 => Op::Fdatasync(path),
        13 => Op::SyncDirectory(directory),
        14 => Op::Sync,
        _ => Op::Fsync(path),
    }
}

/// Returns the spans of a task's private operations, by their place in its script.
fn spans(run: &Run, task: usize) -> Vec<Option<Span>> {
    let mut spans = vec![None; run.scripts[task].private.history.ops.len()];
    for (number, step) in run.scripts[task].steps.iter().enumerate() {
        if let Step::Private(place) = step {
            spans[*place] = run.spans.get(&(task, number)).copied();
        }
    }
    spans
}

/// Returns the spans of all calls of `sync` that had returned before a cut.
pub(super) fn syncs(run: &Run, cut: usize) -> Vec<Span> {
    let is_sync = |task: usize, step: &Step| match step {
        Step::Private(place) => run.scripts[task].private.history.ops[*place] == Op::Sync,
        _ => false,
    };
    run.steps()
        .filter(|(task, _, step, span)| span.ended < cut && is_sync(*task, step))
        .map(|(.., span)| span)
        .collect()
}

/// Checks that a task's directory is in one of the allowed states of its script. Returns those
/// states.
pub(super) fn check(
    run: &Run,
    task: usize,
    found: &Found,
    cut: usize,
    rule: Rule,
) -> Result<Vec<usize>, String> {
    let history = &run.scripts[task].private.history;
    let spans = spans(run, task);
    let mut bound = Bound::default();
    for (number, span) in spans.iter().enumerate() {
        if span.is_some_and(|span| span.ended < cut) {
            history.bind(&mut bound, number);
        }
    }
    for sync in syncs(run, cut) {
        let is_before = |span: &&Option<Span>| span.is_some_and(|span| span.ended < sync.begun);
        let done = spans.iter().take_while(is_before).count();
        history.bind_all(&mut bound, done);
    }
    let has_begun = |span: &&Option<Span>| span.is_some_and(|span| span.begun < cut);
    let most = spans.iter().take_while(has_begun).count();
    let directory = PATHS[task][0];
    let is_own = |path: &str| path == "/" || path == directory || PATHS[task][1..].contains(&path);
    let is_below = |path: &str| path.starts_with(&format!("{directory}/"));
    let own: Found = found
        .iter()
        .filter(|(path, _)| is_own(path) || is_below(path))
        .map(|(path, file)| (path.clone(), file.clone()))
        .collect();
    let allowed = history.check(&own, &bound, most, rule);
    allowed.map_err(|why| format!("bound {bound:?}, begun {most}: {why}"))
}

/// Checks that everything a task had done before another started a surviving operation survives,
/// too.
pub(super) fn check_order(run: &Run, states: &[Vec<usize>]) -> Result<(), String> {
    let spans: Vec<_> = (0..TASKS).map(|task| spans(run, task)).collect();
    for (task, allowed) in states.iter().enumerate() {
        let least = allowed.iter().min().copied().unwrap_or(0);
        let Some(Some(last)) = least.checked_sub(1).map(|number| spans[task][number]) else {
            continue;
        };
        for (other, allowed) in states.iter().enumerate() {
            let most = allowed.iter().max().copied().unwrap_or(0);
            let missing = spans[other].get(most).copied().flatten();
            if let Some(missing) = missing
                && missing.ended < last.begun
            {
                let (there, absent) = (
                    run.scripts[task].private.history.ops[least - 1],
                    run.scripts[other].private.history.ops[most],
                );
                return Err(format!(
                    "{there:?} of task {task} is there, but {absent:?} of task {other}, done before it, is not"
                ));
            }
        }
    }
    Ok(())
}

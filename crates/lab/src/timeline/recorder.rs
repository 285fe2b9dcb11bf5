//! [`Recorder`]: records a timeline while a trial runs.

use std::sync::{Mutex, PoisonError};

use rt::Nanos;
use workload::Phase;

use super::{COUNTED, PhaseMark, Timeline};

/// Maximum number of intervals; at the limit, adjacent intervals are merged.
const INTERVALS_MAX: usize = 300;
/// Initial length of an interval.
const INTERVAL_MIN: Nanos = Nanos::from_micros(100);

/// The engine's counters at an instant, in the order of [`COUNTED`].
pub(crate) type Counts = [u64; COUNTED.len()];

/// Records a timeline; see the module above. Its lock is a host mutex: no thread waits while it
/// holds the lock.
pub(crate) struct Recorder {
    read: Box<dyn Fn() -> Counts + Send + Sync>,
    began: Nanos,
    state: Mutex<State>,
}

struct State {
    interval: u64,
    calls: Vec<u64>,
    counters: Vec<Counts>,
    // The previous reading.
    before: Counts,
}

impl Recorder {
    /// Starts a recorder; `read` returns the engine's counters.
    pub(crate) fn new(read: impl Fn() -> Counts + Send + Sync + 'static) -> Self {
        let state = State {
            interval: INTERVAL_MIN.get(),
            calls: vec![0],
            counters: vec![Counts::default()],
            before: read(),
        };
        Self {
            read: Box::new(read),
            began: rt::glance(),
            state: Mutex::new(state),
        }
    }

    /// Counts a completed call of the workload.
    pub(crate) fn ended(&self) {
        let since = rt::glance().saturating_sub(self.began);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reach(since, &self.read);
        if let Some(calls) = state.calls.last_mut() {
            *calls += 1;
        }
    }

    /// Ends the recording with the workload, and returns the timeline.
    pub(crate) fn finish(&self, phases: &[Phase]) -> Timeline {
        let since = rt::glance().saturating_sub(self.began);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reach(since, &self.read);
        let last = state.calls.len();
        state.count((self.read)(), last - 1, last);
        let counter = |index: usize| -> Vec<u64> {
            let counters = state.counters.iter();
            counters.map(|counts| counts[index]).collect()
        };
        let names = COUNTED.iter().enumerate();
        let counters = names
            .map(|(index, (name, _))| ((*name).to_owned(), counter(index)))
            .filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        let phases = phases.iter().map(|phase| PhaseMark {
            name: phase.name.to_owned(),
            began_ns: phase.began.saturating_sub(self.began).get(),
            took_ns: phase.took.get(),
        });
        Timeline {
            interval_ns: state.interval,
            calls: state.calls.clone(),
            counters: counters.collect(),
            phases: phases.collect(),
        }
    }
}

impl State {
    /// Opens intervals up to an instant. Counter growth since the previous reading belongs before
    /// the last of them.
    fn reach(&mut self, since: Nanos, read: &dyn Fn() -> Counts) {
        while since.get() / self.interval >= INTERVALS_MAX as u64 {
            self.fold();
        }
        let (last, index) = (self.calls.len() - 1, (since.get() / self.interval) as usize);
        if index > last {
            self.calls.resize(index + 1, 0);
            self.counters.resize(index + 1, Counts::default());
            self.count(read(), last, index);
        }
    }

    /// Merges every two intervals into one.
    fn fold(&mut self) {
        self.interval *= 2;
        self.calls = self.calls.chunks(2).map(|two| two.iter().sum()).collect();
        let sum = |two: &[Counts]| {
            let mut sum = Counts::default();
            for counts in two {
                sum.iter_mut()
                    .zip(counts)
                    .for_each(|(all, own)| *all += own);
            }
            sum
        };
        self.counters = self.counters.chunks(2).map(sum).collect();
    }

    /// Adds the growth since the previous reading to the intervals from `first` to before `end`.
    fn count(&mut self, now: Counts, first: usize, end: usize) {
        let length = (end - first) as u64;
        for (index, (_, is_spread)) in COUNTED.iter().enumerate() {
            let more = now[index].saturating_sub(self.before[index]);
            let (each, rest) = match is_spread {
                true => (more / length, more % length),
                false => (0, more),
            };
            for counts in &mut self.counters[first..end] {
                counts[index] += each;
            }
            self.counters[end - 1][index] += rest;
        }
        self.before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a state whose counters have been zero so far.
    fn state() -> State {
        State {
            interval: 10,
            calls: vec![0],
            counters: vec![Counts::default()],
            before: Counts::default(),
        }
    }

    fn at(state: &mut State, instant: u64, counts: Counts) {
        state.reach(Nanos::new(instant), &|| counts);
        *state.calls.last_mut().expect("there is one") += 1;
    }

    #[test]
    fn calls_are_counted_where_they_end() {
        let mut state = state();
        for instant in [0, 9, 10, 35, 39] {
            at(&mut state, instant, Counts::default());
        }
        assert_eq!(state.calls, [2, 1, 0, 2]);
    }

    #[test]
    fn a_stall_is_spread_and_a_commit_is_at_its_end() {
        let mut state = state();
        at(&mut state, 5, Counts::default());
        // One caller waited from 8 to 38, until a commit completed.
        let mut counts = Counts::default();
        (counts[0], counts[2]) = (1, 30);
        at(&mut state, 38, counts);
        let of = |index: usize| -> Vec<u64> {
            state.counters.iter().map(|counts| counts[index]).collect()
        };
        assert_eq!(of(0), [0, 0, 1, 0]);
        assert_eq!(of(2), [10, 10, 10, 0]);
    }

    #[test]
    fn a_long_run_has_no_more_intervals_than_a_short_one_and_loses_nothing() {
        let mut state = state();
        let mut counts = Counts::default();
        for instant in 0..100_000 {
            counts[0] += instant % 7;
            at(&mut state, instant * 3, counts);
        }
        assert!(state.calls.len() <= INTERVALS_MAX && state.calls.len() > INTERVALS_MAX / 2);
        assert_eq!(state.calls.iter().sum::<u64>(), 100_000);
        let (end, now) = (state.calls.len(), counts);
        state.count(now, end - 1, end);
        let commits: u64 = state.counters.iter().map(|counts| counts[0]).sum();
        assert_eq!(commits, counts[0]);
    }
}

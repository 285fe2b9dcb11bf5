//! Write-through: the controller passes writes and flushes to the array, and answers when the array
//! does.

use block::{Completer, Request};
use rt::Nanos;

use super::Shared;

/// A write or flush that no writer has passed on yet.
pub(super) struct Passed {
    pub(super) request: Request,
    pub(super) began: Nanos,
    /// Time at which the controller has the command and its data.
    pub(super) ready: Nanos,
    pub(super) completer: Completer,
}

impl Shared {
    /// Runs a writer's task. It ends with the world.
    pub(super) fn run_writer(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(passed) = state.passed.pop_front() else {
                self.writes.wait(&mut state);
                continue;
            };
            let (sector, sectors) = passed.request.range();
            let range = sector.get()..sector.get() + sectors;
            let number = state.writing.start(range.clone());
            while state.writing.has_earlier(number, &range) || state.array_reads.cover(&range) {
                self.arrived.wait(&mut state);
            }
            drop(state);
            rt::sleep_until(passed.ready);
            let mut results = self.array.submit(vec![passed.request]).wait();
            let answer = results.pop().unwrap_or(Err(block::DeviceError::Gone));
            state = self.state.lock();
            state.cache.forget(sector, sectors);
            state.writing.end(number);
            state.finish(passed.began, rt::monotonic());
            self.arrived.notify_all();
            drop(state);
            passed.completer.complete(vec![answer]);
            sim::requests_in_flight(-1);
            state = self.state.lock();
        }
    }
}

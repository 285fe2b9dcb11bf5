//! Threads that start together.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

/// Runs `work` with the number of each thread, and waits for all. Returns the instant at which the
/// first thread started to work.
pub(crate) fn run(threads: u32, work: impl Fn(u32) -> Result<()> + Sync) -> Result<Instant> {
    let start = Barrier::new(threads as usize + 1);
    thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let crew: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    let started = Instant::now();
                    work(thread).map(|()| started)
                })
            })
            .collect();
        start.wait();
        // This thread may wake after others have worked for a while.
        let mut first = None;
        for worker in crew {
            let started = worker.join().map_err(|_| anyhow!("a thread panicked"))??;
            first = Some(first.map_or(started, |first: Instant| first.min(started)));
        }
        first.context("no thread")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Mutex;
    use std::time::Duration;

    #[test]
    fn the_first_thread_starts_the_clock_even_if_the_caller_wakes_late() {
        for _ in 0..20 {
            let first = Mutex::new(None);
            let started = run(50, |_| {
                let now = Instant::now();
                let mut first = first.lock().expect("nobody panics");
                first.get_or_insert(now);
                drop(first);
                while now.elapsed() < Duration::from_millis(1) {}
                Ok(())
            });
            let first = first.into_inner().expect("nobody panics");
            assert!(started.expect("nothing fails") <= first.expect("they ran"));
        }
    }
}

//! Threads of a phase, one per worker. They run through `rt`, so that they work in simulated and in
//! real worlds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rt::atomic::AtomicBool;

use crate::run_error::RunError;

/// Flag that a worker of a run has failed, so that the others can stop early.
#[derive(Debug, Clone, Default)]
pub struct Failed(Arc<AtomicBool>);

impl Failed {
    /// Returns true if a worker has failed.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Runs `work` for every worker on its own thread, and waits for all of them. Returns the workers
/// in order, without those whose thread panicked, and the first error.
pub fn each<W, F>(
    name: &str,
    workers: Vec<W>,
    failed: &Failed,
    work: F,
) -> (Vec<W>, Result<(), RunError>)
where
    W: Send + 'static,
    F: Fn(&mut W) -> Result<(), RunError> + Clone + Send + 'static,
{
    let start = |(index, mut worker): (usize, W)| {
        let (failed, work) = (failed.clone(), work.clone());
        rt::spawn(&format!("{name} {index}"), move || {
            let result = work(&mut worker);
            if result.is_err() {
                failed.0.store(true, Ordering::SeqCst);
            }
            (worker, result)
        })
    };
    let threads: Vec<_> = workers.into_iter().enumerate().map(start).collect();
    let (mut workers, mut first_error) = (Vec::with_capacity(threads.len()), Ok(()));
    for (thread, handle) in (0_u32..).zip(threads) {
        let result = match handle.join() {
            Ok((worker, result)) => {
                workers.push(worker);
                result
            }
            Err(_) => Err(RunError::Panicked { thread }),
        };
        first_error = first_error.and(result);
    }
    (workers, first_error)
}

/// Returns one thread's share of `total`; the first threads share the remainder.
#[must_use]
pub const fn share(total: u64, threads: u64, index: u64) -> u64 {
    total / threads + (index < total % threads) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, threads) in [(500, 1), (500, 3), (7, 7), (3, 4)] {
            assert_eq!(
                (0..threads)
                    .map(|index| share(total, threads, index))
                    .sum::<u64>(),
                total
            );
        }
    }

    #[test]
    fn all_work_and_the_first_error_counts() {
        let failed = Failed::default();
        let (workers, result) = each("test", vec![1, 2, 3], &failed, |worker: &mut i32| {
            *worker *= 10;
            if *worker == 20 {
                Err(RunError::Cancelled)
            } else {
                Ok(())
            }
        });
        assert_eq!(
            (workers, result),
            (vec![10, 20, 30], Err(RunError::Cancelled))
        );
        assert!(failed.is_set());
    }
}

//! The threads that execute direct I/O.
//!
//! Jobs wait in one queue; `submit` blocks while the number of queued and running jobs is at the
//! queue depth. The jobs own the open file, the threads do not: after a device is dropped, its file
//! is closed and unlocked as soon as the last job is done.

use std::collections::VecDeque;
use std::sync::Arc;

use rt::{Condvar, Mutex};

use super::backing::Backing;
use super::plan::Operation;
use crate::error::DeviceError;
use crate::ticket::{Completer, Results};

/// A pool of threads and its queue.
pub(super) struct Pool {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    depth: usize,
    work: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: usize,
    is_stopped: bool,
}

/// An operation of a batch.
struct Job {
    backing: Arc<Backing>,
    operation: Operation,
    batch: Arc<Batch>,
}

/// A batch in progress.
struct Batch {
    state: Mutex<BatchState>,
}

struct BatchState {
    results: Results,
    missing: usize,
    completer: Option<Completer>,
}

impl Pool {
    /// Starts the threads.
    pub(super) fn new(name: &str, threads: u32, depth: u32) -> Self {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            depth: depth.max(1) as usize,
            work: Condvar::new(),
            room: Condvar::new(),
        });
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            // The threads exit when the pool is dropped; no other thread needs to wait for that.
            drop(rt::spawn_daemon(
                &format!("{name} i/o {number}"),
                move || queue.serve(),
            ));
        }
        Self { queue }
    }

    /// Queues the operations of a batch of `count` requests.
    pub(super) fn submit(
        &self,
        backing: &Arc<Backing>,
        operations: Vec<Operation>,
        count: usize,
        completer: Completer,
    ) {
        let results = (0..count).map(|_| Err(DeviceError::Gone)).collect();
        if operations.is_empty() {
            completer.complete(results);
            return;
        }
        let state = BatchState {
            results,
            missing: operations.len(),
            completer: Some(completer),
        };
        let batch = Arc::new(Batch {
            state: Mutex::new(state),
        });
        for operation in operations {
            let (backing, batch) = (Arc::clone(backing), Arc::clone(&batch));
            self.queue.push(Job {
                backing,
                operation,
                batch,
            });
        }
    }
}

impl Drop for Pool {
    /// Stops the threads once the queue is empty, without waiting for them.
    fn drop(&mut self) {
        self.queue.state.lock().is_stopped = true;
        self.queue.work.notify_all();
    }
}

impl Queue {
    fn push(&self, job: Job) {
        let mut state = self.state.lock();
        while state.jobs.len() + state.running >= self.depth {
            self.room.wait(&mut state);
        }
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    /// Executes jobs until the pool is dropped.
    fn serve(&self) {
        while let Some(job) = self.pop() {
            job.run();
            self.state.lock().running -= 1;
            self.room.notify_one();
        }
    }

    fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.running += 1;
                return Some(job);
            }
            if state.is_stopped {
                return None;
            }
            self.work.wait(&mut state);
        }
    }
}

impl Job {
    fn run(self) {
        let answers = self.backing.run(self.operation);
        // The file is closed before the completion of the last request is reported.
        drop(self.backing);
        let mut state = self.batch.state.lock();
        for (index, answer) in answers {
            state.results[index] = answer;
        }
        state.missing -= 1;
        if state.missing > 0 {
            return;
        }
        let results = core::mem::take(&mut state.results);
        let completer = state.completer.take();
        drop(state);
        completer
            .expect("the last job of a batch comes once")
            .complete(results);
    }
}

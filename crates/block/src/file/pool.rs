//! The threads that execute direct I/O beside the waiting thread.
//!
//! Waking a thread costs more than most of what it would execute. So a batch of one operation, such
//! as a write or a flush, is left to the thread that waits for it. It stays there until then, or
//! until [`Ticket::start`](super::Ticket::start) or the drop of the ticket hands it to the threads.
//! They execute larger batches, which fill the device's queue.
//!
//! Each entry of the queue asks a thread to execute one operation of a batch; `submit` blocks while
//! the number of queued and running entries is at the queue depth. The batches own the open file,
//! the threads do not: after a device is dropped, its file is closed and unlocked as soon as the
//! last operation is done.

use std::collections::VecDeque;
use std::sync::Arc;

use rt::{Condvar, Mutex};

use super::backing::Backing;
use super::plan::Operation;
use crate::error::DeviceError;
use crate::ticket::{DetachedErrors, Results, Ticket, Work};

/// A pool of threads and its queue.
pub(super) struct Pool {
    threads: Arc<Threads>,
}

/// The threads of a pool. They exit when the device and all of its tickets are dropped.
struct Threads {
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
    /// One entry for each operation that a thread is to execute.
    batches: VecDeque<Arc<Batch>>,
    running: usize,
    is_stopped: bool,
}

/// A batch in progress.
struct Batch {
    state: Mutex<BatchState>,
    done: Condvar,
    detached: Arc<DetachedErrors>,
}

struct BatchState {
    /// Operations that no thread has taken.
    operations: VecDeque<Operation>,
    /// The open file, until the last operation is taken.
    backing: Option<Arc<Backing>>,
    /// True while the only operation is left to the waiting thread.
    is_left: bool,
    /// Number of operations that are not done.
    missing: usize,
    results: Results,
    phase: Phase,
}

/// The state of a batch's ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    /// The results belong to the detached errors.
    Abandoned,
    /// The results have been taken.
    Taken,
}

/// An operation that a thread has taken.
struct Job {
    backing: Arc<Backing>,
    operation: Operation,
}

/// The content of a batch's ticket.
struct Waited {
    batch: Arc<Batch>,
    threads: Arc<Threads>,
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
        let threads = Arc::new(Threads { queue });
        Self { threads }
    }

    /// Queues the operations of a batch of `count` requests, unless there is only one.
    pub(super) fn submit(
        &self,
        backing: &Arc<Backing>,
        operations: Vec<Operation>,
        count: usize,
        detached: &Arc<DetachedErrors>,
    ) -> Ticket {
        if operations.is_empty() {
            return Ticket::ready(Results::new());
        }
        let total = operations.len();
        let state = BatchState {
            operations: VecDeque::from(operations),
            backing: Some(Arc::clone(backing)),
            is_left: total == 1,
            missing: total,
            results: (0..count).map(|_| Err(DeviceError::Gone)).collect(),
            phase: Phase::Held,
        };
        let batch = Arc::new(Batch {
            state: Mutex::new(state),
            done: Condvar::new(),
            detached: Arc::clone(detached),
        });
        if total > 1 {
            (0..total).for_each(|_| self.threads.queue.push_with_room(&batch));
        }
        let threads = Arc::clone(&self.threads);
        Ticket::for_work(Arc::new(Waited { batch, threads }))
    }
}

impl Drop for Threads {
    /// Stops the threads once the queue is empty, without waiting for them.
    fn drop(&mut self) {
        self.queue.state.lock().is_stopped = true;
        self.queue.work.notify_all();
    }
}

impl Queue {
    /// Waits for room, and adds an entry.
    fn push_with_room(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock();
        while state.batches.len() + state.running >= self.depth {
            self.room.wait(&mut state);
        }
        state.batches.push_back(Arc::clone(batch));
        drop(state);
        self.work.notify_one();
    }

    /// Adds an entry, also beyond the depth.
    fn push(&self, batch: &Arc<Batch>) {
        self.state.lock().batches.push_back(Arc::clone(batch));
        self.work.notify_one();
    }

    /// Executes operations until the threads are stopped.
    fn serve(&self) {
        while let Some(batch) = self.pop() {
            batch.run(batch.take());
            self.state.lock().running -= 1;
            self.room.notify_one();
        }
    }

    fn pop(&self) -> Option<Arc<Batch>> {
        let mut state = self.state.lock();
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state.running += 1;
                return Some(batch);
            }
            if state.is_stopped {
                return None;
            }
            self.work.wait(&mut state);
        }
    }
}

impl Batch {
    /// Returns true to the first caller if the only operation is left to the waiting thread.
    fn take_charge(&self) -> bool {
        core::mem::take(&mut self.state.lock().is_left)
    }

    /// Takes an operation. The queue has as many entries as there are operations.
    fn take(&self) -> Job {
        let mut state = self.state.lock();
        let operation = state.operations.pop_front();
        let operation = operation.expect("there is one for each entry");
        let backing = match state.operations.is_empty() {
            true => state.backing.take(),
            false => state.backing.clone(),
        };
        let backing = backing.expect("the file is kept until the last operation is taken");
        Job { backing, operation }
    }

    /// Executes an operation.
    fn run(&self, job: Job) {
        let answers = job.backing.run(job.operation);
        // The file is closed before the completion of the last request is reported.
        drop(job.backing);
        let mut state = self.state.lock();
        for (index, answer) in answers {
            state.results[index] = answer;
        }
        state.missing -= 1;
        if state.missing > 0 {
            return;
        }
        if state.phase == Phase::Abandoned {
            let results = core::mem::take(&mut state.results);
            drop(state);
            self.detached.keep(&results);
            return;
        }
        drop(state);
        self.done.notify_all();
    }
}

impl Work for Waited {
    fn is_ready(&self) -> bool {
        self.start();
        self.batch.state.lock().missing == 0
    }

    fn start(&self) {
        if self.batch.take_charge() {
            self.threads.queue.push(&self.batch);
        }
    }

    fn wait(&self) -> Results {
        if self.batch.take_charge() {
            let job = self.batch.take();
            self.batch.run(job);
        }
        let mut state = self.batch.state.lock();
        while state.missing > 0 {
            self.batch.done.wait(&mut state);
        }
        state.phase = Phase::Taken;
        core::mem::take(&mut state.results)
    }

    fn abandon(&self) {
        let mut state = self.batch.state.lock();
        if state.phase != Phase::Held {
            return;
        }
        state.phase = Phase::Abandoned;
        if state.missing > 0 {
            drop(state);
            self.start();
            return;
        }
        let results = core::mem::take(&mut state.results);
        drop(state);
        self.batch.detached.keep(&results);
    }
}

impl Drop for Waited {
    /// Hands what is left to the threads, also if the ticket is dropped by a panic.
    fn drop(&mut self) {
        self.abandon();
    }
}

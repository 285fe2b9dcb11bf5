//! The supervisor of the turns: it limits them, and takes those of requests that wait.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Turns;

/// The supervisor of the turns: no thread parks without it.
pub(crate) struct Supervisor {
    turns: Arc<Turns>,
    /// The slots as they were at the last watch.
    slots: Vec<u64>,
}

impl Supervisor {
    pub(crate) fn new(turns: Arc<Turns>) -> Self {
        Self {
            turns,
            slots: Vec::new(),
        }
    }

    /// Limits the turns or not. While they are limited, [`Supervisor::watch`] has to be called
    /// often.
    pub(crate) fn set_limited(&self, is_limited: bool) {
        self.turns.set_limited(is_limited);
    }

    /// Returns the number of requests that gave their turn away.
    pub(crate) fn long(&self) -> u64 {
        self.turns.long.load(Ordering::Relaxed)
    }

    /// Takes the turns of requests that have not ended since the last call.
    pub(crate) fn watch(&mut self) {
        let slots = self.turns.slots.lock();
        let slots = slots.unwrap_or_else(PoisonError::into_inner);
        self.slots.resize(slots.len(), 0);
        for (slot, last) in slots.iter().zip(&mut self.slots) {
            let now = slot.0.load(Ordering::SeqCst);
            if now == *last && slot.give(now) {
                self.turns.hand_on();
            }
            *last = now;
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.turns.set_limited(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    /// A request: it waits for the sender's end, with its turn or without.
    struct Asked {
        is_long: bool,
        until: Receiver<()>,
        answer: Sender<()>,
    }

    /// Threads that read from a queue in turn.
    struct Readers {
        turns: Arc<Turns>,
        supervisor: Supervisor,
        queue: Sender<Asked>,
        threads: Vec<thread::JoinHandle<()>>,
    }

    impl Readers {
        fn new(count: usize) -> Self {
            let turns = Arc::new(Turns::new(count));
            let (queue, asked) = channel::<Asked>();
            let asked = Arc::new(Mutex::new(asked));
            let read = |number: usize| {
                let (turns, asked) = (Arc::clone(&turns), Arc::clone(&asked));
                let thread = thread::Builder::new().name(format!("reader-{number}"));
                let run = move || {
                    loop {
                        let next = asked.lock().expect("no panic").recv();
                        let Ok(next) = next else { return };
                        let _turn = if next.is_long {
                            turns.long()
                        } else {
                            turns.short()
                        };
                        let _ = next.until.recv();
                        let _ = next.answer.send(());
                    }
                };
                thread.spawn(run).expect("a thread")
            };
            let threads = (0..count).map(read).collect();
            let supervisor = Supervisor::new(Arc::clone(&turns));
            let readers = Self {
                turns,
                supervisor,
                queue,
                threads,
            };
            // Each thread executes a request, and is watched from then on.
            while readers.turns.slots.lock().expect("no panic").len() < count {
                let asked: Vec<_> = (0..count).map(|_| readers.ask(false)).collect();
                thread::sleep(Duration::from_millis(5));
                for (end, answered) in asked {
                    drop(end);
                    answered.recv_timeout(LONGEST).expect("an answer");
                }
            }
            readers
        }

        /// Sends a request, which ends when the sender is dropped. Returns the answer's receiver.
        fn ask(&self, is_long: bool) -> (Sender<()>, Receiver<()>) {
            let (end, until) = channel();
            let (answer, answered) = channel();
            let asked = Asked {
                is_long,
                until,
                answer,
            };
            self.queue.send(asked).expect("readers");
            (end, answered)
        }

        /// Sends a short request, and waits for its answer.
        fn ping(&self) {
            let (end, answered) = self.ask(false);
            drop(end);
            answered.recv_timeout(LONGEST).expect("an answer");
        }

        fn parked(&self) -> usize {
            self.turns.lock().count
        }

        /// Sends requests until that many threads are parked.
        fn ping_until_parked(&self, count: usize) {
            let begin = Instant::now();
            while self.parked() != count {
                assert!(begin.elapsed() < LONGEST, "{} are parked", self.parked());
                self.ping();
            }
        }

        fn limit(&mut self) {
            self.supervisor.set_limited(true);
        }

        fn end(self) {
            drop((self.supervisor, self.queue));
            for thread in self.threads {
                thread.join().expect("no panic");
            }
            assert_eq!(self.turns.readers.load(Ordering::SeqCst), 4);
        }
    }

    #[test]
    fn few_threads_read_while_requests_are_dense() {
        let mut readers = Readers::new(4);
        readers.ping();
        assert_eq!(readers.parked(), 0);
        readers.limit();
        readers.ping_until_parked(3);
        readers.supervisor.set_limited(false);
        assert_eq!(readers.parked(), 0);
        readers.limit();
        readers.ping_until_parked(3);
        readers.end();
    }

    #[test]
    fn a_request_that_may_wait_gives_its_turn_away() {
        let mut readers = Readers::new(4);
        readers.limit();
        readers.ping_until_parked(3);
        let waits: Vec<_> = (0..3).map(|_| readers.ask(true)).collect();
        readers.ping();
        assert_eq!(readers.parked(), 0);
        drop(waits);
        readers.ping_until_parked(3);
        readers.end();
    }

    #[test]
    fn a_request_that_waits_unexpectedly_loses_its_turn() {
        let mut readers = Readers::new(4);
        readers.limit();
        readers.ping_until_parked(3);
        let waits: Vec<_> = (0..3).map(|_| readers.ask(false)).collect();
        let (end, answered) = readers.ask(false);
        drop(end);
        let begin = Instant::now();
        while answered.try_recv().is_err() {
            assert!(begin.elapsed() < LONGEST);
            readers.supervisor.watch();
            thread::sleep(Duration::from_millis(1));
        }
        drop(waits);
        readers.ping_until_parked(3);
        readers.end();
    }

    /// The kernel sends many references that it drops as one request.
    #[test]
    fn a_request_of_many_short_parts_loses_its_turn() {
        let turns = Arc::new(Turns::new(2));
        let mut supervisor = Supervisor::new(Arc::clone(&turns));
        supervisor.set_limited(true);
        let same = Arc::clone(&turns);
        let other = thread::spawn(move || drop(same.short()));
        let begin = Instant::now();
        while turns.lock().count == 0 {
            assert!(begin.elapsed() < LONGEST, "it does not park");
            thread::yield_now();
        }
        while !other.is_finished() {
            assert!(begin.elapsed() < LONGEST, "nobody reads");
            turns.part();
            supervisor.watch();
        }
        other.join().expect("no panic");
        supervisor.set_limited(false);
        drop(turns.short());
        // The other thread has exited, and does not read.
        supervisor.watch();
        supervisor.watch();
        assert_eq!(turns.readers.load(Ordering::SeqCst), 1);
    }
}

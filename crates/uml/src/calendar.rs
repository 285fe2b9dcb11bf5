//! The calendar: the protocol by which a kernel gives its time away.
//!
//! Each message has 16 bytes: operation and sequence number (32 bits each), then a time in
//! nanoseconds (64 bits), all in the byte order of the machine.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | START | kernel | the first message |
//! | REQUEST | kernel | its next event has this time; replaces the earlier request |
//! | WAIT | kernel | it does nothing until it gets RUN |
//! | GET | kernel | asks for the time; the answer carries it |
//! | UPDATE | kernel | its own time is this, after a time in which it ran freely |
//! | GET_TOD | kernel | asks for the time of day; the answer carries it |
//! | RUN | calendar | its request is due: the time is now this |
//! | FREE_UNTIL | calendar | it may advance its own time up to, and without, this time |
//! | ACK | both | the answer to each of the others |
//!
//! This module keeps the order of the messages and does no I/O.

use rt::Nanos;

use crate::GuestError;

/// Size of a message in bytes.
pub const MESSAGE_BYTES: usize = 16;

const ACK: u32 = 0;
const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const UPDATE: u32 = 5;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;
const GET_TOD: u32 = 8;

/// A message of either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    operation: u32,
    sequence: u32,
    time: u64,
}

impl Message {
    /// Returns the message in its bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; MESSAGE_BYTES]) -> Self {
        let word = |at: usize| {
            let word = bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_ne_bytes(word)
        };
        let time = bytes[8..].try_into().expect("eight bytes");
        Self {
            operation: word(0),
            sequence: word(4),
            time: u64::from_ne_bytes(time),
        }
    }

    /// Returns the bytes of the message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&self.operation.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.time.to_ne_bytes());
        bytes
    }
}

/// A question of the kernel, which waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Nothing but that the message has arrived.
    Received,
    /// The time has to pass up to this one before the answer.
    Passed(Nanos),
    /// A question for the time.
    Time,
    /// A question for the time of day, in nanoseconds since 1970.
    TimeOfDay,
}

/// A question and the number of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The question.
    pub question: Question,
    sequence: u32,
}

impl Asked {
    /// Returns the answer; the time matters only if the question is for one.
    #[must_use]
    pub fn answer(self, time: u64) -> Message {
        Message {
            operation: ACK,
            sequence: self.sequence,
            time,
        }
    }
}

/// The state of the protocol.
#[derive(Debug, Default)]
pub struct Calendar {
    has_started: bool,
    // The kernel's next event.
    requested: Option<Nanos>,
    is_waiting: bool,
    // Number of the last message to the kernel.
    sequence: u32,
    // Number of the last message that the kernel has acknowledged.
    acknowledged: u32,
}

impl Calendar {
    /// Takes a message of the kernel. Returns the question in it; `None` for an acknowledgement.
    ///
    /// # Errors
    /// Fails if the message is out of order.
    pub fn receive(&mut self, message: Message) -> Result<Option<Asked>, GuestError> {
        let wrong = |what: &str| {
            let (operation, time) = (message.operation, message.time);
            let what = format!("{what} (time message {operation}, {time} ns)");
            Err(GuestError::Protocol(what))
        };
        let time = Nanos::new(message.time);
        if self.has_started == (message.operation == START) {
            return wrong("a start in the wrong place");
        }
        let question = match message.operation {
            ACK => {
                // FREE_UNTIL and RUN are acknowledged in their order.
                if message.sequence != self.acknowledged.wrapping_add(1)
                    || message.sequence > self.sequence
                {
                    return wrong("an acknowledgement of nothing");
                }
                self.acknowledged = message.sequence;
                return Ok(None);
            }
            START => {
                self.has_started = true;
                Question::Received
            }
            REQUEST => {
                self.requested = Some(time);
                Question::Received
            }
            WAIT if self.is_waiting => return wrong("a second wait"),
            WAIT if self.requested.is_none() => return wrong("a wait for nothing"),
            WAIT => {
                self.is_waiting = true;
                Question::Received
            }
            GET => Question::Time,
            UPDATE if self.is_waiting => return wrong("an update while it waits"),
            UPDATE => Question::Passed(time),
            GET_TOD => Question::TimeOfDay,
            _ => return wrong("an unknown message"),
        };
        Ok(Some(Asked {
            question,
            sequence: message.sequence,
        }))
    }

    /// Returns true if the kernel waits for [`run`](Self::run).
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns true if the kernel has acknowledged every message.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.sequence
    }

    /// Returns the time of the kernel's next event; `None` before its first request.
    #[must_use]
    pub fn requested(&self) -> Option<Nanos> {
        self.requested
    }

    /// Returns the message that lets the kernel advance its time by itself, up to `until`.
    pub fn free_until(&mut self, until: Nanos) -> Message {
        self.next(FREE_UNTIL, until)
    }

    /// Returns the message that lets the waiting kernel run at the time that it requested.
    ///
    /// # Panics
    /// Panics if the kernel does not wait, or if the time is not the requested one: the kernel
    /// stops at any other.
    pub fn run(&mut self, now: Nanos) -> Message {
        assert!(self.is_waiting, "only a waiting kernel runs");
        assert_eq!(self.requested, Some(now), "the kernel runs when it is due");
        self.is_waiting = false;
        self.requested = None;
        self.next(RUN, now)
    }

    fn next(&mut self, operation: u32, time: Nanos) -> Message {
        self.sequence = self.sequence.wrapping_add(1);
        Message {
            operation,
            sequence: self.sequence,
            time: time.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(operation: u32, sequence: u32, time: u64) -> Message {
        Message {
            operation,
            sequence,
            time,
        }
    }

    /// A kernel that has sent these messages, each an operation with a time.
    fn after(script: &[(u32, u64)]) -> Result<Calendar, String> {
        let mut calendar = Calendar::default();
        for (sequence, (operation, time)) in (1..).zip(script) {
            let taken = calendar.receive(message(*operation, sequence, *time));
            taken.map_err(|error| error.to_string())?;
        }
        Ok(calendar)
    }

    #[test]
    fn a_message_survives_its_bytes() {
        let sent = message(RUN, 7, 1 << 40);
        assert_eq!(Message::from_bytes(sent.to_bytes()), sent);
    }

    #[test]
    fn a_waiting_kernel_runs_at_its_request() {
        let mut calendar =
            after(&[(START, 0), (REQUEST, 50), (REQUEST, 40), (WAIT, 0)]).expect("it is in order");
        assert!(calendar.is_waiting());
        assert_eq!(calendar.requested(), Some(Nanos::new(40)));
        let free = calendar.free_until(Nanos::new(90));
        assert_eq!(free, message(FREE_UNTIL, 1, 90));
        assert_eq!(calendar.run(Nanos::new(40)), message(RUN, 2, 40));
        assert!(!calendar.is_waiting() && !calendar.is_acknowledged());
        for sequence in [1, 2] {
            let taken = calendar.receive(message(ACK, sequence, 0));
            assert_eq!(taken.expect("it is in order"), None);
        }
        assert!(calendar.is_acknowledged());
    }

    #[test]
    fn questions_are_answered_by_number() {
        let mut calendar = after(&[(START, 0)]).expect("it is in order");
        for (operation, question) in [
            (GET, Question::Time),
            (GET_TOD, Question::TimeOfDay),
            (UPDATE, Question::Passed(Nanos::new(3))),
        ] {
            let asked = calendar.receive(message(operation, 9, 3));
            let asked = asked.expect("it is in order").expect("a question");
            assert_eq!(asked.question, question);
            assert_eq!(asked.answer(5), message(ACK, 9, 5));
        }
    }

    #[test]
    fn messages_out_of_order_are_refused() {
        for script in [
            &[(REQUEST, 1)][..],
            &[(START, 0), (START, 0)],
            &[(START, 0), (WAIT, 0)],
            &[(START, 0), (REQUEST, 1), (WAIT, 0), (WAIT, 0)],
            &[(START, 0), (REQUEST, 1), (WAIT, 0), (UPDATE, 2)],
            &[(START, 0), (ACK, 0)],
            &[(START, 0), (RUN, 0)],
        ] {
            assert!(after(script).is_err(), "{script:?}");
        }
    }

    #[test]
    #[should_panic(expected = "only a waiting kernel")]
    fn a_kernel_that_does_not_wait_is_not_run() {
        let mut calendar = after(&[(START, 0), (REQUEST, 1)]).expect("it is in order");
        calendar.run(Nanos::new(1));
    }
}

//! Distribution of a batch over members, and collection of their results.

use crate::device::{BlockDevice, Request};
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::ticket::{Results, Ticket};

/// Requests to members, collected for submission in one batch each.
pub(super) struct Fanout {
    batches: Vec<Vec<Request>>,
}

/// The place of a member's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: usize,
    index: usize,
}

/// The answers of all members.
pub(super) struct Returned {
    answers: Vec<Vec<Option<Answer>>>,
}

impl Fanout {
    pub(super) fn new(members: usize) -> Self {
        Self {
            batches: (0..members).map(|_| Vec::new()).collect(),
        }
    }

    pub(super) fn push(&mut self, member: usize, request: Request) -> Place {
        let index = self.batches[member].len();
        self.batches[member].push(request);
        Place { member, index }
    }

    /// Submits the batches. Returns one ticket for each member, in order; members without requests
    /// are skipped.
    pub(super) fn submit<'a>(self, member: impl Fn(usize) -> &'a dyn BlockDevice) -> Vec<Ticket> {
        let hand_over = |(number, batch): (usize, Vec<Request>)| {
            if batch.is_empty() {
                Ticket::ready(Results::new())
            } else {
                member(number).submit(batch)
            }
        };
        self.batches
            .into_iter()
            .enumerate()
            .map(hand_over)
            .collect()
    }
}

impl Returned {
    pub(super) fn new(parts: Vec<Results>) -> Self {
        let answers = parts
            .into_iter()
            .map(|part| part.into_iter().map(Some).collect())
            .collect();
        Self { answers }
    }

    /// Takes the answer at a place; each can be taken once.
    pub(super) fn take(&mut self, place: Place) -> Answer {
        let answer = self.answers[place.member]
            .get_mut(place.index)
            .and_then(Option::take);
        answer.unwrap_or(Err(DeviceError::Gone))
    }
}

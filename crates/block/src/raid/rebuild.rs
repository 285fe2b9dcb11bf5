//! The common part of reads and writes of arrays with parity: reading members, computing the data
//! of missing ones, and deciding what a member's errors mean for the array.

use std::collections::BTreeSet;
use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::Mutex;

use super::fanout::{Fanout, Place, Returned};
use super::group::Busy;
use super::members::Members;
use super::stripe_plan::{Need, OldContents, add_data, missing_data, needs_of_missing, solve};
use super::stripes::{ChunkPart, Role, Stripes};
use crate::device::Request;
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};

/// A member and its error.
pub(super) type MemberError = (usize, DeviceError);

/// The array without its device interface.
pub(super) struct Core {
    pub(super) members: Members,
    pub(super) stripes: Stripes,
    pub(super) busy: Arc<Busy>,
    pub(super) detached: Arc<DetachedErrors>,
    /// Stripes of which a write failed in part when there was no redundancy left: what a missing
    /// member had of them is lost.
    pub(super) torn: Mutex<BTreeSet<u64>>,
}

impl Core {
    pub(super) fn sector(&self, stripe: u64, within: u64) -> SectorNr {
        SectorNr::from_byte_offset(self.stripes.member_offset(stripe, within))
    }

    pub(super) fn read_request(&self, stripe: u64, need: &Need) -> Request {
        let block_bytes = u32::try_from(need.bytes).expect("a chunk is below 4 GiB");
        Request::Read {
            sector: self.sector(stripe, need.within),
            blocks: 1,
            block_bytes,
        }
    }

    /// Collects the contents that were read, or the first member that failed and its error.
    pub(super) fn collect(
        &self,
        places: &[(Need, Place)],
        returned: &mut Returned,
    ) -> Result<OldContents, MemberError> {
        let mut old = Vec::with_capacity(places.len());
        for (need, place) in places {
            match returned.take(*place) {
                Ok(Outcome::Read(mut payload)) => {
                    let block = payload.pop().ok_or((need.member, DeviceError::Gone))?;
                    old.push((*need, block));
                }
                Ok(Outcome::Done) => return Err((need.member, DeviceError::Gone)),
                Err(error) => {
                    self.note_read_error(need.member, &error);
                    return Err((need.member, error));
                }
            }
        }
        Ok(old)
    }

    /// Removes a member that is gone; one with an unreadable sector stays.
    pub(super) fn note_read_error(&self, member: usize, error: &DeviceError) {
        if *error == DeviceError::Gone {
            self.members.fail(member);
        }
    }

    /// Removes the members that failed a write or a flush: first those that are gone, then those
    /// that failed. Returns an error if the array cannot work without one. A write that all others
    /// refuse for lack of space has changed nothing: it is refused, and they stay; otherwise they
    /// leave last. A write done in part, with no redundancy left, has changed the contents of a
    /// missing member, and has failed.
    pub(super) fn settle(&self, places: &[Place], returned: &mut Returned) -> Option<DeviceError> {
        let take = |place: &Place| (place.member, returned.take(*place));
        let failed = self.members.failed();
        let answers = places.iter().map(take);
        let mut answers: Vec<(usize, Answer)> = answers
            .filter(|(member, _)| !failed.contains(member))
            .collect();
        answers.sort_by_key(|(_, answer)| match answer {
            Err(DeviceError::Gone) => 0,
            Err(DeviceError::NoSpace { .. }) => 2,
            Err(_) => 1,
            Ok(_) => 3,
        });
        let has_written = answers.iter().any(|(_, answer)| answer.is_ok());
        let mut lost = None;
        for (member, answer) in answers {
            let Err(error) = answer else { break };
            let is_refused = matches!(error, DeviceError::NoSpace { .. });
            if is_refused && !has_written && lost.is_none() {
                return Some(error);
            }
            if !self.members.fail(member) {
                lost = Some(error);
            }
        }
        match lost {
            Some(DeviceError::NoSpace { device }) => Some(DeviceError::Failed {
                operation: "write",
                sector: SectorNr::new(0),
                sectors: 0,
                device,
                cause: "no space for a part of a stripe".to_owned(),
            }),
            lost => lost,
        }
    }

    /// Computes part of a chunk from other members, while no batch writes to its stripe.
    pub(super) fn rebuild(&self, part: &ChunkPart) -> Result<Arc<Block>, DeviceError> {
        let group = self.busy.hold(vec![part.stripe], &self.detached);
        let computed = self.compute(part);
        group.start(Ticket::ready(Results::new()));
        self.busy.reap(&group);
        computed.map(Block::into_arc)
    }

    fn compute(&self, part: &ChunkPart) -> Result<Block, DeviceError> {
        let member = self.stripes.data_member(part.stripe, part.index);
        let mut unreadable = vec![member];
        loop {
            let missing = self.missing(&unreadable);
            if missing.len() > self.stripes.parities {
                return Err(DeviceError::Gone);
            }
            let needed = needs_of_missing(self.stripes, part.stripe, &missing);
            let (within, bytes) = (part.within, part.bytes);
            match self.read(&needed, part.stripe, within, bytes) {
                Ok(known) => {
                    if self.torn.lock().contains(&part.stripe) {
                        return Err(DeviceError::Failed {
                            operation: "read",
                            sector: self.sector(part.stripe, part.within),
                            sectors: part.bytes / 512,
                            device: "the array".to_owned(),
                            cause: "a write of its stripe failed in part, without redundancy"
                                .to_owned(),
                        });
                    }
                    let lost = missing_data(self.stripes, part.stripe, &missing);
                    let computed = solve(self.stripes, part.stripe, &known, &lost);
                    let mut chunks = lost.into_iter().zip(computed);
                    let found = chunks.find(|(index, _)| *index == part.index);
                    return found.map(|(_, chunk)| chunk).ok_or(DeviceError::Gone);
                }
                Err((_, error)) if missing.len() == self.stripes.parities => return Err(error),
                Err((member, _)) => unreadable.push(member),
            }
        }
    }

    /// Returns the members that have left, and others that cannot be read, in order.
    pub(super) fn missing(&self, unreadable: &[usize]) -> Vec<usize> {
        let mut missing = self.members.failed();
        missing.extend(unreadable);
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// True if the parities of a stripe match its data.
    pub(super) fn is_consistent(&self, stripe: u64) -> Result<bool, DeviceError> {
        let all: Vec<usize> = (0..self.members.count()).collect();
        if !self.members.failed().is_empty() {
            return Err(DeviceError::Gone);
        }
        let chunk_bytes = self.stripes.chunk_bytes;
        let read = self.read(&all, stripe, 0, chunk_bytes);
        let known = read.map_err(|(_, error)| error)?;
        Ok(known.iter().all(|(need, bytes)| {
            let Role::Parity(parity) = self.stripes.role(stripe, need.member) else {
                return true;
            };
            let mut sum = Block::zeroed(bytes.len());
            add_data(self.stripes, stripe, &known, (parity, &mut sum));
            sum == **bytes
        }))
    }

    /// Reads a range of a stripe's chunks, or returns the first member that failed and its error.
    fn read(
        &self,
        members: &[usize],
        stripe: u64,
        within: u64,
        bytes: u64,
    ) -> Result<OldContents, MemberError> {
        let mut fanout = Fanout::new(self.members.count());
        let mut places = Vec::new();
        for member in members {
            let need = Need {
                member: *member,
                within,
                bytes,
            };
            let request = self.read_request(stripe, &need);
            places.push((need, fanout.push(*member, request)));
        }
        let tickets = fanout.submit(|member| self.members.get(member));
        let mut returned = Returned::new(tickets.into_iter().map(Ticket::wait).collect());
        self.collect(&places, &mut returned)
    }
}

//! The common part of RAID 5 reads and writes: reading members, computing the data of a missing
//! one, and deciding what a member's errors mean for the array.

use std::sync::Arc;

use layout::{Block, SectorNr};

use super::fanout::{Fanout, Place, Returned};
use super::group::Busy;
use super::members::Members;
use super::stripe_plan::{Need, xor_into};
use super::stripes::{ChunkPart, Stripes};
use crate::device::Request;
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};

/// Contents read from members.
pub(super) type OldContents = Vec<(Need, Arc<Block>)>;

/// A member and its error.
pub(super) type MemberError = (usize, DeviceError);

/// The array without its device interface.
pub(super) struct Core {
    pub(super) members: Members,
    pub(super) stripes: Stripes,
    pub(super) busy: Arc<Busy>,
    pub(super) detached: Arc<DetachedErrors>,
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

    /// Removes the member that failed a write or a flush. Returns an error if the array cannot work
    /// without it. A write that all members refuse for lack of space has changed nothing: it is
    /// refused, and all of them stay. A write done in part, with no redundancy left, has changed
    /// the contents of a missing member, and has failed.
    pub(super) fn settle(&self, places: &[Place], returned: &mut Returned) -> Option<DeviceError> {
        let take = |place: &Place| (place.member, returned.take(*place));
        let answers: Vec<(usize, Answer)> = places.iter().map(take).collect();
        let is_refused =
            |(_, answer): &(usize, Answer)| matches!(answer, Err(DeviceError::NoSpace { .. }));
        if let Some((_, Err(error))) = answers.first()
            && answers.iter().all(is_refused)
        {
            return Some(error.clone());
        }
        let mut lost = None;
        for (member, answer) in answers {
            if let Err(error) = answer
                && !self.members.fail(member)
            {
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

    /// Computes part of a chunk from the other members, while no batch writes to its stripe.
    pub(super) fn rebuild(&self, part: &ChunkPart) -> Result<Arc<Block>, DeviceError> {
        let member = self.stripes.data_member(part.stripe, part.index);
        let group = self.busy.hold(vec![part.stripe], &self.detached);
        let others = (0..self.members.count()).filter(|other| *other != member);
        let computed = self.xor_of(others, part.stripe, part.within, part.bytes);
        group.start(Ticket::ready(Results::new()));
        self.busy.reap(&group);
        computed.map(Block::into_arc)
    }

    /// True if the members' chunks of a stripe cancel each other out.
    pub(super) fn is_consistent(&self, stripe: u64) -> Result<bool, DeviceError> {
        let all = 0..self.members.count();
        let sum = self.xor_of(all, stripe, 0, self.stripes.chunk_bytes)?;
        Ok(sum.iter().all(|byte| *byte == 0))
    }

    fn xor_of(
        &self,
        members: impl Iterator<Item = usize>,
        stripe: u64,
        within: u64,
        bytes: u64,
    ) -> Result<Block, DeviceError> {
        let failed = self.members.failed();
        let mut fanout = Fanout::new(self.members.count());
        let mut places = Vec::new();
        for member in members {
            if failed.contains(&member) {
                return Err(DeviceError::Gone);
            }
            let need = Need {
                member,
                within,
                bytes,
            };
            places.push((need, fanout.push(member, self.read_request(stripe, &need))));
        }
        let tickets = fanout.submit(|member| self.members.get(member));
        let mut returned = Returned::new(tickets.into_iter().map(Ticket::wait).collect());
        let read = self
            .collect(&places, &mut returned)
            .map_err(|(_, error)| error)?;
        let mut sum = Block::zeroed(usize::try_from(bytes).expect("a chunk fits into memory"));
        read.iter().for_each(|(_, block)| xor_into(&mut sum, block));
        Ok(sum)
    }
}

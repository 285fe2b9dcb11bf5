//! RAID 0, RAID 10 as RAID 0 over mirrored pairs, and RAID 50 as RAID 0 over groups with parity:
//! chunk `c` is on member `c % n`, as its chunk `c / n`.

use core::ops::Range;
use std::sync::Arc;

use layout::SectorNr;

use super::fanout::{Fanout, Place, Returned};
use super::{
    MirrorDevice, ParityDevice, RaidLevel, array_name, check_array, combined_geometry,
    member_ranges,
};
use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::payload::{Cutter, Payload, payload_bytes, read_pieces, regroup};
use crate::ticket::{Outcome, Ticket};

/// An array without redundancy of its own.
pub struct StripedDevice {
    members: Vec<Arc<dyn BlockDevice>>,
    chunk_bytes: u64,
    geometry: Geometry,
    name: String,
}

/// The part of a request that lies on one member.
struct Part {
    member: usize,
    /// Byte offset on the member.
    offset: u64,
    bytes: u64,
}

/// The state of a request.
enum Pending {
    Refused(DeviceError),
    Done(Vec<Place>),
    /// Places of the parts, and the requested size of pieces.
    Read(Vec<Place>, usize),
}

impl StripedDevice {
    /// Creates a RAID 0 array.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn new(members: Vec<Arc<dyn BlockDevice>>, chunk_bytes: u64) -> Result<Self, DeviceError> {
        let name = array_name(RaidLevel::Raid0, &members);
        check_array(RaidLevel::Raid0, &name, &members, chunk_bytes, None)?;
        Ok(Self::from_parts(members, chunk_bytes, name))
    }

    /// Creates a RAID 10 array: members 0 and 1 are a pair, 2 and 3 are one, and so on.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn over_pairs(
        members: Vec<Arc<dyn BlockDevice>>,
        chunk_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let name = array_name(RaidLevel::Raid10, &members);
        check_array(RaidLevel::Raid10, &name, &members, chunk_bytes, None)?;
        let pairs = members
            .chunks(2)
            .map(|pair| Ok(Arc::new(MirrorDevice::new(pair.to_vec())?) as Arc<dyn BlockDevice>))
            .collect::<Result<_, DeviceError>>()?;
        Ok(Self::from_parts(pairs, chunk_bytes, name))
    }

    /// Creates a RAID 50 array of `groups` groups of adjacent members, each of them RAID 5. The
    /// chunk of the outer RAID 0 is one stripe of a group, so that a write of whole stripes needs
    /// no reads in any group.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn over_groups(
        members: Vec<Arc<dyn BlockDevice>>,
        chunk_bytes: u64,
        groups: u32,
    ) -> Result<Self, DeviceError> {
        let level = RaidLevel::Raid50;
        let name = array_name(level, &members);
        check_array(level, &name, &members, chunk_bytes, Some(groups))?;
        let group_members = members.len() / groups as usize;
        let stripe_bytes = chunk_bytes * (group_members as u64 - 1);
        let groups = members
            .chunks(group_members)
            .map(|group| {
                let group = ParityDevice::new(group.to_vec(), chunk_bytes)?;
                Ok(Arc::new(group) as Arc<dyn BlockDevice>)
            })
            .collect::<Result<_, DeviceError>>()?;
        Ok(Self::from_parts(groups, stripe_bytes, name))
    }

    fn from_parts(members: Vec<Arc<dyn BlockDevice>>, chunk_bytes: u64, name: String) -> Self {
        let smallest = members
            .iter()
            .map(|member| member.geometry().size_bytes)
            .min()
            .unwrap_or(0);
        let size_bytes = (smallest - smallest % chunk_bytes) * members.len() as u64;
        let geometry = combined_geometry(&members, size_bytes);
        Self {
            members,
            chunk_bytes,
            geometry,
            name,
        }
    }

    fn parts(&self, offset: u64, bytes: u64) -> Vec<Part> {
        let count = self.members.len() as u64;
        let mut parts = Vec::new();
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let (chunk, within) = (at / self.chunk_bytes, at % self.chunk_bytes);
            let length = (self.chunk_bytes - within).min(end - at);
            parts.push(Part {
                member: (chunk % count) as usize,
                offset: chunk / count * self.chunk_bytes + within,
                bytes: length,
            });
            at += length;
        }
        parts
    }

    fn spread(&self, request: Request, fanout: &mut Fanout) -> Pending {
        if let Err(error) = self.geometry.check(&request) {
            return Pending::Refused(error);
        }
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let start = sector.byte_offset();
                let mut done = 0;
                let mut places = Vec::new();
                for part in self.parts(start, u64::from(blocks) * u64::from(block_bytes)) {
                    let (blocks, block_bytes) = read_pieces(done, part.bytes, block_bytes);
                    let sector = SectorNr::from_byte_offset(part.offset);
                    let request = Request::Read {
                        sector,
                        blocks,
                        block_bytes,
                    };
                    places.push(fanout.push(part.member, request));
                    done += part.bytes;
                }
                Pending::Read(places, block_bytes as usize)
            }
            Request::Write {
                sector,
                payload,
                force_unit_access,
            } => {
                let parts = self.parts(sector.byte_offset(), payload_bytes(&payload));
                let mut cutter = Cutter::new(payload);
                let send = |part: Part| {
                    let sector = SectorNr::from_byte_offset(part.offset);
                    let payload = cutter.take(part.bytes);
                    fanout.push(
                        part.member,
                        Request::Write {
                            sector,
                            payload,
                            force_unit_access,
                        },
                    )
                };
                Pending::Done(parts.into_iter().map(send).collect())
            }
            Request::Flush => Pending::Done(
                (0..self.members.len())
                    .map(|member| fanout.push(member, Request::Flush))
                    .collect(),
            ),
            Request::Discard { sector, sectors } => {
                let parts = self.parts(sector.byte_offset(), sectors * SectorNr::SIZE);
                let send = |part: Part| {
                    let sector = SectorNr::from_byte_offset(part.offset);
                    let sectors = part.bytes / SectorNr::SIZE;
                    fanout.push(part.member, Request::Discard { sector, sectors })
                };
                Pending::Done(parts.into_iter().map(send).collect())
            }
        }
    }
}

impl Pending {
    fn settle(self, returned: &mut Returned) -> Answer {
        match self {
            Self::Refused(error) => Err(error),
            Self::Done(places) => {
                let answers: Vec<Answer> = places
                    .into_iter()
                    .map(|place| returned.take(place))
                    .collect();
                answers
                    .into_iter()
                    .find(Result::is_err)
                    .unwrap_or(Ok(Outcome::Done))
            }
            Self::Read(places, block_bytes) => {
                let mut pieces = Payload::new();
                for place in places {
                    match returned.take(place)? {
                        Outcome::Read(part) => pieces.extend(part),
                        Outcome::Done => return Err(DeviceError::Gone),
                    }
                }
                Ok(Outcome::Read(regroup(pieces, block_bytes)))
            }
        }
    }
}

impl BlockDevice for StripedDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let mut fanout = Fanout::new(self.members.len());
        let pending: Vec<Pending> = batch
            .into_iter()
            .map(|request| self.spread(request, &mut fanout))
            .collect();
        let tickets = fanout.submit(|member| &*self.members[member]);
        Ticket::joined(tickets, move |parts| {
            let mut returned = Returned::new(parts);
            pending
                .into_iter()
                .map(|one| one.settle(&mut returned))
                .collect()
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let ranges = member_ranges(ranges, self.chunk_bytes, self.members.len());
        let mut members = self.members.iter();
        members.try_for_each(|member| member.reserve(&ranges))
    }

    fn intruder(&self) -> Option<String> {
        self.members.iter().find_map(|member| member.intruder())
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.members
            .iter()
            .find_map(|member| member.take_detached_error())
    }
}

//! RAID 5 and 6.
//!
//! Reads go to the member that holds the data. For writes, `submit` first reads what the parities
//! of their stripes require and waits for it, then submits data and parities together; the ticket
//! waits for those. See `stripe_plan` for the computation of parity and `group` for stripes that
//! several batches write to.
//!
//! Discards are accepted and ignored: discarded ranges of members read as anything, which would
//! invalidate the parity.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

use layout::{Block, SectorNr};
use rt::Mutex;

use super::fanout::{Fanout, Place, Returned};
use super::group::{Busy, GroupWork};
use super::members::Members;
use super::rebuild::Core;
use super::stripe_plan::{Method, Need, NewData, StripeWrite};
use super::stripes::{ChunkPart, Stripes};
use super::{RaidLevel, array_name, check_array, combined_geometry, member_ranges};
use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::{Answer, interleave};
use crate::payload::{Cutter, Payload, payload_bytes, read_pieces, regroup};
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};

/// An array with one rotating parity or two.
pub struct ParityDevice {
    core: Arc<Core>,
    geometry: Geometry,
    name: String,
}

/// A write of a batch.
struct Write {
    sector: SectorNr,
    payload: Payload,
    is_forced: bool,
}

/// A stripe whose old contents were requested: the method that uses them, and their places.
struct Asked {
    write: StripeWrite,
    method: Method,
    places: Vec<(Need, Place)>,
}

/// A write of a stripe, and the new contents of its parities.
type Planned = (StripeWrite, Vec<(usize, Block)>);

/// The state of a request that is not a write.
enum Pending {
    Answered(Answer),
    Flush(Vec<Place>),
    /// Parts, with a place unless their member has left, and the requested size of pieces.
    Read(Vec<(ChunkPart, Option<Place>)>, usize),
}

impl ParityDevice {
    /// Creates a RAID 5 array.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn new(members: Vec<Arc<dyn BlockDevice>>, chunk_bytes: u64) -> Result<Self, DeviceError> {
        Self::with_parities(RaidLevel::Raid5, members, chunk_bytes)
    }

    /// Creates a RAID 6 array.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn double(
        members: Vec<Arc<dyn BlockDevice>>,
        chunk_bytes: u64,
    ) -> Result<Self, DeviceError> {
        Self::with_parities(RaidLevel::Raid6, members, chunk_bytes)
    }

    fn with_parities(
        level: RaidLevel,
        members: Vec<Arc<dyn BlockDevice>>,
        chunk_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let name = array_name(level, &members);
        check_array(level, &name, &members, chunk_bytes, None)?;
        let smallest = members
            .iter()
            .map(|member| member.geometry().size_bytes)
            .min()
            .unwrap_or(0);
        let stripes = Stripes {
            members: members.len(),
            parities: level.parities(),
            chunk_bytes,
        };
        let size_bytes = (smallest - smallest % chunk_bytes) * stripes.data_chunks() as u64;
        let geometry = combined_geometry(&members, size_bytes);
        let core = Core {
            members: Members::new(members, stripes.parities),
            stripes,
            busy: Arc::new(Busy::default()),
            detached: Arc::new(DetachedErrors::default()),
            torn: Mutex::default(),
        };
        Ok(Self {
            core: Arc::new(core),
            geometry,
            name,
        })
    }

    /// Returns the members that have left the array, in order.
    pub fn failed_members(&self) -> Vec<usize> {
        self.core.members.failed()
    }

    /// Reads everything and returns the stripes whose parities do not match their data. No request
    /// may be in flight.
    ///
    /// # Errors
    /// Returns the errors of reading the members.
    pub fn scrub(&self) -> Result<Vec<u64>, DeviceError> {
        let stripe_bytes = self.core.stripes.chunk_bytes * self.core.stripes.data_chunks() as u64;
        let mut wrong = Vec::new();
        for stripe in 0..self.geometry.size_bytes / stripe_bytes {
            if !self.core.is_consistent(stripe)? {
                wrong.push(stripe);
            }
        }
        Ok(wrong)
    }

    fn spread(&self, request: Request, failed: &[usize], fanout: &mut Fanout) -> Pending {
        if let Err(error) = self.geometry.check(&request) {
            return Pending::Answered(Err(error));
        }
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let bytes = u64::from(blocks) * u64::from(block_bytes);
                let mut done = 0;
                let mut parts = Vec::new();
                for part in self.core.stripes.parts(sector.byte_offset(), bytes) {
                    let member = self.core.stripes.data_member(part.stripe, part.index);
                    let (blocks, block_bytes) = read_pieces(done, part.bytes, block_bytes);
                    let sector = self.core.sector(part.stripe, part.within);
                    let request = Request::Read {
                        sector,
                        blocks,
                        block_bytes,
                    };
                    let has_left = failed.contains(&member);
                    parts.push((part, (!has_left).then(|| fanout.push(member, request))));
                    done += part.bytes;
                }
                Pending::Read(parts, block_bytes as usize)
            }
            Request::Flush => {
                let healthy = (0..self.core.members.count()).filter(|one| !failed.contains(one));
                Pending::Flush(
                    healthy
                        .map(|member| fanout.push(member, Request::Flush))
                        .collect(),
                )
            }
            Request::Discard { .. } | Request::Write { .. } => Pending::Answered(Ok(Outcome::Done)),
        }
    }

    /// Submits reads, flushes and discards.
    fn submit_others(&self, batch: Vec<Request>) -> Ticket {
        let failed = self.core.members.failed();
        let mut fanout = Fanout::new(self.core.members.count());
        let pending: Vec<Pending> = batch
            .into_iter()
            .map(|request| self.spread(request, &failed, &mut fanout))
            .collect();
        let tickets = fanout.submit(|member| self.core.members.get(member));
        let core = Arc::clone(&self.core);
        Ticket::joined(tickets, move |parts| {
            let mut returned = Returned::new(parts);
            pending
                .into_iter()
                .map(|one| one.settle(&mut returned, &core))
                .collect()
        })
    }

    fn submit_writes(&self, batch: Vec<Write>) -> Ticket {
        let mut failures: Vec<Option<DeviceError>> = Vec::with_capacity(batch.len());
        let mut writes: BTreeMap<u64, StripeWrite> = BTreeMap::new();
        for (number, write) in batch.into_iter().enumerate() {
            let (sector, is_forced) = (write.sector, write.is_forced);
            let bytes = payload_bytes(&write.payload);
            let mut cutter = Cutter::new(write.payload);
            for part in self.core.stripes.parts(sector.byte_offset(), bytes) {
                let stripe = part.stripe;
                let new = NewData {
                    index: part.index,
                    within: part.within,
                    bytes: part.bytes,
                    payload: cutter.take(part.bytes),
                    is_forced,
                    write: number,
                };
                let empty = || StripeWrite {
                    stripe,
                    data: Vec::new(),
                    missing: Vec::new(),
                };
                writes.entry(stripe).or_insert_with(empty).data.push(new);
            }
            failures.push(None);
        }
        let stripes = writes.keys().copied().collect();
        let group = self.core.busy.hold(stripes, &self.core.detached);
        let planned = self.plan(writes.into_values().collect(), &mut failures);
        group.start(self.send(planned, failures));
        let busy = Arc::clone(&self.core.busy);
        Ticket::for_work(Arc::new(GroupWork { busy, group }))
    }

    /// Reads the old contents that the parities require and computes them. Stripes that cannot be
    /// written fail their writes. The stripes are held, so that a member that left when one of them
    /// was written before is known.
    fn plan(
        &self,
        mut open: Vec<StripeWrite>,
        failures: &mut [Option<DeviceError>],
    ) -> Vec<Planned> {
        let core = &self.core;
        let mut planned = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let failed = core.members.failed();
            let mut fanout = Fanout::new(core.members.count());
            let mut asked = Vec::with_capacity(open.len());
            for mut write in open.drain(..) {
                write.missing = core.missing(&write.missing);
                if write.missing.len() > core.stripes.parities {
                    write.fail(&DeviceError::Gone, failures);
                    continue;
                }
                let method = write.method(core.stripes, &failed);
                let needs = write.needs(core.stripes, method).into_iter();
                let places = needs
                    .map(|need| {
                        let request = core.read_request(write.stripe, &need);
                        (need, fanout.push(need.member, request))
                    })
                    .collect();
                asked.push(Asked {
                    write,
                    method,
                    places,
                });
            }
            let tickets = fanout.submit(|member| core.members.get(member));
            let mut returned = Returned::new(tickets.into_iter().map(Ticket::wait).collect());
            for Asked {
                mut write,
                method,
                places,
            } in asked
            {
                match core.collect(&places, &mut returned) {
                    Ok(old) => {
                        let parities = write.parities(core.stripes, method, old);
                        planned.push((write, parities));
                    }
                    Err((_, error)) if write.missing.len() == core.stripes.parities => {
                        write.fail(&error, failures);
                    }
                    Err((member, _)) => {
                        write.missing.push(member);
                        open.push(write);
                    }
                }
            }
        }
        planned
    }

    /// Submits data and parities.
    fn send(&self, planned: Vec<Planned>, mut failures: Vec<Option<DeviceError>>) -> Ticket {
        let core = &self.core;
        let failed = core.members.failed();
        let mut fanout = Fanout::new(core.members.count());
        let mut push = |member, stripe, within, payload, force_unit_access| {
            let sector = core.sector(stripe, within);
            let request = Request::Write {
                sector,
                payload,
                force_unit_access,
            };
            (!failed.contains(&member)).then(|| fanout.push(member, request))
        };
        let mut sent: Vec<(u64, Vec<usize>, Vec<Place>)> = Vec::with_capacity(planned.len());
        for (mut write, parities) in planned {
            let (stripe, is_forced, (from, _)) = (write.stripe, write.is_forced(), write.range());
            let mut places = Vec::new();
            for new in &mut write.data {
                let member = core.stripes.data_member(stripe, new.index);
                let payload = core::mem::take(&mut new.payload);
                places.extend(push(member, stripe, new.within, payload, new.is_forced));
            }
            for (parity, block) in parities {
                let member = core.stripes.parity_member(stripe, parity);
                let payload = vec![block.into_arc()];
                places.extend(push(member, stripe, from, payload, is_forced));
            }
            let writes = write.data.iter().map(|new| new.write).collect();
            sent.push((stripe, writes, places));
        }
        let tickets = fanout.submit(|member| core.members.get(member));
        let core = Arc::clone(core);
        Ticket::joined(tickets, move |parts| {
            let mut returned = Returned::new(parts);
            for (stripe, writes, places) in sent {
                let Some(error) = core.settle(&places, &mut returned) else {
                    continue;
                };
                if !matches!(error, DeviceError::NoSpace { .. }) {
                    core.torn.lock().insert(stripe);
                }
                for write in writes {
                    failures[write] = Some(error.clone());
                }
            }
            failures
                .into_iter()
                .map(|failure| failure.map_or(Ok(Outcome::Done), Err))
                .collect()
        })
    }
}

impl StripeWrite {
    fn fail(&self, error: &DeviceError, failures: &mut [Option<DeviceError>]) {
        for new in &self.data {
            failures[new.write] = Some(error.clone());
        }
    }
}

impl Pending {
    fn settle(self, returned: &mut Returned, core: &Core) -> Answer {
        match self {
            Self::Answered(answer) => answer,
            Self::Flush(places) => match core.settle(&places, returned) {
                Some(error) => Err(error),
                None => Ok(Outcome::Done),
            },
            Self::Read(parts, block_bytes) => {
                let mut pieces = Payload::new();
                for (part, place) in parts {
                    match place.map(|place| (place.member, returned.take(place))) {
                        Some((_, Ok(Outcome::Read(payload)))) => pieces.extend(payload),
                        Some((member, Err(error))) => {
                            core.note_read_error(member, &error);
                            pieces.push(core.rebuild(&part).map_err(|_| error)?);
                        }
                        Some((_, Ok(Outcome::Done))) => return Err(DeviceError::Gone),
                        None => pieces.push(core.rebuild(&part)?),
                    }
                }
                Ok(Outcome::Read(regroup(pieces, block_bytes)))
            }
        }
    }
}

const OTHERS: usize = 0;
const WRITES: usize = 1;

impl BlockDevice for ParityDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        self.core.members.reap_detached(&self.core.detached);
        let (mut others, mut writes, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for request in batch {
            let is_fit = self.geometry.check(&request).is_ok();
            match request {
                Request::Write {
                    sector,
                    payload,
                    force_unit_access,
                } if is_fit => {
                    writes.push(Write {
                        sector,
                        payload,
                        is_forced: force_unit_access,
                    });
                    order.push(WRITES);
                }
                other => {
                    others.push(other);
                    order.push(OTHERS);
                }
            }
        }
        if writes.is_empty() {
            return self.submit_others(others);
        }
        if others.is_empty() {
            return self.submit_writes(writes);
        }
        let parts = vec![self.submit_others(others), self.submit_writes(writes)];
        Ticket::joined(parts, move |parts: Vec<Results>| interleave(&order, parts))
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let stripes = self.core.stripes;
        let ranges = member_ranges(ranges, stripes.chunk_bytes, stripes.data_chunks());
        self.core.members.reserve(&ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.core.members.intruder()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.core.busy.reap_ready();
        self.core.members.reap_detached(&self.core.detached);
        self.core.detached.take()
    }
}

//! RAID 1: every member holds all data.
//!
//! A read goes to one member, see `balance`. If it fails, the waiting thread repeats it on the
//! other members.

use core::ops::Range;
use std::sync::Arc;

use super::balance::{Balance, Reading};
use super::fanout::{Fanout, Place, Returned};
use super::members::Members;
use super::{CHUNK_BYTES_UNIT, RaidLevel, array_name, check_array, combined_geometry};
use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::forward::Answer;
use crate::ticket::{DetachedErrors, Outcome, Ticket};

/// A mirror.
pub struct MirrorDevice {
    members: Arc<Members>,
    balance: Arc<Balance>,
    detached: DetachedErrors,
    geometry: Geometry,
    name: String,
}

/// The state of a request.
enum Pending {
    Refused(DeviceError),
    /// The same request to several members.
    Everywhere(Vec<Place>),
    /// A discard on several members.
    Discard(Vec<Place>),
    /// A read, kept so that it can be repeated.
    Read(Place, Request, Reading),
}

impl MirrorDevice {
    /// Creates a mirror.
    ///
    /// # Errors
    /// - [`DeviceError::Open`] if these members cannot form one.
    pub fn new(members: Vec<Arc<dyn BlockDevice>>) -> Result<Self, DeviceError> {
        let name = array_name(RaidLevel::Raid1, &members);
        check_array(RaidLevel::Raid1, &name, &members, CHUNK_BYTES_UNIT, None)?;
        let smallest = members
            .iter()
            .map(|member| member.geometry().size_bytes)
            .min()
            .unwrap_or(0);
        let geometry = combined_geometry(&members, smallest);
        let tolerance = members.len() - 1;
        let balance = Balance::new(members.len());
        let members = Arc::new(Members::new(members, tolerance));
        Ok(Self {
            members,
            balance,
            detached: DetachedErrors::default(),
            geometry,
            name,
        })
    }

    /// Returns the members that have left the array, in order.
    pub fn failed_members(&self) -> Vec<usize> {
        self.members.failed()
    }

    fn spread(&self, request: Request, healthy: &[usize], fanout: &mut Fanout) -> Pending {
        if let Err(error) = self.geometry.check(&request) {
            return Pending::Refused(error);
        }
        let (sector, sectors) = request.range();
        let (first, end) = (sector.get(), sector.get() + sectors);
        match &request {
            Request::Read { .. } => {
                let reading = self.balance.choose(healthy, first, end);
                let place = fanout.push(reading.member, request.clone());
                return Pending::Read(place, request, reading);
            }
            Request::Write { .. } => self.balance.write(end),
            Request::Flush | Request::Discard { .. } => {}
        }
        let places = healthy
            .iter()
            .map(|member| fanout.push(*member, request.clone()))
            .collect();
        match request {
            Request::Discard { .. } => Pending::Discard(places),
            _ => Pending::Everywhere(places),
        }
    }
}

impl Pending {
    fn settle(self, returned: &mut Returned, members: &Members) -> Answer {
        match self {
            Self::Refused(error) => Err(error),
            Self::Everywhere(places) => settle_everywhere(&places, returned, members),
            // Contents are undefined either way: a member that does not discard is not stale.
            Self::Discard(places) => {
                let answers: Vec<Answer> =
                    places.iter().map(|place| returned.take(*place)).collect();
                let failed = answers.into_iter().find(Result::is_err);
                failed.unwrap_or(Ok(Outcome::Done))
            }
            Self::Read(place, request, reading) => {
                drop(reading);
                match returned.take(place) {
                    Ok(outcome) => Ok(outcome),
                    Err(error) => {
                        if error == DeviceError::Gone {
                            members.fail(place.member);
                        }
                        read_elsewhere(members, place.member, &request).ok_or(error)
                    }
                }
            }
        }
    }
}

/// Succeeds if a member that stays has succeeded. Members that failed leave.
fn settle_everywhere(places: &[Place], returned: &mut Returned, members: &Members) -> Answer {
    let mut errors = Vec::new();
    let mut done_count = 0;
    for place in places {
        match returned.take(*place) {
            Ok(_) => done_count += 1,
            Err(error) => errors.push((place.member, error)),
        }
    }
    let first_error = errors.first().map(|(_, error)| error.clone());
    match first_error {
        Some(error) if done_count == 0 => Err(error),
        Some(error) if !errors.iter().all(|(member, _)| members.fail(*member)) => Err(error),
        _ => Ok(Outcome::Done),
    }
}

fn read_elsewhere(members: &Members, except: usize, request: &Request) -> Option<Outcome> {
    members
        .healthy()
        .into_iter()
        .filter(|member| *member != except)
        .find_map(|member| {
            match members
                .get(member)
                .submit(vec![request.clone()])
                .wait()
                .pop()?
            {
                Ok(outcome) => Some(outcome),
                Err(error) => {
                    if error == DeviceError::Gone {
                        members.fail(member);
                    }
                    None
                }
            }
        })
}

impl BlockDevice for MirrorDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        self.members.reap_detached(&self.detached);
        let healthy = self.members.healthy();
        let mut fanout = Fanout::new(self.members.count());
        let pending: Vec<Pending> = batch
            .into_iter()
            .map(|request| self.spread(request, &healthy, &mut fanout))
            .collect();
        let tickets = fanout.submit(|member| self.members.get(member));
        let members = Arc::clone(&self.members);
        Ticket::joined(tickets, move |parts| {
            let mut returned = Returned::new(parts);
            pending
                .into_iter()
                .map(|one| one.settle(&mut returned, &members))
                .collect()
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.members.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.members.intruder()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.members.reap_detached(&self.detached);
        self.detached.take()
    }
}

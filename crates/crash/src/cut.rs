//! Cuts: the event after which the power fails, and the version of each unsettled sector that is
//! left.
//!
//! In text: `57-kept,0.120=0` is after event 57; all writes are kept, except that sector 120 of
//! device 0 has its version 0, the durable one. `57-lost,1.6=2` is the reverse.

use core::fmt;
use core::str::FromStr;

use block::Replay;
use layout::SectorNr;
use rt::split_mix::mix_pair;

use crate::disks::Disks;
use crate::image::{Hashed, Image, hash_sector};

/// A power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The number of events before the cut.
    pub event: usize,
    /// True if all writes but the exceptions are kept.
    pub is_kept: bool,
    /// Device, sector and version of each exception; version 0 is the durable one.
    pub exceptions: Vec<(usize, u64, u32)>,
}

/// An unsettled sector.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The device.
    pub device: usize,
    /// The sector.
    pub sector: u64,
    /// Numbers of the writes that created the versions, oldest first, from version 1 on.
    pub writes: Vec<u64>,
    /// Hashes of the versions, the durable one first.
    hashes: Vec<u64>,
}

/// All states that a power cut at one moment can leave.
pub struct Moment<'r, M = Image> {
    replays: &'r [Replay<M>],
    /// The unsettled sectors of all devices.
    pub units: Vec<Unit>,
    base_hash: u64,
}

/// The chosen version of each unit.
pub type Selection = Vec<u32>;

fn rotate(device: usize, hash: u64) -> u64 {
    hash.rotate_left(device as u32)
}

impl Unit {
    /// Returns the number of the newest version.
    pub fn newest(&self) -> u32 {
        self.writes.len() as u32
    }
}

impl<'r, M: Hashed> Moment<'r, M> {
    /// Collects the versions that the devices may have after a power cut now.
    pub fn new(replays: &'r [Replay<M>]) -> Self {
        let mut units = Vec::new();
        let mut base_hash = 0;
        for (device, replay) in replays.iter().enumerate() {
            base_hash ^= rotate(device, replay.durable().hash());
            for (sector, versions) in replay.versions().iter() {
                let durable = replay.durable().sector_hash(sector.get());
                let newer = versions
                    .iter()
                    .map(|one| hash_sector(sector.get(), one.bytes()));
                units.push(Unit {
                    device,
                    sector: sector.get(),
                    writes: versions.iter().map(|one| one.sequence).collect(),
                    hashes: core::iter::once(durable).chain(newer).collect(),
                });
            }
        }
        Self {
            replays,
            units,
            base_hash,
        }
    }

    /// Returns the selection of all lost, or all kept, device by device.
    pub fn whole(&self, is_kept: &[bool]) -> Selection {
        let choose = |unit: &Unit| {
            if is_kept[unit.device] {
                unit.newest()
            } else {
                0
            }
        };
        self.units.iter().map(choose).collect()
    }

    /// Returns the hash of the moment itself: of the durable contents and of all versions.
    pub fn own_hash(&self) -> u64 {
        let versions = self.units.iter().flat_map(|unit| &unit.hashes);
        versions.fold(self.base_hash, |hash, version| mix_pair(hash, *version))
    }

    /// Returns the hash of the state that a selection leaves.
    pub fn hash(&self, selection: &[u32]) -> u64 {
        let changes = self.units.iter().zip(selection).map(|(unit, version)| {
            rotate(unit.device, unit.hashes[0] ^ unit.hashes[*version as usize])
        });
        changes.fold(self.base_hash, |hash, change| hash ^ change)
    }

    /// Returns the contents of each device that a selection leaves.
    pub fn images(&self, selection: &[u32]) -> Vec<M> {
        let mut chosen = vec![Vec::new(); self.replays.len()];
        for (unit, version) in self.units.iter().zip(selection) {
            let Some(index) = version.checked_sub(1) else {
                continue;
            };
            let versions = self.replays[unit.device].versions();
            let sequence = unit.writes[index as usize];
            let sector = SectorNr::new(unit.sector);
            let version = versions
                .newest_through(sector, sequence)
                .expect("a version of the unit");
            chosen[unit.device].push((sector, version.clone()));
        }
        let devices = self.replays.iter().zip(&chosen);
        devices
            .map(|(replay, chosen)| {
                let mut image = replay.durable().snapshot();
                image.store(chosen);
                image
            })
            .collect()
    }
}

impl Moment<'_> {
    /// Returns the disks that a selection leaves.
    pub fn disks(&self, selection: &[u32], like: &Disks) -> Disks {
        let mut images = self.images(selection).into_iter();
        Disks {
            home: images.next().expect("there is a home device"),
            log: images.next(),
            ..like.clone()
        }
    }

    /// Converts a selection to a cut.
    pub fn cut(&self, event: usize, selection: &[u32]) -> Cut {
        let kept = self
            .units
            .iter()
            .zip(selection)
            .filter(|(unit, version)| unit.newest() == **version);
        let is_kept = kept.count() * 2 > self.units.len();
        let usual = |unit: &Unit| if is_kept { unit.newest() } else { 0 };
        let exceptions = self.units.iter().zip(selection);
        let exceptions = exceptions.filter(|(unit, version)| usual(unit) != **version);
        Cut {
            event,
            is_kept,
            exceptions: exceptions
                .map(|(unit, version)| (unit.device, unit.sector, *version))
                .collect(),
        }
    }

    /// Converts a cut to a selection. Returns `None` if it names sectors or versions that do not
    /// exist.
    pub fn select(&self, cut: &Cut) -> Option<Selection> {
        let mut selection = self.whole(&vec![cut.is_kept; self.replays.len()]);
        for (device, sector, version) in &cut.exceptions {
            let mut units = self.units.iter();
            let place = units.position(|unit| unit.device == *device && unit.sector == *sector)?;
            selection[place] = Some(*version).filter(|one| *one <= self.units[place].newest())?;
        }
        Some(selection)
    }
}

impl Cut {
    /// Creates the cut after an event with nothing lost.
    pub fn whole(event: usize) -> Self {
        Self {
            event,
            is_kept: true,
            exceptions: Vec::new(),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.is_kept { "kept" } else { "lost" };
        write!(out, "{}-{usual}", self.event)?;
        for (device, sector, version) in &self.exceptions {
            write!(out, ",{device}.{sector}={version}")?;
        }
        Ok(())
    }
}

/// The error of a text that is not a cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cut: they look like 57-kept,0.120=0")]
pub struct CutError(pub String);

impl FromStr for Cut {
    type Err = CutError;

    fn from_str(text: &str) -> Result<Self, CutError> {
        parse(text).ok_or_else(|| CutError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Cut> {
    let mut parts = text.split(',');
    let (event, usual) = parts.next()?.split_once('-')?;
    let mut exceptions = Vec::new();
    for part in parts {
        let (place, version) = part.split_once('=')?;
        let (device, sector) = place.split_once('.')?;
        exceptions.push((
            device.parse().ok()?,
            sector.parse().ok()?,
            version.parse().ok()?,
        ));
    }
    Some(Cut {
        event: event.parse().ok()?,
        is_kept: match usual {
            "kept" => true,
            "lost" => false,
            _ => return None,
        },
        exceptions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["0-lost", "57-kept,0.120=0", "8-lost,1.6=2,0.7=1"] {
            let cut: Cut = text.parse().expect("a cut");
            assert_eq!(cut.to_string(), text);
        }
        for text in ["", "57", "57-some", "x-kept", "5-kept,0=1", "5-kept,0.1"] {
            assert!(text.parse::<Cut>().is_err(), "{text}");
        }
    }
}

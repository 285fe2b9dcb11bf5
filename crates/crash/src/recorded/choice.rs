//! Choices among the writes that no flush had made durable when the power was cut, and those that
//! are tried at an instant.
//!
//! | text | what is left |
//! |---|---|
//! | `kept`, `lost` | all writes; none of them |
//! | `random7` | of each sector any version, drawn from the seed 7 |
//! | `lost,device1` | all writes to device 1 |
//! | `lost,upto0.12` | of device 0 the writes up to its twelfth |
//! | `kept,write0.12` | all but the twelfth write to device 0; with `lost`, only that |
//! | `kept,head0.12`, `kept,tail0.12` | all but the first or the second half of that write |
//! | `kept,sector0.120=0` | all but sector 120 of device 0, which has its durable version 0 |

use core::fmt;
use core::str::FromStr;

use rt::split_mix::{SplitMix, mix_pair};

use crate::cut::{Moment, Selection, Unit};
use crate::image::Hashed;

/// The versions that sectors have unless an exception says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Kept,
    Lost,
    Random(u64),
}

/// An exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Except {
    Device(usize),
    UpTo(usize, u64),
    Write(usize, u64),
    Head(usize, u64),
    Tail(usize, u64),
    Sector(usize, u64, u32),
}

/// A choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) base: Base,
    pub(crate) except: Option<Except>,
}

/// A power cut in a recording: the number of events before it, and what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// The number of events before the cut.
    pub(crate) event: usize,
    pub(crate) choice: Choice,
}

/// Numbers of choices that are tried at an instant, beside all and nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of writes that are the last, the only one, missing, or half there.
    pub writes: usize,
    /// Number of sectors that are missing or the only one, among those that recovery reads.
    pub sectors: usize,
    /// Number of random combinations.
    pub randoms: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            writes: 2,
            sectors: 4,
            randoms: 2,
        }
    }
}

/// The size of the units that each device writes as a whole, in sectors.
pub(crate) type UnitSectors = [u64];

impl Choice {
    pub(crate) const KEPT: Self = Self::whole(Base::Kept);
    pub(crate) const LOST: Self = Self::whole(Base::Lost);

    const fn whole(base: Base) -> Self {
        Self { base, except: None }
    }

    const fn but(base: Base, except: Except) -> Self {
        let except = Some(except);
        Self { base, except }
    }

    /// Returns the version of each unsettled sector. Returns `None` if it names a device, write or
    /// sector of which nothing is unsettled.
    pub(crate) fn select<M: Hashed>(
        &self,
        moment: &Moment<'_, M>,
        unit_sectors: &UnitSectors,
    ) -> Option<Selection> {
        let devices = unit_sectors.len();
        let mut selection = match self.base {
            Base::Kept => moment.whole(&vec![true; devices]),
            Base::Lost => moment.whole(&vec![false; devices]),
            Base::Random(seed) => random(&moment.units, unit_sectors, seed),
        };
        let Some(except) = self.except else {
            return Some(selection);
        };
        let is_kept = self.base == Base::Kept;
        let own = moment.units.iter().zip(&mut selection);
        let mut is_found = false;
        match except {
            Except::Device(device) => {
                own.filter(|(unit, _)| unit.device == device)
                    .for_each(|(unit, version)| {
                        is_found = true;
                        *version = if is_kept { 0 } else { unit.newest() };
                    })
            }
            Except::UpTo(device, last) => {
                own.filter(|(unit, _)| unit.device == device)
                    .for_each(|(unit, version)| {
                        is_found |= unit.writes.contains(&last);
                        *version =
                            unit.writes.iter().filter(|write| **write <= last).count() as u32;
                    })
            }
            Except::Sector(device, sector, wanted) => {
                let size = unit_sectors.get(device)?;
                let number = sector / size;
                own.filter(|(unit, _)| unit.device == device && unit.sector / size == number)
                    .for_each(|(unit, version)| {
                        is_found = true;
                        *version = wanted.min(unit.newest());
                    });
            }
            Except::Write(device, write)
            | Except::Head(device, write)
            | Except::Tail(device, write) => {
                let size = *unit_sectors.get(device)?;
                let mut places = places_of(&moment.units, device, write);
                let half = middle(&moment.units, &places, size);
                match except {
                    Except::Head(..) => places.truncate(half),
                    Except::Tail(..) => drop(places.drain(..half)),
                    _ => {}
                }
                for (index, place) in places {
                    is_found = true;
                    let is_newest = place + 1 == moment.units[index].newest();
                    if is_kept && is_newest {
                        selection[index] = place;
                    } else if !is_kept {
                        selection[index] = place + 1;
                    }
                }
            }
        }
        is_found.then_some(selection)
    }
}

/// Returns the units that a write touches, and the number of older versions of each.
fn places_of(units: &[Unit], device: usize, write: u64) -> Vec<(usize, u32)> {
    let own = units.iter().enumerate();
    own.filter(|(_, unit)| unit.device == device)
        .filter_map(|(index, unit)| {
            let place = unit.writes.iter().position(|one| *one == write)?;
            Some((index, place as u32))
        })
        .collect()
}

/// Returns the place of the middle of a write, between two units of the device.
fn middle(units: &[Unit], places: &[(usize, u32)], size: u64) -> usize {
    let of = |place: usize| units[places[place].0].sector / size;
    let mut half = places.len() / 2;
    while half > 0 && half < places.len() && of(half) == of(half - 1) {
        half -= 1;
    }
    half
}

/// Returns a random version for each unit of the device: the state after one of its writes.
fn random(units: &[Unit], unit_sectors: &UnitSectors, seed: u64) -> Selection {
    let key = |unit: &Unit| (unit.device, unit.sector / unit_sectors[unit.device]);
    let mut selection = Vec::with_capacity(units.len());
    for group in units.chunk_by(|first, second| key(first) == key(second)) {
        let mut writes: Vec<u64> = group.iter().flat_map(|unit| unit.writes.clone()).collect();
        writes.sort_unstable();
        writes.dedup();
        let (device, number) = key(&group[0]);
        let mut random = SplitMix::new(mix_pair(mix_pair(seed, device as u64), number));
        let kept = random.below(writes.len() as u64 + 1) as usize;
        let last = kept.checked_sub(1).map(|index| writes[index]);
        selection.extend(group.iter().map(|unit| {
            let is_there = |write: &&u64| last.is_some_and(|last| **write <= last);
            unit.writes.iter().filter(is_there).count() as u32
        }));
    }
    selection
}

/// Returns all or nothing, device by device.
pub(crate) fn wholes(devices: usize) -> Vec<Choice> {
    let mut wholes = vec![Choice::KEPT, Choice::LOST];
    if devices > 1 {
        wholes.extend((0..devices).map(|device| Choice::but(Base::Lost, Except::Device(device))));
    }
    wholes
}

/// Returns the other choices that are tried at a moment.
pub(crate) fn parts<M: Hashed>(
    moment: &Moment<'_, M>,
    limits: &Limits,
    seed: u64,
    is_read: &dyn Fn(usize, u64) -> bool,
) -> Vec<Choice> {
    let mut random = SplitMix::new(seed);
    let mut choices = Vec::new();
    let mut writes: Vec<(usize, u64)> = moment
        .units
        .iter()
        .flat_map(|unit| unit.writes.iter().map(|write| (unit.device, *write)))
        .collect();
    writes.sort_unstable();
    writes.dedup();
    for (device, write) in sample(&mut random, writes, limits.writes) {
        let half = match random.below(2) {
            0 => Except::Head(device, write),
            _ => Except::Tail(device, write),
        };
        choices.extend([
            Choice::but(Base::Lost, Except::UpTo(device, write)),
            Choice::but(Base::Kept, Except::Write(device, write)),
            Choice::but(Base::Lost, Except::Write(device, write)),
            Choice::but(either(&mut random), half),
        ]);
    }
    let read = moment.units.iter();
    let read: Vec<&Unit> = read
        .filter(|unit| is_read(unit.device, unit.sector))
        .collect();
    for unit in sample(&mut random, read, limits.sectors) {
        let base = either(&mut random);
        let versions = u64::from(unit.newest());
        let version = match base {
            Base::Kept => random.below(versions),
            _ => 1 + random.below(versions),
        };
        let except = Except::Sector(unit.device, unit.sector, version as u32);
        choices.push(Choice::but(base, except));
    }
    if !moment.units.is_empty() {
        let seeds = (0..limits.randoms).map(|_| random.next_u64() >> 32);
        choices.extend(seeds.map(|seed| Choice::whole(Base::Random(seed))));
    }
    choices
}

fn either(random: &mut SplitMix) -> Base {
    match random.below(2) {
        0 => Base::Kept,
        _ => Base::Lost,
    }
}

/// Returns a random sample, in order.
fn sample<T>(random: &mut SplitMix, all: Vec<T>, limit: usize) -> Vec<T> {
    let mut left = limit.min(all.len()) as u64;
    let count = all.len();
    let chosen = all.into_iter().enumerate().filter(|(index, _)| {
        let is_chosen = left > 0 && random.below((count - index) as u64) < left;
        left -= u64::from(is_chosen);
        is_chosen
    });
    chosen.map(|(_, one)| one).collect()
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-", self.event)?;
        match self.choice.base {
            Base::Kept => out.write_str("kept")?,
            Base::Lost => out.write_str("lost")?,
            Base::Random(seed) => write!(out, "random{seed}")?,
        }
        match self.choice.except {
            None => Ok(()),
            Some(Except::Device(device)) => write!(out, ",device{device}"),
            Some(Except::UpTo(device, write)) => write!(out, ",upto{device}.{write}"),
            Some(Except::Write(device, write)) => write!(out, ",write{device}.{write}"),
            Some(Except::Head(device, write)) => write!(out, ",head{device}.{write}"),
            Some(Except::Tail(device, write)) => write!(out, ",tail{device}.{write}"),
            Some(Except::Sector(device, sector, version)) => {
                write!(out, ",sector{device}.{sector}={version}")
            }
        }
    }
}

/// The error of a text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a power cut in a recording: they look like 57-kept,write0.12")]
pub struct IdError(pub String);

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text).ok_or_else(|| IdError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Id> {
    let (event, choice) = text.split_once('-')?;
    let (base, except) = match choice.split_once(',') {
        Some((base, except)) => (base, Some(except)),
        None => (choice, None),
    };
    let base = match base {
        "kept" => Base::Kept,
        "lost" => Base::Lost,
        other => Base::Random(other.strip_prefix("random")?.parse().ok()?),
    };
    let except = match except {
        Some(_) if matches!(base, Base::Random(_)) => return None,
        Some(text) => Some(parse_except(text)?),
        None => None,
    };
    Some(Id {
        event: event.parse().ok()?,
        choice: Choice { base, except },
    })
}

fn parse_except(text: &str) -> Option<Except> {
    let digits = text.find(|letter: char| letter.is_ascii_digit())?;
    let (name, place) = text.split_at(digits);
    if name == "device" {
        return Some(Except::Device(place.parse().ok()?));
    }
    let (device, rest) = place.split_once('.')?;
    let device = device.parse().ok()?;
    if name == "sector" {
        let (sector, version) = rest.split_once('=')?;
        return Some(Except::Sector(
            device,
            sector.parse().ok()?,
            version.parse().ok()?,
        ));
    }
    let write = rest.parse().ok()?;
    match name {
        "upto" => Some(Except::UpTo(device, write)),
        "write" => Some(Except::Write(device, write)),
        "head" => Some(Except::Head(device, write)),
        "tail" => Some(Except::Tail(device, write)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use block::trace::Event;
    use block::{Geometry, MemoryDevice, Replay, Request};
    use layout::{Block, SectorNr};

    use super::*;
    use crate::recorded::sparse::{Sparse, read};

    #[test]
    fn texts_come_back() {
        for text in [
            "0-lost",
            "57-kept,write0.12",
            "57-lost,upto1.3",
            "9-lost,device1",
            "1-kept,head0.1",
            "1-kept,tail0.1",
            "8-kept,sector0.120=2",
            "8-random77",
        ] {
            let id: Id = text.parse().expect("a cut");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "57",
            "57-some",
            "x-kept",
            "5-kept,",
            "5-kept,0.1",
            "5-kept,write0",
            "5-random",
            "5-random1,write0.1",
            "5-kept,sector0.1",
            "5-kept,part0.1",
        ] {
            assert!(text.parse::<Id>().is_err(), "{text}");
        }
    }

    /// Returns the first bytes of the first eight sectors that a choice leaves of two writes: ones
    /// into sectors 0 to 3, and then twos into sectors 2 to 5.
    fn left(text: &str, sector_bytes: u32) -> Option<Vec<u8>> {
        let memory = MemoryDevice::new(8 * 512);
        let geometry = Geometry {
            sector_bytes,
            has_volatile_cache: true,
            ..Geometry::new(8 * 512)
        };
        let mut replays = [Replay::on(0, geometry, &Sparse::new(memory))];
        for (batch, (first, byte)) in [(0, 1), (2, 2)].into_iter().enumerate() {
            let mut block = Block::zeroed(4 * 512);
            block.fill(byte);
            let write = Request::Write {
                sector: SectorNr::new(first),
                payload: vec![block.into_arc()],
                force_unit_access: false,
            };
            replays[0].apply(&Event::Submitted {
                device: 0,
                batch: batch as u64,
                requests: Arc::new(vec![write]),
            });
        }
        let moment = Moment::new(&replays);
        let id: Id = text.parse().expect("a cut");
        let selection = id
            .choice
            .select(&moment, &[u64::from(sector_bytes) / 512])?;
        let image = moment.images(&selection).remove(0);
        assert_eq!(image.hash(), moment.hash(&selection), "{text}");
        Some(
            read(image.memory(), 0, 8 * 512)
                .iter()
                .step_by(512)
                .copied()
                .collect(),
        )
    }

    #[test]
    fn choices_leave_what_they_say() {
        for (text, expected) in [
            ("0-kept", [1, 1, 2, 2, 2, 2, 0, 0]),
            ("0-lost", [0; 8]),
            ("0-lost,device0", [1, 1, 2, 2, 2, 2, 0, 0]),
            ("0-lost,upto0.1", [1, 1, 1, 1, 0, 0, 0, 0]),
            ("0-kept,write0.1", [0, 0, 2, 2, 2, 2, 0, 0]),
            ("0-kept,write0.2", [1, 1, 1, 1, 0, 0, 0, 0]),
            ("0-lost,write0.2", [0, 0, 2, 2, 2, 2, 0, 0]),
            ("0-lost,head0.1", [1, 1, 0, 0, 0, 0, 0, 0]),
            ("0-kept,tail0.2", [1, 1, 2, 2, 0, 0, 0, 0]),
            ("0-kept,sector0.3=1", [1, 1, 2, 1, 2, 2, 0, 0]),
            ("0-lost,sector0.5=1", [0, 0, 0, 0, 0, 2, 0, 0]),
        ] {
            assert_eq!(left(text, 512).as_deref(), Some(&expected[..]), "{text}");
        }
        for text in [
            "0-kept,write0.3",
            "0-kept,sector0.7=0",
            "0-kept,write1.1",
            "0-lost,device1",
        ] {
            assert_eq!(left(text, 512), None, "{text}");
        }
    }

    /// More writes of a sector than a number of 16 bits counts.
    #[test]
    fn many_versions_are_told_apart() {
        let geometry = Geometry {
            has_volatile_cache: true,
            ..Geometry::new(512)
        };
        let mut replays = [Replay::on(
            0,
            geometry,
            &Sparse::new(MemoryDevice::new(512)),
        )];
        let write = |byte: u8| {
            let mut block = Block::zeroed(512);
            block.fill(byte);
            Request::Write {
                sector: SectorNr::new(0),
                payload: vec![block.into_arc()],
                force_unit_access: false,
            }
        };
        let mut requests = vec![write(1); 1 << 16];
        requests[(1 << 16) - 1] = write(2);
        replays[0].apply(&Event::Submitted {
            device: 0,
            batch: 0,
            requests: Arc::new(requests),
        });
        let moment = Moment::new(&replays);
        let first = |text: &str| {
            let id: Id = text.parse().expect("a cut");
            let selection = id.choice.select(&moment, &[1]).expect("it is undecided");
            read(moment.images(&selection)[0].memory(), 0, 512)[0]
        };
        assert_eq!(first("0-kept"), 2);
        assert_eq!(first("0-kept,write0.65536"), 1);
        assert_eq!(first("0-kept,sector0.0=65535"), 1);
        assert_eq!(first("0-lost,sector0.0=65536"), 2);
        assert_eq!(first("0-lost"), 0);
        let limits = Limits {
            sectors: 1,
            ..Limits::default()
        };
        let all = parts(&moment, &limits, 1, &|_, _| true);
        let selected = all.iter().map(|choice| choice.select(&moment, &[1]));
        assert!(selected.flatten().count() > 4);
    }

    /// A sector of the device has one version, also if it is larger than 512 bytes.
    #[test]
    fn sectors_are_not_torn() {
        let sector = left("0-kept,sector0.5=0", 2048).expect("it is unsettled");
        assert_eq!(sector, [1, 1, 2, 2, 0, 0, 0, 0]);
        for seed in 0..20 {
            let left = left(&format!("0-random{seed}"), 2048).expect("always");
            assert!([&[0, 0, 0, 0][..], &[1, 1, 1, 1], &[1, 1, 2, 2]].contains(&&left[..4]));
            assert!([[0, 0], [2, 2]].contains(&[left[4], left[5]]), "{left:?}");
        }
        assert_eq!(left("0-lost,head0.1", 2048), None, "it is one sector");
    }
}

//! The combinations of versions that are tried at a moment.
//!
//! | | kept |
//! |---|---|
//! | whole | all or nothing, device by device |
//! | order | all writes up to one, and none after it |
//! | torn | everything, or nothing, and half of one write |
//! | single | everything but one sector, or one sector; each of its versions |
//! | pair | everything but two sectors, or two sectors |
//! | random | each sector at random |
//!
//! Single sectors and pairs are chosen among those that recovery, the check or the read-back of a
//! whole image read: an unread sector changes nothing.

use rt::split_mix::SplitMix;

use super::Limits;
use crate::cut::{Moment, Selection};

/// Returns the selections of all or nothing, device by device.
pub(crate) fn whole(moment: &Moment<'_>, devices: usize) -> Vec<Selection> {
    let choices = 0..1_u32 << devices;
    let select = |bits: u32| {
        let is_kept: Vec<bool> = (0..devices).map(|device| bits & 1 << device != 0).collect();
        moment.whole(&is_kept)
    };
    let mut selections: Vec<Selection> = choices.map(select).collect();
    selections.dedup();
    selections
}

/// Returns all other selections.
pub(crate) fn parts(
    moment: &Moment<'_>,
    limits: &Limits,
    seed: u64,
    is_read: &dyn Fn(usize, u64) -> bool,
) -> Vec<Selection> {
    if moment.units.is_empty() {
        return Vec::new();
    }
    let devices = moment
        .units
        .iter()
        .map(|unit| unit.device + 1)
        .max()
        .unwrap_or(0);
    let mut parts = Parts {
        moment,
        lost: moment.whole(&vec![false; devices]),
        kept: moment.whole(&vec![true; devices]),
        random: SplitMix::new(seed),
        selections: Vec::new(),
    };
    parts.ordered();
    parts.torn();
    let read: Vec<usize> = (0..moment.units.len())
        .filter(|index| is_read(moment.units[*index].device, moment.units[*index].sector))
        .collect();
    parts.singles(&read, limits.singles);
    parts.pairs(&read, limits.pairs);
    parts.randoms(limits.randoms);
    parts.selections
}

struct Parts<'m> {
    moment: &'m Moment<'m>,
    lost: Selection,
    kept: Selection,
    random: SplitMix,
    selections: Vec<Selection>,
}

impl Parts<'_> {
    /// Returns the unsettled writes: device and number.
    fn writes(&self) -> Vec<(usize, u64)> {
        let units = self.moment.units.iter();
        let mut writes: Vec<_> = units
            .flat_map(|unit| unit.writes.iter().map(|write| (unit.device, *write)))
            .collect();
        writes.sort_unstable();
        writes.dedup();
        writes
    }

    fn ordered(&mut self) {
        for (device, last) in self.writes() {
            for others in [&self.lost, &self.kept] {
                let mut selection = others.clone();
                for (unit, choice) in self.moment.units.iter().zip(&mut selection) {
                    if unit.device == device {
                        *choice = unit.writes.iter().filter(|write| **write <= last).count() as u32;
                    }
                }
                self.selections.push(selection);
            }
        }
    }

    fn torn(&mut self) {
        for (device, write) in self.writes() {
            let version_of = |index: usize| {
                let unit = &self.moment.units[index];
                let place = unit.writes.iter().position(|one| *one == write);
                place
                    .filter(|_| unit.device == device)
                    .map(|place| (index, place as u32))
            };
            let own: Vec<(usize, u32)> = (0..self.lost.len()).filter_map(version_of).collect();
            for half in [&own[..own.len() / 2], &own[own.len() / 2..]] {
                if half.is_empty() || half.len() == own.len() {
                    continue;
                }
                let mut kept = self.kept.clone();
                let mut lost = self.lost.clone();
                for (index, place) in half {
                    kept[*index] = *place;
                    lost[*index] = place + 1;
                }
                self.selections.extend([kept, lost]);
            }
        }
    }

    /// Returns a random sample of at most `limit` numbers below `count`, in ascending order.
    fn sample(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut left = limit.min(count) as u64;
        let mut chosen = Vec::new();
        for index in 0..count {
            if left > 0 && self.random.below((count - index) as u64) < left {
                chosen.push(index);
                left -= 1;
            }
        }
        chosen
    }

    fn singles(&mut self, read: &[usize], limit: usize) {
        for place in self.sample(read.len(), limit) {
            let index = read[place];
            let newest = self.moment.units[index].newest();
            for version in 0..=newest {
                for others in [&self.lost, &self.kept] {
                    if others[index] != version {
                        let mut selection = others.clone();
                        selection[index] = version;
                        self.selections.push(selection);
                    }
                }
            }
        }
    }

    fn pairs(&mut self, read: &[usize], limit: usize) {
        let count = read.len() * read.len().saturating_sub(1) / 2;
        let chosen = self.sample(count, limit);
        let mut number = 0;
        let mut chosen = chosen.into_iter().peekable();
        for (place, first) in read.iter().enumerate() {
            for second in &read[place + 1..] {
                if chosen.next_if_eq(&number).is_some() {
                    self.pair(*first, *second);
                }
                number += 1;
            }
        }
    }

    fn pair(&mut self, first: usize, second: usize) {
        let mut kept = self.kept.clone();
        let mut lost = self.lost.clone();
        for index in [first, second] {
            kept[index] = 0;
            lost[index] = self.moment.units[index].newest();
        }
        self.selections.extend([kept, lost]);
    }

    fn randoms(&mut self, count: usize) {
        for _ in 0..count {
            let choose =
                |unit: &crate::cut::Unit| self.random.below(u64::from(unit.newest()) + 1) as u32;
            let selection = self.moment.units.iter().map(choose).collect();
            self.selections.push(selection);
        }
    }
}

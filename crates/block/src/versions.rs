//! Versions of sectors: the contents of a volatile cache, and the possible outcomes of a power cut.
//!
//! Each sector of 512 bytes has a list of versions, oldest first, each with the number of the write
//! that created it. The durable version is not in the list: the device below holds it. Both the
//! volatile cache and the replay of a trace keep their undecided writes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::device::Request;
use crate::payload::Payload;

/// Size of the unit that has versions, in bytes.
const SECTOR: usize = SectorNr::SIZE as usize;

/// Maximum size of a block assembled from single sectors, in bytes.
const RUN_BYTES_MAX: usize = 64 * 1024;

/// A version of a sector.
#[derive(Debug, Clone)]
pub struct Version {
    /// Number of the write that created it; later writes have higher numbers.
    pub sequence: u64,
    block: Arc<Block>,
    /// Index of the sector in the block.
    index: usize,
}

impl Version {
    /// Returns the 512 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.index * SECTOR..(self.index + 1) * SECTOR]
    }
}

/// The versions of the sectors that have any.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    /// Invariant: no list is empty, and sequences ascend within each.
    sectors: BTreeMap<u64, Vec<Version>>,
    count: u64,
}

impl Versions {
    /// Adds the sectors of a write. Its sequence is higher than that of every version of these
    /// sectors.
    pub fn add(&mut self, sector: SectorNr, payload: &[Arc<Block>], sequence: u64) {
        let mut at = sector.get();
        for block in payload {
            for index in 0..block.len() / SECTOR {
                let versions = self.sectors.entry(at).or_default();
                let is_newest = versions.last().is_none_or(|last| last.sequence < sequence);
                assert!(is_newest, "writes to one sector come one after another");
                versions.push(Version {
                    sequence,
                    block: Arc::clone(block),
                    index,
                });
                self.count += 1;
                at += 1;
            }
        }
    }

    /// Drops the versions of some sectors up to and including a sequence.
    pub fn drop_through(&mut self, from: SectorNr, sectors: u64, sequence: u64) {
        let range = from.get()..from.get() + sectors;
        let mut empty = Vec::new();
        for (sector, versions) in self.sectors.range_mut(range) {
            let before = versions.len();
            versions.retain(|version| version.sequence > sequence);
            self.count -= (before - versions.len()) as u64;
            if versions.is_empty() {
                empty.push(*sector);
            }
        }
        for sector in empty {
            self.sectors.remove(&sector);
        }
    }

    /// Drops all versions up to and including a sequence.
    pub fn drop_all_through(&mut self, sequence: u64) {
        self.sectors.retain(|_, versions| {
            versions.retain(|version| version.sequence > sequence);
            !versions.is_empty()
        });
        self.count = self
            .sectors
            .values()
            .map(|versions| versions.len() as u64)
            .sum();
    }

    /// Returns the number of versions; each takes 512 bytes.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if no sector has a version.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// Returns all sectors that have versions, in order, oldest version first.
    pub fn iter(&self) -> impl Iterator<Item = (SectorNr, &[Version])> {
        self.sectors
            .iter()
            .map(|(sector, list)| (SectorNr::new(*sector), list.as_slice()))
    }

    /// Returns the newest version of a sector up to and including a sequence.
    pub fn newest_through(&self, sector: SectorNr, sequence: u64) -> Option<&Version> {
        let versions = self.sectors.get(&sector.get())?;
        versions
            .iter()
            .rev()
            .find(|version| version.sequence <= sequence)
    }

    /// Returns the newest version of each sector in a range that has one.
    pub fn newest(&self, from: SectorNr, sectors: u64) -> Vec<(u64, Version)> {
        self.sectors
            .range(from.get()..from.get() + sectors)
            .filter_map(|(sector, versions)| Some((*sector, versions.last()?.clone())))
            .collect()
    }

    /// Returns the newest version, up to and including a sequence, of up to `limit` sectors from
    /// `from` on.
    pub fn newest_from(&self, from: u64, sequence: u64, limit: usize) -> Vec<(u64, Version)> {
        self.sectors
            .range(from..)
            .filter_map(|(sector, versions)| {
                let newest = versions
                    .iter()
                    .rev()
                    .find(|version| version.sequence <= sequence)?;
                Some((*sector, newest.clone()))
            })
            .take(limit)
            .collect()
    }

    /// Returns one possible outcome of a power cut, as its differences from the durable versions.
    /// For each unit of `unit_bytes` that has versions, `pick` chooses among `0..=n`: 0 is the
    /// durable version, `k` the state after the unit's k-th undecided write.
    pub fn choose(
        &self,
        unit_bytes: u32,
        pick: &mut dyn FnMut(SectorNr, usize) -> usize,
    ) -> Vec<(SectorNr, Version)> {
        let unit = u64::from(unit_bytes) / SectorNr::SIZE;
        let mut chosen = Vec::new();
        let mut next = self.sectors.keys().next().copied();
        while let Some(sector) = next {
            let first = sector - sector % unit;
            let members = || self.sectors.range(first..first + unit);
            let mut sequences: Vec<u64> = members()
                .flat_map(|(_, list)| list.iter().map(|one| one.sequence))
                .collect();
            sequences.sort_unstable();
            sequences.dedup();
            let choice = pick(SectorNr::new(first), sequences.len());
            if let Some(limit) = choice.checked_sub(1).map(|index| sequences[index]) {
                for (sector, _) in members() {
                    let sector = SectorNr::new(*sector);
                    let newest = self.newest_through(sector, limit);
                    chosen.extend(newest.map(|version| (sector, version.clone())));
                }
            }
            next = self
                .sectors
                .range(first + unit..)
                .next()
                .map(|(sector, _)| *sector);
        }
        chosen
    }
}

/// Returns writes that store these versions: blocks by reference if all their sectors are present,
/// copies otherwise.
pub fn write_requests(chosen: &[(u64, Version)]) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut rest = chosen;
    while let Some((first, _)) = rest.first() {
        let run = rest
            .iter()
            .zip(*first..)
            .take_while(|((sector, _), at)| sector == at)
            .count();
        let payload = payload_of(&rest[..run]);
        let sector = SectorNr::new(*first);
        requests.push(Request::Write {
            sector,
            payload,
            force_unit_access: false,
        });
        rest = &rest[run..];
    }
    requests
}

/// Returns the payload of adjacent sectors.
fn payload_of(run: &[(u64, Version)]) -> Payload {
    let mut payload = Payload::new();
    let mut loose: Vec<u8> = Vec::new();
    let mut rest = run;
    while let Some((_, version)) = rest.first() {
        let whole = version.block.len() / SECTOR;
        let is_whole = version.index == 0
            && rest.len() >= whole
            && rest[..whole].iter().enumerate().all(|(index, (_, other))| {
                other.index == index && Arc::ptr_eq(&other.block, &version.block)
            });
        let step = if is_whole { whole } else { 1 };
        if !loose.is_empty() && (is_whole || loose.len() >= RUN_BYTES_MAX) {
            payload.push(Block::copy_from(&loose).into_arc());
            loose.clear();
        }
        if is_whole {
            payload.push(Arc::clone(&version.block));
        } else {
            loose.extend_from_slice(version.bytes());
        }
        rest = &rest[step..];
    }
    if !loose.is_empty() {
        payload.push(Block::copy_from(&loose).into_arc());
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{payload_from_bytes, payload_to_bytes};

    fn versions() -> Versions {
        let mut versions = Versions::default();
        versions.add(SectorNr::new(8), &payload_from_bytes(&[1; 4096], 4096), 1);
        versions.add(SectorNr::new(9), &payload_from_bytes(&[2; 512], 512), 2);
        versions.add(SectorNr::new(20), &payload_from_bytes(&[3; 512], 512), 3);
        versions
    }

    fn bytes(chosen: &[(SectorNr, Version)]) -> Vec<(u64, u8)> {
        chosen
            .iter()
            .map(|(sector, version)| (sector.get(), version.bytes()[0]))
            .collect()
    }

    #[test]
    fn each_sector_is_chosen_by_itself() {
        let versions = versions();
        assert_eq!(versions.count(), 10);
        let mut asked = Vec::new();
        let none = versions.choose(512, &mut |sector, count| {
            asked.push((sector.get(), count));
            0
        });
        assert!(none.is_empty());
        let mut expected: Vec<(u64, usize)> = (8..16).map(|sector| (sector, 1)).collect();
        expected[1].1 = 2;
        expected.push((20, 1));
        assert_eq!(asked, expected);
        let some = versions.choose(512, &mut |sector, count| {
            if sector.get() == 9 {
                1
            } else {
                usize::from(sector.get() == 20) * count
            }
        });
        assert_eq!(bytes(&some), vec![(9, 1), (20, 3)]);
    }

    #[test]
    fn larger_units_are_whole_or_not_at_all() {
        let versions = versions();
        let mut counts = Vec::new();
        let first = versions.choose(4096, &mut |sector, count| {
            counts.push((sector.get(), count));
            usize::from(sector.get() == 8)
        });
        assert_eq!(counts, vec![(8, 2), (16, 1)]);
        assert_eq!(
            bytes(&first),
            (8..16).map(|sector| (sector, 1)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn versions_are_forgotten_up_to_a_sequence() {
        let mut some = versions();
        some.drop_through(SectorNr::new(8), 4, 1);
        assert_eq!(some.count(), 6);
        assert_eq!(
            some.newest_through(SectorNr::new(9), 2)
                .map(|version| version.sequence),
            Some(2)
        );
        let mut all = versions();
        all.drop_all_through(2);
        assert_eq!(all.count(), 1);
        all.drop_all_through(3);
        assert!(all.is_empty());
    }

    #[test]
    fn runs_become_writes_that_share_whole_blocks() {
        let mut versions = versions();
        let shape = |requests: &[Request]| -> Vec<(u64, Vec<usize>, Vec<u8>)> {
            requests
                .iter()
                .map(|request| match request {
                    Request::Write {
                        sector, payload, ..
                    } => (
                        sector.get(),
                        payload.iter().map(|block| block.len()).collect(),
                        payload_to_bytes(payload)
                            .chunks(512)
                            .map(|sector| sector[0])
                            .collect(),
                    ),
                    other => panic!("{other:?} is not a write"),
                })
                .collect()
        };
        let newest = versions.newest_from(0, u64::MAX, usize::MAX);
        let expected = vec![
            (8, vec![512, 512, 3072], vec![1, 2, 1, 1, 1, 1, 1, 1]),
            (20, vec![512], vec![3]),
        ];
        assert_eq!(shape(&write_requests(&newest)), expected);
        versions.drop_through(SectorNr::new(9), 1, 2);
        versions.add(SectorNr::new(16), &payload_from_bytes(&[4; 1024], 1024), 4);
        let newest = versions.newest_from(10, u64::MAX, usize::MAX);
        let expected = vec![
            (10, vec![3072, 1024], vec![1, 1, 1, 1, 1, 1, 4, 4]),
            (20, vec![512], vec![3]),
        ];
        assert_eq!(shape(&write_requests(&newest)), expected);
    }
}

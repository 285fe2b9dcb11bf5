//! System zones: the extents that hold the volume's own blocks, wherever they lie. No file has
//! blocks in them.
//!
//! | holder | extents |
//! |---|---|
//! | metadata | superblock copies, descriptors and reserved GDT blocks; bitmaps; inode tables |
//! | log | the blocks of an internal journal |
//! | orphan file | its blocks, without those of its block map |
//! | multiple mount protection | its block |
//!
//! The zones are built from the descriptors when a volume is opened. They are checked when a block
//! is freed, and when a block map or an inode refers to one. The allocator trusts the bitmaps; a
//! bitmap that shows a zone as free is refused when its group is first used.

use layout::{BlockNr, GroupNr};

use crate::disk::cluster::Cluster;
use crate::disk::geometry::Geometry;
use crate::disk::run::Run;

/// Blocks of the volume that no file may have.
#[derive(Debug, Default)]
pub(crate) struct SystemZones {
    /// Sorted and disjoint.
    zones: Vec<Zone>,
    /// Number of zones that end before each group, and before the end of the volume.
    before: Vec<usize>,
}

/// An extent of the volume's own blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) run: Run,
    pub(crate) holder: Holder,
}

/// The holder of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The volume's own metadata.
    Metadata,
    /// The log of an internal journal.
    Log,
    /// The orphan file.
    OrphanFile,
    /// Multiple mount protection.
    MultiMount,
}

impl SystemZones {
    /// Adds extents of one holder. Empty extents are skipped.
    ///
    /// # Errors
    /// Returns the first block that lies in two extents or zones.
    pub(crate) fn add(
        &mut self,
        geometry: &Geometry,
        holder: Holder,
        runs: impl IntoIterator<Item = Run>,
    ) -> Result<(), BlockNr> {
        let runs = runs.into_iter().filter(|run| run.count > 0);
        self.zones.extend(runs.map(|run| Zone { run, holder }));
        self.zones.sort_unstable_by_key(|zone| zone.run.first);
        let mut pairs = self.zones.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].run.end() > pair[1].run.first) {
            return Err(pair[1].run.first);
        }
        self.zones.dedup_by(|next, zone| zone.takes(*next));
        let ends = geometry
            .groups()
            .map(|group| geometry.first_block_of(group));
        let ends = ends.chain([BlockNr::new(geometry.block_count)]);
        self.before = ends.map(|end| self.count_before(end)).collect();
        Ok(())
    }

    /// Returns the number of clusters that have blocks of a zone.
    pub(super) fn clusters(&self, geometry: &Geometry) -> u64 {
        let (mut count, mut next) = (0, Cluster::default());
        for zone in &self.zones {
            let clusters = geometry.clusters_of(zone.run);
            let first = clusters.first.max(next);
            let end = clusters.end().max(next);
            count += end.get() - first.get();
            next = end;
        }
        count
    }

    fn count_before(&self, end: BlockNr) -> usize {
        self.zones.partition_point(|zone| zone.run.end() <= end)
    }

    /// Returns the zones that have blocks of an extent, in order. The extent lies in the volume and
    /// starts in the group.
    pub(crate) fn among(&self, group: GroupNr, run: Run) -> impl Iterator<Item = &Zone> {
        let (from, to) = (self.before[group.index()], self.before[group.index() + 1]);
        let first = self.zones[from..to].partition_point(|zone| zone.run.end() <= run.first);
        let behind = self.zones[from + first..].iter();
        behind.take_while(move |zone| zone.run.first < run.end())
    }
}

impl Zone {
    /// Merges the next zone into this one if it adjoins and has the same holder. Returns true if
    /// merged.
    fn takes(&mut self, next: Self) -> bool {
        let count = self.run.count.checked_add(next.run.count);
        match count {
            Some(count) if self.run.end() == next.run.first && self.holder == next.holder => {
                self.run.count = count;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::metadata::tests::geometry;

    const BLOCKS: u64 = 4000;

    fn run(first: u64, count: u32) -> Run {
        Run {
            first: BlockNr::new(first),
            count,
        }
    }

    fn many_groups() -> Geometry {
        Geometry {
            block_count: BLOCKS,
            blocks_per_group: 300,
            group_count: 14,
            ..geometry(1024)
        }
    }

    #[test]
    fn zones_agree_with_a_model() {
        let geometry = many_groups();
        let mut random = testkit::Random::new(5);
        for _ in 0..100 {
            let mut model = vec![None; BLOCKS as usize];
            let mut zones = SystemZones::default();
            for holder in [Holder::Metadata, Holder::Log] {
                let mut runs = Vec::new();
                let mut at = 1;
                while at < BLOCKS {
                    let count = 1 + random.below(50);
                    let extent = at as usize..(at + count).min(BLOCKS) as usize;
                    if random.below(4) == 0 && model[extent.clone()].iter().all(Option::is_none) {
                        runs.push(run(at, extent.len() as u32));
                        model[extent].fill(Some(holder));
                    }
                    at += count;
                }
                runs.reverse();
                zones
                    .add(&geometry, holder, runs)
                    .expect("they are disjoint");
            }
            for _ in 0..300 {
                let first = 1 + random.below(BLOCKS - 1);
                let count = 1 + random.below((BLOCKS - first).min(500));
                let (group, _) = geometry.group_of_block(BlockNr::new(first));
                let found = zones.among(group, run(first, count as u32));
                let mut seen = vec![None; count as usize];
                for zone in found {
                    let (from, to) = (zone.run.first.get().max(first), zone.run.end().get());
                    let part = from - first..to.min(first + count) - first;
                    assert!(!part.is_empty(), "{zone:?}");
                    seen[part.start as usize..part.end as usize].fill(Some(zone.holder));
                }
                assert!(seen == model[first as usize..(first + count) as usize]);
            }
        }
    }

    #[test]
    fn neighbours_are_one_zone() {
        let mut zones = SystemZones::default();
        let runs = [run(9, 3), run(1, 4), run(5, 0), run(5, 4)];
        let added = zones.add(&many_groups(), Holder::Metadata, runs);
        added.expect("they are disjoint");
        let log = zones.add(&many_groups(), Holder::Log, [run(12, 2)]);
        log.expect("it is beside them");
        let found: Vec<Run> = zones.zones.iter().map(|zone| zone.run).collect();
        assert_eq!(found, [run(1, 11), run(12, 2)]);
    }

    #[test]
    fn a_block_of_two_extents_is_found() {
        let geometry = many_groups();
        let mut zones = SystemZones::default();
        let shared = zones.add(&geometry, Holder::Metadata, [run(7, 1), run(3, 5)]);
        assert_eq!(shared, Err(BlockNr::new(7)));
    }
}

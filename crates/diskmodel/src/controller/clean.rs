//! The clean contents of the controller's memory: sectors that are on the array too.
//!
//! Lines of [`LINE_SECTORS`] are dropped as a whole, the least recently used one first.

use std::collections::BTreeMap;

use block::Payload;
use block::payload::payload_bytes;
use block::versions::{Version, Versions};
use layout::SectorNr;

/// Number of sectors of a line: 8 KiB, as Mylex' eXtremeRAID controllers have it (installation
/// guide 775064 of the AcceleRAID, glossary).
const LINE_SECTORS: u64 = 16;

/// Clean sectors.
#[derive(Default)]
pub(super) struct Clean {
    /// Invariant: one version of each sector.
    sectors: Versions,
    /// Last use of each line that has sectors.
    lines: BTreeMap<u64, u64>,
    /// The same lines by use.
    uses: BTreeMap<u64, u64>,
    /// Number of uses so far.
    clock: u64,
}

impl Clean {
    /// Returns the number of sectors.
    pub(super) fn count(&self) -> u64 {
        self.sectors.count()
    }

    /// Stores sectors of the array.
    pub(super) fn insert(&mut self, sector: SectorNr, payload: &Payload) {
        let sectors = payload_bytes(payload) / SectorNr::SIZE;
        self.sectors.drop_through(sector, sectors, u64::MAX);
        self.sectors.add(sector, payload, 0);
        let first = sector.get();
        for line in first / LINE_SECTORS..(first + sectors).div_ceil(LINE_SECTORS) {
            self.touch(line);
        }
    }

    /// Returns the sectors of a range that are here; this counts as a use.
    pub(super) fn read(&mut self, sector: SectorNr, sectors: u64) -> Vec<(u64, Version)> {
        let found = self.sectors.newest(sector, sectors);
        let mut last = None;
        for (at, _) in &found {
            let line = at / LINE_SECTORS;
            if last != Some(line) {
                self.touch(line);
                last = Some(line);
            }
        }
        found
    }

    /// Drops sectors that are written.
    pub(super) fn forget(&mut self, sector: SectorNr, sectors: u64) {
        self.sectors.drop_through(sector, sectors, u64::MAX);
    }

    /// Drops lines until there are at most so many sectors.
    pub(super) fn shrink_to(&mut self, sectors_max: u64) {
        while self.count() > sectors_max {
            let Some((_, line)) = self.uses.pop_first() else {
                return;
            };
            self.lines.remove(&line);
            let first = SectorNr::new(line * LINE_SECTORS);
            self.sectors.drop_through(first, LINE_SECTORS, u64::MAX);
        }
    }

    fn touch(&mut self, line: u64) {
        self.clock += 1;
        if let Some(before) = self.lines.insert(line, self.clock) {
            self.uses.remove(&before);
        }
        self.uses.insert(self.clock, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::payload::payload_from_bytes;

    fn put(clean: &mut Clean, sector: u64, sectors: u64) {
        let payload = payload_from_bytes(&vec![7; sectors as usize * 512], 512);
        clean.insert(SectorNr::new(sector), &payload);
    }

    fn held(clean: &mut Clean, sector: u64, sectors: u64) -> usize {
        clean.read(SectorNr::new(sector), sectors).len()
    }

    #[test]
    fn the_least_recently_used_line_goes_first() {
        let mut clean = Clean::default();
        put(&mut clean, 0, 32);
        put(&mut clean, 64, 8);
        assert_eq!(clean.count(), 40);
        assert_eq!(held(&mut clean, 4, 4), 4);
        clean.shrink_to(39);
        assert_eq!(held(&mut clean, 16, 16), 0, "its second line is the oldest");
        assert_eq!(held(&mut clean, 0, 16), 16);
        assert_eq!(held(&mut clean, 60, 16), 8);
        clean.shrink_to(8);
        assert_eq!(clean.count(), 8);
        assert_eq!(held(&mut clean, 64, 8), 8);
    }

    #[test]
    fn written_sectors_are_forgotten() {
        let mut clean = Clean::default();
        put(&mut clean, 0, 32);
        clean.forget(SectorNr::new(8), 16);
        assert_eq!(held(&mut clean, 0, 32), 16);
        put(&mut clean, 4, 8);
        assert_eq!(held(&mut clean, 0, 32), 20);
    }
}

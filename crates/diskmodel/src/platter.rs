//! The location of a sector: cylinder, head, and the angle at which it starts.
//!
//! Sectors are numbered along a track, then over the heads of a cylinder, then inwards. Each track
//! starts a *skew* later than the previous one, so that the head, once switched, meets the next
//! sector without losing a revolution.
//!
//! An angle is the time since the last index mark, in nanoseconds: the platters are at `t mod
//! revolution` at time `t`. This is absolute, so an access that misses its sector waits a full
//! revolution.

use crate::model::{DiskModel, Zone};

/// A track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Track {
    /// Index of the zone in the table.
    zone: u32,
    /// Number of the track within the zone.
    number: u32,
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// First sector.
    pub(super) first: u64,
    /// Number of sectors.
    pub(super) sectors: u32,
    /// Offset of the first sector from the index mark in sectors.
    offset: u32,
}

impl Track {
    /// Returns the sector after the last one.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// Returns true if it is the same track.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.first == other.first
    }

    /// Returns true if it follows `other` in the order of sectors.
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.first == other.end()
    }
}

#[derive(Debug, Clone)]
struct ZoneTable {
    zone: Zone,
    first_sector: u64,
    end_sector: u64,
    /// Offset of a cylinder's first track from that of the previous cylinder.
    turn_per_cylinder: u64,
}

/// The layout of a disk.
#[derive(Debug, Clone)]
pub(super) struct Platter {
    zones: Vec<ZoneTable>,
    heads: u32,
    /// Duration of a revolution in nanoseconds.
    revolution: u64,
    capacity: u64,
}

impl Platter {
    /// Creates the layout of a model.
    ///
    /// # Panics
    /// Panics if the zones do not ascend or do not hold the capacity, which is a mistake in the
    /// catalogue.
    pub(super) fn new(model: &DiskModel) -> Self {
        let mut zones = Vec::with_capacity(model.zones.len());
        let mut first_sector = 0;
        for (index, zone) in model.zones.iter().enumerate() {
            let next = model
                .zones
                .get(index + 1)
                .map_or(model.cylinders, |next| next.first_cylinder);
            assert!(next > zone.first_cylinder, "a zone has cylinders");
            let tracks = u64::from(next - zone.first_cylinder) * u64::from(model.heads);
            let end_sector = first_sector + tracks * u64::from(zone.track_sectors);
            let turn_per_cylinder = u64::from(zone.track_skew) * u64::from(model.heads - 1)
                + u64::from(zone.cylinder_skew);
            zones.push(ZoneTable {
                zone: *zone,
                first_sector,
                end_sector,
                turn_per_cylinder,
            });
            first_sector = end_sector;
        }
        assert!(
            first_sector >= model.capacity_sectors,
            "the zones hold the capacity"
        );
        let revolution = (60_000_000_000 + u64::from(model.rpm) / 2) / u64::from(model.rpm);
        Self {
            zones,
            heads: model.heads,
            revolution,
            capacity: model.capacity_sectors,
        }
    }

    /// Returns the duration of a revolution in nanoseconds.
    pub(super) fn revolution(&self) -> u64 {
        self.revolution
    }

    /// Returns the number of sectors visible to the host.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the track that holds a sector.
    pub(super) fn track_at(&self, sector: u64) -> Track {
        let zone = self.zones.partition_point(|zone| zone.end_sector <= sector);
        let table = &self.zones[zone];
        let number = (sector - table.first_sector) / u64::from(table.zone.track_sectors);
        self.track(zone, number)
    }

    /// Returns the track after another, or `None` after the last one.
    pub(super) fn track_after(&self, track: &Track) -> Option<Track> {
        let zone = track.zone as usize;
        if track.end() < self.zones[zone].end_sector {
            Some(self.track(zone, u64::from(track.number) + 1))
        } else {
            (zone + 1 < self.zones.len()).then(|| self.track(zone + 1, 0))
        }
    }

    fn track(&self, zone: usize, number: u64) -> Track {
        let table = &self.zones[zone];
        let sectors = table.zone.track_sectors;
        let cylinder = number / u64::from(self.heads);
        let head = number % u64::from(self.heads);
        let turned = cylinder * table.turn_per_cylinder + head * u64::from(table.zone.track_skew);
        let narrow = |value: u64| u32::try_from(value).expect("a disk has fewer than 2^32 tracks");
        Track {
            zone: narrow(zone as u64),
            number: narrow(number),
            cylinder: table.zone.first_cylinder + narrow(cylinder),
            head: narrow(head),
            first: table.first_sector + number * u64::from(sectors),
            sectors,
            offset: narrow(turned % u64::from(sectors)),
        }
    }

    /// Returns the angle at which the sector `index` of a track starts, counted from the track's
    /// first revolution: below two revolutions, and ascending with the index up to the track's end.
    pub(super) fn angle(&self, track: &Track, index: u32) -> u64 {
        (u64::from(track.offset) + u64::from(index)) * self.revolution / u64::from(track.sectors)
    }

    /// Returns the number of sectors from `index` on that have passed `elapsed` nanoseconds after
    /// the first of them started, and the end time of the last one. Counts up to the track's end.
    pub(super) fn passed(&self, track: &Track, index: u32, elapsed: u64) -> (u32, u64) {
        let begin = self.angle(track, index);
        let elapsed = elapsed.min(2 * self.revolution);
        let whole = elapsed * u64::from(track.sectors) / self.revolution;
        let mut count = u32::try_from(whole)
            .unwrap_or(u32::MAX)
            .min(track.sectors - index);
        while count > 0 && self.angle(track, index + count) - begin > elapsed {
            count -= 1;
        }
        while index + count < track.sectors
            && self.angle(track, index + count + 1) - begin <= elapsed
        {
            count += 1;
        }
        (count, self.angle(track, index + count) - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn tracks_follow_each_other_without_gaps_and_with_their_skew() {
        for name in ["atlas-iii", "cheetah9lp", "atlas-v-36"] {
            let model = catalogue::hard_disk(name).expect("it is in the catalogue");
            let platter = Platter::new(&model);
            let mut track = platter.track_at(0);
            let mut count = 0_u64;
            while let Some(next) = platter.track_after(&track) {
                assert!(next.follows(&track));
                if count.is_multiple_of(97) {
                    assert_eq!(platter.track_at(next.first), next);
                    assert_eq!(platter.track_at(next.end() - 1), next);
                }
                let is_switch = next.cylinder == track.cylinder;
                assert_eq!(is_switch, next.head == track.head + 1);
                track = next;
                count += 1;
            }
            assert!(track.end() >= platter.capacity());
            assert_eq!(
                count + 1,
                u64::from(model.heads) * u64::from(model.cylinders)
            );
        }
    }

    #[test]
    fn sectors_pass_as_time_does() {
        let model = catalogue::hard_disk("atlas-v-18").expect("it is in the catalogue");
        let platter = Platter::new(&model);
        let track = platter.track_at(1_000_000);
        for index in [0, 1, 17, track.sectors - 1] {
            for count in 0..=(track.sectors - index) {
                let time = platter.angle(&track, index + count) - platter.angle(&track, index);
                assert_eq!(platter.passed(&track, index, time), (count, time));
                if count > 0 {
                    assert_eq!(platter.passed(&track, index, time - 1).0, count - 1);
                }
            }
        }
    }
}

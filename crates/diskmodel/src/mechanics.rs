//! The moving parts: arm, heads and platters, as functions of time without state.
//!
//! An access takes max(seek, head switch), the settling time of a write if the head has moved, the
//! rotation to the first sector, and the sectors themselves with the skews between tracks. A head
//! that moves on to the next track in the order of sectors needs no settling: the skew covers it.

use crate::model::DiskModel;
use crate::platter::{Platter, Track};
use crate::seek::{SeekCurve, nanos_from_ms};

/// The mechanics of a disk. All times are in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Mechanics {
    pub(super) platter: Platter,
    pub(super) seek: SeekCurve,
    head_switch: u64,
    write_settle: u64,
    has_zero_latency: bool,
}

/// The approach of the head to a sector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Approach {
    /// Distance of the arm in cylinders.
    pub(super) cylinders: u32,
    /// Time at which the head is over the track and has settled.
    pub(super) arrives: u64,
    /// Time at which the sector starts to pass.
    pub(super) starts: u64,
    pub(super) track: Track,
}

/// A whole access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) cylinders: u32,
    /// Time of seek, head switch and settling.
    pub(super) seek: u64,
    /// Time for which the head waits over the track.
    pub(super) rotation: u64,
    /// Time at which the first byte passes.
    pub(super) starts: u64,
    /// Time at which the last byte has passed.
    pub(super) ends: u64,
    /// Track under the head at the end.
    pub(super) track: Track,
}

impl Mechanics {
    pub(super) fn new(model: &DiskModel) -> Self {
        Self {
            platter: Platter::new(model),
            seek: SeekCurve::new(model.seek, model.cylinders),
            head_switch: nanos_from_ms(model.head_switch_ms).get(),
            write_settle: nanos_from_ms(model.write_settle_ms).get(),
            has_zero_latency: model.has_zero_latency,
        }
    }

    /// Returns the time of the head from one track to another.
    fn move_time(&self, from: &Track, to: &Track, is_write: bool) -> u64 {
        if from.is_same(to) {
            return 0;
        }
        let seek = self.seek.time(from.cylinder.abs_diff(to.cylinder)).get();
        let switch = if from.head == to.head {
            0
        } else {
            self.head_switch
        };
        let settle = if is_write && !to.follows(from) {
            self.write_settle
        } else {
            0
        };
        seek.max(switch) + settle
    }

    /// Returns the approach of the head, over the track `from` at time `at`, to a sector.
    pub(super) fn approach(&self, from: &Track, at: u64, sector: u64, is_write: bool) -> Approach {
        let track = self.platter.track_at(sector);
        let arrives = at + self.move_time(from, &track, is_write);
        let starts = self.when_begins(&track, index_of(&track, sector), arrives);
        let cylinders = from.cylinder.abs_diff(track.cylinder);
        Approach {
            cylinders,
            arrives,
            starts,
            track,
        }
    }

    /// Returns the first time, not before `at`, at which a sector of a track starts to pass.
    fn when_begins(&self, track: &Track, index: u32, at: u64) -> u64 {
        let turn = self.platter.revolution();
        let wanted = self.platter.angle(track, index) % turn;
        let angle = at % turn;
        at + if wanted >= angle {
            wanted - angle
        } else {
            wanted + turn - angle
        }
    }

    /// Reads or writes `count` sectors, with the head over `from` at time `at`.
    pub(super) fn access(
        &self,
        from: &Track,
        at: u64,
        sector: u64,
        count: u64,
        is_write: bool,
    ) -> Access {
        let approach = self.approach(from, at, sector, is_write);
        let (ends, track) = self.stream(approach.track, approach.starts, sector, count);
        let access = Access {
            cylinders: approach.cylinders,
            seek: approach.arrives - at,
            rotation: approach.starts - approach.arrives,
            starts: approach.starts,
            ends,
            track,
        };
        if self.has_zero_latency && !is_write && sector + count <= approach.track.end() {
            self.zero_latency(&approach, access)
        } else {
            access
        }
    }

    /// Computes an access without rotational latency: a head that arrives within the range reads
    /// the rest of it first and is done after one revolution.
    fn zero_latency(&self, approach: &Approach, access: Access) -> Access {
        let ends = approach.arrives + self.platter.revolution();
        if ends >= access.ends {
            return access;
        }
        Access {
            rotation: 0,
            starts: approach.arrives,
            ends,
            ..access
        }
    }

    /// Returns the time at which `count` sectors have passed, the first of which starts at `at` on
    /// `track`, and the track of the last one.
    pub(super) fn stream(
        &self,
        mut track: Track,
        mut at: u64,
        mut sector: u64,
        mut count: u64,
    ) -> (u64, Track) {
        loop {
            let index = index_of(&track, sector);
            let here = count.min(track.end() - sector);
            at += self.pass_time(&track, index, here);
            count -= here;
            sector += here;
            if count == 0 {
                return (at, track);
            }
            let next = self
                .platter
                .track_after(&track)
                .expect("an access ends within the disk");
            at = self.when_begins(&next, 0, at + self.move_time(&track, &next, false));
            track = next;
        }
    }

    /// Returns the state of a stream at `until`: the first sector that has not passed yet, the time
    /// at which it starts, and its track. The stream stops at `limit`.
    pub(super) fn streamed(
        &self,
        mut at: u64,
        mut sector: u64,
        limit: u64,
        until: u64,
    ) -> (u64, u64, Track) {
        let mut track = self.platter.track_at(sector.min(limit.saturating_sub(1)));
        loop {
            if until <= at || sector >= limit {
                return (sector, at, track);
            }
            let index = index_of(&track, sector);
            let (passed, time) = self.platter.passed(&track, index, until - at);
            let here = u64::from(passed).min(limit - sector);
            let time = if here == u64::from(passed) {
                time
            } else {
                self.pass_time(&track, index, here)
            };
            sector += here;
            at += time;
            if sector < track.end() || sector >= limit {
                return (sector, at, track);
            }
            let Some(next) = self.platter.track_after(&track) else {
                return (sector, at, track);
            };
            at = self.when_begins(&next, 0, at + self.move_time(&track, &next, false));
            track = next;
        }
    }

    fn pass_time(&self, track: &Track, index: u32, count: u64) -> u64 {
        let count = u32::try_from(count).expect("at most a track");
        self.platter.angle(track, index + count) - self.platter.angle(track, index)
    }
}

fn index_of(track: &Track, sector: u64) -> u32 {
    u32::try_from(sector - track.first).expect("the sector is on the track")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn mechanics(name: &str) -> (DiskModel, Mechanics) {
        let model = catalogue::hard_disk(name).expect("it is in the catalogue");
        let mechanics = Mechanics::new(&model);
        (model, mechanics)
    }

    #[test]
    fn a_sector_that_was_just_missed_costs_a_full_turn() {
        let (_, mechanics) = mechanics("atlas-v-18");
        let track = mechanics.platter.track_at(0);
        let first = mechanics.access(&track, 0, 0, 1, true);
        let at_once = mechanics.access(&track, first.ends, 1, 1, true);
        assert_eq!(at_once.rotation, 0);
        let too_late = mechanics.access(&track, first.ends + 1, 1, 1, true);
        assert_eq!(too_late.ends, at_once.ends + mechanics.platter.revolution());
    }

    #[test]
    fn a_stream_costs_media_time_and_skews() {
        for name in [
            "atlas-v-18",
            "atlas-iii",
            "atlas-10k",
            "cheetah9lp",
            "ibm-dnes",
            "barracuda",
        ] {
            let (model, mechanics) = mechanics(name);
            let zone = model.zones[0];
            let track = mechanics.platter.track_at(0);
            let tracks = 4 * u64::from(model.heads);
            let access =
                mechanics.access(&track, 0, 0, tracks * u64::from(zone.track_sectors), true);
            let switches = tracks - tracks / u64::from(model.heads);
            let sectors = tracks * u64::from(zone.track_sectors)
                + switches * u64::from(zone.track_skew)
                + (tracks / u64::from(model.heads) - 1) * u64::from(zone.cylinder_skew);
            let expected = sectors * mechanics.platter.revolution() / u64::from(zone.track_sectors);
            assert!(
                (access.ends - access.starts).abs_diff(expected) <= tracks * 2,
                "{name}"
            );
        }
    }

    #[test]
    fn a_stream_and_how_far_it_has_come_agree() {
        let (_, mechanics) = mechanics("cheetah4lp");
        let from = 777;
        let begin = mechanics.approach(&mechanics.platter.track_at(0), 12_345, from, false);
        for count in [1, 2, 100, 195, 196, 1000, 4000] {
            let (ends, track) = mechanics.stream(begin.track, begin.starts, from, count);
            let (sector, _, _) = mechanics.streamed(begin.starts, from, u64::MAX, ends);
            assert_eq!(sector, from + count);
            let (earlier, _, _) = mechanics.streamed(begin.starts, from, u64::MAX, ends - 1);
            assert_eq!(earlier, from + count - 1);
            let (limited, at, over) =
                mechanics.streamed(begin.starts, from, from + count, u64::MAX / 4);
            assert_eq!((limited, at), (from + count, ends));
            assert!(over.is_same(&track));
        }
    }

    #[test]
    fn zero_latency_reads_a_track_in_one_turn() {
        let (model, mechanics) = mechanics("atlas-10k");
        let track = mechanics.platter.track_at(0);
        let sectors = u64::from(model.zones[0].track_sectors);
        for at in (0..mechanics.platter.revolution()).step_by(500_000) {
            let read = mechanics.access(&track, at, 0, sectors, false);
            assert!(read.ends - at <= mechanics.platter.revolution());
            let write = mechanics.access(&track, at, 0, sectors, true);
            assert!(write.ends >= read.ends);
        }
    }
}

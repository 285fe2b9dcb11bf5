//! The drive against the formulas: service times, queueing, read-ahead and the write cache.

use rt::split_mix::SplitMix;

use super::*;
use crate::catalogue;
use crate::firmware::Order;

const MS: u64 = 1_000_000;

/// A driver with its own clock.
struct Bench {
    drive: Drive,
    now: u64,
    tags: u32,
}

impl Bench {
    fn new(name: &str, change: impl FnOnce(&mut DiskModel)) -> Self {
        let mut model = catalogue::hard_disk(name).expect("it is in the catalogue");
        change(&mut model);
        Self {
            drive: Drive::new(&model),
            now: 0,
            tags: 0,
        }
    }

    /// Creates a drive with a write cache of 2 MiB in any number of extents.
    fn cached(change: impl FnOnce(&mut DiskModel)) -> Self {
        Self::new("atlas-v-18", |model| {
            model.buffer.cache_sectors = 4_096;
            model.buffer.write_segments = None;
            change(model);
        })
    }

    fn uncached(name: &str) -> Self {
        Self::new(name, |model| model.has_write_cache = false)
    }

    fn submit(&mut self, action: Action, sector: u64, sectors: u64) -> u32 {
        self.tags += 1;
        self.drive.submit(
            self.now,
            Command {
                tag: self.tags,
                action,
                sector,
                sectors,
            },
        );
        self.tags
    }

    /// Advances until commands are done, and returns them.
    fn next(&mut self) -> Vec<u32> {
        let mut done = Vec::new();
        while done.is_empty() {
            let at = self
                .drive
                .next_completion_check()
                .expect("something is outstanding");
            assert!(at >= self.now);
            self.now = at;
            self.drive.advance(at, &mut done);
        }
        done
    }

    /// Advances until all commands are done, and returns them in order.
    fn drain(&mut self) -> Vec<u32> {
        let mut done = Vec::new();
        while self.drive.outstanding() > 0 {
            done.extend(self.next());
        }
        done
    }

    /// Runs one command alone and returns its duration.
    fn run(&mut self, action: Action, sector: u64, sectors: u64) -> u64 {
        let begin = self.now;
        let tag = self.submit(action, sector, sectors);
        assert_eq!(self.next(), [tag]);
        self.now - begin
    }

    fn read(&mut self, sector: u64, sectors: u64) -> u64 {
        self.run(Action::Read, sector, sectors)
    }

    fn write(&mut self, sector: u64, sectors: u64) -> u64 {
        self.run(Action::Write { is_through: false }, sector, sectors)
    }

    fn flush(&mut self) -> u64 {
        self.run(Action::Flush, 0, 0)
    }

    fn stats(&mut self) -> DriveStats {
        self.drive.stats(self.now)
    }

    fn turn(&self) -> u64 {
        self.drive.mechanics.platter.revolution()
    }
}

/// Returns a random sector at a multiple of 4 KiB.
fn any_sector(random: &mut SplitMix, capacity: u64) -> u64 {
    random.next_u64() % (capacity / 8) * 8
}

/// Returns the number of random reads of 4 KiB per second at a queue depth.
fn random_reads_per_second(name: &str, depth: u32) -> f64 {
    random_reads_ordered(name, depth, Firmware::default())
}

fn random_reads_ordered(name: &str, depth: u32, firmware: Firmware) -> f64 {
    let mut bench = Bench::new(name, |model| {
        model.has_write_cache = false;
        model.firmware = firmware;
    });
    let capacity = bench.drive.mechanics.platter.capacity();
    let mut random = SplitMix::new(1);
    for _ in 0..depth {
        let sector = any_sector(&mut random, capacity);
        bench.submit(Action::Read, sector, 8);
    }
    let mut done = 0;
    while done < 4_000 {
        for _ in bench.next() {
            done += 1;
            let sector = any_sector(&mut random, capacity);
            bench.submit(Action::Read, sector, 8);
        }
    }
    f64::from(done) * 1e9 / bench.now as f64
}

#[test]
fn random_reads_come_at_the_expected_rate() {
    let alone = random_reads_per_second("atlas-v-18", 1);
    assert!((88.0..96.0).contains(&alone), "{alone}");
    let queued = random_reads_per_second("atlas-v-18", 32);
    let gain = queued / alone;
    // Most seeks of a sorted queue are short ones.
    assert!((1.8..2.5).contains(&gain), "{gain}");
}

fn ordered(reorder: Order) -> Firmware {
    Firmware {
        reorder,
        ..Firmware::default()
    }
}

/// Returns the order in which writes at these sectors (in millions) are served, after a first one
/// at 15.
fn order_of_service(firmware: Firmware, millions: &[u64]) -> Vec<u64> {
    let mut bench = Bench::new("atlas-v-18", |model| {
        model.has_write_cache = false;
        model.firmware = firmware;
    });
    let write = Action::Write { is_through: false };
    let first = bench.submit(write, 15_000_000, 8);
    let others = millions
        .iter()
        .map(|million| (bench.submit(write, million * 1_000_000, 8), *million));
    let others: Vec<_> = others.collect();
    let done = bench.drain();
    assert_eq!(done[0], first);
    let million = |tag: &u32| others.iter().find(|(other, _)| other == tag);
    done[1..]
        .iter()
        .filter_map(million)
        .map(|other| other.1)
        .collect()
}

#[test]
fn commands_are_served_in_the_order_of_the_firmware() {
    let queued = [30, 14, 2, 20, 9];
    assert_eq!(order_of_service(ordered(Order::Fifo), &queued), queued);
    assert_eq!(
        order_of_service(ordered(Order::Clook), &queued),
        [20, 30, 2, 9, 14]
    );
    assert_eq!(
        order_of_service(ordered(Order::Sstf), &queued),
        [14, 9, 2, 20, 30]
    );
    let window = |window, reorder| Firmware {
        window: Some(window),
        ..ordered(reorder)
    };
    assert_eq!(order_of_service(window(1, Order::Sptf), &queued), queued);
    // The oldest three: 30, 14, 2; then one more for each that is served.
    assert_eq!(
        order_of_service(window(3, Order::Clook), &queued),
        [30, 2, 9, 14, 20]
    );
}

#[test]
fn the_more_the_firmware_chooses_from_the_more_it_serves() {
    let rate = |firmware| random_reads_ordered("atlas-v-18", 32, firmware);
    let window = |window| Firmware {
        window: Some(window),
        ..Firmware::default()
    };
    let rates = [
        rate(ordered(Order::Fifo)),
        rate(window(4)),
        rate(window(16)),
        rate(window(32)),
    ];
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
    assert_eq!(rates[3], rate(Firmware::default()));
    let (sstf, clook) = (rate(ordered(Order::Sstf)), rate(ordered(Order::Clook)));
    assert!(rates[0] < clook && clook < rates[3], "{clook} of {rates:?}");
    assert!(rates[0] < sstf && sstf < rates[3], "{sstf} of {rates:?}");
}

#[test]
fn cached_writes_are_destaged_in_their_own_order() {
    let destaged = |firmware: Firmware| {
        let mut bench = Bench::cached(|model| model.firmware = firmware);
        bench.read(15_000_000, 8);
        for million in [30, 14, 2, 20, 9] {
            bench.write(million * 1_000_000, 8);
        }
        let flush = bench.submit(Action::Flush, 0, 0);
        let (mut order, mut done) = (Vec::new(), Vec::new());
        while done.is_empty() {
            let at = bench.drive.next_completion_check().expect("a flush waits");
            bench.now = at;
            bench.drive.advance(at, &mut done);
            order.push(bench.drive.position / 1_000_000);
        }
        assert_eq!(done, [flush]);
        order.dedup();
        order
    };
    // The drive reads ahead until the flush asks for the arm.
    let with = |reorder, destage| Firmware {
        destage,
        ..ordered(reorder)
    };
    assert_eq!(
        destaged(with(Order::Sptf, Some(Order::Fifo))),
        [30, 14, 2, 20, 9]
    );
    assert_eq!(destaged(with(Order::Fifo, None)), [30, 14, 2, 20, 9]);
    assert_eq!(destaged(with(Order::Clook, None)), [20, 30, 2, 9, 14]);
    assert_eq!(
        destaged(with(Order::Fifo, Some(Order::Clook))),
        [20, 30, 2, 9, 14]
    );
}

#[test]
fn without_reordering_commands_and_cached_writes_take_turns() {
    let mut bench = Bench::cached(|model| model.firmware = ordered(Order::Fifo));
    for million in 0..8 {
        bench.write(million * 1_000_000, 8);
    }
    bench.submit(Action::Flush, 0, 0);
    let reads: Vec<_> = (0..8)
        .map(|million| bench.submit(Action::Read, 20_000_000 + million * 1_000_000, 8))
        .collect();
    let mut destages = Vec::new();
    while bench.drive.outstanding() > 0 {
        if bench.next().iter().any(|tag| reads.contains(tag)) {
            destages.push(bench.stats().destages);
        }
    }
    assert!(
        destages.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{destages:?}"
    );
    assert_eq!(destages.last(), Some(&8));
}

#[test]
fn synchronous_sequential_writes_lose_a_turn_each() {
    let mut bench = Bench::uncached("atlas-v-18");
    bench.write(0, 1);
    let turn = bench.turn();
    for sector in 1..200 {
        let time = bench.write(sector, 1);
        let sector_time = turn / 480 + 1;
        assert!(
            time.abs_diff(turn + sector_time) <= sector_time,
            "{sector}: {time}"
        );
    }
}

#[test]
fn sequential_reads_run_at_the_sustained_rate() {
    for (name, zone) in [
        ("atlas-v-18", 0),
        ("atlas-v-18", 14),
        ("atlas-iii", 0),
        ("ibm-dnes", 0),
    ] {
        let model = catalogue::hard_disk(name).expect("it is in the catalogue");
        let mut bench = Bench::uncached(name);
        let layout = model.zones[zone];
        let first: u64 = model.zones[..=zone]
            .windows(2)
            .map(|pair| {
                let cylinders = u64::from(pair[1].first_cylinder - pair[0].first_cylinder);
                cylinders * u64::from(model.heads) * u64::from(pair[0].track_sectors)
            })
            .sum();
        bench.read(first, 64);
        let (begin, count) = (bench.now, 2_000);
        for number in 1..=count {
            bench.read(first + number * 64, 64);
        }
        let rate = (count * 64 * 512) as f64 * 1e9 / (bench.now - begin) as f64;
        let media = model.media_bytes_per_second(layout.first_cylinder);
        let tracks = f64::from(layout.track_sectors);
        let heads = f64::from(model.heads);
        let skew = (f64::from(layout.track_skew) * (heads - 1.0) + f64::from(layout.cylinder_skew))
            / heads;
        let expected = media * tracks / (tracks + skew);
        let share = rate / expected;
        assert!(
            (0.97..1.02).contains(&share),
            "{name} zone {zone}: {rate} of {expected}"
        );
    }
}

#[test]
fn reading_on_hits_the_buffer_and_waits_for_what_is_on_its_way() {
    let mut bench = Bench::uncached("atlas-v-18");
    bench.read(1_000_000, 8);
    bench.now += 20 * MS;
    let hit = bench.read(1_000_008, 8);
    assert!(hit < MS / 2, "{hit}");
    // The head is in the next track's gap or sectors; the sectors after it need neither a seek nor
    // a lost revolution.
    bench.read(1_000_016, 400);
    let coming = bench.read(1_000_416, 400);
    assert!(coming < 2 * bench.turn(), "{coming}");
    assert_eq!(bench.stats().accesses, 1);
    assert_eq!(bench.stats().read_hits, 3);
    bench.write(1_000_820, 8);
    assert_eq!(bench.stats().accesses, 2);
    bench.read(1_000_820, 8);
    assert_eq!(bench.stats().accesses, 3);
}

#[test]
fn the_cache_acknowledges_at_once_and_a_flush_waits_for_the_platter() {
    let mut bench = Bench::cached(|_| {});
    for number in 0..10 {
        let time = bench.write(number * 1_000_000, 8);
        assert!(time < MS / 2, "{time}");
    }
    assert_eq!(bench.stats().cached_writes, 10);
    let flush = bench.flush();
    assert!((10 * MS..120 * MS).contains(&flush), "{flush}");
    assert_eq!(bench.stats().destages, 10);
    let again = bench.flush();
    assert!(again < MS, "{again}");
}

#[test]
fn idle_drives_destage_without_being_asked() {
    let mut bench = Bench::cached(|_| {});
    for number in 0..10 {
        bench.write(number * 1_000_000, 8);
    }
    bench.now += 1_000 * MS;
    assert_eq!(bench.stats().destages, 10);
    assert!(bench.flush() < MS);
}

#[test]
fn forced_writes_go_to_the_platter() {
    let mut bench = Bench::cached(|_| {});
    bench.read(20_000_000, 8);
    bench.write(5_000_000, 8);
    let forced = bench.run(Action::Write { is_through: true }, 5_000_000, 8);
    assert!(forced > MS, "{forced}");
    assert!(
        bench.flush() < MS,
        "what was written twice need not be destaged"
    );
}

#[test]
fn a_full_cache_slows_writers_down_to_the_rate_of_destaging() {
    let mut bench = Bench::cached(|_| {});
    let capacity = bench.drive.mechanics.platter.capacity();
    let mut random = SplitMix::new(7);
    let mut count = 0;
    while bench.stats().throttled_writes < 500 {
        let sector = any_sector(&mut random, capacity);
        bench.write(sector, 8);
        count += 1;
    }
    assert!(count > 900, "{count} writes in all");
    let begin = bench.now;
    for _ in 0..500 {
        let sector = any_sector(&mut random, capacity);
        bench.write(sector, 8);
    }
    let rate = 500e9 / (bench.now - begin) as f64;
    assert!((120.0..400.0).contains(&rate), "{rate} writes a second");
}

#[test]
fn a_write_waits_for_a_segment_unless_it_continues_one() {
    let mut bench = Bench::new("atlas-v-18", |model| {
        assert_eq!(model.buffer.write_segments, Some(1));
    });
    let hit = bench.write(1_000_000, 8);
    assert!(hit < MS / 2, "{hit}");
    let next = bench.write(1_000_008, 8);
    assert!(next < MS / 2, "it continues the segment: {next}");
    let other = bench.write(20_000_000, 8);
    assert!(other > MS, "the first segment is written before: {other}");
    assert_eq!(bench.stats().throttled_writes, 1);
    assert!(bench.stats().destages >= 2);
    let mut eight = Bench::cached(|model| model.buffer.write_segments = Some(8));
    let write = Action::Write { is_through: false };
    for number in 0..9 {
        eight.submit(write, number * 1_000_000, 8);
    }
    eight.drain();
    assert_eq!(eight.stats().throttled_writes, 1);
}

#[test]
fn writes_that_wait_for_a_segment_enter_in_the_order_of_the_firmware() {
    let entered = |reorder| {
        let mut bench = Bench::new("atlas-v-18", |model| {
            model.firmware = ordered(reorder);
        });
        bench.read(15_000_000, 8);
        let write = Action::Write { is_through: false };
        let millions = [16, 30, 14, 2, 20];
        let tags: Vec<_> = millions
            .iter()
            .map(|million| (bench.submit(write, million * 1_000_000, 8), *million))
            .collect();
        let million = |tag: u32| tags.iter().find(|(other, _)| *other == tag);
        let done = bench.drain().into_iter();
        done.filter_map(million)
            .map(|write| write.1)
            .collect::<Vec<u64>>()
    };
    assert_eq!(entered(Order::Fifo), [16, 30, 14, 2, 20]);
    assert_eq!(entered(Order::Clook), [16, 20, 30, 2, 14]);
    assert_eq!(entered(Order::Sstf), [16, 14, 20, 30, 2]);
}

#[test]
fn neighbouring_cached_writes_are_destaged_together() {
    let mut bench = Bench::cached(|_| {});
    for number in 0..64 {
        bench.write(1_000_000 + number * 8, 8);
    }
    bench.flush();
    assert!(bench.stats().destages <= 8, "{}", bench.stats().destages);
}

#[test]
fn no_command_starves() {
    let now = served_after(None);
    assert!((800 * MS..850 * MS).contains(&now), "{now}");
    let now = served_after(Some(rt::Nanos::from_millis(100)));
    assert!((100 * MS..150 * MS).contains(&now), "{now}");
}

/// Returns the time at which a far command is served beside near ones that do not end.
fn served_after(age: Option<rt::Nanos>) -> u64 {
    let mut bench = Bench::new("atlas-v-18", |model| {
        model.has_write_cache = false;
        model.firmware.age = age;
    });
    let mut sector = 0;
    for _ in 0..4 {
        sector += 2_000;
        bench.submit(Action::Read, sector, 8);
    }
    let far = bench.submit(Action::Read, 35_000_000, 8);
    loop {
        let done = bench.next();
        if done.contains(&far) {
            return bench.now;
        }
        for _ in done {
            sector += 2_000;
            bench.submit(Action::Read, sector, 8);
        }
    }
}

#[test]
fn the_same_commands_take_the_same_time() {
    let run = || {
        let mut bench = Bench::new("atlas-v-36", |_| {});
        let capacity = bench.drive.mechanics.platter.capacity();
        let mut random = SplitMix::new(3);
        let mut digest = 0_u64;
        for round in 0..5_000 {
            while bench.drive.outstanding() < 8 {
                let sector = any_sector(&mut random, capacity);
                let is_through = round % 7 == 0;
                let action = if sector.is_multiple_of(3) {
                    Action::Read
                } else {
                    Action::Write { is_through }
                };
                bench.submit(action, sector, 8 + sector % 5 * 8);
            }
            if round % 50 == 0 {
                bench.submit(Action::Flush, 0, 0);
            }
            for tag in bench.next() {
                digest = digest.rotate_left(7) ^ bench.now ^ (u64::from(tag) << 40);
            }
        }
        (digest, bench.stats())
    };
    let (digest, stats) = run();
    assert_eq!(run(), (digest, stats));
    assert_eq!(digest, EXPECTED_DIGEST, "debug and release builds agree");
}

/// Digest of the run above.
const EXPECTED_DIGEST: u64 = 2_011_748_002_015_754_734;

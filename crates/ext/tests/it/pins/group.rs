//! The joint cost of sixteen threads that append and fsync.
//!
//! In a simulated world, in which every thread arrives at the same worst moment, the counts are
//! exact. Threads of the operating system arrive at any time; for them the tests assert bounds that
//! hold under any scheduling: an fsync costs no more than one flush of a device, and if flushes
//! take time the callers share commits.

use std::sync::Arc;

use block::device::{BlockDevice, Geometry, Request};
use block::memory::MemoryDevice;
use block::meter::MeterCounts;
use block::ticket::Ticket;
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags};
use layout::InodeNr;
use rt::Nanos;

use super::{Metered, metered, volatile};
use crate::rig::{Place, Rig, quiet};

const VOLUME_BYTES: u64 = 64 << 20;
/// Duration of one flush of the slow device.
const FLUSH_TIME: Nanos = Nanos::from_millis(5);
/// Duration of another batch.
const WRITE_TIME: Nanos = Nanos::from_micros(20);
/// Number of threads that append and fsync.
const THREADS: u64 = 16;
/// Number of appends of each thread.
const APPENDS: u64 = 20;

/// A device with delays: long ones for flushes and forced writes, short ones for others, so that
/// their order is known.
struct Slow(Arc<dyn BlockDevice>);

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let is_slow = |request: &Request| {
            matches!(
                request,
                Request::Flush
                    | Request::Write {
                        force_unit_access: true,
                        ..
                    }
            )
        };
        rt::sleep(if batch.iter().any(is_slow) {
            FLUSH_TIME
        } else {
            WRITE_TIME
        });
        self.0.submit(batch)
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }
}

/// The speed of the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speed {
    /// Flushes take [`FLUSH_TIME`].
    Slow,
    /// Requests take no time.
    Fast,
}

/// The cost of all appends together.
#[derive(Debug, Clone, Copy)]
struct Bill {
    stats: jbd2::Stats,
    home: MeterCounts,
    log: MeterCounts,
}

/// Runs threads that append to a file each and fsync after each append.
fn append_together(place: Place, threads: u64, speed: Speed) -> Bill {
    let rig = Rig::new(place, 4096, VOLUME_BYTES);
    let medium = |memory: &Arc<MemoryDevice>| match speed {
        Speed::Slow => metered(Arc::new(Slow(volatile(memory, true)))),
        Speed::Fast => metered(volatile(memory, true)),
    };
    let (home, log) = (medium(&rig.home), rig.log.as_ref().map(medium));
    let metered = Metered::open_on(home, log, quiet(DataMode::Ordered));
    for thread in 0..threads {
        let name = format!("f{thread}");
        let new = NewInode::default();
        let created = metered.volume.create(InodeNr::ROOT, name.as_bytes(), &new);
        created.expect("create");
    }
    metered.volume.sync().expect("sync");
    let before = metered.counts();
    let Metered { volume, home, log } = metered;
    let volume = Arc::new(volume);
    let tasks: Vec<_> = (0..threads)
        .map(|thread| {
            let volume = Arc::clone(&volume);
            rt::spawn("appender", move || append_and_sync(&volume, thread))
        })
        .collect();
    for task in tasks {
        task.join().expect("an appender ends well");
    }
    let volume = Arc::into_inner(volume).expect("the appenders are gone");
    let metered = Metered { volume, home, log };
    let after = metered.counts();
    metered.volume.close().expect("close");
    Bill {
        home: after.0 - before.0,
        log: after.1 - before.1,
        stats: after.2 - before.2,
    }
}

fn append_and_sync(volume: &Volume, thread: u64) {
    let file = volume
        .open_file(&format!("/f{thread}"), OpenFlags::READ_WRITE)
        .expect("open");
    for number in 0..APPENDS {
        file.write_at(number * 4096, &[thread as u8; 4096])
            .expect("append");
        file.sync_all().expect("fsync");
    }
    file.close().expect("close");
}

fn in_simulation(place: Place, threads: u64) -> Bill {
    sim::run(sim::Config::fair(1), move || {
        append_together(place, threads, Speed::Slow)
    })
    .unwrap_or_else(|error| panic!("{error}"))
    .value
}

#[test]
fn many_appenders_share_commits() {
    for place in [Place::Internal, Place::External] {
        let Bill { stats, home, log } = in_simulation(place, THREADS);
        assert!(
            stats.commits * 4 <= THREADS * APPENDS,
            "{} commits for {} fsyncs, journal {place:?}",
            stats.commits,
            THREADS * APPENDS
        );
        assert!(
            stats.commits >= APPENDS,
            "an fsync is never before its commit"
        );
        let per_commit = if place == Place::External { 2 } else { 1 };
        // A write that completes in the very instant in which a flush starts is not known to be
        // covered by it.
        let coincidences = stats.commits / 8;
        let allowed = (stats.commits + stats.tail_moves) * per_commit + coincidences;
        let flushes = home.flushes + log.flushes;
        assert!(
            flushes <= allowed,
            "{flushes} flushes, {} commits",
            stats.commits
        );
        // The commit writes the pages of its callers, in one batch.
        let batches = home.batches + log.batches;
        let fsyncs = THREADS * APPENDS;
        assert!(
            batches < fsyncs,
            "{batches} batches of requests for {fsyncs} fsyncs, journal {place:?}"
        );
    }
}

#[test]
fn a_lone_appender_waits_for_nobody() {
    for place in [Place::Internal, Place::External] {
        let Bill { stats, .. } = in_simulation(place, 1);
        assert_eq!(stats.commits, APPENDS);
        assert_eq!(stats.waited_for_group, Nanos::ZERO, "journal {place:?}");
    }
}

/// Asserts the bounds that hold under any scheduling.
fn assert_bounds(place: Place, speed: Speed) {
    let what = format!("journal {place:?}, {speed:?}");
    let Bill { stats, home, log } = append_together(place, THREADS, speed);
    let fsyncs = THREADS * APPENDS;
    assert!(
        (APPENDS..=fsyncs).contains(&stats.commits),
        "{what}: {} commits for {fsyncs} fsyncs",
        stats.commits
    );
    let log = if place == Place::External {
        assert_eq!(log.flushes, stats.commits, "{what}: one flush for a commit");
        assert_eq!(home.forced_writes, 0, "{what}: nothing at home is forced");
        log
    } else {
        home
    };
    assert_eq!(
        log.forced_writes,
        stats.commits + stats.tail_moves,
        "{what}: one forced write for a commit or a move of the tail"
    );
    assert!(
        home.flushes <= fsyncs + stats.tail_moves,
        "{what}: {} flushes for {fsyncs} fsyncs",
        home.flushes
    );
    if speed == Speed::Slow {
        assert!(
            stats.commits * 2 <= fsyncs && stats.group_size_max * 4 >= THREADS,
            "{what}: nobody shares: {stats:?}"
        );
    }
}

#[test]
fn appenders_on_real_threads() {
    for place in [Place::Internal, Place::External] {
        for speed in [Speed::Slow, Speed::Fast] {
            assert_bounds(place, speed);
        }
    }
}

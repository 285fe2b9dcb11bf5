//! E7: a block of a recovered volume changes silently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockDevice, Geometry, Request, Ticket};
use crash::disks::Disks;
use crash::explore::Limits;
use crash::explore::silent::{Case, FATES, PARTS, Part};
use crash::findings::Tally;
use crash::generator::{Generator, Kind};
use crash::replay::ReplayId;
use crash::rule::Rule;
use crash::run::{prepare, record};
use crash::session::{Session, Stop};
use crash::setting::journaled_cells;
use layout::{Block, SectorNr};

/// Every part of a volume is damaged, in all cells, and the engine keeps the rule.
#[test]
fn every_part_is_damaged() {
    let mut total = Tally::default();
    for (kind, workloads) in [(Kind::Exhaustive { length: 2 }, 36), (Kind::Stress, 12)] {
        let limits = Limits {
            silent_one_in: 2,
            parts_one_in: 8,
            ..Limits::new(9)
        };
        let session = Session {
            generator: Generator::new(kind, journaled_cells(), limits.seed),
            limits,
            threads: 2,
            stop: Stop {
                workloads: Some(workloads),
                ..Stop::default()
            },
        };
        let report = session.run(&|_, _: Duration| {});
        if let Some(violation) = &report.violation {
            panic!("{}\njext replay '{}'", violation.broken, violation.id);
        }
        total += &report.total();
    }
    for part in PARTS {
        let fates = FATES.map(|fate| format!("{} {fate}", total.silent.get(part, fate)));
        println!("{part}: {}", fates.join(", "));
        assert!(total.silent.of_part(part) > 0, "{part} was never damaged");
    }
    assert!(total.rules.get(Rule::E7) > 0);
}

/// Number of reads before the devices of a damaged volume fail in the tests below: more than an
/// open takes, so that something is seen.
const READS_BEFORE: u64 = 8;

/// A device that stands for an engine with a bug: what it does from some read on.
struct Planted {
    inner: Arc<dyn BlockDevice>,
    reads: AtomicU64,
    strike: fn(&Arc<dyn BlockDevice>, &mut Vec<Request>),
}

impl BlockDevice for Planted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut batch: Vec<Request>) -> Ticket {
        let is_read = matches!(batch[..], [Request::Read { .. }]);
        if is_read && self.reads.fetch_add(1, Ordering::Relaxed) >= READS_BEFORE {
            (self.strike)(&self.inner, &mut batch);
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

fn planted(
    inner: Arc<dyn BlockDevice>,
    strike: fn(&Arc<dyn BlockDevice>, &mut Vec<Request>),
) -> Arc<dyn BlockDevice> {
    let reads = AtomicU64::new(0);
    Arc::new(Planted {
        inner,
        reads,
        strike,
    })
}

/// Damage goes elsewhere: what is read comes from the next block.
fn spreads(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    planted(inner, |_, batch| {
        if let Some(Request::Read { sector, .. }) = batch.first_mut() {
            *sector = SectorNr::new(sector.get() ^ 2);
        }
    })
}

/// Reading writes.
fn writes(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    planted(inner, |inner, _| {
        let block = Block::copy_from(&[0xBD; 1024]).into_arc();
        inner.write_blocks(300 << 10, vec![block]).unwrap();
    })
}

fn panics(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    planted(inner, |_, _| panic!("planted"))
}

/// Reading tries again for ever.
fn circles(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    planted(inner, |_, _| {
        loop {
            rt::point();
        }
    })
}

/// An image with a bit of everything, closed.
fn case(setting: &str, number: u32) -> Case {
    let ops = format!(
        "mkdir(d);create(d/f);append(d/f,40);create(g);append(g,{number});setxattr(g,a,60);symlink(d,l);sync"
    );
    let id: ReplayId = format!("crash2:{setting}:0:{ops}:").parse().unwrap();
    let empty = Disks::make(&id.workload.setting).unwrap();
    let prepared = prepare(&id.workload, &empty).unwrap();
    let recording = record(&id.workload, &prepared).unwrap();
    let disks = recording.last.clone();
    Case::of(&recording, disks)
}

/// Volumes of each setting in the tests with bugs.
const CASES: u32 = 12;

/// The same volumes keep the rule, and break it with a bug, which is told with the block that was
/// damaged. Where much hangs on the block, the volume may be refused before the bug shows.
fn check(bug: fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>, wanted: &[&str]) {
    let mut complaints = 0;
    for number in 1..=CASES {
        for setting in ["ordered,internal", "journal,external"] {
            let case = case(setting, number);
            let trial = case.clone().run().unwrap();
            let plant = Some(bug);
            let Err(broken) = (Case { plant, ..case }).run() else {
                let is_read = matches!(trial.part, Part::Directory | Part::Attributes | Part::Data);
                assert!(!is_read, "nobody complains: {trial}");
                continue;
            };
            let what = &broken.what;
            assert_eq!(broken.rule, Rule::E7, "{broken}");
            assert!(what.starts_with(&trial.harm), "{what}: {}", trial.harm);
            assert!(wanted.iter().any(|text| what.contains(text)), "{what}");
            complaints += 1;
        }
    }
    assert!(complaints >= CASES, "{complaints} of {}", 2 * CASES);
}

#[test]
fn damage_that_spreads_is_found() {
    check(spreads, &["is not what it was", "the volume is refused"]);
}

#[test]
fn reading_that_writes_is_found() {
    check(
        writes,
        &["reading it has written", "opening it for reading"],
    );
}

#[test]
fn panics_are_told_with_what_was_damaged() {
    check(panics, &["panicked"]);
}

#[test]
fn circles_are_told_with_what_was_damaged() {
    check(circles, &["steps"]);
}

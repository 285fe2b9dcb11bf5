//! Planted bugs: devices that quietly do less than they are asked for stand for an engine that asks
//! for less. The explorer finds them, by what the order of requests says and by what recovery makes
//! of the images alone.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Geometry, Outcome, Request, Ticket};
use crash::disks::Disks;
use crash::explore::{Limits, explore};
use crash::generator::{Generator, Kind};
use crash::mode::DataMode;
use crash::real::Session;
use crash::rule::Rule;
use crash::run::{prepare, record_on};
use crash::setting::{CELLS, Cell, JournalPlace};

/// The planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Flushes are not passed on.
    NoFlush,
    /// Forced writes are not forced.
    NoForce,
    /// Neither is done.
    Neither,
}

/// A device with a bug in front of it.
pub(crate) struct Planted {
    inner: Arc<dyn BlockDevice>,
    bug: Bug,
}

impl Planted {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>, bug: Bug) -> Self {
        Self { inner, bug }
    }
}

impl BlockDevice for Planted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut batch: Vec<Request>) -> Ticket {
        match (self.bug, &batch[..]) {
            (Bug::NoFlush | Bug::Neither, [Request::Flush]) => {
                return Ticket::ready(vec![Ok(Outcome::Done)]);
            }
            (Bug::NoFlush, _) => {}
            (Bug::NoForce | Bug::Neither, _) => {
                for request in &mut batch {
                    if let Request::Write {
                        force_unit_access, ..
                    } = request
                    {
                        *force_unit_access = false;
                    }
                }
            }
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// The first violation among the short workloads, and how many images were recovered until then.
fn hunt(cell: Cell, bug: Bug, watches: bool) -> (Rule, u64) {
    let limits = Limits {
        watches,
        ..Limits::new(7)
    };
    let generator = Generator::new(Kind::Exhaustive { length: 1 }, vec![cell], 7);
    let mut recovered = 0;
    for number in 0..generator.count().unwrap() {
        let (_, workload) = generator.workload(number);
        let prepared = prepare(&workload, &Disks::make(&workload.setting).unwrap()).unwrap();
        let plant = move |inner| -> Arc<dyn BlockDevice> { Arc::new(Planted { inner, bug }) };
        let recording = record_on(&workload, &prepared, plant).unwrap();
        let (tally, found) = explore(Rc::new(recording), limits);
        recovered += tally.recovered;
        if let Some(found) = found {
            return (found.broken.rule, recovered);
        }
    }
    panic!("{cell}, {bug:?}: not found in {recovered} images");
}

#[test]
fn missing_flushes_are_found() {
    for place in [JournalPlace::Internal, JournalPlace::External] {
        for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
            let cell = Cell::new(data, place);
            let (rule, recovered) = hunt(cell, Bug::NoFlush, true);
            println!("{cell}: no flush: {rule} after {recovered} images");
            assert!(rule >= Rule::T1, "{cell}: {rule}");
            let (rule, recovered) = hunt(cell, Bug::NoFlush, false);
            println!("{cell}: no flush, images alone: {rule} after {recovered} images");
            assert!(rule < Rule::T1, "{cell}: {rule}");
        }
    }
}

fn without_flushes(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let bug = Bug::NoFlush;
    Arc::new(Planted { inner, bug })
}

#[test]
fn missing_flushes_are_found_on_real_threads() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session {
        cells: CELLS.to_vec(),
        lanes: 16,
        seed: 1,
        after: Duration::from_secs(60),
        e2fsck_one_in: 0,
        folder: folder.path().to_owned(),
        plant: Some(without_flushes),
    };
    let report = session.run(&|_, _| {});
    let violation = report.violation.expect("the images are broken");
    println!("{} in {:?}", violation.broken, report.tally);
    let kept = violation.kept.unwrap();
    for name in [
        "violation.txt",
        "lanes.txt",
        "events.txt",
        "before.img",
        "left.img",
    ] {
        let bytes = std::fs::metadata(kept.join(name)).unwrap().len();
        assert!(bytes > 0, "{name} is empty");
    }
}

#[test]
fn missing_forced_writes_are_found() {
    for place in [JournalPlace::Internal, JournalPlace::External] {
        let cell = Cell::new(DataMode::Ordered, place);
        let (rule, _) = hunt(cell, Bug::NoForce, true);
        assert!(rule >= Rule::T1, "{cell}: {rule}");
        let (rule, recovered) = hunt(cell, Bug::NoForce, false);
        println!("{cell}: no forced writes, images alone: {rule} after {recovered} images");
        assert!(rule < Rule::T1, "{cell}: {rule}");
    }
}

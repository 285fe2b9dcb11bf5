//! The generators on the engine: no violation under fixed seeds and counts.

use std::time::Duration;

use crash::explore::Limits;
use crash::generator::{Generator, Kind};
use crash::session::{Report, Session, Stop};
use crash::setting::CELLS;

/// Threads of each session.
const THREADS: usize = 2;

fn run(kind: Kind, seed: u64, workloads: Option<u64>) -> Report {
    let session = Session {
        generator: Generator::new(kind, CELLS.to_vec(), seed),
        limits: Limits::new(seed),
        threads: THREADS,
        stop: Stop {
            workloads,
            ..Stop::default()
        },
    };
    let report = session.run(&|_, _: Duration| {});
    if let Some(violation) = &report.violation {
        panic!("{}\njext replay '{}'", violation.broken, violation.id);
    }
    let total = report.total();
    println!(
        "{kind:?}: {} workloads, {} images recovered, {} equal to one, {} nested, in {:?}",
        total.workloads, total.recovered, total.equal, total.nested, report.elapsed
    );
    report
}

#[test]
fn all_single_operations() {
    let report = run(Kind::Exhaustive { length: 1 }, 1, None);
    assert!(report.is_complete);
}

#[test]
fn some_sequences_of_two_and_three() {
    run(Kind::Exhaustive { length: 2 }, 2, Some(360));
    run(Kind::Exhaustive { length: 3 }, 3, Some(180));
}

#[test]
fn stress() {
    run(Kind::Stress, 4, Some(60));
}

//! The generators on the engine: no violation under fixed seeds and counts.

use std::time::Duration;

use crash::explore::Limits;
use crash::generator::{Generator, Kind};
use crash::rule::Rule::{E0, E1, E2, E3, E4, E5, E6, E9};
use crash::session::{Report, Session, Stop};
use crash::setting::{CELLS, Cell};

/// Threads of each session.
const THREADS: usize = 2;

fn run(kind: Kind, seed: u64, workloads: Option<u64>) -> Report {
    run_in(&CELLS, kind, seed, workloads)
}

fn run_in(cells: &[Cell], kind: Kind, seed: u64, workloads: Option<u64>) -> Report {
    let session = Session {
        generator: Generator::new(kind, cells.to_vec(), seed),
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
        "{kind:?}: {} workloads, {} images recovered, {} equal to one, {} nested, {} failed, in {:?}",
        total.workloads, total.recovered, total.equal, total.nested, total.failed, report.elapsed
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

/// Every command of every short workload fails, with the journal inside and outside.
#[test]
fn each_command_of_single_operations_fails() {
    let report = run_in(&CELLS[..2], Kind::EachFault { length: 1 }, 5, None);
    assert!(report.is_complete);
    let rules = report.total().rules;
    for rule in [E0, E1, E2, E4, E5, E6, E9] {
        assert!(rules.get(rule) > 0, "{rule} was never looked at");
    }
}

#[test]
fn commands_of_long_workloads_fail() {
    let report = run(Kind::Faults, 6, Some(24));
    assert!(report.total().rules.get(E3) > 0, "E3 was never looked at");
}

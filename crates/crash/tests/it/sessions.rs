//! The generators on the engine: no violation under fixed seeds and counts.

use std::time::Duration;

use crash::crowd;
use crash::disks::{Disks, quiet};
use crash::explore::Limits;
use crash::findings::Tally;
use crash::generator::stress::LOG_BLOCKS_MIN;
use crash::generator::{Generator, Kind};
use crash::rule::Rule::{C2, C3, E0, E1, E2, E3, E4, E5, E6, E9, E10};
use crash::rule::{RULES, Rule, RuleCounts};
use crash::session::{Report, Session, Stop};
use crash::setting::{
    CELLS, CELLS_ASYNC, CELLS_ASYNC_EXT4, CELLS_ASYNC_FAST, CELLS_ASYNC_IGNORED, CELLS_CLUSTERED,
    CELLS_EXT4, CELLS_FAST, CELLS_INLINE, CELLS_MULTI_MOUNT, CELLS_QUOTA, Cell,
    LOG_BLOCKS_EXT4_MIN, LOG_BLOCKS_QUOTA_MIN, NO_JOURNAL, Setting, all_cells,
};
use ext::Volume;

/// Threads of each session.
const THREADS: usize = 2;

/// The cells of the short share: all, but for inodes with contents, clusters and quotas only an
/// internal journal.
fn cells() -> Vec<Cell> {
    let more = [
        CELLS_INLINE[0],
        CELLS_INLINE[4],
        CELLS_CLUSTERED[0],
        CELLS_QUOTA[0],
    ];
    [&CELLS[..], &CELLS_EXT4, &more].concat()
}

fn run(kind: Kind, seed: u64, workloads: Option<u64>) -> Report {
    run_in(&cells(), kind, seed, workloads)
}

fn run_in(cells: &[Cell], kind: Kind, seed: u64, workloads: Option<u64>) -> Report {
    run_within(Limits::new(seed), cells, kind, workloads)
}

/// Limits with parts of writes at one moment in `one_in` only, and few cuts within recoveries.
fn with_parts(one_in: u64, seed: u64) -> Limits {
    Limits {
        parts_one_in: one_in,
        nested_one_in: 256,
        ..Limits::new(seed)
    }
}

fn run_within(limits: Limits, cells: &[Cell], kind: Kind, workloads: Option<u64>) -> Report {
    let generator = Generator::new(kind, cells.to_vec(), limits.seed);
    run_generator(limits, generator, workloads)
}

fn run_generator(limits: Limits, generator: Generator, workloads: Option<u64>) -> Report {
    let kind = generator.kind();
    let session = Session {
        generator,
        limits,
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

/// Complete in a cell, and a share of the others.
#[test]
fn all_single_operations() {
    let kind = Kind::Exhaustive { length: 1 };
    let report = run_in(&CELLS_EXT4[..1], kind, 1, None);
    assert!(report.is_complete);
    run(kind, 1, Some(48));
}

#[test]
fn some_sequences_of_two_and_three() {
    run(Kind::Exhaustive { length: 2 }, 2, Some(40));
    run(Kind::Exhaustive { length: 3 }, 3, Some(20));
}

#[test]
fn shards_find_together_what_one_run_finds() {
    let limits = Limits::new(15);
    let cells = &CELLS[..2];
    for (kind, count) in [(Kind::Exhaustive { length: 1 }, 18), (Kind::Stress, 6)] {
        let whole = run_within(limits, cells, kind, Some(count)).total();
        let mut sum = Tally::default();
        for number in 1..=3 {
            let generator = Generator::new(kind, cells.to_vec(), limits.seed).shard(number, 3);
            let report = run_generator(limits, generator, Some(count / 3));
            let each = count / 6;
            assert!(report.cells.iter().all(|cell| cell.workloads == each));
            sum += &report.total();
        }
        assert_eq!(sum, whole, "{kind}");
    }
}

/// Sync calls that fast commits serve.
#[test]
fn fast_commits() {
    let kind = Kind::Exhaustive { length: 1 };
    let report = run_within(with_parts(4, 17), &CELLS_FAST[..1], kind, None);
    assert!(report.is_complete);
    for (kind, count) in [
        (Kind::Exhaustive { length: 2 }, 8),
        (Kind::Exhaustive { length: 3 }, 4),
        (Kind::Stress, 2),
        (Kind::Tight, 1),
        (Kind::Reuse, 1),
        (Kind::Races, 1),
    ] {
        run_in(&CELLS_FAST, kind, 18, Some(count));
    }
}

/// Commit blocks that are written together with their transactions, on all volumes that can have
/// them, and on some that cannot.
#[test]
fn asynchronous_commits() {
    let cells = [
        &CELLS_ASYNC_EXT4[..],
        &CELLS_ASYNC_FAST,
        &CELLS_ASYNC_IGNORED,
        &CELLS_ASYNC,
    ];
    let cells = cells.concat();
    for (kind, count) in [
        (Kind::Exhaustive { length: 1 }, 22),
        (Kind::Exhaustive { length: 2 }, 11),
        (Kind::Stress, 5),
        (Kind::Tight, 5),
        (Kind::Reuse, 5),
        (Kind::Laps, 1),
        (Kind::Races, 5),
    ] {
        run_within(with_parts(4, 20), &cells, kind, Some(count));
    }
    let report = run_within(with_parts(8, 20), &cells, Kind::Faults, Some(5));
    assert!(report.total().rules.get(E2) > 0, "E2 was never looked at");
}

/// Counts of owners, and the mark of the node that uses a volume.
#[test]
fn quotas_and_multiple_mount_protection() {
    for cells in [&CELLS_QUOTA[..], &CELLS_MULTI_MOUNT] {
        for (kind, count) in [
            (Kind::Exhaustive { length: 1 }, 4),
            (Kind::Exhaustive { length: 2 }, 1),
            (Kind::Exhaustive { length: 3 }, 1),
            (Kind::Stress, 1),
            (Kind::Tight, 1),
            (Kind::Reuse, 1),
            (Kind::Races, 1),
        ] {
            run_in(cells, kind, 19, Some(count));
        }
    }
}

#[test]
fn stress() {
    run(Kind::Stress, 4, Some(6));
}

#[test]
fn restarts() {
    run(Kind::Restarts, 9, Some(3));
}

#[test]
fn files_in_many_pieces() {
    run_within(with_parts(8, 16), &cells(), Kind::Scattered, Some(4));
}

#[test]
fn names_change_beside_each_other() {
    run(Kind::Crowd(crowd::Kind::Names), 12, Some(3));
}

#[test]
fn directories_are_listed_while_they_change() {
    let report = run(Kind::Crowd(crowd::Kind::Listings), 13, Some(3));
    assert!(report.total().rules.get(C2) > 0, "C2 was never looked at");
}

#[test]
fn numbers_are_used_again_at_once() {
    let report = run(Kind::Crowd(crowd::Kind::Numbers), 14, Some(2));
    assert!(report.total().rules.get(C3) > 0, "C3 was never looked at");
}

/// Every command of every short workload fails, with the journal outside; and some with it inside.
#[test]
fn each_command_of_single_operations_fails() {
    let kind = Kind::EachFault { length: 1 };
    // Failures are many, and few cuts of each are enough.
    let report = run_within(with_parts(32, 5), &CELLS_EXT4[1..2], kind, None);
    assert!(report.is_complete);
    run_in(&CELLS[..1], kind, 5, Some(4));
    let rules = report.total().rules;
    for rule in [E0, E1, E2, E4, E5, E6, E9] {
        assert!(rules.get(rule) > 0, "{rule} was never looked at");
    }
}

#[test]
fn commands_of_long_workloads_fail() {
    let report = run(Kind::Faults, 6, Some(12));
    assert!(report.total().rules.get(E3) > 0, "E3 was never looked at");
}

#[test]
fn writes_fail_once_beside_a_writer() {
    run(Kind::Passing, 10, Some(12));
}

#[test]
fn devices_have_no_room() {
    let report = run_within(with_parts(8, 11), &cells(), Kind::Full, Some(4));
    assert!(report.total().rules.get(E10) > 0, "E10 was never looked at");
}

/// The workloads of every generator, on volumes without a journal, closed.
#[test]
fn volumes_without_a_journal() {
    let cells = [NO_JOURNAL, NO_JOURNAL.ext4()];
    run_in(&cells, Kind::Exhaustive { length: 1 }, 7, None);
    for kind in [
        Kind::Exhaustive { length: 2 },
        Kind::Exhaustive { length: 3 },
        Kind::Stress,
        Kind::Tight,
        Kind::Reuse,
        Kind::Laps,
        Kind::Races,
        Kind::Restarts,
        Kind::Scattered,
        Kind::Crowd(crowd::Kind::Names),
        Kind::Crowd(crowd::Kind::Listings),
        Kind::Crowd(crowd::Kind::Numbers),
        Kind::Faults,
        Kind::Passing,
        Kind::Full,
    ] {
        run_in(&cells, kind, 7, Some(60));
    }
}

/// Every generator, with so many workloads of it that each cell has some, but one for full devices,
/// whose workloads have the most images: together they look at each rule.
const EXERCISES: [(Kind, u64); 13] = [
    (Kind::Exhaustive { length: 2 }, 14),
    (Kind::EachFault { length: 1 }, 6),
    (Kind::Faults, 6),
    (Kind::Full, 1),
    (Kind::Stress, 6),
    (Kind::Reuse, 6),
    (Kind::Laps, 6),
    (Kind::Races, 6),
    (Kind::Restarts, 6),
    (Kind::Crowd(crowd::Kind::Names), 6),
    (Kind::Crowd(crowd::Kind::Listings), 6),
    (Kind::Crowd(crowd::Kind::Numbers), 6),
    (Kind::Tight, 6),
];

#[test]
fn every_rule_is_exercised() {
    let few = Limits {
        singles: 4,
        pairs: 2,
        randoms: 1,
        parts_one_in: 16,
        nested_one_in: 256,
        ..Limits::new(8)
    };
    let mut counts = RuleCounts::default();
    for (kind, workloads) in EXERCISES {
        counts += &run_within(few, &CELLS, kind, Some(workloads)).total().rules;
    }
    let never: Vec<&Rule> = RULES
        .iter()
        .filter(|rule| counts.get(**rule) == 0)
        .collect();
    assert!(never.is_empty(), "never looked at: {never:?}");
}

/// The shortest log of the generators is the shortest that the engine takes.
#[test]
fn no_log_is_shorter() {
    for (cell, log_blocks, is_taken) in [
        (CELLS[0], LOG_BLOCKS_MIN, true),
        (CELLS[0], LOG_BLOCKS_MIN - 1, false),
        (CELLS_EXT4[0], LOG_BLOCKS_EXT4_MIN, true),
        (CELLS_EXT4[0], LOG_BLOCKS_EXT4_MIN - 1, false),
        (CELLS_QUOTA[0], LOG_BLOCKS_QUOTA_MIN, true),
        (CELLS_QUOTA[0], LOG_BLOCKS_QUOTA_MIN - 1, false),
    ] {
        let setting = Setting {
            log_blocks,
            ..Setting::new(cell)
        };
        let devices = Disks::make(&setting).unwrap().devices();
        let opened = Volume::open(devices.home_device(), None, quiet(setting.cell.data));
        assert_eq!(opened.is_ok(), is_taken, "{log_blocks}");
        opened.map_or(Ok(()), Volume::close).unwrap();
    }
}

/// Made again later, the disks of a setting are equal: a violation can be repeated.
#[test]
fn disks_are_made_again_as_they_were() {
    let make = || -> Vec<(Setting, u64)> {
        let settings = all_cells().into_iter().flat_map(|cell| {
            [0, 64].map(|free_blocks| Setting {
                free_blocks,
                ..Setting::new(cell)
            })
        });
        let made = |setting| {
            let disks = Disks::make(&setting).unwrap();
            (setting, disks.hash())
        };
        settings.map(made).collect()
    };
    let first = make();
    // Superblocks record seconds.
    rt::sleep(rt::Nanos::from_millis(1100));
    for ((setting, was), (_, is)) in first.into_iter().zip(make()) {
        assert_eq!(was, is, "{setting:?}");
    }
}

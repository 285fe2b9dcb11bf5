//! Counts of the original at 50,000 transactions and seed 42, recorded from its runs.
//!
//! The original counts bytes in 32-bit floats, this workload in integers. The counts may therefore
//! differ by 1 in 10^4 and by the rounding of two decimals.

use std::sync::Arc;

use workload::counting::CountingTarget;
use workload::postmark::{NoObserver, Options, Parameters, run};
use workload::{Control, Operation, Outcome, Target};

use crate::figures::{count, reported};

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// A row of the table.
struct Golden {
    size: (u32, u32),
    number: u32,
    created: u64,
    read: u64,
    appended: u64,
    deleted_alone: Option<u64>,
    megabytes_read: f64,
    megabytes_written: f64,
}

const TABLE: [Golden; 5] = [
    Golden {
        size: (1000, 100_000),
        number: 2000,
        created: 27272,
        read: 24986,
        appended: 24955,
        deleted_alone: Some(2544),
        megabytes_read: 1579.51,
        megabytes_written: 1717.98,
    },
    Golden {
        size: (1000, 100_000),
        number: 3000,
        created: 28130,
        read: 24989,
        appended: 24967,
        deleted_alone: None,
        megabytes_read: 1567.90,
        megabytes_written: 1761.07,
    },
    Golden {
        size: (1000, 100_000),
        number: 4000,
        created: 29103,
        read: 25104,
        appended: 24856,
        deleted_alone: None,
        megabytes_read: 1554.03,
        megabytes_written: 1817.20,
    },
    Golden {
        size: (1, 1000),
        number: 30000,
        created: 54911,
        read: 24921,
        appended: 24964,
        deleted_alone: Some(29822),
        megabytes_read: 13.61,
        megabytes_written: 31.35,
    },
    Golden {
        size: (1000, 300_000),
        number: 4000,
        created: 29002,
        read: 25108,
        appended: 24865,
        deleted_alone: None,
        megabytes_read: 4668.08,
        megabytes_written: 5420.00,
    },
];

fn run_on_nothing(parameters: &Parameters, options: &Options) -> (Outcome, Arc<CountingTarget>) {
    let counting = Arc::new(CountingTarget::new());
    let target: Arc<dyn Target> = Arc::clone(&counting) as Arc<dyn Target>;
    let control = Arc::new(Control::new());
    let outcome = run(parameters, options, &target, &control, &mut NoObserver);
    (outcome.expect("the target has no limit"), counting)
}

fn check(golden: &Golden, options: &Options) {
    let parameters = Parameters {
        size_low: golden.size.0,
        size_high: golden.size.1,
        number: golden.number,
        transactions: 50_000,
        // Large blocks mean fewer calls. The counts do not depend on them.
        read_block: 1 << 20,
        write_block: 1 << 20,
        buffered: false,
        ..Parameters::default()
    };
    let (outcome, target) = run_on_nothing(&parameters, options);
    let label = format!("size {:?}, number {}", golden.size, golden.number);
    let own = |name| count(&outcome, name);
    assert_eq!(
        (own("created"), own("read"), own("appended")),
        (golden.created, golden.read, golden.appended),
        "{label}"
    );
    if let Some(expected) = golden.deleted_alone {
        assert_eq!(reported(&outcome, "Deletion alone"), expected, "{label}");
    }
    assert_eq!(own("transactions"), 50_000, "{label}");
    for (bytes, megabytes) in [
        (own("bytes_read"), golden.megabytes_read),
        (own("bytes_written"), golden.megabytes_written),
    ] {
        let found = bytes as f64 / MEGABYTE;
        let tolerance = megabytes * 1e-4 + 0.005;
        assert!(
            (found - megabytes).abs() <= tolerance,
            "{label}: {found} is not {megabytes}"
        );
    }
    assert_eq!(target.names(), 0, "{label}: nothing is left");
    assert_eq!(target.bytes_read(), own("bytes_read"), "{label}");
    assert_eq!(target.bytes_written(), own("bytes_written"), "{label}");
    assert_eq!(target.calls(Operation::Unlink), own("created"), "{label}");
}

#[test]
fn size_1000_to_100000_number_2000() {
    check(&TABLE[0], &Options::compat());
}

#[test]
fn size_1000_to_100000_number_3000() {
    check(&TABLE[1], &Options::compat());
}

#[test]
fn size_1000_to_100000_number_4000() {
    check(&TABLE[2], &Options::compat());
}

#[test]
fn size_1_to_1000_number_30000() {
    check(&TABLE[3], &Options::compat());
}

#[test]
fn size_1000_to_300000_number_4000() {
    check(&TABLE[4], &Options::compat());
}

#[test]
fn the_lab_form_with_one_thread_does_the_same_work() {
    check(&TABLE[0], &Options::lab());
}

/// Checks 4000 transactions on 2000 files in 10 subdirectories, unbuffered, seed 7. The bytes read
/// are exact, because 32-bit floats add integers exactly up to 2^24; the original's 25,009,070
/// bytes written are beyond that.
#[test]
fn unbuffered_in_subdirectories() {
    let parameters = Parameters {
        number: 2000,
        transactions: 4000,
        subdirectories: 10,
        buffered: false,
        seed: 7,
        ..Parameters::default()
    };
    let (outcome, target) = run_on_nothing(&parameters, &Options::compat());
    let own = |name| count(&outcome, name);
    assert_eq!(
        (own("created"), own("read"), own("appended")),
        (3995, 1979, 2020)
    );
    let alone = reported(&outcome, "Deletion alone");
    assert_eq!((alone, own("deleted") - alone), (1990, 2005));
    assert_eq!(own("bytes_read"), 11_980_711);
    assert_eq!(
        (
            target.calls(Operation::Mkdir),
            target.calls(Operation::Rmdir)
        ),
        (10, 10)
    );
}

#[test]
fn counts_depend_neither_on_buffering_nor_on_blocks() {
    let counts = |buffered, block| {
        let parameters = Parameters {
            buffered,
            read_block: block,
            write_block: block,
            ..Parameters::default()
        };
        let (outcome, _) = run_on_nothing(&parameters, &Options::compat());
        let names = [
            "transactions",
            "created",
            "read",
            "appended",
            "appends_skipped",
            "deleted",
            "bytes_read",
            "bytes_written",
        ];
        names.map(|name| count(&outcome, name))
    };
    let expected = counts(true, 512);
    for (buffered, block) in [
        (false, 512),
        (true, 1),
        (false, 1000),
        (true, 5000),
        (true, 4096),
    ] {
        assert_eq!(counts(buffered, block), expected, "{buffered} {block}");
    }
}

/// Checks the number of system calls of each kind that the original makes in 300 transactions,
/// counted with `strace`.
#[test]
fn the_system_calls_of_the_original() {
    let defaults = Parameters {
        transactions: 300,
        number: 100,
        ..Parameters::default()
    };
    let blocks = |size: (u32, u32), read_block, write_block| Parameters {
        size_low: size.0,
        size_high: size.1,
        read_block,
        write_block,
        ..defaults.clone()
    };
    let unbuffered = Parameters {
        buffered: false,
        ..blocks((1024, 3000), 1024, 1000)
    };
    let few = Parameters {
        number: 50,
        ..blocks((20_000, 20_000), 20_000, 8192)
    };
    for (parameters, opens, reads, writes, unlinks) in [
        (defaults.clone(), 549, 319, 636, 249),
        (blocks((40_000, 60_000), 9000, 9000), 551, 1663, 3047, 251),
        (unbuffered, 543, 402, 768, 243),
        (few, 331, 274, 776, 194),
    ] {
        let (_, target) = run_on_nothing(&parameters, &Options::compat());
        let calls = [
            Operation::Open,
            Operation::Read,
            Operation::Write,
            Operation::Unlink,
        ]
        .map(|operation| target.calls(operation));
        assert_eq!(calls, [opens, reads, writes, unlinks], "{parameters:?}");
        assert_eq!(
            target.calls(Operation::Close),
            opens,
            "every file is closed"
        );
    }
}

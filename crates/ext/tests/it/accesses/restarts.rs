//! Every operation, with its handles restarted at every possible point: each time that they ask for
//! more credits, each second time, and so on until no handle asks that often. A restart closes the
//! running transaction, so that the work until then is committed without the rest. The outcome is
//! that without restarts. The default tests take every second of these places.

use ext::options::DataMode;
use ext::{MountOptions, Volume};
use layout::Tid;
use testkit::share;

use super::freeing::FREEING;
use super::trees::{Tree, tree};
use super::{assert_sound, every_operation, prepared, undelayed};
use crate::accesses::operations::Operation;
use crate::damage::assert_notices;
use crate::rig::{Place, Rig, Structures, quiet};

/// Largest number of restarts distinguished for each operation. `JEXT_TEST_RESTARTS` overrides it.
const RESTARTS_MAX: u32 = 24;

fn restarts_max() -> u32 {
    match std::env::var("JEXT_TEST_RESTARTS") {
        Ok(count) => count.parse().expect("JEXT_TEST_RESTARTS is a number"),
        Err(_) => RESTARTS_MAX,
    }
}

fn options(data: DataMode, restart_every: u32) -> MountOptions {
    let mut options = undelayed(data);
    options.tuning.log_policy.restart_every = restart_every;
    options
}

fn next_transaction(volume: &Volume) -> Tid {
    volume.transactions().expect("there is a journal").next
}

/// Runs an operation with restarts and cuts the power before and after a sync. Returns the tree
/// found then, and the number of transactions.
fn run(made: &Rig, operation: &Operation, data: DataMode, every: u32) -> (Tree, u32) {
    let what = format!("{}, {data:?}, each {every}. restart", operation.name);
    let rig = made.copy();
    let volume = rig.open(options(data, every));
    let before = next_transaction(&volume);
    for step in operation.steps {
        step(&volume).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let count = next_transaction(&volume).get().wrapping_sub(before.get());
    assert_recovered(&rig.copy(), &what);
    assert!(!volume.is_read_only(), "{what}: the journal has aborted");
    volume
        .sync()
        .unwrap_or_else(|error| panic!("{what}: sync: {error}"));
    let lost = rig.copy();
    let found = tree(&lost.open(quiet(data)));
    assert!(found == tree(&volume), "{what}: after a power cut");
    volume
        .close()
        .unwrap_or_else(|error| panic!("{what}: close: {error}"));
    assert_recovered(&rig, &what);
    (found, count)
}

/// Asserts that a check finds nothing after the volume was opened and closed.
fn assert_recovered(rig: &Rig, what: &str) {
    rig.open(quiet(DataMode::Ordered)).close().expect("close");
    assert_sound(rig, 1, what);
}

fn restart_each(structures: Structures, place: Place, data: DataMode) {
    let made = prepared(structures, place);
    let mut runs = 0;
    for (row, operation) in every_operation().enumerate() {
        let (plain, least) = run(&made, operation, data, 0);
        for every in 1..=restarts_max() {
            if !share::takes(row + every as usize, 2) {
                continue;
            }
            let (found, count) = run(&made, operation, data, every);
            assert!(found == plain, "{}, each {every}. restart", operation.name);
            runs += 1;
            if count == least {
                break;
            }
        }
    }
    println!("{place:?}, {data:?}: {runs} runs with restarts");
}

#[test]
fn internal_ordered() {
    restart_each(Structures::Ext3, Place::Internal, DataMode::Ordered);
}

#[test]
fn internal_journal() {
    restart_each(Structures::Ext3, Place::Internal, DataMode::Journal);
}

#[test]
fn ext4_ordered() {
    restart_each(Structures::Ext4, Place::Internal, DataMode::Ordered);
}

#[test]
fn external_writeback() {
    restart_each(Structures::Ext3, Place::External, DataMode::Writeback);
}

/// A restart uses up the revoke that a deletion reserves for the attribute block.
#[test]
fn a_revoke_that_a_restart_loses_is_missed() {
    assert_notices("truncate/kept-revoke-used", || {
        let made = prepared(Structures::Ext3, Place::Internal);
        for operation in FREEING {
            for every in 1..5 {
                run(&made, operation, DataMode::Ordered, every);
            }
        }
    });
}

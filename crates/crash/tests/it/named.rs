//! Bugs of other file systems, each as a short workload that is explored in all data modes, with
//! the journal inside and outside, in a quiet world and in one where transactions are committed in
//! the middle of operations, and on ext4 in the latter; by default in one of the two worlds.
//!
//! A script reads `made before | recorded`: the operations before the bar are durable when the
//! recording begins. After any crash the model of the script must hold, by all rules; the rules
//! that a test names are those that the bug broke, and the test fails if the exploration never had
//! an occasion to check them.
//!
//! Sources are the tests of xfstests (`generic/NNN`), the bug lists of CrashMonkey (Mohan et al.,
//! "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018), and trackers
//! of file systems in user space.
//!
//! # Tested elsewhere, or not yet
//!
//! | bug | place |
//! |---|---|
//! | files without a name (509, 764, 771) | O_TMPFILE is not offered yet |
//! | copies and shared blocks that O_SYNC forgets (628, 629) | the format has no shared blocks |
//! | files unlinked while they are open (557) | `ext`: tests of durability and sequences |
//! | read-only devices with a log to be replayed (050) | `ext`: `damage.rs` |
//! | errors of write-back, reported once to each handle (441, 484) | `ext`: `faults.rs` |
//! | a tail that passes a failed checkpoint | `jbd2`: `abort.rs` |
//! | `csum_v3` tags, journals in several pieces (rsext4 398, Ext4Fsd 4) | `jbd2`: `formats.rs` |
//! | checksums of the superblock, torn commit blocks | `jbd2`: `damage.rs`; `ext`: `crossing.rs` |
//! | fast commits (e2fsprogs 85) | tests of `ext`: `crossing/fast_commits.rs` |
//! | asynchronous commits | `sessions.rs`; `jbd2`: `crash.rs` and `damage.rs` |
//! | growing a mounted volume | not offered |

mod attributes;
mod links;
mod log;
mod ranges;
mod renames;
mod sizes;

use std::rc::Rc;

use crash::disks::Disks;
use crash::explore::{Limits, explore};
use crash::findings::Tally;
use crash::op::Op;
use crash::replay::ReplayId;
use crash::rule::Rule;
use crash::run::{prepare, record};
use crash::setting::{CELLS, CELLS_EXT4, Cell, Setting};
use crash::workload::Workload;
use testkit::share;

/// Less of everything than `jext crash` tries, but more volumes that are used afterwards: many of
/// these bugs were found by what could not be created or removed.
const LIMITS: Limits = Limits {
    singles: 32,
    pairs: 16,
    use_one_in: 8,
    e2fsck_one_in: 2048,
    ..Limits::new(5)
};

/// Nothing happens by itself; or commits become due when operations begin, and the next task is
/// left to chance.
const WORLDS: [&str; 2] = ["", ",commit=1000,random=7"];

/// Explores a script in the usual setting of every cell.
fn check(rules: &[Rule], script: &str) {
    check_on("", rules, script);
}

/// Explores a script in every cell, with what makes the setting special (as in `,fua=0,log=224`).
fn check_on(special: &str, rules: &[Rule], script: &str) {
    let ext3 = CELLS
        .into_iter()
        .flat_map(|cell| WORLDS.map(|world| (cell, world)));
    let ext4 = CELLS_EXT4.map(|cell| (cell, WORLDS[1]));
    check_in(ext3.chain(ext4), special, rules, script);
}

/// Explores a script that needs extents.
fn check_extents(special: &str, rules: &[Rule], script: &str) {
    let ext4 = CELLS_EXT4
        .into_iter()
        .flat_map(|cell| WORLDS.map(|world| (cell, world)));
    check_in(ext4, special, rules, script);
}

fn check_in(
    cells: impl Iterator<Item = (Cell, &'static str)>,
    special: &str,
    rules: &[Rule],
    script: &str,
) {
    let mut total = Tally::default();
    for (index, (cell, world)) in cells.enumerate() {
        // The two worlds in turn.
        if !share::takes(index / 2 + index % 2, 2) {
            continue;
        }
        let setting: Setting = format!("{cell}{special}{world}").parse().unwrap();
        let setting = setting.fitting();
        let workload = workload(setting, script);
        let prepared = prepare(&workload, &Disks::make(&setting).unwrap()).unwrap();
        let recording =
            record(&workload, &prepared).unwrap_or_else(|error| panic!("{setting}: {error}"));
        let (tally, found) = explore(Rc::new(recording), LIMITS);
        if let Some(found) = found {
            let cuts = found.cuts;
            panic!(
                "{}\njext replay '{}'",
                found.broken,
                ReplayId { workload, cuts }
            );
        }
        total += &tally;
    }
    for rule in rules {
        assert!(total.rules.get(*rule) > 0, "{rule} was never looked at");
    }
    println!(
        "{} images recovered, {} used, {} nested",
        total.recovered, total.used, total.nested
    );
}

fn workload(setting: Setting, script: &str) -> Workload {
    let (before, recorded) = script.split_once('|').expect("a bar");
    let ops = |text: &str| -> Vec<Op> {
        let texts = text.split(';').map(str::trim);
        texts
            .filter(|op| !op.is_empty())
            .map(|op| op.parse().unwrap())
            .collect()
    };
    let mut all = ops(before);
    let prepared = all.len();
    all.extend(ops(recorded));
    Workload {
        setting,
        prepared: vec![prepared],
        lanes: vec![all],
    }
}

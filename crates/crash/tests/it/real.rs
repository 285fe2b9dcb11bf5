//! A share of the stress on threads of the operating system; `jext crash --real` does more of it.

use std::time::Duration;

use crash::real::Session;
use crash::setting::journaled_cells;

/// Clients.
const LANES: u32 = 16;
/// Duration in seconds.
const SECONDS: u64 = 4;

#[test]
fn sixteen_threads_whose_devices_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session {
        cells: journaled_cells(),
        lanes: LANES,
        seed: 1,
        after: Duration::from_secs(SECONDS),
        e2fsck_one_in: 16,
        folder: folder.path().to_owned(),
        plant: None,
    };
    let report = session.run(&|_, _| {});
    println!("{:?} in {:?}", report.tally, report.elapsed);
    if let Some(violation) = report.violation {
        let _ = folder.keep();
        panic!(
            "{}\nround {}, left in {:?}",
            violation.broken, violation.round, violation.kept
        );
    }
    let tally = report.tally;
    assert!(
        tally.ops > 0 && tally.syncs > 0 && tally.unsettled > 0,
        "{tally:?}"
    );
}

//! A share of the comparison with e2fsck and the kernel; `jext crash --compare` does more of it.

use crash::outside::Comparison;
use crash::setting::journaled_cells;
use testkit::privilege;

/// Images that e2fsck looks at after we have recovered them.
const RECOVERED: u64 = 60;
/// Images that all three recover.
const UNRECOVERED: u64 = 12;
/// Images of volumes without a journal that e2fsck repairs.
const UNJOURNALED: u64 = 60;

#[test]
fn e2fsck_and_the_kernel_agree() {
    let comparison = Comparison {
        cells: journaled_cells(),
        seed: 1,
        recovered: RECOVERED,
        unrecovered: if privilege::is_granted() {
            UNRECOVERED
        } else {
            0
        },
        unjournaled: UNJOURNALED,
        threads: 2,
    };
    let report = comparison.run(&|_| {});
    if let Some(difference) = &report.difference {
        panic!("{}\njext replay '{}'", difference.broken, difference.id);
    }
    println!("{:?} in {:?}", report.counts, report.elapsed);
    assert_eq!(report.counts.recovered, RECOVERED);
    let counts = report.counts;
    let (same, repaired) = (counts.same_trees, counts.repaired);
    let all = comparison.unrecovered + UNJOURNALED;
    assert_eq!(same + repaired + counts.torn, all);
    assert!(counts.torn <= all / 8, "most images are whole: {counts:?}");
    assert!(report.counts.synced_files > 0, "nothing was looked for");
}

//! Tests compare-sync with the kernel.

use testkit::privilege;

use crate::support::Folder;

#[test]
fn synced_files_are_compared_with_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let json = folder
        .json("compare-sync --threads 1,3 --files 30 --runs 2 --size 32MiB --journal 4 --json .");
    let comparisons = json["comparisons"].as_array().unwrap();
    assert_eq!(comparisons.len(), 8);
    for comparison in comparisons {
        let is_fast = comparison["fast_commit"].as_bool().unwrap();
        let sides = comparison["sides"].as_array().unwrap();
        let names: Vec<_> = sides.iter().map(|side| side["side"].as_str()).collect();
        assert_eq!(names, [Some("kernel"), Some("jext_loop"), Some("jext")]);
        for side in sides {
            let figure = |name: &str| side[name].as_f64().unwrap();
            assert_eq!(side["files_per_second"].as_array().map(Vec::len), Some(2));
            assert!(figure("median_files_per_second") > 0.0);
            assert!(figure("flushes_per_file") > 0.0, "{comparison}");
            assert!(figure("writes_per_file") > 0.0, "{comparison}");
            let whole = figure("commits");
            assert_eq!(figure("fast_commits") > 0.0, is_fast, "{comparison}");
            assert!(is_fast || whole > 0.0, "{comparison}");
        }
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");
}

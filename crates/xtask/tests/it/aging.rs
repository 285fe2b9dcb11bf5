//! Tests compare-aging with the kernel.

use testkit::privilege;

use crate::support::Folder;

#[test]
fn aged_file_systems_are_compared_with_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let json = folder.json("compare-aging --operations 1500 --size 96MiB --json .");
    assert_eq!(json["operations"], 1500);
    let number = |side: &str, name: &str| json[side][name].as_f64().unwrap();
    for side in ["kernel", "jext"] {
        assert!(number(side, "files") > 20.0, "{json}");
        assert!(number(side, "mean_extents") >= 0.5, "{json}");
    }
    assert_eq!(number("kernel", "files"), number("jext", "files"));
    let left = json["left_bytes"].as_f64().unwrap();
    assert!(left > 0.6 * 96.0 * 1048576.0, "near the fill: {json}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");
}

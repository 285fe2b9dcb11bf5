//! Tests compare-build with mke2fs.

use crate::support::Folder;

#[test]
fn building_is_compared_with_mke2fs() {
    let folder = Folder::new();
    let json = folder.json("compare-build --files 300 --size 3MB --runs 2 --json .");
    assert_eq!(
        (&json["files"], &json["directories"]),
        (&300.into(), &21.into())
    );
    for program in ["mke2fs", "jext", "e2fsck", "fsck"] {
        let seconds = &json[program]["time"]["seconds"];
        assert_eq!(seconds.as_array().map(Vec::len), Some(2), "{program}");
    }
    for ratio in ["ratio", "check_ratio"] {
        assert!(json[ratio].as_f64().unwrap() > 0.0);
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");
}

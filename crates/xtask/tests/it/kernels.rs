//! Tests compare-kernel with the kernel.

use testkit::privilege;

use crate::support::Folder;

#[test]
fn postmark_and_a_large_file_are_compared_with_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let json = folder.json(
        "compare-kernel --test 2 --sequential 10MiB --runs 1 --size 512MiB --journal 16 --json",
    );
    let tasks = json["tasks"].as_array().unwrap();
    let names: Vec<_> = tasks
        .iter()
        .map(|own| own["task"]["sequential"].as_str())
        .collect();
    let phases = ["write, with a sync", "read after a mount", "read again"];
    assert_eq!(
        names,
        [None, Some(phases[0]), Some(phases[1]), Some(phases[2])]
    );
    for work in tasks {
        for side in ["kernel", "jext"] {
            let seconds = work[side]["seconds"].as_array().unwrap();
            assert!(seconds[0].as_f64().unwrap() > 0.0, "{work}");
        }
    }
}

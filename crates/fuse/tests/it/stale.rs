//! Changes that are done although their call fails: the kernel's cache must agree with the volume.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::MountOptions;
use fuse::Settings;

use super::support::{Mounted, Place};

/// The time until the kernel must have dropped what is stale.
const PATIENCE: Duration = Duration::from_secs(10);

/// The names in the root directory that `stat` finds, of all that the test uses.
fn found(mounted: &Mounted) -> Vec<&'static str> {
    let all = ["directory", "file", "hard", "new", "old", "removed", "soft"];
    all.into_iter()
        .filter(|name| fs::symlink_metadata(mounted.at(name)).is_ok())
        .collect()
}

/// Waits until `stat` and `ls` find what is expected: the kernel is notified beside the answer,
/// perhaps a little later.
fn wait_for(mounted: &Mounted, expected: &[&str]) {
    let start = Instant::now();
    while found(mounted) != expected || listed(mounted) != expected {
        let waited = start.elapsed();
        assert!(
            waited < PATIENCE,
            "{:?} {:?}",
            found(mounted),
            listed(mounted)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The names in the root directory that are listed.
fn listed(mounted: &Mounted) -> Vec<OsString> {
    let mut names: Vec<OsString> = fs::read_dir(mounted.at(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "lost+found")
        .collect();
    names.sort();
    names
}

/// On a synchronous volume whose device has no room the commit of each change is held and the call
/// fails, but the change is done.
#[test]
fn a_change_whose_commit_is_held_is_seen() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::Always,
        effect: Effect::NoSpace,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let fault = Arc::new(FaultDevice::new(place.device(), plan));
    fault.set_armed(false);
    let options = MountOptions {
        directory_sync: true,
        sync: true,
        ..MountOptions::default()
    };
    let device = Arc::<FaultDevice>::clone(&fault);
    let mounted = place.mount_device(device, &Settings::default(), options);
    for name in ["old", "removed"] {
        fs::write(mounted.at(name), name).unwrap();
    }
    assert_eq!(found(&mounted), ["old", "removed"], "the kernel knows them");
    fault.set_armed(true);
    let at = |name| mounted.at(name);
    let full = |done: std::io::Result<()>, expected: &[&str]| {
        assert_eq!(done.unwrap_err().kind(), ErrorKind::StorageFull);
        wait_for(&mounted, expected);
    };
    full(
        fs::create_dir(at("directory")),
        &["directory", "old", "removed"],
    );
    let file = fs::File::create_new(at("file")).map(drop);
    full(file, &["directory", "file", "old", "removed"]);
    full(
        fs::remove_file(at("removed")),
        &["directory", "file", "old"],
    );
    full(
        symlink("target", at("soft")),
        &["directory", "file", "old", "soft"],
    );
    let all = ["directory", "file", "hard", "old", "soft"];
    full(fs::hard_link(at("old"), at("hard")), &all);
    let all = ["directory", "file", "hard", "new", "soft"];
    full(fs::rename(at("old"), at("new")), &all);
    let permissions = fs::Permissions::from_mode(0o751);
    full(fs::set_permissions(at("hard"), permissions), &all);
    let new = fs::metadata(at("new")).unwrap();
    assert_eq!(new.permissions().mode() & 0o7777, 0o751);
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&new), 2);
    fault.set_armed(false);
    fs::create_dir(at("removed")).unwrap();
    mounted.end().unwrap();
    place.check();
}

//! A journal that aborts under the mount.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::MountOptions;
use fuse::Settings;
use testkit::tool;

use super::support::{Mounted, Place};

/// Maximum time until the table of mounts shows it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the options of the mount in the table of mounts.
fn options(mounted: &Mounted) -> Vec<String> {
    let point = mounted.at("").canonicalize().unwrap();
    let words = [
        "-n",
        "-o",
        "OPTIONS",
        "--mountpoint",
        point.to_str().unwrap(),
    ];
    let said = tool::run_well("findmnt", &words);
    said.trim().split(',').map(str::to_owned).collect()
}

fn says(mounted: &Mounted, option: &str) -> bool {
    options(mounted).iter().any(|found| found == option)
}

/// The table of mounts must show `ro`, but only after all files open for writing are closed; other
/// flags stay.
#[test]
fn the_table_of_mounts_says_that_changes_are_refused() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let rule = FaultRule {
        operations: Operations::WRITES,
        when: When::Always,
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let fault = Arc::new(FaultDevice::new(place.device(), plan));
    fault.set_armed(false);
    let mut settings = Settings::default();
    settings.description.flags = vec!["nosuid".to_owned(), "noexec".to_owned()];
    let device = Arc::<FaultDevice>::clone(&fault);
    let mounted = place.mount_device(device, &settings, MountOptions::default());
    fs::write(mounted.at("old"), "promised").unwrap();
    let old = File::open(mounted.at("old")).unwrap();
    old.sync_all().unwrap();
    let open = File::create(mounted.at("open")).unwrap();
    assert!(says(&mounted, "rw"));
    fault.set_armed(true);
    fs::create_dir(mounted.at("directory")).unwrap();
    assert!(old.sync_all().is_err() || open.sync_all().is_err());
    let refused = fs::create_dir(mounted.at("more")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    fault.set_armed(false);
    // Longer than the interval of the mount's checks.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(says(&mounted, "rw"), "a file is open for writing");
    drop(open);
    let began = Instant::now();
    while !says(&mounted, "ro") {
        assert!(began.elapsed() < PATIENCE, "{:?}", options(&mounted));
        std::thread::sleep(Duration::from_millis(50));
    }
    for flag in ["nosuid", "noexec"] {
        assert!(says(&mounted, flag), "{:?}", options(&mounted));
    }
    assert_eq!(fs::read(mounted.at("old")).unwrap(), b"promised");
    let refused = fs::write(mounted.at("old"), "more").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    // The journal records the error, and recovers.
    assert!(mounted.end().is_err());
    tool::run("e2fsck", &["-fp".as_ref(), place.image().as_os_str()]);
    place.check();
}

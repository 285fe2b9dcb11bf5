//! Recordings that ask for too much or too little, and machines on which nothing can be judged.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, MemoryDevice, Recording};
use crash::mode::DataMode;
use crash::recorded::{RecordedError, Setup};
use crash::setting::{Cell, JournalPlace};
use layout::Block;
use tempfile::TempDir;

use super::{Recorded, error};

/// Set in the process that has no e2fsck.
const WITHOUT: &str = "JEXT_TEST_WITHOUT_E2FSCK";

/// Records work on an empty device of a size.
fn record(size: u64, work: impl FnOnce(&dyn BlockDevice)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let recording = Recording::new(File::create(&path).unwrap());
    let memory = MemoryDevice::new(size).with_geometry(|geometry| {
        geometry.has_volatile_cache = true;
    });
    work(&recording.attach(Arc::new(memory)));
    recording.finish().unwrap();
    (folder, path)
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    for size in [0, 512, 1536] {
        let (_folder, path) = record(size, |_| {});
        let error = error(&Setup::new(path, 1));
        assert!(matches!(error, RecordedError::TooSmall(_)), "{error}");
    }
    let (_folder, path) = record(2048, |_| {});
    let error = error(&Setup::new(path, 1));
    assert!(matches!(error, RecordedError::NoFileSystem), "{error}");
}

/// A discard between the ends of a huge device would have a version for each of its sectors.
#[test]
fn a_huge_discard_is_refused() {
    const SIZE: u64 = 1 << 36;
    let (_folder, path) = record(SIZE, |device| {
        for at in [0, SIZE - 512] {
            let block = Block::zeroed(512).into_arc();
            device.write_blocks(at, vec![block]).unwrap();
        }
        device.discard(core::slice::from_ref(&(0..SIZE))).unwrap();
    });
    let error = error(&Setup::new(path, 1));
    assert!(matches!(error, RecordedError::TooMuch { .. }), "{error}");
    assert!(error.to_string().contains("a smaller device"), "{error}");
}

#[test]
fn nothing_explored_is_no_success() {
    let recorded = Recorded::of(Cell::new(DataMode::Ordered, JournalPlace::Internal), None);
    let none = Setup {
        images: Some(0),
        ..recorded.setup()
    };
    let late = Setup {
        after: Some(Duration::ZERO),
        ..recorded.setup()
    };
    for setup in [none, late] {
        let error = error(&setup);
        assert!(
            error.to_string().contains("nothing was explored"),
            "{error}"
        );
    }
}

/// The test runs itself again, in a process that finds no programs.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a variable marks the second process"
)]
fn a_machine_without_e2fsck_is_no_violation() {
    if std::env::var(WITHOUT).is_err() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "recorded::asks::a_machine_without_e2fsck_is_no_violation",
            ])
            .env("PATH", "/nonexistent")
            .env(WITHOUT, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    for cell in ["ordered,internal", "writeback,none"] {
        let recorded = Recorded::of(cell.parse().unwrap(), None);
        let error = error(&recorded.setup());
        assert!(matches!(error, RecordedError::Machine(_)), "{error}");
        assert!(error.to_string().contains("install-test-tools"), "{error}");
    }
}

//! Recordings of runs of the engine, cut off and recovered as those of any other program.

mod asks;
mod made;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::trace::RecordingError;
use block::{BlockDevice, Recording};
use crash::disks::Disks;
use crash::generator::{Generator, Kind};
use crash::mode::DataMode;
use crash::recorded::{Limits, RecordedError, Report, Setup};
use crash::rule::Rule;
use crash::run::{prepare, record_on};
use crash::setting::{Cell, JournalPlace};
use tempfile::TempDir;

use crate::planted::{Bug, Planted};

/// A recorded run, and the contents of its devices before.
struct Recorded {
    folder: TempDir,
    initial: Vec<PathBuf>,
}

impl Recorded {
    /// Records a long workload, with a bug below the engine or none.
    fn of(cell: Cell, bug: Option<Bug>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let generator = Generator::new(Kind::Stress, vec![cell], 3);
        let (_, workload) = generator.workload(0);
        let prepared = prepare(&workload, &Disks::make(&workload.setting).unwrap()).unwrap();
        let images = std::iter::once(&prepared.home).chain(&prepared.log);
        let initial = images.enumerate().map(|(number, image)| {
            let path = folder.path().join(format!("device{number}"));
            fs::write(&path, image.to_bytes()).unwrap();
            path
        });
        let initial = initial.collect();
        let output = File::create(folder.path().join("recording")).unwrap();
        let recording = Recording::new(BufWriter::new(output));
        let inner = Arc::clone(&recording);
        record_on(&workload, &prepared, move |device| {
            let recorded: Arc<dyn BlockDevice> = Arc::new(inner.attach(device));
            match bug {
                None => recorded,
                Some(bug) => Arc::new(Planted::new(recorded, bug)),
            }
        })
        .unwrap();
        recording.finish().unwrap();
        Self { folder, initial }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("recording")
    }

    fn setup(&self) -> Setup {
        Setup {
            initial: self.initial.clone(),
            images: Some(200),
            e2fsck_one_in: 40,
            ..Setup::new(self.path(), 1)
        }
    }

    fn explore(&self) -> Report {
        self.setup().explore(&|_, _| {}).unwrap()
    }
}

#[test]
fn a_run_of_the_engine_is_sound_at_every_instant() {
    for cell in ["ordered,internal", "ext4,journal,external"] {
        let recorded = Recorded::of(cell.parse().unwrap(), None);
        let report = recorded.explore();
        assert!(report.violations.is_empty(), "{cell}: {report:?}");
        let tally = report.tally;
        println!("{cell}: {tally:?} in {:?}", report.elapsed);
        assert_eq!(report.start, 0, "it was whole before the recording");
        assert!(tally.flushes > 0 && tally.e2fsck > 0, "{tally:?}");
        assert!(
            tally.distinct > 50 && tally.tried > tally.distinct,
            "{tally:?}"
        );
        assert!(report.is_complete, "{report:?}");
        // The same seed tries the same.
        let again = recorded.explore();
        assert_eq!(tally, again.tally);
    }
}

#[test]
fn volumes_without_a_journal_are_repaired() {
    let recorded = Recorded::of("writeback,none".parse().unwrap(), None);
    let setup = Setup {
        images: Some(15),
        ..recorded.setup()
    };
    let report = setup.explore(&|_, _| {}).unwrap();
    assert!(report.is_repaired);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert_eq!(report.tally.e2fsck, report.tally.distinct);
}

/// The engine's flushes and forced writes do not reach the recording: its log and what it vouches
/// for become durable in any order.
#[test]
fn missing_flushes_are_found_and_found_again() {
    let cell = Cell::new(DataMode::Ordered, JournalPlace::Internal);
    let recorded = Recorded::of(cell, Some(Bug::Neither));
    let setup = Setup {
        images: Some(600),
        limits: Limits {
            sectors: 12,
            randoms: 6,
            ..Limits::default()
        },
        e2fsck_one_in: 0,
        ..recorded.setup()
    };
    let report = setup.explore(&|_, _| {}).unwrap();
    let violation = report.violations.first().expect("images are broken");
    println!(
        "{} at {}, {:?}",
        violation.broken, violation.id, report.tally
    );
    assert!([Rule::U1, Rule::U2].contains(&violation.broken.rule));
    assert!(report.tally.violations >= report.violations.len() as u64);
    let left = setup.left_by(violation.id).unwrap();
    assert_eq!(left.broken.as_ref(), Some(&violation.broken));
    assert_eq!(left.devices.len(), 1);
    let text = violation.id.to_string();
    assert_eq!(text.parse::<crash::recorded::Id>().unwrap(), violation.id);
}

/// Returns the error of an exploration.
fn error(setup: &Setup) -> RecordedError {
    setup.explore(&|_, _| {}).expect_err("it is refused")
}

#[test]
fn what_is_no_whole_recording_of_a_file_system_is_refused() {
    let recorded = Recorded::of(Cell::new(DataMode::Ordered, JournalPlace::External), None);
    let setup = recorded.setup();
    let changed = |change: &dyn Fn(&mut Setup)| {
        let mut setup = setup.clone();
        change(&mut setup);
        error(&setup).to_string()
    };
    let one = changed(&|setup| setup.initial.truncate(1));
    assert!(one.contains("it has 2 devices, and 1 images"), "{one}");
    let swapped = changed(&|setup| setup.initial.reverse());
    assert!(
        swapped.contains("and device 0 of the recording"),
        "{swapped}"
    );
    let none = changed(&|setup| setup.initial[0] = PathBuf::from("none"));
    assert!(none.contains("none: No such file"), "{none}");
    let empty = changed(&|setup| setup.initial.clear());
    assert!(empty.contains("others are not judged"), "{empty}");
    let foreign = changed(&|setup| setup.path.clone_from(&setup.initial[0]));
    assert!(foreign.contains("not a recording"), "{foreign}");
    let bytes = fs::read(recorded.path()).unwrap();
    let cut = recorded.folder.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let cut_off = error(&Setup {
        path: cut,
        ..setup.clone()
    });
    let is_cut_off = matches!(
        cut_off,
        RecordedError::Recording(RecordingError::CutOff { .. })
    );
    assert!(is_cut_off, "{cut_off}");
    for (id, expected) in [
        ("9999999-kept", "events only"),
        ("1-kept,write0.9999", "nothing that it names"),
    ] {
        let Err(error) = setup.left_by(id.parse().unwrap()) else {
            panic!("{id}: must be refused");
        };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// A recording that starts before mkfs is judged from its end on.
#[test]
fn what_mkfs_leaves_unfinished_is_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let bytes = record_mkfs(&path);
    let report = Setup::new(&path, 1).explore(&|_, _| {}).unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let tally = report.tally;
    assert!(report.start > 0 && tally.explored > 0, "{report:?}");
    assert!(tally.explored < tally.instants_at_flushes + tally.instants_between);
    let early = Setup::new(&path, 1).left_by("1-kept".parse().unwrap());
    let Err(error) = early else {
        panic!("it is not whole");
    };
    assert!(error.to_string().contains("before that instant"), "{error}");
    assert!(bytes > 0);
}

/// Records a discard of a whole disk, mkfs and a change of the new volume; returns the length.
fn record_mkfs(path: &Path) -> u64 {
    const SIZE: u64 = 1 << 36;
    let recording = Recording::new(BufWriter::new(File::create(path).unwrap()));
    let inner = Arc::clone(&recording);
    let run = sim::run(sim::Config::fair(1), move || {
        let memory = block::MemoryDevice::new(SIZE).with_geometry(|geometry| {
            geometry.has_volatile_cache = true;
            geometry.has_force_unit_access = false;
        });
        let device: Arc<dyn BlockDevice> = Arc::new(inner.attach(Arc::new(memory)));
        let whole = 0..SIZE;
        device.discard(&[whole]).unwrap();
        let options = ext::mkfs::Options {
            file_system: ext::mkfs::FileSystemType::Ext4,
            block_count: Some(16 << 10),
            block_bytes: Some(1024),
            ..ext::mkfs::Options::default()
        };
        ext::mkfs::format(&device, &options).unwrap();
        let options = crash::disks::quiet(DataMode::Ordered);
        let volume = ext::Volume::open(device, None, options).unwrap();
        volume.sync().unwrap();
        volume.close().unwrap();
    });
    run.unwrap();
    recording.finish().unwrap();
    fs::metadata(path).unwrap().len()
}

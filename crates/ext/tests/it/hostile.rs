//! Several tasks on one volume in simulated worlds that switch between them at the worst moments:
//! thousands of schedules, a short log that wraps, transaction numbers that wrap. The world reports
//! a deadlock, a panic or a task that is left, with the text that repeats the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use ext::options::{DataMode, Memory};
use ext::tuning::{DirtyOf, Writeback, Writers};
use ext::volume::{NewInode, OpenFlags, RenameMode, SetAttributes};
use ext::{Error, MountOptions, Tuning, Volume};
use jbd2::LogPolicy;
use layout::InodeNr;
use rt::Nanos;
use testkit::Random;

use crate::rig::{Place, Rig, Structures};

/// Number of worlds in each default test. `JEXT_TEST_WORLDS` overrides it.
const WORLDS: u64 = 30;
const TASKS: u64 = 4;
const OPERATIONS: u32 = 40;
const VOLUME_BYTES: u64 = 12 << 20;
/// A transaction number that wraps after a few commits.
pub const NEARLY_WRAPPED: u32 = 0xFFFF_FFF0;
/// Interval of worlds that `e2fsck` checks, too.
const FSCK_ONE_IN: u64 = 10;
/// Interval of worlds with transaction numbers that wrap.
const WRAP_ONE_IN: u64 = 3;

/// An interval longer than a world may run.
const NEVER: Nanos = Nanos::from_secs(10_000_000);

/// Returns every part of a kernel of 2002, with writes that no thread waits for.
fn kernel_of_2002() -> Tuning {
    Tuning {
        log_policy: LogPolicy::LINUX24,
        writeback: Writeback {
            dirty_of: DirtyOf::Inactive,
            stop_percent: 0,
            writers: Writers::Submit,
            ..Writeback::default()
        },
        ..Tuning::default()
    }
}

/// Returns the number of worlds.
pub fn worlds(by_default: u64) -> u64 {
    match std::env::var("JEXT_TEST_WORLDS") {
        Ok(count) => count.parse().expect("JEXT_TEST_WORLDS is a number"),
        Err(_) => by_default,
    }
}

/// Returns the first seed: 0, unless `JEXT_TEST_SEED` overrides it.
pub fn first_seed() -> u64 {
    match std::env::var("JEXT_TEST_SEED") {
        Ok(seed) => seed.parse().expect("JEXT_TEST_SEED is a number"),
        Err(_) => 0,
    }
}

/// Returns mount options by the seed, under which the daemons work. In some worlds the writer
/// daemon does not, and nothing that waits is helped by its next round.
pub fn options(random: &mut Random) -> MountOptions {
    let modes = [DataMode::Ordered, DataMode::Writeback, DataMode::Journal];
    let interval = Nanos::from_millis(1 + random.below(50));
    let mut memory = Memory {
        budget_bytes: 1 << *random.pick(&[20, 24]),
        writer_interval: *random.pick(&[interval, interval, interval, NEVER]),
        dirty_expiry: Nanos::from_millis(1 + random.below(50)),
        ..Memory::default()
    };
    let tuning = *random.pick(&[
        Tuning::default(),
        Tuning::default(),
        Tuning {
            log_policy: LogPolicy::LINUX24,
            ..Tuning::default()
        },
        kernel_of_2002(),
    ]);
    if tuning == kernel_of_2002() {
        // Writers submit writes.
        memory.dirty_background_percent = random.below(3) as u8;
        memory.dirty_percent = memory.dirty_background_percent;
    }
    MountOptions {
        data: *random.pick(&modes),
        tuning,
        commit_interval: Nanos::from_millis(1 + random.below(100)),
        sync: random.below(10) == 0,
        directory_sync: random.below(10) == 0,
        memory,
        ..MountOptions::default()
    }
}

/// The model of one task's directory.
struct Task {
    volume: Arc<Volume>,
    random: Random,
    directory: InodeNr,
    shared: InodeNr,
    files: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Task {
    fn step(&mut self) {
        match self.random.below(13) {
            0..=2 => self.create(),
            3..=5 => self.write(),
            6 => self.truncate(),
            7 => self.unlink(),
            8 => self.rename(),
            9 => self.read(),
            10 => self.sync(),
            11 => self.quarrel(),
            _ => rt::sleep(Nanos::from_micros(self.random.below(3000))),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("file{}", self.random.below(12)).into_bytes()
    }

    fn old(&mut self) -> Option<Vec<u8>> {
        let names: Vec<Vec<u8>> = self.files.keys().cloned().collect();
        (!names.is_empty()).then(|| self.random.pick(&names).clone())
    }

    fn create(&mut self) {
        let name = self.name();
        let made = self
            .volume
            .create(self.directory, &name, &NewInode::default());
        match made {
            Ok(_) => assert!(
                self.files.insert(name, Vec::new()).is_none(),
                "it was not there"
            ),
            Err(Error::Exists) => assert!(self.files.contains_key(&name), "it was there"),
            Err(error) => panic!("create: {error}"),
        }
    }

    fn write(&mut self) {
        let Some(name) = self.old() else { return };
        let size = self.files[&name].len() as u64;
        let offset = self.random.below(size + 2000);
        let length = (1 + self.random.below(6000)) as usize;
        let bytes = self.random.bytes(length);
        let flags = OpenFlags {
            sync: self.random.below(12) == 0,
            direct: self.random.below(12) == 0,
            ..OpenFlags::READ_WRITE
        };
        let nr = self
            .volume
            .lookup(self.directory, &name)
            .expect("it is there");
        let file = self.volume.open_inode(nr, flags).expect("open");
        self.volume.write_all(file, offset, &bytes).expect("write");
        self.volume.release(file).expect("close");
        let contents = self.files.get_mut(&name).expect("it is there");
        let end = offset as usize + length;
        contents.resize(contents.len().max(end), 0);
        contents[offset as usize..end].copy_from_slice(&bytes);
    }

    fn truncate(&mut self) {
        let Some(name) = self.old() else { return };
        let size = self.random.below(9000);
        let nr = self
            .volume
            .lookup(self.directory, &name)
            .expect("it is there");
        let change = SetAttributes {
            size: Some(size),
            ..Default::default()
        };
        self.volume.set_attributes(nr, &change).expect("truncate");
        self.files
            .get_mut(&name)
            .expect("it is there")
            .resize(size as usize, 0);
    }

    fn unlink(&mut self) {
        let Some(name) = self.old() else { return };
        self.volume.unlink(self.directory, &name).expect("unlink");
        self.files.remove(&name);
    }

    fn rename(&mut self) {
        let Some(name) = self.old() else { return };
        let to = self.name();
        let volume = &self.volume;
        volume
            .rename(
                self.directory,
                &name,
                self.directory,
                &to,
                RenameMode::Replace,
            )
            .expect("rename");
        let contents = self.files.remove(&name).expect("it is there");
        self.files.insert(to, contents);
    }

    fn read(&mut self) {
        let Some(name) = self.old() else { return };
        let seen = contents(&self.volume, self.directory, &name);
        assert!(seen == self.files[&name], "contents of {name:?}");
    }

    fn sync(&mut self) {
        let Some(name) = self.old() else {
            return self.volume.sync().expect("sync");
        };
        let nr = self
            .volume
            .lookup(self.directory, &name)
            .expect("it is there");
        let file = self
            .volume
            .open_inode(nr, OpenFlags::READ_WRITE)
            .expect("open");
        match self.random.below(4) {
            0 => self.volume.sync().expect("sync"),
            1 => self
                .volume
                .sync_directory(self.directory)
                .expect("fsync of a directory"),
            2 => self.volume.sync_file(file, true).expect("fdatasync"),
            _ => self.volume.sync_file(file, false).expect("fsync"),
        }
        self.volume.release(file).expect("close");
    }

    /// Runs an operation in the directory that all tasks share: the first task wins.
    fn quarrel(&mut self) {
        let (one, other) = (self.name(), self.name());
        let (volume, shared) = (&self.volume, self.shared);
        let new = NewInode::default();
        let result = match self.random.below(8) {
            0 => volume.create(shared, &one, &new).map(drop),
            1 => volume.make_directory(shared, &one, &new).map(drop),
            2 => volume.unlink(shared, &one),
            3 => volume.remove_directory(shared, &one),
            4 => volume.rename(shared, &one, shared, &other, RenameMode::Replace),
            5 => volume.rename(shared, &one, shared, &other, RenameMode::Exchange),
            6 => volume
                .lookup(shared, &one)
                .and_then(|nr| volume.link(nr, shared, &other)),
            _ => volume.lookup(shared, &one).and_then(|nr| {
                let file = volume.open_inode(nr, OpenFlags::READ_WRITE)?;
                let written = volume.write_all(file, self.random.below(5000), &[7; 700]);
                let unlinked = volume.unlink(shared, &one);
                let again = volume.write_all(file, 0, &[8; 300]);
                volume.release(file).expect("close");
                written.and(unlinked).and(again)
            }),
        };
        match result {
            Ok(())
            | Err(
                Error::Exists
                | Error::NotFound
                | Error::IsDirectory
                | Error::NotDirectory
                | Error::NotEmpty
                | Error::Invalid(_),
            ) => {}
            Err(error) => panic!("in the shared directory: {error}"),
        }
    }
}

fn contents(volume: &Volume, directory: InodeNr, name: &[u8]) -> Vec<u8> {
    let nr = volume.lookup(directory, name).expect("it is there");
    let size = volume.attributes(nr).expect("attributes").size;
    let file = volume.open_inode(nr, OpenFlags::READ).expect("open");
    let mut bytes = vec![0xAA; size as usize + 10];
    let count = volume.read(file, 0, &mut bytes).expect("read");
    volume.release(file).expect("close");
    bytes.truncate(count);
    bytes
}

fn assert_same(volume: &Volume, task: u64, files: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let directory = volume
        .resolve(&format!("/task{task}"), true)
        .expect("it is there");
    let listed = volume.list(&format!("/task{task}")).expect("readdir");
    let names: Vec<&[u8]> = listed.iter().map(|entry| entry.name.as_slice()).collect();
    assert_eq!(names.len(), files.len(), "names of task {task}: {names:?}");
    for (name, expected) in files {
        assert!(
            contents(volume, directory, name) == *expected,
            "task {task}, {name:?}"
        );
    }
}

/// Runs one world.
fn live(rig: &Rig, seed: u64) {
    let mut random = Random::new(seed);
    let options = options(&mut random);
    let volume = Arc::new(rig.open(options.clone()));
    let shared = volume.create_directory("/shared").expect("mkdir");
    let handles: Vec<_> = (0..TASKS)
        .map(|number| {
            let directory = volume
                .create_directory(&format!("/task{number}"))
                .expect("mkdir");
            let mut task = Task {
                volume: Arc::clone(&volume),
                random: Random::new(random.next()),
                directory,
                shared,
                files: BTreeMap::new(),
            };
            rt::spawn(&format!("task{number}"), move || {
                (0..OPERATIONS).for_each(|_| task.step());
                task.files
            })
        })
        .collect();
    let all: Vec<_> = handles
        .into_iter()
        .map(|handle| handle.join().expect("it ends well"))
        .collect();
    let volume = Arc::into_inner(volume).expect("the tasks are gone");
    let check = |volume: &Volume| {
        for (task, files) in all.iter().enumerate() {
            assert_same(volume, task as u64, files);
        }
    };
    check(&volume);
    volume.close().expect("close");
    let volume = rig.open(MountOptions {
        read_only: true,
        ..options
    });
    check(&volume);
    volume.close().expect("close");
}

fn explore(place: Place, policy: fn(u64) -> sim::Config) {
    let made = [Structures::Ext3, Structures::Ext4].map(|structures| {
        let made = Rig::of(structures, place, 1024, VOLUME_BYTES);
        let wrapping = made.copy();
        if place != Place::None {
            wrapping.set_sequence(NEARLY_WRAPPED);
        }
        (made, wrapping)
    });
    let first = first_seed();
    for seed in first..first + worlds(WORLDS) {
        let (made, wrapping) = &made[(seed % 2) as usize];
        let rig = if seed / 2 % WRAP_ONE_IN == 0 {
            wrapping.copy()
        } else {
            made.copy()
        };
        let inside = Rig {
            home: Arc::clone(&rig.home),
            log: rig.log.clone(),
            block_bytes: rig.block_bytes,
        };
        let run = sim::run(policy(seed), move || live(&inside, seed));
        run.unwrap_or_else(|error| panic!("seed {seed}, journal {place:?}: {error}"));
        if seed % FSCK_ONE_IN == 0 {
            // Copies, because these devices belong to the world that has ended.
            rig.copy()
                .assert_fsck_clean(&format!("after the world of seed {seed}"));
        }
    }
}

/// Returns the configuration of worlds that switch at few, badly placed points.
pub fn pct(seed: u64) -> sim::Config {
    sim::Config::pct(seed, 3 + (seed % 5) as u32)
}

#[test]
fn random_internal() {
    explore(Place::Internal, sim::Config::random);
}

#[test]
fn random_external() {
    explore(Place::External, sim::Config::random);
}

#[test]
fn pct_internal() {
    explore(Place::Internal, pct);
}

#[test]
fn pct_external() {
    explore(Place::External, pct);
}

#[test]
fn random_without_a_journal() {
    explore(Place::None, sim::Config::random);
}

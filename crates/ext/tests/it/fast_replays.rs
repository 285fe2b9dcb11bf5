//! Fast commits that a replay has to fit into what the volume has: the log, and the free blocks.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FileSystemType, JournalOption};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags, RangeChange};
use ext::{MountOptions, Volume};

use crate::rig::{quiet, take_free_blocks};

const BLOCK: u64 = 1024;

/// A volume with the shortest journal that has fast commits.
struct Bench {
    volume: Volume,
    device: Arc<MemoryDevice>,
}

fn bench(size: u64, features: &[&str]) -> Bench {
    let device = Arc::new(MemoryDevice::new(size));
    let home: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let mut options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(BLOCK as u32),
        journal: JournalOption::Blocks(1024),
        reserved_percent: 0.0,
        ..mkfs::Options::default()
    };
    for feature in [&["fast_commit"], features].concat() {
        options.features.add(feature).expect("it is known");
    }
    mkfs::format(&home, &options).expect("the volume is made");
    let volume = Volume::open(home, None, options_of_tests()).expect("the volume opens");
    Bench { volume, device }
}

fn options_of_tests() -> MountOptions {
    MountOptions {
        fast_commits: true,
        ..quiet(DataMode::Ordered)
    }
}

impl Bench {
    fn make(&self, path: &str) {
        self.volume.write_file(path, b"").expect(path);
    }

    /// Runs steps after a full commit. Returns the numbers of commits and of fast commits.
    fn run(&self, steps: impl FnOnce(&Self)) -> (u64, u64) {
        self.volume.sync().expect("sync");
        let before = self.volume.journal_stats().expect("there is a journal");
        steps(self);
        let stats = self.volume.journal_stats().expect("there is a journal") - before;
        (stats.commits, stats.fast_commits)
    }

    /// Opens the volume as after a power cut.
    fn reopen(&self) -> Volume {
        let device: Arc<dyn BlockDevice> = Arc::new(self.device.snapshot());
        let opened = Volume::open(device, None, options_of_tests());
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a file and makes it durable.
    fn make_durable(&self, path: &str) {
        self.make(path);
        let file = self.volume.open_file(path, OpenFlags::READ).expect(path);
        file.sync_all().expect("fsync");
        file.close().expect("close");
    }
}

/// Returns a name of this length.
fn name(letter: char, length: usize) -> String {
    format!("/d/{}", letter.to_string().repeat(length))
}

/// A file whose tree has more nodes than the log has blocks: they all change if a replay builds
/// the tree anew.
#[test]
fn a_tree_larger_than_the_log_gets_no_fast_commit() {
    const BLOCKS: u64 = 100_000;
    let bench = bench(192 << 20, &[]);
    bench.make("/pieces");
    let volume = &bench.volume;
    let nr = volume.resolve("/pieces", true).expect("it is there");
    volume
        .change_range(nr, 0, BLOCKS * BLOCK, RangeChange::Allocate, false)
        .expect("fallocate");
    let file = volume
        .open_file("/pieces", OpenFlags::READ_WRITE)
        .expect("open");
    for at in (0..BLOCKS).step_by(2) {
        file.write_at(at * BLOCK, &[1; BLOCK as usize])
            .expect("write");
    }
    let commits = bench.run(|_| {
        file.write_at(BLOCK, &[2; BLOCK as usize]).expect("write");
        file.sync_all().expect("fsync");
    });
    let after = bench.reopen();
    let mut bytes = [0; 2 * BLOCK as usize];
    let found = after.open_file("/pieces", OpenFlags::READ).expect("open");
    found.read_at(BLOCK, &mut bytes).expect("read");
    assert!(bytes[..BLOCK as usize] == [2; BLOCK as usize] && bytes[BLOCK as usize] == 1);
    assert_eq!(commits, (1, 0));
}

/// Makes a directory of one full block, and takes all other blocks of the volume. The names of
/// 24 letters have entries of 32 bytes.
fn full_directory(bench: &Bench) {
    let letters = "abcdefghijklmnopqrstuvwxyzABCD";
    bench.volume.create_directory("/d").expect("mkdir");
    for letter in letters.chars() {
        bench.make(&name(letter, 24));
    }
    // 988 bytes are left behind the first two entries and before the checksum.
    bench.make(&name('E', 8));
    bench.make(&name('F', 1));
    take_free_blocks(&bench.volume);
    let is_full = bench.volume.create_file("/d/more", &NewInode::default());
    assert!(is_full.is_err(), "the directory has room");
}

/// A name that was created and removed has steered where others went.
#[test]
fn a_name_that_is_gone_has_its_place_in_a_linear_directory() {
    let bench = bench(16 << 20, &["^dir_index"]);
    full_directory(&bench);
    bench.volume.remove_file(&name('b', 24)).expect("unlink");
    bench.volume.remove_file(&name('E', 8)).expect("unlink");
    let commits = bench.run(|bench| {
        bench.make(&name('1', 24));
        bench.make(&name('2', 8));
        bench.volume.remove_file(&name('1', 24)).expect("unlink");
        bench.make_durable(&name('3', 24));
    });
    let after = bench.reopen();
    after.resolve(&name('2', 8), true).expect("it is there");
    after.resolve(&name('3', 24), true).expect("it is there");
    assert_eq!(commits, (1, 0));
}

/// A name that gets another file keeps its entry, and a replay removes and adds it.
#[test]
fn a_replaced_name_stays_in_its_place_in_a_linear_directory() {
    let bench = bench(16 << 20, &["^dir_index"]);
    bench.make("/other");
    full_directory(&bench);
    // A gap of 64 bytes before the name.
    bench.volume.remove_file(&name('b', 24)).expect("unlink");
    bench.volume.remove_file(&name('c', 24)).expect("unlink");
    let commits = bench.run(|bench| {
        let volume = &bench.volume;
        volume
            .rename_path("/other", &name('f', 24))
            .expect("rename");
        bench.make_durable(&name('v', 56));
    });
    let after = bench.reopen();
    after.resolve(&name('v', 56), true).expect("it is there");
    after.resolve(&name('f', 24), true).expect("it is there");
    assert_eq!(commits, (1, 0));
}

/// An entry for which a block was compacted: Linux splits such a block when it replays.
#[test]
fn a_compacted_block_gets_no_fast_commit() {
    let bench = bench(16 << 20, &[]);
    full_directory(&bench);
    bench.volume.remove_file(&name('b', 24)).expect("unlink");
    bench.volume.remove_file(&name('f', 24)).expect("unlink");
    let commits = bench.run(|bench| {
        bench.make_durable(&name('v', 56));
    });
    bench.reopen().resolve(&name('v', 56), true).expect("there");
    assert_eq!(commits, (1, 0));
}

/// With indexes the places within a block do not matter.
#[test]
fn temporary_and_replaced_names_get_fast_commits() {
    let bench = bench(16 << 20, &[]);
    bench.volume.create_directory("/d").expect("mkdir");
    bench.make(&name('f', 24));
    let commits = bench.run(|bench| {
        bench.make(&name('t', 24));
        bench.volume.remove_file(&name('t', 24)).expect("unlink");
        bench.make("/d/new");
        let (volume, old) = (&bench.volume, name('f', 24));
        volume.rename_path("/d/new", &old).expect("rename");
        let nr = volume.resolve("/d", true).expect("it is there");
        volume.sync_directory(nr).expect("fsync");
    });
    assert_eq!(commits, (0, 1));
    let after = bench.reopen();
    assert!(after.resolve("/d/new", true).is_err());
}

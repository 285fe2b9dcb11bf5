//! Volumes that age: files are created, appended to in turns and deleted while the volume is almost
//! full. The same operations run with both allocators, and in a longer test on the kernel's ext4.
//! The measure is the mean number of extents of a file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use block::file::create_sparse;
use ext::mkfs::{self, FileSystemType};
use ext::options::DataMode;
use ext::tuning::AllocationProfile;
use ext::volume::{FileExtent, FileId, NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use testkit::{Mount, Random, tool};

use crate::rig::quiet;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const DIRECTORIES: u32 = 12;
/// Number of files that grow at a time.
const OPEN_FILES: usize = 3;
/// Number of files that `filefrag` gets at a time.
const FILES_AT_A_TIME: usize = 200;

/// A step of the load.
enum Step {
    Append { file: u32, at: u64, bytes: u64 },
    Close(u32),
    Delete(u32),
}

/// A load that keeps a volume almost full. The steps depend on the seed alone.
struct Load {
    random: Random,
    /// Bytes that files may have in total: the bounds between which the load keeps them.
    bounds: (u64, u64),
    is_filling: bool,
    total: u64,
    /// The size of each file.
    files: BTreeMap<u32, u64>,
    /// The files that grow: name, bytes to come, bytes in a write.
    open: Vec<(u32, u64, u64)>,
    next: u32,
}

impl Load {
    fn new(seed: u64, room: u64) -> Self {
        Self {
            random: Random::new(seed),
            bounds: (room / 100 * 80, room / 100 * 90),
            is_filling: true,
            total: 0,
            files: BTreeMap::new(),
            open: Vec::new(),
            next: 0,
        }
    }

    /// Returns the next step.
    fn step(&mut self) -> Step {
        if self.total < self.bounds.0 {
            self.is_filling = true;
        } else if self.total > self.bounds.1 {
            self.is_filling = false;
        }
        if !self.is_filling && self.open.len() < self.files.len() {
            return self.delete();
        }
        if self.open.len() < OPEN_FILES {
            self.start();
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        let (file, left, unit) = &mut self.open[at];
        let file = *file;
        if *left == 0 {
            self.open.remove(at);
            return Step::Close(file);
        }
        let bytes = (*left).min(*unit);
        *left -= bytes;
        let size = self.files.entry(file).or_default();
        let at = *size;
        *size += bytes;
        self.total += bytes;
        Step::Append { file, at, bytes }
    }

    /// Starts to write a new file, or to append to an old one.
    fn start(&mut self) {
        let bytes = match self.random.below(100) {
            0..60 => 1 + self.random.below(64 * KIB),
            60..92 => 64 * KIB + self.random.below(MIB),
            _ => MIB + self.random.below(4 * MIB),
        };
        let unit = *self.random.pick(&[4 * KIB, 64 * KIB, 4 * MIB]);
        let is_old = self.random.below(4) == 0 && !self.files.is_empty();
        let nth = self.random.below(self.files.len().max(1) as u64) as usize;
        let old = self.files.keys().nth(nth).filter(|_| is_old).copied();
        let old = old.filter(|file| self.open.iter().all(|(open, _, _)| open != file));
        let file = old.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.open.push((file, bytes, unit));
    }

    fn delete(&mut self) -> Step {
        loop {
            let nth = self.random.below(self.files.len() as u64) as usize;
            let (&file, &size) = self.files.iter().nth(nth).expect("there are files");
            if self.open.iter().all(|(open, _, _)| *open != file) {
                self.files.remove(&file);
                self.total -= size;
                return Step::Delete(file);
            }
        }
    }
}

/// Runs a load until it has written this number of bytes.
fn age(mut load: Load, bytes: u64, mut run: impl FnMut(Step)) -> Load {
    let mut written = 0;
    while written < bytes {
        let step = load.step();
        if let Step::Append { bytes, .. } = step {
            written += bytes;
        }
        run(step);
    }
    for (file, _, _) in &load.open {
        run(Step::Close(*file));
    }
    load
}

/// A volume of the engine.
struct Engine<'v> {
    volume: &'v Volume,
    directories: Vec<InodeNr>,
    open: BTreeMap<u32, FileId>,
    bytes: Vec<u8>,
}

impl<'v> Engine<'v> {
    fn new(volume: &'v Volume) -> Self {
        let make = |number| volume.create_directory(&format!("/d{number}"));
        Self {
            volume,
            directories: (0..DIRECTORIES)
                .map(|nr| make(nr).expect("mkdir"))
                .collect(),
            open: BTreeMap::new(),
            bytes: vec![7; 4 * MIB as usize],
        }
    }

    fn place(&self, file: u32) -> (InodeNr, Vec<u8>) {
        let directory = self.directories[(file % DIRECTORIES) as usize];
        (directory, format!("f{file}").into_bytes())
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { file, at, bytes } => {
                let open = match self.open.get(&file) {
                    Some(open) => *open,
                    None => self.open(file),
                };
                let bytes = &self.bytes[..bytes as usize];
                let mut done = 0;
                while done < bytes.len() {
                    let written = self.volume.write(open, at + done as u64, &bytes[done..]);
                    done += written.expect("there is room");
                }
            }
            Step::Close(file) => {
                if let Some(open) = self.open.remove(&file) {
                    self.volume.release(open).expect("close");
                }
            }
            Step::Delete(file) => {
                let (directory, name) = self.place(file);
                self.volume.unlink(directory, &name).expect("unlink");
            }
        }
    }

    fn open(&mut self, file: u32) -> FileId {
        let (directory, name) = self.place(file);
        let nr = match self.volume.lookup(directory, &name) {
            Ok(nr) => nr,
            Err(_) => {
                let made = self.volume.create(directory, &name, &NewInode::default());
                made.expect("create")
            }
        };
        let open = self
            .volume
            .open_inode(nr, OpenFlags::READ_WRITE)
            .expect("open");
        self.open.insert(file, open);
        open
    }

    /// Returns the extents of each file, those of its block map included.
    fn extents(&self, load: &Load) -> Vec<Vec<FileExtent>> {
        let of = |file: &u32| {
            let (directory, name) = self.place(*file);
            let nr = self.volume.lookup(directory, &name).expect("it is there");
            self.volume.blocks_of(nr).expect("sound")
        };
        load.files.keys().map(of).collect()
    }

    /// Returns the mean number of extents of a file.
    fn mean(&self, load: &Load) -> f64 {
        let files = self.extents(load).into_iter();
        let extents = files.map(|mut blocks| {
            blocks.retain(|extent| extent.file_block.is_some());
            let follows =
                |pair: &&[FileExtent]| pair[0].first + u64::from(pair[0].count) == pair[1].first;
            blocks.len() - blocks.windows(2).filter(follows).count()
        });
        extents.sum::<usize>() as f64 / load.files.len() as f64
    }
}

fn options(file_system: FileSystemType, size: u64) -> mkfs::Options {
    mkfs::Options {
        file_system,
        block_bytes: Some(4096),
        blocks_per_group: (size < 1 << 30).then_some(2048),
        bytes_per_inode: Some(16_384),
        seconds: Some(1_000_000_000),
        ..mkfs::Options::default()
    }
}

fn room(volume: &Volume) -> u64 {
    volume.usage().blocks_free * 4096
}

/// Ages a volume in memory. Returns what `figure` finds at the end.
fn aged<T>(
    file_system: FileSystemType,
    allocation: AllocationProfile,
    seed: u64,
    (size, written): (u64, u64),
    figure: impl Fn(&Engine<'_>, &Load) -> T,
) -> T {
    let memory = std::sync::Arc::new(block::memory::MemoryDevice::new(size));
    let device = crate::rig::device(&memory);
    mkfs::format(&device, &options(file_system, size)).expect("the volume is made");
    let mut options = quiet(DataMode::Ordered);
    options.tuning.allocation = allocation;
    let volume = Volume::open(device, None, options).expect("the volume opens");
    let mut engine = Engine::new(&volume);
    let load = Load::new(seed, room(&volume));
    let load = age(load, written, |step| engine.run(&step));
    let found = figure(&engine, &load);
    volume.close().expect("close");
    found
}

/// Runs in a simulated world, where commits and write-back come at the same moments in each run:
/// when a deleted file's blocks are free again decides where the next files go.
fn simulated<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let run = sim::run(sim::Config::fair(1), work);
    run.unwrap_or_else(|error| panic!("{error}")).value
}

#[test]
fn an_aged_volume_is_no_more_fragmented_than_with_windows() {
    for seed in 1..4 {
        let profiles = [AllocationProfile::MultiBlock, AllocationProfile::Modern];
        let [together, windows] = profiles.map(|profile| {
            let sizes = (128 * MIB, 512 * MIB);
            let mean = |engine: &Engine<'_>, load: &Load| engine.mean(load);
            simulated(move || aged(FileSystemType::Ext4, profile, seed, sizes, mean))
        });
        println!("seed {seed}: {together:.3} extents a file, with windows {windows:.3}");
        assert!(together <= windows, "{together} > {windows}");
    }
}

#[test]
fn volumes_without_extents_keep_windows() {
    let of = |profile| {
        let sizes = (64 * MIB, 128 * MIB);
        let extents = |engine: &Engine<'_>, load: &Load| engine.extents(load);
        simulated(move || aged(FileSystemType::Ext3, profile, 9, sizes, extents))
    };
    let default = of(AllocationProfile::default());
    assert!(default == of(AllocationProfile::Modern));
    assert!(default != of(AllocationProfile::MultiBlock));
}

/// An image that is mounted by the kernel.
struct Kernel {
    root: PathBuf,
    open: BTreeMap<u32, File>,
    bytes: Vec<u8>,
}

impl Kernel {
    fn new(mount: &Mount) -> Self {
        let root = mount.path().to_owned();
        for number in 0..DIRECTORIES {
            fs::create_dir(root.join(format!("d{number}"))).expect("mkdir");
        }
        Self {
            root,
            open: BTreeMap::new(),
            bytes: vec![7; 4 * MIB as usize],
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { file, bytes, .. } => {
                let path = path(&self.root, file);
                let open = self.open.entry(file).or_insert_with(|| {
                    let opened = OpenOptions::new().create(true).append(true).open(path);
                    opened.expect("open")
                });
                let bytes = &self.bytes[..bytes as usize];
                open.write_all(bytes).expect("there is room");
            }
            Step::Close(file) => drop(self.open.remove(&file)),
            Step::Delete(file) => fs::remove_file(path(&self.root, file)).expect("unlink"),
        }
    }
}

fn path(root: &Path, file: u32) -> PathBuf {
    root.join(format!("d{}/f{file}", file % DIRECTORIES))
}

/// Returns the mean number of extents by `filefrag`.
fn filefrag(root: &Path, load: &Load) -> f64 {
    let paths: Vec<PathBuf> = load.files.keys().map(|file| path(root, *file)).collect();
    let counts = paths.chunks(FILES_AT_A_TIME).flat_map(|paths| {
        let said = tool::run_well("filefrag", paths);
        let counts = said.lines().map(|line| {
            let count = line
                .rsplit(": ")
                .next()
                .and_then(|rest| rest.split(' ').next());
            let count = count.and_then(|count| count.parse::<usize>().ok());
            count.unwrap_or_else(|| panic!("{line}"))
        });
        counts.collect::<Vec<_>>()
    });
    let counts: Vec<usize> = counts.collect();
    assert_eq!(counts.len(), load.files.len());
    counts.iter().sum::<usize>() as f64 / counts.len() as f64
}

/// Compares an aged volume with the kernel's, by the kernel's own count, if `JEXT_AGING_MEBIBYTES`
/// says how much to write. 20,000 take minutes.
#[test]
fn an_aged_volume_is_no_more_fragmented_than_the_kernels() {
    let Ok(written) = std::env::var("JEXT_AGING_MEBIBYTES") else {
        return;
    };
    let written = written.parse::<u64>().expect("a number") * MIB;
    let size = 2 << 30;
    let folder = tempfile::tempdir().expect("a directory for the images");
    let mut means = Vec::new();
    for is_kernel in [false, true] {
        let image = folder.path().join(format!("image-{is_kernel}"));
        create_sparse(&image, size).expect("a sparse image");
        let device = crate::image::open_device(&image);
        mkfs::format(&device, &options(FileSystemType::Ext4, size)).expect("the volume is made");
        let volume = Volume::open(device, None, MountOptions::default()).expect("it opens");
        let load = Load::new(1, room(&volume));
        let load = if is_kernel {
            volume.close().expect("close");
            let mount = Mount::new(&image, None, "ext4", "noatime").expect("mounts");
            let mut kernel = Kernel::new(&mount);
            age(load, written, |step| kernel.run(&step))
        } else {
            let mut engine = Engine::new(&volume);
            let load = age(load, written, |step| engine.run(&step));
            volume.close().expect("close");
            load
        };
        let mount = Mount::new(&image, None, "ext4", "ro").expect("mounts");
        let mean = filefrag(mount.path(), &load);
        println!("kernel {is_kernel}: {mean:.3} extents a file");
        means.push(mean);
        drop(mount);
        fs::remove_file(&image).expect("it is there");
    }
    assert!(means[0] <= means[1], "{means:?}");
}

//! Data and holes, while the kernel caches a part of the data. The kernel's own ext3 is the
//! reference.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use ext::mkfs::{self, FileSystemType};
use fuse::Settings;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use testkit::tool;

use super::support::{IMAGE_BYTES, KINDS, Mounted, Place, on_a_mount};

/// Page size in bytes, and the block size where the kernel's file systems are compared.
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    options.truncate(false).open(path).unwrap()
}

/// Returns the extents of data, as programs find them that copy only data.
fn stretches(file: &File) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return found,
            Err(error) => panic!("data from {at}: {error}"),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap();
        assert!(at > start, "there are data at {start}");
        found.push((start, at));
    }
}

/// An offset, and the next data and the next hole from there on.
type Answer = (u64, Result<u64, Errno>, Result<u64, Errno>);

/// Returns the answers at many offsets, within and beyond the file.
fn answers(file: &File) -> Vec<Answer> {
    let size = file.metadata().unwrap().len();
    let mut offsets: Vec<_> = (0..size).step_by(50_001).collect();
    offsets.extend([
        size.saturating_sub(1),
        size,
        size + 1,
        10 * MIB,
        i64::MAX as u64,
    ]);
    offsets
        .into_iter()
        .map(|offset| {
            let data = rustix::fs::seek(file, SeekFrom::Data(offset));
            (offset, data, rustix::fs::seek(file, SeekFrom::Hole(offset)))
        })
        .collect()
}

/// A size that is set, and the writes that follow.
struct Case {
    name: &'static str,
    size: u64,
    writes: &'static [(u64, usize)],
}

const CASES: &[Case] = &[
    Case {
        name: "empty",
        size: 0,
        writes: &[],
    },
    Case {
        name: "nothing but a hole",
        size: MIB,
        writes: &[],
    },
    Case {
        name: "no hole",
        size: 0,
        writes: &[(0, 300_000)],
    },
    Case {
        name: "a hole at the start",
        size: 0,
        writes: &[(400_000, 100_000)],
    },
    Case {
        name: "a hole in the middle",
        size: 0,
        writes: &[(0, 5000), (2 * MIB, 70_000)],
    },
    Case {
        name: "a hole at the end",
        size: MIB,
        writes: &[(0, 123_456)],
    },
    Case {
        name: "a page at the end",
        size: MIB,
        writes: &[(MIB - 10, 10)],
    },
    Case {
        name: "one byte behind the end",
        size: 10_000,
        writes: &[(50_000, 1)],
    },
    Case {
        name: "many",
        size: 6 * MIB,
        writes: &[
            (1, 1),
            (9 * PAGE, 4096),
            (11 * PAGE, 4096),
            (100_000, 20_000),
            (5 * MIB + 77, 9000),
        ],
    },
];

/// Creates the file of a case; its writes are not synced.
fn make(path: &Path, case: &Case) -> File {
    let file = open(path);
    file.set_len(case.size).unwrap();
    for (offset, length) in case.writes {
        file.write_all_at(&vec![7; *length], *offset).unwrap();
    }
    file
}

fn with_pages_for_blocks(file_system: FileSystemType) -> Place {
    Place::with(&mkfs::Options {
        file_system,
        block_bytes: Some(PAGE as u32),
        ..mkfs::Options::default()
    })
}

/// Runs a function on mounts of the kernel's ext3 and ext4, and on those of jext.
fn on_both(work: impl Fn(&dyn Fn(&str) -> std::path::PathBuf, bool)) {
    if !testkit::privilege::is_granted() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
    for (file_system, kind, are_lazy) in KINDS {
        let image = image.to_str().unwrap();
        tool::run_well("mke2fs", &["-q", "-F", "-t", kind, "-b", "4096", image]);
        let kernel = testkit::Mount::new(image.as_ref(), None, kind, "rw").unwrap();
        work(&|name| kernel.at(name), true);
        drop(kernel);
        for is_lazy_open in are_lazy.iter().copied() {
            let place = with_pages_for_blocks(file_system);
            let settings = Settings {
                is_lazy_open,
                ..Settings::default()
            };
            let mounted = place.mount(&settings);
            work(&|name| mounted.at(name), false);
            mounted.end().unwrap();
            place.check();
        }
    }
}

/// Records the results on the kernel's file system, and asserts that jext's are the same.
fn compare<T: PartialEq + std::fmt::Debug>(find: impl Fn(&Path, &Case) -> T) {
    let expected = std::cell::RefCell::new(std::collections::BTreeMap::new());
    on_both(|at, is_kernel| {
        for (number, case) in CASES.iter().enumerate() {
            let found = find(&at(&format!("file-{number}")), case);
            if is_kernel {
                expected.borrow_mut().insert(number, found);
            } else {
                assert_eq!(found, expected.borrow()[&number], "{}", case.name);
            }
        }
    });
}

#[test]
fn what_is_not_written_back_yet_is_found() {
    compare(|path, case| stretches(&make(path, case)));
    // Each question is asked first once: its answer makes the kernel write back.
    compare(|path, case| {
        let file = make(path, case);
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(0));
        (hole, stretches(&file))
    });
}

#[test]
fn every_offset_has_the_answer_of_the_kernel() {
    compare(|path, case| answers(&make(path, case)));
    compare(|path, case| {
        let file = make(path, case);
        file.sync_all().unwrap();
        answers(&file)
    });
}

#[test]
fn holes_that_are_punched_are_found() {
    on_both(|at, _| {
        let file = open(&at("file"));
        file.write_all_at(&vec![9; 40 * PAGE as usize], 0).unwrap();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, 5 * PAGE, 3 * PAGE).unwrap();
        rustix::fs::fallocate(&file, flags, 14 * PAGE + 1, 3 * PAGE).unwrap();
        let expected = [(0, 5 * PAGE), (8 * PAGE, 15 * PAGE), (17 * PAGE, 40 * PAGE)];
        assert_eq!(stretches(&file), expected);
        file.write_all_at(b"one byte", 6 * PAGE).unwrap();
        assert_eq!(stretches(&file)[1], (6 * PAGE, 7 * PAGE));
    });
}

/// Tests pages changed in mapped memory, which is still mapped during the search.
#[test]
fn what_is_written_to_mapped_memory_is_found() {
    let said = std::cell::RefCell::new(String::new());
    on_both(|at, is_kernel| {
        let path = at("file");
        let script = [
            "truncate 2m",
            "mmap -rw 0 2m",
            "mwrite -S 0x5a 400000 10000",
            "mwrite -S 0x5a 1m 1",
            "seek -r -a 0",
            "mwrite -S 0x5a 1500000 1",
            "seek -r -a 0",
            "msync -s 0 2m",
            "seek -r -a 0",
        ];
        let mut words = vec!["-f".to_owned()];
        words.extend(
            script
                .iter()
                .flat_map(|line| ["-c".to_owned(), (*line).to_owned()]),
        );
        words.push(path.to_str().unwrap().to_owned());
        let found = tool::run_well("xfs_io", &words);
        if is_kernel {
            *said.borrow_mut() = found;
        } else {
            assert_eq!(found, *said.borrow());
        }
        let back = fs::read(&path).unwrap();
        let written = back.iter().filter(|byte| **byte == 0x5a).count();
        assert_eq!(written, 10_002);
    });
}

/// With blocks smaller than the kernel's pages, writes are whole pages, and no data byte may be
/// reported as a hole.
#[test]
fn blocks_may_be_smaller_than_pages() {
    on_a_mount(|mounted| {
        for (number, case) in CASES.iter().enumerate() {
            let file = make(&mounted.at(&format!("file-{number}")), case);
            let found = stretches(&file);
            for (offset, length) in case.writes {
                let end = offset + *length as u64;
                let is_in = |(from, to): &(u64, u64)| from <= offset && end <= *to;
                assert!(found.iter().any(is_in), "{}: {found:?}", case.name);
            }
            let data: u64 = found.iter().map(|(from, to)| to - from).sum();
            let most: u64 = case
                .writes
                .iter()
                .map(|(_, length)| *length as u64 + 2 * PAGE)
                .sum();
            assert!(data <= most, "{}: {found:?}", case.name);
        }
    });
}

#[test]
fn cp_copies_data_and_leaves_holes() {
    on_a_mount(|mounted| {
        let (from, to) = (mounted.at("from"), mounted.at("to"));
        let file = make(&from, &CASES[CASES.len() - 1]);
        // While the file is open, the kernel keeps the writes in its cache.
        for option in ["--sparse=auto", "--sparse=auto --reflink=never"] {
            let mut words: Vec<_> = option.split(' ').map(std::ffi::OsStr::new).collect();
            words.extend([from.as_os_str(), to.as_os_str()]);
            tool::run_well("cp", &words);
            assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
            let blocks = |path: &Path| {
                File::open(path).unwrap().sync_all().unwrap();
                fs::metadata(path).unwrap().blocks()
            };
            assert!(blocks(&to) <= blocks(&from), "{option}");
            file.write_all_at(b"more", 3 * MIB).unwrap();
        }
    });
}

/// Each written byte must be data for every thread, and no thread may wait forever.
#[test]
fn sixteen_threads_write_and_look() {
    on_a_mount(|mounted| {
        let shared = open(&mounted.at("shared"));
        shared.set_len(4 * MIB).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..16 {
                let shared = &shared;
                scope.spawn(move || write_and_look(mounted, shared, worker));
            }
        });
        let found = stretches(&shared);
        for page in (0..16).flat_map(pages_of) {
            let at = page * PAGE;
            assert!(found.iter().any(|(from, to)| (*from..*to).contains(&at)));
        }
    });
}

/// Returns the pages of the shared file that a thread writes, with holes between them.
fn pages_of(worker: u64) -> impl Iterator<Item = u64> {
    (0..30).map(move |round| (worker * 60 + round * 37) % 1000)
}

fn write_and_look(mounted: &Mounted, shared: &File, worker: u64) {
    let own = open(&mounted.at(&format!("own-{worker}")));
    for (round, page) in pages_of(worker).enumerate() {
        shared
            .write_all_at(&[1 + worker as u8; 100], page * PAGE)
            .unwrap();
        assert_eq!(
            rustix::fs::seek(shared, SeekFrom::Data(page * PAGE)),
            Ok(page * PAGE)
        );
        let end = rustix::fs::seek(shared, SeekFrom::Hole(page * PAGE)).unwrap();
        assert!(end >= (page + 1) * PAGE);
        let at = round as u64 * 3 * PAGE;
        own.write_all_at(b"own", at).unwrap();
        assert_eq!(rustix::fs::seek(&own, SeekFrom::Data(at)), Ok(at));
        assert_eq!(rustix::fs::seek(&own, SeekFrom::Hole(at)), Ok(at + 3));
        if round % 8 == worker as usize % 8 {
            shared.sync_data().unwrap();
        }
    }
}

/// A forced unmount during searches must still end.
#[test]
fn a_mount_ends_while_holes_are_looked_for() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = with_pages_for_blocks(FileSystemType::Ext3);
    let mounted = place.mount(&Settings::default());
    let (found, all_found) = std::sync::mpsc::channel();
    let lookers: Vec<_> = (0..8_u64)
        .map(|worker| {
            let file = open(&mounted.at(&format!("file-{worker}")));
            let found = found.clone();
            std::thread::spawn(move || {
                for round in 0.. {
                    let at = round % 4000 * PAGE * 2;
                    let looked = file
                        .write_all_at(b"data", at)
                        .and_then(|()| Ok(rustix::fs::seek(&file, SeekFrom::Hole(at))?));
                    if looked.is_err() {
                        return;
                    }
                    if round == 20 {
                        found.send(()).unwrap();
                    }
                }
            })
        })
        .collect();
    for _ in &lookers {
        all_found
            .recv_timeout(std::time::Duration::from_secs(60))
            .expect("each of them finds holes before the mount ends");
    }
    mounted.end().unwrap();
    for looker in lookers {
        looker.join().unwrap();
    }
    place.check();
}

/// A byte that was just written is found, however much the kernel has to write back first.
#[test]
fn a_byte_that_was_just_written_is_data() {
    on_a_mount(|mounted| {
        let (file, other) = (open(&mounted.at("file")), open(&mounted.at("other")));
        let much = vec![7; 20 << 20];
        for round in 0..24 {
            let at = PAGE << (round % 8);
            file.set_len(0).unwrap();
            other.write_all_at(&much, 0).unwrap();
            file.write_all_at(b"x", at).unwrap();
            let found = rustix::fs::seek(&file, SeekFrom::Data(0));
            assert_eq!(found, Ok(at), "round {round}");
        }
        for round in 0..1000 {
            let at = PAGE << (round % 8);
            file.set_len(0).unwrap();
            file.write_all_at(b"x", at).unwrap();
            let found = rustix::fs::seek(&file, SeekFrom::Data(0));
            assert_eq!(found, Ok(at), "round {round}");
        }
    });
}

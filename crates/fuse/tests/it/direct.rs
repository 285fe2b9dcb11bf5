//! Direct writes to one file, side by side (`is_direct_parallel`).

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ext::MountOptions;
use ext::mkfs;
use fuse::Settings;
use rustix::fs::OFlags;
use testkit::tool;

use super::devices::Meeting;
use super::support::{KINDS, Mounted, Place};

const PAGE_BYTES: usize = 4096;
/// Number of threads that write.
const THREADS: usize = 4;

/// A page of memory, aligned for direct I/O.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Runs `work` on mounted images of all types; the image must be clean afterwards.
#[track_caller]
fn on_a_parallel_mount(work: impl Fn(&Mounted)) {
    if !testkit::privilege::is_granted() {
        return;
    }
    for (file_system, ..) in KINDS {
        let place = place(file_system);
        let mounted = place.mount(&settings());
        work(&mounted);
        mounted.end().unwrap();
        place.check();
    }
}

fn place(file_system: mkfs::FileSystemType) -> Place {
    Place::with(&mkfs::Options {
        file_system,
        ..mkfs::Options::default()
    })
}

fn settings() -> Settings {
    let mut settings = Settings {
        is_direct_parallel: true,
        ..Settings::default()
    };
    settings.description.allow_other = true;
    settings
}

fn open(path: &Path, flags: OFlags) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.custom_flags(flags.bits().cast_signed());
    options.open(path).unwrap()
}

fn read_page(file: &File, at: usize) -> Vec<u8> {
    let mut page = Page([0xEE; PAGE_BYTES]);
    let count = file.read_at(&mut page.0, at as u64).unwrap();
    page.0[..count].to_vec()
}

fn xfs_io(path: &Path, options: &[&str], commands: &[&str]) -> String {
    let mut words = options.to_vec();
    for command in commands {
        words.extend(["-c", *command]);
    }
    words.push(path.to_str().unwrap());
    tool::run_well("xfs_io", &words)
}

#[test]
fn writes_of_two_threads_reach_the_device_together() {
    if !testkit::privilege::is_granted() {
        return;
    }
    for (is_direct_parallel, met) in [(false, 1), (true, 2)] {
        let place = Place::new();
        let device = Arc::new(Meeting::new(place.device()));
        let settings = Settings {
            is_direct_parallel,
            ..Settings::default()
        };
        let mounted = place.mount_device(device.clone(), &settings, MountOptions::default());
        let path = mounted.at("file");
        fs::write(&path, vec![1; 2 * PAGE_BYTES]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let file = open(&path, OFlags::DIRECT);
        device.expect(
            0xA7,
            2,
            Duration::from_secs(if is_direct_parallel { 60 } else { 1 }),
        );
        thread::scope(|scope| {
            for at in [0, PAGE_BYTES] {
                let file = &file;
                scope.spawn(move || {
                    file.write_all_at(&Page([0xA7; PAGE_BYTES]).0, at as u64)
                        .unwrap();
                });
            }
        });
        assert_eq!(device.met(), met, "parallel: {is_direct_parallel}");
        drop(file);
        assert!(fs::read(&path).unwrap() == vec![0xA7; 2 * PAGE_BYTES]);
        mounted.end().unwrap();
        place.check();
    }
}

#[test]
fn all_open_files_see_the_same() {
    on_a_parallel_mount(|mounted| {
        for (name, first, second) in [
            ("direct", OFlags::DIRECT, OFlags::empty()),
            ("cached", OFlags::empty(), OFlags::DIRECT),
            ("both", OFlags::DIRECT, OFlags::DIRECT),
        ] {
            let path = mounted.at(name);
            let files = [open(&path, first), open(&path, second)];
            for (writer, reader) in [(&files[0], &files[1]), (&files[1], &files[0])] {
                // Behind a hole that the file does not have here as long as the write is cached.
                writer.set_len(0).unwrap();
                let at = 16 * PAGE_BYTES;
                writer
                    .write_all_at(&Page([7; PAGE_BYTES]).0, at as u64)
                    .unwrap();
                assert_eq!(read_page(reader, 0), [0; PAGE_BYTES], "{name}");
                assert_eq!(read_page(reader, at), [7; PAGE_BYTES], "{name}");
                assert!(read_page(reader, at + PAGE_BYTES).is_empty(), "{name}");
                for byte in 1..50 {
                    writer.write_all_at(&Page([byte; PAGE_BYTES]).0, 0).unwrap();
                    assert_eq!(read_page(reader, 0), [byte; PAGE_BYTES], "{name}");
                }
            }
            let direct = fs::read(&path).unwrap();
            drop(files);
            assert!(fs::read(&path).unwrap() == direct, "{name}");
        }
    });
}

#[test]
fn mapped_memory_and_direct_writes_see_each_other() {
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, vec![b'a'; 2 * PAGE_BYTES]).unwrap();
        let file = open(&path, OFlags::DIRECT);
        // The map exists during the direct write, which is xfs_io's own.
        let said = xfs_io(
            &path,
            &["-d"],
            &[
                "mmap -rw 0 8192",
                "mread -v 0 2",
                "mwrite -S 0x6d 4096 1",
                "pwrite -S 0x64 0 4096",
                "mread -v 0 2",
                "msync -s 0 8192",
            ],
        );
        assert!(said.contains("61 61") && said.contains("64 64"), "{said}");
        assert_eq!(read_page(&file, 0), [b'd'; PAGE_BYTES]);
        assert_eq!(read_page(&file, PAGE_BYTES)[..2], *b"ma");
        file.write_all_at(&Page([b'e'; PAGE_BYTES]).0, 0).unwrap();
        let said = xfs_io(&path, &[], &["mmap -r 0 8192", "mread -v 0 2"]);
        assert!(said.contains("65 65"), "{said}");
    });
}

#[test]
fn appends_of_several_threads_are_all_there() {
    const APPENDS: usize = 40;
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("file");
        thread::scope(|scope| {
            for number in 1..=THREADS {
                let file = open(&path, OFlags::DIRECT | OFlags::APPEND);
                scope.spawn(move || {
                    for _ in 0..APPENDS {
                        let page = Page([number as u8; PAGE_BYTES]);
                        assert_eq!(rustix::io::write(&file, &page.0), Ok(PAGE_BYTES));
                    }
                });
            }
        });
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len(), THREADS * APPENDS * PAGE_BYTES);
        for number in 1..=THREADS {
            let is_whole = |page: &&[u8]| page.iter().all(|byte| *byte == number as u8);
            assert_eq!(found.chunks(PAGE_BYTES).filter(is_whole).count(), APPENDS);
        }
    });
}

#[test]
fn a_truncation_meets_parallel_writes() {
    const PAGES: usize = 32;
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, vec![9; PAGES * PAGE_BYTES]).unwrap();
        let file = open(&path, OFlags::DIRECT);
        thread::scope(|scope| {
            for number in 1..=THREADS {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..100 {
                        let at = (round * THREADS + number) % PAGES * PAGE_BYTES;
                        let page = Page([number as u8; PAGE_BYTES]);
                        file.write_all_at(&page.0, at as u64).unwrap();
                    }
                });
            }
            for round in 0..50 {
                let pages = if round % 2 == 0 { PAGES / 4 } else { PAGES };
                file.set_len((pages * PAGE_BYTES) as u64).unwrap();
            }
        });
        file.set_len((PAGES * PAGE_BYTES) as u64).unwrap();
        let found = fs::read(&path).unwrap();
        assert_eq!(found.len(), PAGES * PAGE_BYTES);
        for page in found.chunks(PAGE_BYTES) {
            let known = page[0] == 0 || page[0] == 9 || usize::from(page[0]) <= THREADS;
            assert!(known && page.iter().all(|byte| *byte == page[0]));
        }
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, found.len());
    });
}

/// Overlapping writes are whole: none is torn, whichever is the last.
#[test]
fn overlapping_writes_are_whole() {
    const BYTES: usize = 64 << 10;
    #[repr(align(4096))]
    struct Large([u8; BYTES]);
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, vec![1; BYTES]).unwrap();
        let file = open(&path, OFlags::DIRECT);
        thread::scope(|scope| {
            for number in 1..=THREADS {
                let file = &file;
                scope.spawn(move || {
                    for _ in 0..50 {
                        file.write_all_at(&Large([number as u8; BYTES]).0, 0)
                            .unwrap();
                    }
                });
            }
        });
        let found = fs::read(&path).unwrap();
        assert!(found.iter().all(|byte| *byte == found[0]));
    });
}

/// Writes of any length and offset work, as they do through the cache.
#[test]
fn unaligned_writes_are_taken() {
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, vec![1; 3 * PAGE_BYTES]).unwrap();
        let file = open(&path, OFlags::DIRECT);
        file.write_all_at(&[2; 1000], 3000).unwrap();
        file.write_all_at(&[3; 100], 3 * PAGE_BYTES as u64).unwrap();
        rustix::fs::fcntl_setfl(&file, OFlags::empty()).unwrap();
        file.write_all_at(&[4; 10], 0).unwrap();
        let mut expected = vec![1; 3 * PAGE_BYTES];
        expected[3000..4000].fill(2);
        expected.extend([3; 100]);
        expected[..10].fill(4);
        assert!(fs::read(&path).unwrap() == expected);
    });
}

#[test]
fn set_id_bits_and_capabilities_go() {
    const CAPABILITIES: &str = "security.capability";
    const BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    on_a_parallel_mount(|mounted| {
        let path = mounted.at("program");
        fs::write(&path, vec![1; PAGE_BYTES]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        let none = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, CAPABILITIES, &BIND_SERVICE, none).unwrap();
        let line =
            "head -c 4096 /dev/zero | dd of=\"$1\" bs=4096 oflag=direct conv=notrunc status=none";
        let mut words = vec!["--reuid", "1000", "--regid", "1000", "--clear-groups"];
        words.extend(["bash", "-c", line, "bash", path.to_str().unwrap()]);
        tool::run_well("setpriv", &words);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
        let found = rustix::fs::getxattr(&path, CAPABILITIES, &mut [0_u8; 64]);
        assert_eq!(found, Err(rustix::io::Errno::NODATA));
        assert!(fs::read(&path).unwrap() == [0; PAGE_BYTES]);
    });
}

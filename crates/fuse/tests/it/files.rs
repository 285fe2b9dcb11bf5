//! Contents and attributes, and their lifetimes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{IFlags, OFlags};

use super::support::{EXTENTS, on_a_mount};

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

#[test]
fn contents_come_back() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        let bytes = pattern(5_000_001, 3);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"the end").unwrap();
        file.sync_all().unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"new", 4094).unwrap();
        file.sync_data().unwrap();
        file.set_len(5_000_003).unwrap();
        let mut expected = bytes;
        expected[4094..4097].copy_from_slice(b"new");
        expected.extend_from_slice(b"th");
        assert_eq!(fs::read(&path).unwrap(), expected);
    });
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        let mut file = OpenOptions::new();
        let mut file = file
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all(&pattern(100_000, 9)).unwrap();
        file.sync_all().unwrap();
        fs::write(&path, "another").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut back = Vec::new();
        file.read_to_end(&mut back).unwrap();
        assert_eq!(back, pattern(100_000, 9));
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(fs::read(&path).unwrap(), b"another");
    });
}

#[test]
fn direct_reads_and_writes_see_what_others_wrote() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, pattern(1 << 20, 1)).unwrap();
        let mut direct = OpenOptions::new();
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = direct
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(&path)
            .unwrap();
        // Aligned memory: a page within a larger piece.
        let mut memory = vec![0_u8; 3 * 4096];
        let skip = memory.as_ptr().align_offset(4096);
        let page = &mut memory[skip..skip + 4096];
        direct.read_exact_at(page, 8192).unwrap();
        assert_eq!(page, &pattern(1 << 20, 1)[8192..12_288]);
        page.fill(7);
        direct.write_all_at(page, 4096).unwrap();
        let back = fs::read(&path).unwrap();
        assert_eq!(back[4096..8192], [7; 4096]);
        assert_eq!(back[8192..], pattern(1 << 20, 1)[8192..]);
    });
}

#[test]
fn attributes_are_kept() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o1640)).unwrap();
        std::os::unix::fs::chown(&path, Some(70_000), Some(80_000)).unwrap();
        let old = UNIX_EPOCH - Duration::from_millis(1_300);
        let times = fs::FileTimes::new().set_modified(old).set_accessed(old);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o1640);
        assert_eq!((found.uid(), found.gid()), (70_000, 80_000));
        assert_eq!(found.modified().unwrap(), old);
        assert_eq!(found.accessed().unwrap(), old);
    });
}

/// Any user may set the earliest of all times. If fuser's overflow were checked, it would panic and
/// end a thread of the mount each time.
#[test]
fn the_earliest_time_ends_nothing() {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
    on_a_mount(|mounted| {
        let path = mounted.at("directory");
        fs::create_dir(&path).unwrap();
        let set = |tv_sec, tv_nsec| {
            let time = Timespec { tv_sec, tv_nsec };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
            fs::metadata(&path).unwrap().mtime()
        };
        for _ in 0..2 * fuse::THREADS {
            set(i64::MIN, 5);
        }
        assert_eq!(set(-2, 800_000_000), -2);
    });
}

/// A write by another user clears the set-user-ID bit, and so does a change of the owner.
#[test]
fn set_id_bits_do_not_survive_a_stranger() {
    on_a_mount(|mounted| {
        let path = mounted.at("program");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        fs::write(&path, "contents").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        std::os::unix::fs::chown(&path, Some(1), Some(1)).unwrap();
        assert_eq!(mode(), 0o0777, "chown");
        for words in [["dd", "bs=1", "count=1"], ["truncate", "-s", "3"]] {
            fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
            let target = match words[0] {
                "dd" => format!("of={}", path.display()),
                _ => path.display().to_string(),
            };
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.args(words).arg(target);
            if words[0] == "dd" {
                command.args(["if=/dev/zero", "conv=notrunc"]);
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert_eq!(mode(), 0o0777, "{words:?}");
        }
    });
}

#[test]
fn flags_are_set_and_obeyed() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, "contents").unwrap();
        let file = File::open(&path).unwrap();
        let set = |flags| rustix::fs::ioctl_setflags(&file, flags).unwrap();
        set(IFlags::IMMUTABLE | IFlags::NOATIME);
        let found = rustix::fs::ioctl_getflags(&file).unwrap();
        let expected = IFlags::IMMUTABLE | IFlags::NOATIME | mounted.extents();
        assert_eq!(found, expected);
        let refused = fs::remove_file(&path).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        set(IFlags::APPEND | IFlags::SYNC);
        let mut end = OpenOptions::new().append(true).open(&path).unwrap();
        end.write_all(b", and more").unwrap();
        drop(end);
        assert_eq!(fs::read(&path).unwrap(), b"contents, and more");
        set(IFlags::empty());
        fs::remove_file(&path).unwrap();
    });
}

/// Copy-on-write is not supported, nor are extents on ext3: a program that sets them gets an error,
/// as from the kernel.
#[test]
fn flags_that_mean_nothing_here_are_refused() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, "contents").unwrap();
        let file = File::open(&path).unwrap();
        let kept = IFlags::NODUMP | mounted.extents();
        rustix::fs::ioctl_setflags(&file, kept).unwrap();
        for foreign in [IFlags::NOCOW, EXTENTS - mounted.extents()] {
            if foreign.is_empty() {
                continue;
            }
            let refused = rustix::fs::ioctl_setflags(&file, kept | foreign);
            assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
        }
        assert_eq!(rustix::fs::ioctl_getflags(&file).unwrap(), kept);
    });
}

#[test]
fn many_threads_at_once() {
    on_a_mount(|mounted| {
        std::thread::scope(|scope| {
            for worker in 0..8_u8 {
                scope.spawn(move || {
                    let directory = mounted.at(&format!("d{worker}"));
                    fs::create_dir(&directory).unwrap();
                    for number in 0..40 {
                        let path = directory.join(format!("f{number}"));
                        let bytes = pattern(3000 + number * 100, worker);
                        let mut file = File::create(&path).unwrap();
                        file.write_all(&bytes).unwrap();
                        file.sync_all().unwrap();
                        assert_eq!(fs::read(&path).unwrap(), bytes);
                        if number % 2 == 0 {
                            fs::remove_file(&path).unwrap();
                        }
                    }
                });
            }
        });
    });
}

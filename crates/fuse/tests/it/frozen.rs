//! Files that become immutable or append-only while they are open for writing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{IFlags, OFlags};
use testkit::tool;

use super::support::{Mounted, on_a_mount_and_later};

/// Opens a file to append, clears O_APPEND, and overwrites its start.
const OVERWRITE: &str = r#"
use Fcntl;
sysopen(F, $ARGV[0], O_RDWR | O_APPEND) or die "open: $!";
fcntl(F, F_SETFL, 0) or die "fcntl: $!";
sysseek(F, 0, 0) or die;
defined(syswrite(F, "FORGED")) or die "write: $!";
"#;

fn set(file: &File, mounted: &Mounted, flag: IFlags) {
    rustix::fs::ioctl_setflags(file, flag | mounted.extents()).unwrap();
}

fn create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.open(path).unwrap()
}

/// The kernel writes back later what programs have written before.
#[test]
fn what_was_written_before_a_flag_is_kept() {
    let cases = [
        ("immutable", IFlags::IMMUTABLE),
        ("append", IFlags::APPEND),
        ("both", IFlags::IMMUTABLE | IFlags::APPEND),
    ];
    on_a_mount_and_later(
        |mounted| {
            for (name, flag) in cases {
                let mut file = create(&mounted.at(name));
                file.write_all(&[b'x'; 15_000]).unwrap();
                set(&file, mounted, flag);
                // As close(2) does.
                file.sync_all().unwrap();
            }
        },
        |mounted| {
            for (name, _) in cases {
                let found = fs::read(mounted.at(name)).unwrap();
                assert!(found == [b'x'; 15_000], "{name}: {} bytes", found.len());
            }
        },
    );
}

/// A file that was open before `chattr +a` may be written anywhere, one opened later only at its
/// end.
#[test]
fn a_flag_counts_for_those_who_open_the_file_later() {
    on_a_mount_and_later(
        |mounted| {
            let path = mounted.at("file");
            let file = create(&path);
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            rustix::fs::fchmod(&file, mode).unwrap();
            file.write_all_at(b"first", 0).unwrap();
            set(&file, mounted, IFlags::APPEND);
            file.write_all_at(b"F", 0).unwrap();
            let mut later = OpenOptions::new().append(true).open(&path).unwrap();
            later.write_all(b", second").unwrap();
            overwrite(&path);
            file.sync_all().unwrap();
            drop(file);
            later.write_all(b", third").unwrap();
            overwrite(&path);
        },
        |mounted| {
            let path = mounted.at("file");
            assert_eq!(fs::read(&path).unwrap(), b"First, second, third");
            set(&File::open(&path).unwrap(), mounted, IFlags::IMMUTABLE);
            OpenOptions::new().append(true).open(&path).unwrap_err();
        },
    );
}

/// Tries to overwrite an append-only file.
fn overwrite(path: &Path) {
    let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
    words.extend(["perl", "-e", OVERWRITE, path.to_str().unwrap()]);
    let output = tool::run("setpriv", &words);
    assert!(!output.status.success(), "the file is overwritten");
    let said = tool::said(&output);
    assert!(said.contains("Operation not permitted"), "{said}");
}

#[test]
fn append_only_files_are_not_overwritten() {
    on_a_mount_and_later(
        |mounted| {
            let path = mounted.at("file");
            fs::write(&path, vec![b'a'; 5_000]).unwrap();
            tool::run_well("chmod", &["666".as_ref(), path.as_os_str()]);
            set(&File::open(&path).unwrap(), mounted, IFlags::APPEND);
            overwrite(&path);
            // Stores into mapped memory are refused, or do not reach the file.
            let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
            words.extend(["xfs_io", "-a", "-c", "mmap -rw 0 5000"]);
            words.extend(["-c", "mwrite -S 0x66 0 6", "-c", "msync -s 0 4096"]);
            words.push(path.to_str().unwrap());
            tool::run("setpriv", &words);
            // The kernel drops its copy of the changed page a moment later.
            let is_intact = || fs::read(&path).unwrap()[..5_000] == [b'a'; 5_000];
            let mut moments =
                (0..200).map(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
            assert!(moments.any(|()| is_intact()));
            let mut direct = OpenOptions::new();
            let direct = direct.append(true);
            let direct = direct.custom_flags(OFlags::DSYNC.bits().cast_signed());
            direct.open(&path).unwrap().write_all(b"end").unwrap();
            let source = mounted.at("source");
            fs::write(&source, b"FORGED").unwrap();
            let hole =
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            let file = OpenOptions::new().append(true).open(&path).unwrap();
            let punched = rustix::fs::fallocate(&file, hole, 0, 4096);
            assert_eq!(punched, Err(rustix::io::Errno::PERM));
            rustix::fs::fcntl_setfl(&file, OFlags::empty()).unwrap();
            let from = File::open(&source).unwrap();
            let copied =
                rustix::fs::copy_file_range(from, None, &file, Some(&mut 0), b"FORGED".len());
            assert_eq!(copied, Err(rustix::io::Errno::PERM));
        },
        |mounted| {
            let found = fs::read(mounted.at("file")).unwrap();
            assert!(found[..5_000] == [b'a'; 5_000]);
            assert_eq!(&found[5_000..], b"end");
        },
    );
}

//! `jext mount` and `jext umount`, as users, mount(8), signals and power cuts call them.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testkit::{Mount, privilege, tool};

use crate::support::Folder;

/// The time that a mount may take to appear or to disappear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with an image and a place for it, which is unmounted in any case.
struct Place {
    folder: Folder,
}

impl Place {
    fn new() -> Self {
        let folder = Folder::with_image();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("mnt").join(name)
    }

    fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(&format!(" {} ", self.folder.path().join("mnt").display()))
    }

    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "nothing for too long");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process that serves, started in the foreground.
    fn serve(&self, options: &str) -> std::process::Child {
        let server = Command::new(assert_cmd::cargo::cargo_bin("jext"))
            .current_dir(self.folder.path())
            .args(["mount", "-f", "disk.img", "mnt", "-o", options])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.wait_until(|| self.is_mounted());
        server
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let at = self.folder.path().join("mnt");
            let _ = Command::new("umount").arg("-l").arg(at).status();
        }
    }
}

fn signal(process: u32, name: &str) {
    tool::run_well("kill", &["-s", name, &process.to_string()]);
}

#[test]
fn a_mount_goes_to_the_background_and_comes_down_clean() {
    if !privilege::is_granted() {
        return;
    }
    let place = Place::new();
    place.folder.good("mount disk.img mnt --log log");
    fs::write(place.at("file"), "contents").unwrap();
    let twice = place.folder.bad("mount disk.img mnt");
    assert!(twice.contains("disk.img"), "{twice}");
    let elsewhere = place.folder.bad("rm disk.img:/file");
    assert!(elsewhere.contains("in use"), "{elsewhere}");
    place.folder.good("umount mnt");
    assert!(!place.is_mounted());
    place.folder.check("disk.img");
    assert_eq!(place.folder.good("cat disk.img:/file"), "contents");
    assert_eq!(place.folder.read("log"), b"");
    let nothing = place.folder.bad("umount mnt");
    assert!(nothing.contains("has mounted nothing there"), "{nothing}");
}

#[test]
fn a_signal_unmounts_even_what_is_in_use() {
    if !privilege::is_granted() {
        return;
    }
    for name in ["TERM", "INT"] {
        let place = Place::new();
        let mut server = place.serve("rw");
        let open = fs::File::create(place.at("file")).unwrap();
        fs::write(place.at("other"), "kept by the kernel").unwrap();
        signal(server.id(), name);
        assert!(server.wait().unwrap().success(), "{name}");
        drop(open);
        assert!(!place.is_mounted());
        place.folder.check("disk.img");
        assert_eq!(
            place.folder.good("cat disk.img:/other"),
            "kept by the kernel"
        );
    }
}

/// After the process is killed at any moment, synced data is there, and the image recovers.
#[test]
fn killed_at_work_it_recovers() {
    if !privilege::is_granted() {
        return;
    }
    for (round, data) in ["ordered", "writeback", "journal"].into_iter().enumerate() {
        let place = Place::new();
        let mut server = place.serve(&format!("data={data},commit=1"));
        let promised = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|worker| {
                    let place = &place;
                    scope.spawn(move || write_until_gone(place, worker))
                })
                .collect();
            std::thread::sleep(Duration::from_millis(700 + 150 * round as u64));
            signal(server.id(), "KILL");
            let written = writers.into_iter().map(|writer| writer.join().unwrap());
            written.collect::<Vec<_>>()
        });
        server.wait().unwrap();
        tool::run_well("umount", &["-l".as_ref(), place.at("").as_os_str()]);
        place.folder.good("journal replay disk.img");
        place.folder.check("disk.img");
        for (worker, count) in promised.into_iter().enumerate() {
            assert!(count > 0, "worker {worker} has written something");
            for number in 0..count {
                let path = format!("disk.img:/w{worker}-{number}");
                let back = place.folder.good(&format!("cat {path}"));
                assert_eq!(back, contents(worker, number), "data={data} {path}");
            }
        }
    }
}

/// Killed at any moment it is gone, and no process goes on waiting for it: not even while it makes
/// the kernel write, for a request for the holes of a file that is being written, or because it is
/// ending.
#[test]
fn killed_while_the_kernel_writes_it_leaves_nobody_waiting() {
    if !privilege::is_granted() {
        return;
    }
    for delay in [0, 10, 30] {
        let place = Place::new();
        let mut server = place.serve("rw");
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let path = place.at(&format!("holes{worker}"));
                scope.spawn(move || write_and_seek_until_gone(&path));
            }
            std::thread::sleep(Duration::from_millis(500));
            signal(server.id(), "TERM");
            std::thread::sleep(Duration::from_millis(delay));
            signal(server.id(), "KILL");
            let began = Instant::now();
            let mut is_gone = false;
            while !is_gone && began.elapsed() < PATIENCE {
                is_gone = server.try_wait().unwrap().is_some();
                std::thread::sleep(Duration::from_millis(10));
            }
            // Releases the writers, which wait as well.
            let _ = Command::new("umount").arg("-f").arg(place.at("")).output();
            assert!(is_gone, "killed {delay} ms after the signal to end");
        });
        server.wait().unwrap();
        if place.is_mounted() {
            tool::run_well("umount", &["-l".as_ref(), place.at("").as_os_str()]);
        }
        place.folder.good("journal replay disk.img");
        place.folder.check("disk.img");
    }
}

fn write_and_seek_until_gone(path: &Path) {
    let mut options = fs::File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.open(path).unwrap();
    for number in 0_u64.. {
        let at = number * 7919 % 512 * 4096;
        let written = file.write_all_at(&[7; 4096], at);
        let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(at));
        let cut = file.set_len(number * 104_729 % (2 << 20));
        if written.is_err()
            || found.is_err_and(|error| error != rustix::io::Errno::NXIO)
            || cut.is_err()
        {
            return;
        }
    }
}

fn contents(worker: usize, number: usize) -> String {
    format!("{worker}:{number}").repeat(100 + number % 50)
}

/// Writes and syncs files until the mount is gone; how many are promised.
fn write_until_gone(place: &Place, worker: usize) -> usize {
    use std::io::Write as _;
    for number in 0.. {
        let path = place.at(&format!("w{worker}-{number}"));
        let synced = fs::File::create(path).and_then(|mut file| {
            file.write_all(contents(worker, number).as_bytes())?;
            file.sync_all()
        });
        if synced.is_err() {
            return number;
        }
    }
    unreachable!("the mount goes before the numbers end")
}

#[test]
fn mount_8_calls_it_by_its_other_name() {
    if !privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    let program = assert_cmd::cargo::cargo_bin("jext");
    let call = |name: &str, words: &[&str]| {
        let link = folder.join(name);
        symlink(&program, &link).unwrap();
        let output = Command::new(&link).current_dir(folder).args(words).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}: {}", tool::said(&output));
    };
    let options = "rw,nosuid,noauto,x-systemd.automount,uid=77,gid=88";
    call("mount.fuse.jext", &["disk.img", "mnt", "-n", "-o", options]);
    let owner = fs::metadata(place.at("")).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((owner.uid(), owner.gid()), (77, 88));
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(folder.to_str().unwrap()));
    assert!(line.unwrap().contains("nosuid"), "{line:?}");
    call("umount.fuse.jext", &["mnt"]);
    place.folder.check("disk.img");
}

#[test]
fn read_only_means_that_nothing_is_written() {
    if !privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let before = place.folder.read("disk.img");
    place.folder.good("mount -o ro disk.img mnt");
    let refused = fs::write(place.at("file"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.folder.good("umount mnt");
    assert!(place.folder.read("disk.img") == before);
}

/// One line that says what and what next, and nothing is changed.
#[test]
fn what_cannot_be_mounted_is_refused_in_one_line() {
    if !privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let folder = &place.folder;
    let whole = folder.read("disk.img");
    folder.write("short.img", &whole[..whole.len() / 2]);
    folder.write("text.img", &b"Dear reader,\n".repeat(400));
    folder.write("empty.img", b"");
    for (name, arguments) in [
        ("xfs.img", "mkfs.xfs -q"),
        ("lustre.img", "mke2fs -q -t ext4"),
        ("log.img", "mke2fs -q -b 4096 -O journal_dev"),
        ("foreign.img", "mke2fs -q -b 4096 -O journal_dev"),
    ] {
        fs::File::create(folder.path().join(name))
            .unwrap()
            .set_len(300 << 20)
            .unwrap();
        let mut words = arguments.split(' ');
        let maker = words.next().unwrap();
        let path = folder.path().join(name);
        let words: Vec<_> = words
            .map(Into::into)
            .chain([path.into_os_string()])
            .collect();
        tool::run_well(maker, &words);
    }
    let mut lustre = folder.read("lustre.img");
    lustre[1024 + 0x61] |= 0x10;
    folder.write("lustre.img", &lustre);
    folder.good("mkfs -q -b 4096 -J device=log.img far.img 64M");
    folder.write("a-file", b"");
    for (line, said) in [
        ("short.img mnt", "short.img"),
        ("text.img mnt", "holds no ext file system"),
        ("empty.img mnt", "is empty"),
        ("xfs.img mnt", "is an XFS file system"),
        ("lustre.img mnt", "dirdata"),
        ("far.img mnt", "journal_path="),
        ("far.img mnt -o journal_path=foreign.img", "UUID"),
        ("absent.img mnt", "absent.img"),
        ("disk.img absent", "absent"),
        ("disk.img a-file", "not a directory"),
        ("disk.img mnt -o frobnicate", "frobnicate"),
        ("mem:64MiB mnt", "one process only"),
    ] {
        let image = folder.path().join(line.split(' ').next().unwrap());
        let before = fs::read(&image).ok();
        let error = folder.bad(&format!("mount {line}"));
        assert!(error.contains(said), "{line}: {error}");
        assert!(
            fs::read(&image).ok() == before,
            "{line} has changed something"
        );
        assert!(!place.is_mounted(), "{line}");
    }
}

/// Letters for chattr. `j` needs a privilege of the kernel's file systems that containers lack.
/// `e` converts the map of a file on the kernel's ext4, which jext does not.
const LETTERS: &str = "aAcCdDeFimPsStTux";
/// Times within and beyond what inodes of 256 and of 128 bytes can hold.
const TIMES: [&str; 7] = [
    "-99999999999",
    "-2147483648.5",
    "-1.25",
    "2147483646.75",
    "2147483648.75",
    "15032385534.75",
    "99999999999",
];

/// Returns the results of chattr and touch on a new file and a new directory, and their visible
/// effect.
fn flags_and_times(directory: &Path, kind: &str) -> Vec<String> {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(directory).args(arguments);
        command.output().unwrap()
    };
    fs::write(directory.join("file"), "").unwrap();
    fs::create_dir(directory.join("directory")).unwrap();
    let mut seen = Vec::new();
    for name in ["file", "directory"] {
        let letters = LETTERS.chars();
        for letter in letters.filter(|letter| kind != "ext4" || *letter != 'e') {
            let is_taken = run("chattr", &[&format!("+{letter}"), name])
                .status
                .success();
            let shown = tool::said(&run("lsattr", &["-d", name]));
            run("mkdir", &["directory/new"]);
            run("cp", &["file", "directory/copy"]);
            let inherited = tool::said(&run("lsattr", &["-d", "directory/new", "directory/copy"]));
            run("chattr", &[&format!("-{letter}"), name]);
            run("chattr", &["-R", "-ai", "directory"]);
            run("rm", &["-rf", "directory/new", "directory/copy"]);
            let after = tool::said(&run("lsattr", &["-d", name]));
            seen.push(format!(
                "{name} +{letter}: {is_taken}, {shown}, {inherited}, {after}"
            ));
        }
    }
    for time in TIMES {
        let touched = run("touch", &["-d", &format!("@{time}"), "directory"]);
        let shown = tool::said(&run("stat", &["-c", "%.X %.Y", "directory"]));
        seen.push(format!("{time}: {}, {shown}", touched.status));
    }
    seen
}

/// Flags that the Linux kernel accepts are accepted, those that it refuses are refused, and a time
/// is shown as the inode can hold it.
#[test]
fn flags_and_times_are_as_on_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    for (kind, inode_bytes) in [("ext3", "256"), ("ext3", "128"), ("ext4", "256")] {
        let place = Place::new();
        let folder = &place.folder;
        let image = folder.path().join("kernel.img");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let path = image.to_str().unwrap();
        tool::run_well("mke2fs", &["-q", "-F", "-t", kind, "-I", inode_bytes, path]);
        fs::copy(&image, folder.path().join("disk.img")).unwrap();
        let kernel = Mount::new(&image, None, kind, "relatime").unwrap();
        let expected = flags_and_times(kernel.path(), kind);
        drop(kernel);
        folder.good("mount -o data=ordered disk.img mnt");
        let seen = flags_and_times(&place.at(""), kind);
        folder.good("umount mnt");
        assert_eq!(expected, seen, "{kind}, inodes of {inode_bytes} bytes");
    }
}

/// Programs as they are: an archive in and out, and a repository that is cloned, checked and
/// packed.
#[test]
fn programs_find_what_they_expect() {
    if !privilege::is_granted() {
        return;
    }
    let place = Place::new();
    fs::remove_file(place.folder.path().join("disk.img")).unwrap();
    place.folder.good("mkfs -q disk.img 128M");
    place.folder.good("mount disk.img mnt");
    let run = |line: &str| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.current_dir(place.at("")).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", tool::said(&output));
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = source.display();
    run("mkdir unpacked");
    run(&format!("tar -cf source.tar -C {source} ."));
    run("tar -xf source.tar -C unpacked");
    run(&format!("diff -r {source} unpacked"));
    run("git init -q first");
    run("cp -r unpacked first/src");
    run("git -C first add .");
    run("git -C first -c user.name=N -c user.email=E commit -q -m all");
    run("git clone -q first second");
    run("git -C second fsck --strict");
    run("git -C second gc -q");
    run("git -C second fsck --strict");
    run(&format!("diff -r {source} second/src"));
    place.folder.good("umount mnt");
    place.folder.check("disk.img");
}

/// Returns true if a process polls a device of the kernel.
fn polls(process: u32) -> bool {
    const NONBLOCK: u32 = 0o4000;
    let of = |what: &str| PathBuf::from(format!("/proc/{process}/{what}"));
    let devices = fs::read_dir(of("fd")).unwrap().map(|entry| entry.unwrap());
    devices
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("/dev/fuse")))
        .any(|entry| {
            let told = fs::read_to_string(of("fdinfo").join(entry.file_name())).unwrap();
            let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
            flags & NONBLOCK != 0
        })
}

/// Returns true if a process keeps a processor from sleeping: it polls, or with two processors one
/// of its threads occupies one of them.
fn avoids_sleep(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let occupies = tasks.map(|task| task.unwrap().path()).any(|task| {
        // "NUMBER (NAME) STATE ...", unless the thread has exited meanwhile.
        let status = fs::read_to_string(task.join("stat")).unwrap_or_default();
        status.contains("(jext-occupant) R ")
    });
    occupies || polls(process)
}

/// Makes and removes files until it is told to stop.
fn keep_busy<T>(place: &Place, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (is_over, path) = (&is_over, place.at(&format!("busy{worker}")));
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    fs::write(&path, "").unwrap();
                    fs::remove_file(&path).unwrap();
                }
            });
        }
        let result = catch_unwind(AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// While requests are dense, a processor is kept from sleeping; not when there are none, and not
/// when that was forbidden.
#[test]
fn dense_requests_are_waited_for_without_sleeping() {
    let has_room = std::thread::available_parallelism().unwrap().get() > 1;
    if !privilege::is_granted() || !has_room {
        return;
    }
    let place = Place::new();
    let mut server = place.serve("rw");
    // The occupant is new, and has to run once before it sleeps.
    place.wait_until(|| !avoids_sleep(server.id()));
    keep_busy(&place, || place.wait_until(|| avoids_sleep(server.id())));
    place.wait_until(|| !avoids_sleep(server.id()));
    place.folder.good("umount mnt");
    assert!(server.wait().unwrap().success());
    place.folder.check("disk.img");

    let mut server = place.serve("nopoll");
    keep_busy(&place, || {
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(10));
            assert!(!avoids_sleep(server.id()), "it was forbidden");
        }
    });
    place.folder.good("umount mnt");
    assert!(server.wait().unwrap().success());
}

//! Files that several processes use at once: mapped memory, appends, and locks.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use rustix::fs::FlockOperation;
use testkit::tool;

use super::support::{Mounted, on_a_mount};

/// Tries to lock the file in its first argument as fcntl(2) does, and prints the result. The packed
/// structure is `struct flock` of 64-bit machines.
const LOCK: &str = "use Fcntl; open F, '+<', $ARGV[0] or die; \
    my $all = pack('s s x4 q q l x4', F_WRLCK, 0, 0, 0, 0); \
    print fcntl(F, F_SETLK, $all) ? 'locked' : 'refused'";

/// Writes of one process to shared memory are visible to another one, in the file and in its own
/// mapping.
#[test]
fn mapped_memory_is_shared() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, vec![b'a'; 100_000]).unwrap();
        let write = [
            "mmap -rw 0 100000",
            "mwrite -S 0x62 5000 10",
            "msync -s 0 100000",
        ];
        xfs_io(&path, &write);
        let mut expected = vec![b'a'; 100_000];
        expected[5000..5010].fill(b'b');
        assert!(fs::read(&path).unwrap() == expected);
        let seen = xfs_io(&path, &["mmap -r 0 100000", "mread -v 4999 3"]);
        assert!(seen.contains("61 62 62"), "{seen}");
        // A write changes memory that was mapped before.
        let seen = xfs_io(
            &path,
            &[
                "mmap -r 0 100000",
                "mread -v 0 1",
                "pwrite -S 0x63 0 2",
                "mread -v 0 3",
            ],
        );
        assert!(seen.contains("63 63 61"), "{seen}");
        // Data that was never synced is present after the process has exited.
        xfs_io(&path, &["mmap -rw 0 100000", "mwrite -S 0x64 99990 10"]);
        assert_eq!(fs::read(&path).unwrap()[99_990..], [b'd'; 10]);
    });
}

fn xfs_io(path: &std::path::Path, lines: &[&str]) -> String {
    let mut words: Vec<_> = lines.iter().flat_map(|line| ["-c", line]).collect();
    words.push(path.to_str().unwrap());
    tool::run_well("xfs_io", &words)
}

/// Every line of every process is present and whole, and each process's lines are in order.
#[test]
fn processes_append_to_one_file() {
    const LINES: usize = 300;
    on_a_mount(|mounted| {
        let path = mounted.at("log");
        let line = "for i in $(seq $2); do echo \"$1 $i and a little more\"; done >> \"$3\"";
        let writers: Vec<Child> = ["one", "two"]
            .map(|name| {
                Command::new("sh")
                    .args(["-c", line, "sh", name, &LINES.to_string()])
                    .arg(&path)
                    .spawn()
                    .unwrap()
            })
            .into();
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2 * LINES);
        for name in ["one", "two"] {
            let own = text.lines().filter(|line| line.starts_with(name));
            let expected = (1..=LINES).map(|number| format!("{name} {number} and a little more"));
            assert!(own.eq(expected), "{name}");
        }
    });
}

#[test]
fn locks_hold_between_processes() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        fs::write(&path, "contents").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert!(flock_succeeds(mounted));
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        assert!(!flock_succeeds(mounted), "flock");
        rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
        assert!(flock_succeeds(mounted));
        assert_eq!(fcntl_says(mounted), "locked");
        rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        assert_eq!(fcntl_says(mounted), "refused");
        rustix::fs::fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        assert_eq!(fcntl_says(mounted), "locked");
    });
}

fn flock_succeeds(mounted: &Mounted) -> bool {
    let mut command = Command::new("flock");
    let command = command.arg("-n").arg(mounted.at("file")).arg("true");
    command.stderr(Stdio::null()).status().unwrap().success()
}

fn fcntl_says(mounted: &Mounted) -> String {
    let path = mounted.at("file");
    tool::run_well("perl", &["-e", LOCK, path.to_str().unwrap()])
}

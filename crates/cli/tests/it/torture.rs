//! Guests that act at random, and programs that are killed at random. The numbers are small by
//! default; `scripts/guest-torture` raises them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::guest::job::Report;
use rt::split_mix::SplitMix;
use uml::serve;
use uml::{Guest, GuestError};

use crate::guests::{IMAGE_BYTES, Reports, Tree, changed, guest_of, program, tree, with_image};

/// Number of actions of a guest.
const ACTIONS: usize = 12;
/// Folders of the host that are compared, and their depth.
const WATCHED: [&str; 9] = [
    "/usr", "/etc", "/mnt", "/media", "/srv", "/boot", "/bin", "/opt", "/home",
];
const DEPTH: usize = 4;
/// Folders that long runs compare as well, and the depth of all: as deep as they are.
const WATCHED_WHOLE: [&str; 2] = ["/var", "/root"];
const DEPTH_WHOLE: usize = 64;
/// Parts of them that other programs of the host change at any time.
const BUSY: [&str; 12] = [
    "/root/.cache",
    "/root/.cargo",
    "/root/.config",
    "/root/.local",
    "/root/.rustup",
    "/usr/local/cargo",
    "/var/cache",
    "/var/lib/systemd",
    "/var/log",
    "/var/run",
    "/var/spool",
    "/var/tmp",
];
/// The image of a guest that is killed.
pub(crate) const IMAGE: &str = "disk.img";
/// Seed of all actions.
const SEED: u64 = 1;
/// Places in the guest that an action may be about: the host's tree through two mounts of it, the
/// kernel, the image, its own file system.
const PLACES: [&str; 14] = [
    "/",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/program",
    "/kernel",
    "/job",
    "/image0",
    "/run",
    "/shm",
    "/tmp/root",
    "/tmp/root/usr/share",
    "/tmp/root/image0",
    "/mnt",
];
/// Actions; `P` and `Q` are places and `N` is a number.
const WRITES: [&str; 10] = [
    "echo N > P/file N; echo N >> P",
    "dd if=/dev/urandom of=P bs=4096 count=N seek=N conv=notrunc",
    "dd if=/dev/zero of=/dev/ubda bs=4096 count=N seek=N",
    "truncate -s N P; truncate -s 1T P",
    "chmod 777 P; chown 1:1 P; touch P",
    "mknod P/disk b 8 0; mknod P/null c 1 3; ln -sf /etc/shadow P/link",
    "mkdir P/folder; cp -r /usr/share/doc/bash Q",
    "mount -o remount,rw /; mount -o remount,rw /tmp/root",
    "mke2fs -q -F /dev/ubda N && mount /dev/ubda /mnt && cp -r /usr/share/doc/bash /mnt; umount /mnt",
    "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01; echo $i > P) & done; wait",
];
const DELETIONS: [&str; 4] = [
    "timeout 5 rm -rf P",
    "mv P Q",
    "timeout 5 rm -rf --no-preserve-root /tmp/root",
    "find P -xdev -maxdepth 1 -newermt 1970-01-01 -delete",
];
/// Ends of a guest.
const ENDS: [&str; 7] = [
    "echo b > /proc/sysrq-trigger; sleep 60",
    "echo o > /proc/sysrq-trigger; sleep 60",
    "echo c > /proc/sysrq-trigger; sleep 60",
    "reboot -f -d; halt -f; kill -9 1; false",
    "kill -9 -1; false",
    "yes flood | head -c 3000000; false",
    "false",
];

/// Returns a number from the environment.
pub(crate) fn from_environment(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// True for long runs, which see more of the host.
fn is_whole() -> bool {
    from_environment("JEXT_TEST_WHOLE", 0) > 0
}

/// Returns the facts of the files of the host that a guest must leave as they are, without those of
/// this repository and of other tests.
fn host(own: &Path) -> Tree {
    if !is_whole() {
        return tree(&WATCHED.map(Path::new), DEPTH);
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = fs::canonicalize(repository).unwrap();
    let temporary = std::env::temp_dir();
    let mut all: Vec<&Path> = WATCHED.iter().map(Path::new).collect();
    all.extend(WATCHED_WHOLE.map(Path::new));
    let mut facts = tree(&all, DEPTH_WHOLE);
    facts.retain(|path, _| {
        let is_below = |folder: &Path| path.starts_with(folder);
        let is_busy = BUSY.iter().any(|folder| is_below(Path::new(folder)));
        !is_busy && !is_below(&repository) && (is_below(own) || !is_below(&temporary))
    });
    facts
}

/// Returns the mount points of this process, without those of other tests.
fn mounts(own: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = |line: &str| line.split(' ').nth(4).unwrap_or_default().to_owned();
    let is_foreign = |point: &String| {
        let point = Path::new(point);
        point.starts_with(std::env::temp_dir()) && !point.starts_with(own)
    };
    let points = table.lines().map(point);
    points.filter(|point| !is_foreign(point)).collect()
}

/// The deeds of the guests.
#[derive(Default)]
struct Tally {
    guests: u64,
    writes: u64,
    deletions: u64,
    ends: [u64; ENDS.len()],
    killed: u64,
}

/// Returns the script of a guest.
fn script(numbers: &mut SplitMix, tally: &mut Tally) -> String {
    let setup = "mkdir /tmp/root; mount -t hostfs none /tmp/root -o /; exec 2>/dev/null";
    let mut script = format!("{setup}\n");
    for _ in 0..ACTIONS {
        let place = |numbers: &mut SplitMix| PLACES[numbers.below(PLACES.len() as u64) as usize];
        let is_write = numbers.below(3) > 0;
        let action = match is_write {
            true => WRITES[numbers.below(WRITES.len() as u64) as usize],
            false => DELETIONS[numbers.below(DELETIONS.len() as u64) as usize],
        };
        tally.writes += u64::from(is_write);
        tally.deletions += u64::from(!is_write);
        let words = action.split(' ').map(|word| {
            let word = word
                .replace('P', place(numbers))
                .replace('Q', place(numbers));
            word.replace('N', &numbers.below(1000).to_string())
        });
        let words: Vec<String> = words.collect();
        let _ = writeln!(script, "timeout 10 sh -c '{}'", words.join(" "));
    }
    let end = numbers.below(ENDS.len() as u64) as usize;
    tally.ends[end] += 1;
    script + ENDS[end]
}

#[test]
fn guests_that_act_at_random_leave_the_host_as_it_is() {
    let span = Duration::from_secs(from_environment("JEXT_TEST_GUEST_SECONDS", 6));
    let folder = with_image();
    folder.write("canary", b"alive");
    let (image, canary) = (folder.path().join("disk.img"), folder.path().join("canary"));
    let binary = program();
    let before = host(folder.path());
    let canary_before = tree(&[&canary], 0);
    let program_before = fs::read(&binary).unwrap();
    let mounts_before = mounts(folder.path());
    let mut numbers = SplitMix::new(SEED);
    let mut tally = Tally::default();
    let start = Instant::now();
    while start.elapsed() < span {
        let script = script(&mut numbers, &mut tally);
        let guest = Guest::start(&guest_of(&image, &[&script])).unwrap();
        tally.guests += 1;
        let mut reports = Reports::default();
        // Every fourth is killed by its host, wherever it is.
        let limit = Duration::from_millis(numbers.below(4000));
        reports.1 = (numbers.below(4) == 0).then(|| Instant::now() + limit);
        let served = serve::in_real_time(&guest, &mut reports);
        match served {
            Ok(()) => {}
            Err(GuestError::Cancelled) => tally.killed += 1,
            Err(error) => panic!("{error}; the guest ran\n{script}"),
        }
        drop(guest);
        assert!(!reports.0.contains(&Report::Done), "{:?}", reports.0);
        // It is the guest's to write and to shorten.
        assert!(
            fs::metadata(&image).unwrap().len() <= IMAGE_BYTES,
            "{script}"
        );
        let file = fs::File::options().write(true).open(&image).unwrap();
        file.set_len(IMAGE_BYTES).unwrap();
    }
    assert_eq!(
        changed(&before, &host(folder.path())),
        Vec::<PathBuf>::new()
    );
    assert!(tree(&[&canary], 0) == canary_before);
    assert!(fs::read(&binary).unwrap() == program_before);
    assert_eq!(fs::read(&canary).unwrap(), b"alive");
    assert_eq!(mounts(folder.path()), mounts_before);
    let Tally {
        guests,
        writes,
        deletions,
        ends,
        killed,
    } = tally;
    println!(
        "torture: {guests} guests in {} s: {writes} writes, {deletions} deletions, {} reboots, {} panics, {killed} killed by the host; {} files of the host are unchanged",
        start.elapsed().as_secs(),
        ends[0] + ends[3],
        ends[2],
        before.len()
    );
}

/// Returns the processes of a group.
fn group(wanted: u32) -> Vec<u32> {
    let field = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain blanks.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.to_owned();
        Some((state, fields.nth(1)?.parse::<u32>().ok()?))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| field(*pid).is_some_and(|(state, own)| own == wanted && state != "Z"))
        .collect()
}

fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_program_that_is_killed_leaves_neither_process_nor_file() {
    kill(from_environment("JEXT_TEST_KILLS", 5), &[IMAGE]);
}

/// Kills programs with guests on these devices, in turn; nothing may be left.
pub(crate) fn kill(count: u64, devices: &[&str]) {
    let folder = with_image();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let places = ["/mnt", "/media", "/srv", "/run", "/dev/shm"].map(Path::new);
    let listed = |path: &Path| tree(&[path], 1).into_keys().collect::<Vec<_>>();
    let before = places.map(listed);
    // Names only: a program that is killed may leave a file, and changes none.
    let names = || -> Vec<PathBuf> { host(folder.path()).into_keys().collect() };
    let names_before = is_whole().then(names);
    // The built kernel is there.
    let in_home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(in_home, PathBuf::from);
    let mounts_before = mounts(folder.path());
    let mut caged = 0;
    for (number, device) in (0..count).zip(devices.iter().cycle()) {
        let mut child = Command::new(program())
            .args(["bench", "postmark", "uml:ext3", "--device", device])
            .args(["-F", "--set", "transactions 20000"])
            .current_dir(folder.path())
            .env("TMPDIR", &temporary)
            .env("HOME", &temporary)
            .env("XDG_CACHE_HOME", &cache)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 + 997 * number % 1500));
        let cage = child_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(cage) = cage else { continue };
        caged += 1;
        let mut patience = 100;
        while !group(cage).is_empty() && patience > 0 {
            std::thread::sleep(Duration::from_millis(50));
            patience -= 1;
        }
        assert_eq!(group(cage), [0; 0], "after kill {number}");
    }
    assert!(caged > count / 2, "{caged} of {count} had started a guest");
    assert_eq!(places.map(listed), before);
    assert!(names_before == is_whole().then(names), "a file was left");
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(mounts(folder.path()), mounts_before);
    println!(
        "torture: {count} kills of jext, {caged} with a guest on {}: no process, file or mount is left",
        devices.join(" or ")
    );
}

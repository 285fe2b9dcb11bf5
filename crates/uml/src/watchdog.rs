//! [`Watchdog`]: decides from the work of its processes if a silent guest hangs.
//!
//! | a silent guest that | hangs after |
//! |---|---|
//! | does nothing | [`SILENCE_MAX`] |
//! | computes | [`STANDSTILL_MAX`] |
//! | reads and writes files | it does not: a slow disk of the host takes its time |

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::socket::{SILENCE_MAX, STANDSTILL_MAX};

/// Silence after which the work of the guest is looked at for the first time.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// Ticks of 10 ms of processor time below which a guest does nothing. An idle kernel's timers take
/// some milliseconds a minute.
const TICKS_MIN: u64 = 100;

/// Work that the processes of a guest have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Work {
    // Processor time.
    ticks: u64,
    // Bytes read and written.
    bytes: u64,
}

/// The limits of a watchdog.
#[derive(Debug, Clone, Copy)]
struct Limits {
    look_after: Duration,
    idle: Duration,
    computing: Duration,
    ticks: u64,
}

/// A watchdog of the processes below one.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: u32,
    limits: Limits,
    // Since when the guest is silent, and neither reads nor writes.
    alive: Instant,
    // The work at a time since when the guest does nothing.
    idle: Option<(Instant, Work)>,
}

impl Watchdog {
    /// Returns a watchdog of a process and those that it started.
    pub(crate) fn new(process: u32) -> Self {
        let limits = Limits {
            look_after: LOOK_AFTER,
            idle: SILENCE_MAX,
            computing: STANDSTILL_MAX,
            ticks: TICKS_MIN,
        };
        Self::with_limits(process, limits)
    }

    fn with_limits(process: u32, limits: Limits) -> Self {
        Self {
            process,
            limits,
            alive: Instant::now(),
            idle: None,
        }
    }

    /// Notes a sign of life.
    pub(crate) fn hear(&mut self) {
        self.alive = Instant::now();
        self.idle = None;
    }

    /// Returns the length of the silence if the guest hangs.
    pub(crate) fn hung(&mut self) -> Option<Duration> {
        let silence = self.alive.elapsed();
        if silence < self.limits.look_after {
            return None;
        }
        let Some((since, before)) = self.idle else {
            self.idle = Some((Instant::now(), work(self.process)));
            return None;
        };
        if since.elapsed() + self.limits.look_after < self.limits.idle {
            return None;
        }
        let now = work(self.process);
        if now.bytes != before.bytes {
            self.hear();
            return None;
        }
        let is_computing = now.ticks.abs_diff(before.ticks) >= self.limits.ticks;
        if is_computing && silence < self.limits.computing {
            self.idle = Some((Instant::now(), now));
            return None;
        }
        Some(silence)
    }
}

/// Returns the work of a process and of all that it started, directly or not.
fn work(process: u32) -> Work {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ticks = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let Some((parent, used)) = stat.ok().as_deref().and_then(parent_and_ticks) {
            children.entry(parent).or_default().push(number);
            ticks.insert(number, used);
        }
    }
    let mut all = vec![process];
    let mut sum = Work::default();
    while let Some(number) = all.pop() {
        all.extend(children.remove(&number).unwrap_or_default());
        sum.ticks += ticks.get(&number).copied().unwrap_or(0);
        let moved = fs::read_to_string(format!("/proc/{number}/io"));
        sum.bytes += moved.map_or(0, |text| bytes_in(&text));
    }
    sum
}

/// Returns the parent in `/proc/PID/stat`, and the processor time of the process and of its
/// children that have ended.
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let times = fields.get(11..15)?.iter();
    let times: Option<Vec<u64>> = times.map(|field| field.parse().ok()).collect();
    Some((parent, times?.iter().sum()))
}

/// Returns the bytes that `/proc/PID/io` counts as read and written by system calls.
fn bytes_in(io: &str) -> u64 {
    let field = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let is_wanted = matches!(name, "rchar" | "wchar");
        is_wanted.then(|| value.trim().parse::<u64>().ok())?
    };
    io.lines().filter_map(field).sum()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const LIMITS: Limits = Limits {
        look_after: Duration::from_millis(100),
        idle: Duration::from_secs(1),
        computing: Duration::from_secs(3),
        ticks: 1,
    };

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        command.spawn().expect("a shell")
    }

    /// Returns the silence after which a script counts as hung, within 20 s.
    fn silence_of(script: &str) -> Option<Duration> {
        let mut child = shell(script);
        let mut watchdog = Watchdog::with_limits(child.id(), LIMITS);
        let start = Instant::now();
        let mut hung = None;
        while hung.is_none() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
            hung = watchdog.hung();
        }
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        hung
    }

    #[test]
    fn a_process_that_does_nothing_hangs_first() {
        let silence = silence_of("exec sleep 30").expect("it hangs");
        assert!(silence < LIMITS.computing, "{silence:?}");
    }

    #[test]
    fn a_process_that_computes_hangs_later() {
        let silence = silence_of("while :; do :; done").expect("it hangs");
        assert!(silence >= LIMITS.computing, "{silence:?}");
    }

    #[test]
    fn a_child_that_writes_keeps_its_parent_alive() {
        let script = "(while :; do echo x; sleep 0.02; done) & trap 'kill $!' TERM; wait";
        let mut child = shell(&format!("{script}; true"));
        let mut watchdog = Watchdog::with_limits(child.id(), LIMITS);
        let start = Instant::now();
        while start.elapsed() < LIMITS.computing * 2 {
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(watchdog.hung(), None);
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .expect("it is there");
        child.wait().expect("it is a child");
    }

    #[test]
    fn fields_of_proc_are_found() {
        let stat = "7 (a b) c) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 100";
        assert_eq!(parent_and_ticks(stat), Some((3, 100)));
        assert_eq!(parent_and_ticks("7 (a) S"), None);
        assert_eq!(bytes_in("rchar: 5\nwchar: 7\nsyscr: 9\n"), 12);
    }
}

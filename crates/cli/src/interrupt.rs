//! Signals that end a command: what it was making is removed, and the exit status is 128 and the number of the signal, as
//! shells have it.
//!
//! A command calls [`watch`] before it starts a thread, and registers what has to be undone with [`on_signal`]. A thread of its
//! own waits for the signals, so that undoing is ordinary code; the other threads go on meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::signal::{SigSet, Signal};

use crate::output;

/// Signals that end a command.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
/// Exit status of a command that a signal has ended, without the number of the signal.
const STATUS_BASE: i32 = 128;
/// How long a command that ends by itself is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is being made, and what undoes it.
struct Undo {
    what: String,
    undo: Box<dyn FnOnce() + Send>,
}

/// What has to be undone, by the order in which it was registered.
struct Undos {
    next: u64,
    all: BTreeMap<u64, Undo>,
}

static UNDOS: Mutex<Undos> = Mutex::new(Undos {
    next: 0,
    all: BTreeMap::new(),
});
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
/// True if the command ends by itself when it sees that it was interrupted.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);
/// The number of the signal that has come, or 0.
static CAME: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);

fn undos() -> MutexGuard<'static, Undos> {
    UNDOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for signals from now on. Threads that are started later leave them to the one that waits.
pub(crate) fn watch() -> Result<()> {
    if IS_WATCHING.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let mut wanted = SigSet::empty();
    let ignored = ignored();
    let signals = SIGNALS.into_iter();
    signals
        // What is ignored, as by nohup, stays so.
        .filter(|signal| ignored & (1 << (*signal as u32 - 1)) == 0)
        .for_each(|signal| wanted.add(signal));
    wanted.thread_block()?;
    std::thread::spawn(move || wait(&wanted));
    Ok(())
}

/// The signals that the process ignores, one bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn wait(wanted: &SigSet) {
    let Ok(signal) = wanted.wait() else {
        return;
    };
    CAME.store(signal as i32, Ordering::Release);
    if ENDS_ITSELF.load(Ordering::Acquire) {
        // A second signal ends it at once.
        let second = *wanted;
        std::thread::spawn(move || {
            let _ = second.wait();
            end(signal);
        });
        std::thread::sleep(PATIENCE);
    }
    end(signal);
}

fn end(signal: Signal) -> ! {
    let all = std::mem::take(&mut undos().all);
    let what = all.first_key_value();
    let what = what.map_or_else(String::new, |(_, undo)| format!("{}: ", undo.what));
    all.into_values().rev().for_each(|undo| (undo.undo)());
    output::complain(&format!(
        "{what}interrupted by {signal}; nothing is left behind, and the same command starts again"
    ));
    std::process::exit(STATUS_BASE + signal as i32)
}

/// What is undone when a signal comes; dropping it forgets that.
pub(crate) struct OnSignal(u64);

/// Registers what is being made, and what a signal has to do to undo it.
pub(crate) fn on_signal(what: String, undo: impl FnOnce() + Send + 'static) -> OnSignal {
    let mut undos = undos();
    let number = undos.next;
    undos.next += 1;
    let undo = Box::new(undo);
    undos.all.insert(number, Undo { what, undo });
    OnSignal(number)
}

impl Drop for OnSignal {
    fn drop(&mut self) {
        let undo = undos().all.remove(&self.0);
        drop(undo);
    }
}

/// From now on the command looks for signals with [`check`], and ends by itself.
pub(crate) fn ends_itself() {
    ENDS_ITSELF.store(true, Ordering::Release);
}

/// Fails if a signal has come.
pub(crate) fn check() -> Result<()> {
    match Signal::try_from(CAME.load(Ordering::Acquire)) {
        Ok(signal) => bail!("interrupted by {signal}"),
        Err(_) => Ok(()),
    }
}

/// The exit status of a command that a signal has ended, if one has come.
pub(crate) fn status() -> Option<u8> {
    let came = CAME.load(Ordering::Acquire);
    (came != 0).then(|| u8::try_from(STATUS_BASE + came).unwrap_or(u8::MAX))
}

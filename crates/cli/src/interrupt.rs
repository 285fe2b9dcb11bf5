//! Signals that end a command: unfinished output is removed, and the exit status is 128 plus the
//! signal number, as in shells.
//!
//! A command calls [`watch`] before it starts a thread, and registers cleanup with [`on_signal`]. A
//! separate thread waits for the signals, so cleanup is ordinary code; the other threads keep
//! running meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::signal::{SigSet, Signal};

use crate::output;

/// Signals that end a command.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
/// Exit status of a command ended by a signal, before the signal number is added.
const STATUS_BASE: i32 = 128;
/// Time allowed to a command that ends itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// An unfinished output, and its cleanup.
struct Undo {
    what: String,
    undo: Box<dyn FnOnce() + Send>,
}

/// The registered cleanups, in order of registration.
struct Undos {
    next: u64,
    all: BTreeMap<u64, Undo>,
}

static UNDOS: Mutex<Undos> = Mutex::new(Undos {
    next: 0,
    all: BTreeMap::new(),
});
/// True if the output is complete. Locked during the step that completes it, and by the thread that
/// ends the command.
static IS_COMPLETE: Mutex<bool> = Mutex::new(false);
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
/// True if the command polls for signals and ends itself.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);
/// Number of the received signal, or 0.
static CAME: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);

fn undos() -> MutexGuard<'static, Undos> {
    UNDOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to wait for signals. Threads started later leave them to the waiting thread.
pub(crate) fn watch() -> Result<()> {
    if IS_WATCHING.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let mut wanted = SigSet::empty();
    let ignored = ignored();
    let signals = SIGNALS.into_iter();
    signals
        // Ignored signals, as under nohup, stay ignored.
        .filter(|signal| ignored & (1 << (*signal as u32 - 1)) == 0)
        .for_each(|signal| wanted.add(signal));
    wanted.thread_block()?;
    std::thread::spawn(move || wait(&wanted));
    Ok(())
}

/// Returns the signals that the process ignores, one bit each.
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
        // A second signal ends the command at once.
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
    let is_complete = is_complete();
    if *is_complete {
        // The command has nothing to do but to report.
        std::thread::sleep(PATIENCE);
        std::process::exit(STATUS_BASE + signal as i32);
    }
    let all = std::mem::take(&mut undos().all);
    let what = all.first_key_value();
    let what = what.map_or_else(String::new, |(_, undo)| format!("{}: ", undo.what));
    all.into_values().rev().for_each(|undo| (undo.undo)());
    output::complain(&format!(
        "{what}interrupted by {signal}; nothing is left behind, and the same command starts again"
    ));
    std::process::exit(STATUS_BASE + signal as i32)
}

/// The registration of a cleanup; dropping it removes the registration.
pub(crate) struct OnSignal(u64);

/// Registers an unfinished output and its cleanup on a signal.
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

fn is_complete() -> MutexGuard<'static, bool> {
    IS_COMPLETE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the step that completes the output of a command. A signal during the step has to wait; if
/// the step succeeds, so does the command. If a signal ends the command already, the step does not
/// start.
pub(crate) fn complete<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut is_complete = is_complete();
    let done = step()?;
    *is_complete = true;
    Ok(done)
}

/// Declares that the command polls for signals with [`check`], and ends itself.
pub(crate) fn ends_itself() {
    ENDS_ITSELF.store(true, Ordering::Release);
}

/// Fails if a signal was received.
pub(crate) fn check() -> Result<()> {
    match Signal::try_from(CAME.load(Ordering::Acquire)) {
        Ok(signal) => bail!("interrupted by {signal}"),
        Err(_) => Ok(()),
    }
}

/// Returns the exit status of a command ended by a signal, if one was received.
pub(crate) fn status() -> Option<u8> {
    let came = CAME.load(Ordering::Acquire);
    (came != 0).then(|| u8::try_from(STATUS_BASE + came).unwrap_or(u8::MAX))
}

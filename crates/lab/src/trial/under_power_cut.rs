//! A trial whose power is cut while the workload runs, in the caller's simulated world.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use rt::{JoinHandle, Mutex, Nanos};
use workload::{OpenFlags, Target};

use super::Work;
use super::perturbation::Perturbation;
use crate::file_system::{FileSystem, JournalPlace, PowerSwitch, PoweredFileSystem, Remains};
use crate::ledger::Ledger;
use crate::power_cut::{Measure, PowerCut};
use crate::record::Measured;
use crate::targets::Powered;

/// Directory of the files that are written before the workload.
const FILL: &str = "before";
/// Number of files in each of its subdirectories.
const FILL_DIRECTORY_FILES: u32 = 500;
/// Maximum number of bytes of a write to one of its files.
const FILL_WRITE_BYTES: u64 = 64 << 10;

/// Runs a trial; `cut_after` is the time from the start of the workload to the cut.
pub(super) fn run(
    file_system: &dyn FileSystem,
    work: &Work,
    perturbation: &Perturbation,
    (cut, cut_after): (&PowerCut, Nanos),
) -> Result<Measured> {
    let powered = file_system.powered().context("its power cannot be cut")?;
    rt::sleep(perturbation.before_mkfs);
    let (instance, switch) = powered.make_powered(perturbation.allocation_start)?;
    fill(&*instance.target(), cut)?;
    rt::sleep(perturbation.before_workload);
    let target = Arc::new(Powered::new(instance.target(), cut.write_rate));
    let began = rt::monotonic();
    let at = began + cut_after;
    let remains = run_until(work, &target, cut, at, switch)?;
    let calls = target.calls();
    let ledger = target.take_ledger();
    drop(target);
    // The host goes on as if it had power, and is not observed any more: this frees its memory.
    instance.close().context("close")?;
    let mut measured = Measured::default();
    let mut add = |name: &str, value: f64| {
        measured.metrics.insert(name.to_owned(), value);
    };
    let seconds = cut_after.as_secs_f64();
    add("cut_time", seconds);
    add("calls", calls as f64);
    add("bytes_written", ledger.bytes_written() as f64);
    add("write_rate", ledger.bytes_written() as f64 / seconds);
    if file_system.memory().is_some() {
        add("memory_left", file_system.cache_bytes() as f64);
    }
    match cut.measure {
        Measure::Recovery => recovery(powered, remains, &mut add)?,
        Measure::Loss => loss(powered, remains, &ledger, at, &mut add)?,
    }
    Ok(measured)
}

/// Writes files and syncs them.
fn fill(target: &dyn Target, cut: &PowerCut) -> Result<()> {
    if cut.files == 0 {
        return Ok(());
    }
    target.mkdir(FILL)?;
    let piece: Vec<u8> = (0..cut.file_bytes.min(FILL_WRITE_BYTES))
        .map(|at| (at % 251) as u8)
        .collect();
    for number in 0..cut.files {
        let folder = format!("{FILL}/{}", number / FILL_DIRECTORY_FILES);
        if number.is_multiple_of(FILL_DIRECTORY_FILES) {
            target.mkdir(&folder)?;
        }
        let path = format!("{folder}/{number}");
        let mut file = target.open(&path, OpenFlags::WRITE.create_new())?;
        let mut left = cut.file_bytes;
        while left > 0 {
            let count = left.min(piece.len() as u64) as usize;
            left -= target.write(&mut file, &piece[..count])? as u64;
        }
        target.close(file)?;
    }
    target.sync()?;
    Ok(())
}

/// Runs the workload until the power is cut. Returns what the cut leaves.
fn run_until(
    work: &Work,
    target: &Arc<Powered>,
    cut: &PowerCut,
    at: Nanos,
    switch: PowerSwitch,
) -> Result<Remains> {
    let remains = Arc::new(Mutex::new(None));
    let cutter = {
        let (target, remains) = (Arc::clone(target), Arc::clone(&remains));
        rt::spawn("power cut", move || {
            rt::sleep_until(at);
            // In this order, and without host work in between: what is done after the cut is
            // neither in the ledger nor on the devices.
            target.cut();
            let left = switch();
            *remains.lock() = Some(left);
        })
    };
    let syncer = sync_at_intervals(target, cut.sync_interval);
    let began = rt::monotonic();
    let result = work.run(Arc::<Powered>::clone(target) as _, Default::default);
    let ended = rt::monotonic();
    let has_ended = target.cut_at().is_none();
    for task in [Some(cutter), syncer].into_iter().flatten() {
        task.join()
            .map_err(|_| anyhow!("a task of the power cut panicked"))?;
    }
    if has_ended {
        result?;
        bail!(
            "the workload ended after {:.1} s, before the power cut at {:.1} s; make it longer, or cut.after shorter",
            ended.saturating_sub(began).as_secs_f64(),
            at.saturating_sub(began).as_secs_f64()
        );
    }
    let left = remains.lock().take();
    left.context("the power was not cut")?
}

/// Starts a task that syncs everything at an interval until the power is cut, if it is not zero.
fn sync_at_intervals(target: &Arc<Powered>, interval: Nanos) -> Option<JoinHandle<()>> {
    if interval == Nanos::ZERO {
        return None;
    }
    let target = Arc::clone(target);
    Some(rt::spawn("sync", move || {
        while target.cut_at().is_none() {
            rt::sleep(interval);
            // Fails after the cut, and where the workload has failed, too.
            if target.sync().is_err() {
                return;
            }
        }
    }))
}

fn has_journal(powered: &dyn PoweredFileSystem) -> bool {
    *powered.journal() != JournalPlace::None
}

/// Measures the time to a usable volume, by replay and by a full check.
fn recovery(
    powered: &dyn PoweredFileSystem,
    remains: Remains,
    add: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let has_journal = has_journal(powered);
    let image = match has_journal {
        false => remains,
        true => {
            let reopened = powered.reopen(remains)?;
            add("replay", reopened.took.as_secs_f64());
            add("usable", reopened.took.as_secs_f64());
            add("replayed", reopened.replayed as f64);
            reopened
                .instance
                .close()
                .context("close after the replay")?;
            (reopened.switch)()?
        }
    };
    let checked = powered.check(image)?;
    add("check", checked.took.as_secs_f64());
    if !has_journal {
        add("usable", checked.took.as_secs_f64());
    }
    add("files_found", checked.files as f64);
    add("checked_bytes", checked.bytes_read as f64);
    add("problems", checked.problems as f64);
    Ok(())
}

/// Measures what is lost.
fn loss(
    powered: &dyn PoweredFileSystem,
    remains: Remains,
    ledger: &Ledger,
    at: Nanos,
    add: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let reopened = powered.reopen(remains)?;
    if has_journal(powered) {
        add("replay", reopened.took.as_secs_f64());
        add("replayed", reopened.replayed as f64);
    }
    let loss = ledger.judge(&*reopened.instance.target(), at)?;
    reopened
        .instance
        .close()
        .context("close after the replay")?;
    for (recent, name) in loss
        .recent
        .iter()
        .zip(["lost_of_1s", "lost_of_5s", "lost_of_30s"])
    {
        if recent.written > 0 {
            add(name, recent.lost as f64 / recent.written as f64);
        }
    }
    let counts = [
        ("files_judged", loss.files),
        ("lost_files", loss.lost_files),
        ("torn_files", loss.torn_files),
        ("lost_bytes", loss.lost_bytes),
        ("wrong_bytes", loss.wrong_bytes),
        ("zero_bytes", loss.zero_bytes),
        ("old_bytes", loss.old_bytes),
        ("foreign_bytes", loss.foreign_bytes()),
        ("synced_lost_bytes", loss.synced_lost_bytes),
        ("returned_files", loss.returned_files),
    ];
    for (name, count) in counts {
        add(name, count as f64);
    }
    add("lost_age", loss.age_max.as_secs_f64());
    Ok(())
}

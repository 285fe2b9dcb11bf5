//! Cases of a whole volume: a commit, a replay, a check, and a trial in a simulated world.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use block::BlockDevice;
use ext::volume::NewInode;
use ext::{Volume, mkfs};

use super::once;
use crate::case::{Body, Case, Left};
use crate::rig::{Rig, Setup, device, name};

/// Number of files that a commit, a replay and a check are about.
const FILES: u64 = 500;
/// Number of tasks of a trial, and of the files that each of them creates and syncs.
const TRIAL_TASKS: u64 = 4;
const TRIAL_FILES: u64 = 10;
/// Size of the disk of a trial in bytes.
const DISK_BYTES: u64 = 64 << 20;

pub(super) fn cases() -> Vec<Case> {
    let each = |setup| [commit(setup), replay(setup), check(setup), trial(setup)];
    Setup::ORDERED.into_iter().flat_map(each).collect()
}

/// Makes a volume with files that are in the running transaction.
fn changed(setup: Setup) -> Result<Rig> {
    let rig = Rig::new(setup, 0, 0)?;
    for number in 0..FILES {
        let new = NewInode::default();
        rig.volume.create(rig.directory, &name(number), &new)?;
    }
    Ok(rig)
}

fn commit(setup: Setup) -> Case {
    Case::new(format!("commit-of-{FILES}-files/{setup}"), 1, move |_| {
        let rig = changed(setup)?;
        Ok(once(rig.volume, |volume| Ok(volume.sync()?)))
    })
}

fn replay(setup: Setup) -> Case {
    Case::new(format!("replay-of-{FILES}-files/{setup}"), 1, move |_| {
        let rig = changed(setup)?;
        rig.volume.sync()?;
        let cut = Arc::new(rig.device.snapshot());
        let body: Body = Box::new(move || {
            let (volume, report) = Volume::open_with_report(device(&cut), None, setup.mount())?;
            ensure!(report.replayed_transactions > 0, "the log was empty");
            Ok(Box::new((rig, volume)) as Left)
        });
        Ok(body)
    })
}

fn check(setup: Setup) -> Case {
    Case::new(format!("fsck-of-{FILES}-files/{setup}"), 1, move |_| {
        let Rig { device, volume, .. } = changed(setup)?;
        volume.close()?;
        let body: Body = Box::new(move || {
            let report = fsck::check(&*device, None, &fsck::Options::default())?;
            ensure!(report.problems.is_empty(), "{:?}", report.problems);
            Ok(Box::new(device) as Left)
        });
        Ok(body)
    })
}

/// The scheduler, the model of a disk and the engine: tasks that create files and sync them.
fn trial(setup: Setup) -> Case {
    let operations = TRIAL_TASKS * TRIAL_FILES;
    Case::new(format!("trial-file/{setup}"), operations, move |_| {
        let body: Body = Box::new(move || {
            let report = sim::run(sim::Config::fair(7), move || run_trial(setup))?;
            report.value?;
            Ok(Box::new(()) as Left)
        });
        Ok(body)
    })
}

fn run_trial(setup: Setup) -> Result<()> {
    let disk = diskmodel::Builder::new("atlas-v-18")?
        .capacity(DISK_BYTES)
        .map_err(anyhow::Error::msg)?
        .open()?;
    let disk: Arc<dyn BlockDevice> = disk;
    mkfs::format(&disk, &setup.mkfs())?;
    let volume = Arc::new(Volume::open(disk, None, setup.mount())?);
    let tasks: Vec<_> = (0..TRIAL_TASKS)
        .map(|task| {
            let volume = Arc::clone(&volume);
            rt::spawn("client", move || run_client(&volume, task))
        })
        .collect();
    for task in tasks {
        task.join().map_err(|_| anyhow!("a client panicked"))??;
    }
    let volume = Arc::into_inner(volume).context("a client still has the volume")?;
    Ok(volume.close()?)
}

fn run_client(volume: &Volume, task: u64) -> Result<()> {
    for number in 0..TRIAL_FILES {
        let path = format!("/client-{task}-{number}");
        let mut file = volume.create_file(&path, &NewInode::default())?;
        file.write_all(&[7; 4096])?;
        file.sync_all()?;
        file.close()?;
    }
    Ok(())
}

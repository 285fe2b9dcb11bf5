//! Programs that build, check and recover images in memory.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use block::file::create_sparse;
use block::{FileDevice, OpenOptions};
use lab::system::{Mounted, tool};
use workload::{OpenFlags, Target};

use super::super::opened::mount_point;
use super::super::side::Side;
use super::super::site::Site;
use super::{Done, tree};
use crate::compare_build::{self, child};
use crate::compared_type::ComparedType;
use crate::engine;

const BUILT: &str = "built";
const DIRTY: &str = "dirty";
const DIRTY_BYTES: u64 = 1 << 30;
const REPLAYED: &str = "replayed";
/// Exit status of e2fsck that has corrected something.
const CORRECTED: i32 = 1;
/// Number of files between two syncs.
const FILES_OF_TRANSACTION: u32 = 200;

/// An image whose log has to be replayed.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Replay {
    /// Number of files whose creation is in the log.
    pub(in super::super) files: u32,
}

/// Builds an image of the tree; returns the seconds.
pub(super) fn build(site: &Site, side: Side, kind: ComparedType) -> Result<Done> {
    let image = tree::image(site, kind)?;
    let path = site.memory.at(BUILT);
    let mut command = match side {
        Side::Jext => compare_build::build(site.jext()?, &site.memory, kind, &path),
        Side::Mke2fs => compare_build::mke2fs(&site.memory, &path, kind, image.shape, image.bytes),
        other => bail!("{}: builds no image", other.name()),
    };
    let usage = compare_build::run_fresh(&path, &mut command)?;
    site.memory.remove(BUILT)?;
    Ok(Done::of([usage.seconds]))
}

/// Checks the image of the tree; returns the seconds.
pub(super) fn check(site: &Site, side: Side, kind: ComparedType) -> Result<Done> {
    let image = tree::image(site, kind)?.path;
    let mut command = match side {
        Side::Jext => Command::new(site.jext()?),
        Side::E2fsck => e2fsck()?,
        other => bail!("{}: checks no image", other.name()),
    };
    if side == Side::Jext {
        command.arg("fsck");
    }
    // E2fsck prints its version there.
    let command = command.arg("-fn").arg(image).stderr(Stdio::null());
    let usage = child::run(command)?;
    Ok(Done::of([usage.seconds]))
}

impl Replay {
    /// Replays the log of a copy of the image; returns the seconds.
    pub(super) fn run(self, site: &Site, side: Side) -> Result<Done> {
        let dirty = site.memory.at(DIRTY);
        if !dirty.exists() {
            self.make(site)?;
        }
        let path = site.memory.at(REPLAYED);
        fs::copy(&dirty, &path).context("the image")?;
        let started = Instant::now();
        match side {
            Side::Jext => {
                let mut command = Command::new(site.jext()?);
                child::run(command.args(["journal", "replay"]).arg(&path))?;
            }
            Side::E2fsck => {
                let mut command = e2fsck()?;
                let output = command
                    .args(["-y", "-E", "journal_only"])
                    .arg(&path)
                    .output();
                let output = output.context("e2fsck")?;
                let said = String::from_utf8_lossy(&output.stderr);
                let code = output.status.code();
                ensure!(code.is_some_and(|code| code <= CORRECTED), "e2fsck: {said}");
            }
            Side::Ext4 => {
                let image = path.to_str().context("a path that is not UTF-8")?;
                Mounted::new("ext4", "loop", image, &mount_point(site)?)?.unmount()?;
            }
            other => bail!("{}: replays no log", other.name()),
        }
        let seconds = started.elapsed().as_secs_f64();
        compare_build::check(&path)?;
        site.memory.remove(REPLAYED)?;
        Ok(Done::of([seconds]))
    }

    /// Makes the image: a volume that is left after its last commit, as by a power cut.
    fn make(self, site: &Site) -> Result<()> {
        let path = site.memory.at(DIRTY);
        create_sparse(&path, DIRTY_BYTES).context("the image")?;
        let device = FileDevice::open(&path, &OpenOptions::default()).context("the image")?;
        let device: Arc<dyn block::BlockDevice> = Arc::new(device);
        engine::format(
            &device,
            engine::Form {
                file_system: ComparedType::Ext4,
                size_bytes: DIRTY_BYTES,
                block_bytes: 4096,
                journal_megabytes: 128,
                bytes_per_inode: None,
            },
        )?;
        let target = engine::open(device, "data=ordered,commit=5")?;
        for number in 0..self.files {
            if number % FILES_OF_TRANSACTION == 0 {
                site.check_running()?;
                target.sync()?;
                target.mkdir(&directory(number))?;
            }
            let path = format!("{}/file-{number}", directory(number));
            target.close(target.open(&path, OpenFlags::WRITE.create_new())?)?;
        }
        Ok(target.sync()?)
    }
}

fn directory(number: u32) -> String {
    format!("directory-{}", number / FILES_OF_TRANSACTION)
}

fn e2fsck() -> Result<Command> {
    Ok(Command::new(tool::find("e2fsck").context("e2fsck")?))
}

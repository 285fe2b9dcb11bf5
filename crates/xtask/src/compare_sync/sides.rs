//! The file systems that are compared.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::{FileDevice, MeterDevice, OpenOptions};
use ext::Volume;
use jext::mount_options::ParsedOptions;
use lab::system::{Attached, Mounted};
use lab::targets::VolumeTarget;
use workload::Target;
use workload::directory::DirectoryTarget;

use super::load::Load;
use crate::disk_image::DiskImage;

/// Mount options that all sides share.
pub(super) const MOUNT_OPTIONS: &str = "data=ordered,commit=5";
/// A directory that every system has and that nothing uses; the mounts on it are visible only to
/// this process.
const MOUNT_POINT: &str = "/mnt";

/// One of the file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The kernel's ext4 on a loop device.
    Kernel,
    /// The engine in this process, on the same loop device.
    Looped,
    /// The engine in this process, on the file.
    Jext,
}

/// The figures of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) counts: Counts,
}

/// Counts between two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Flushes of the device. A forced write counts as one: none of the devices has them.
    pub(super) flushes: u64,
    /// Writes to the device.
    pub(super) writes: u64,
    /// Transactions that were committed as a whole.
    pub(super) commits: u64,
    /// Fast commits.
    pub(super) fast_commits: u64,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Kernel, Self::Looped, Self::Jext];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Looped => "jext_loop",
            Self::Jext => "jext",
        }
    }

    /// Runs a load on a new file system.
    pub(super) fn run(self, load: &Load, image: &DiskImage) -> Result<Measured> {
        match self {
            Self::Kernel => on_kernel(load, image),
            Self::Looped => {
                let mut attached = Attached::direct(image.path())?;
                let device = open(Path::new(attached.path()))?;
                attached.leave_to_mount()?;
                on_engine(load, device, Some(&attached))
            }
            Self::Jext => on_engine(load, open(image.path())?, None),
        }
    }
}

impl core::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            flushes: self.flushes - before.flushes,
            writes: self.writes - before.writes,
            commits: self.commits - before.commits,
            fast_commits: self.fast_commits - before.fast_commits,
        }
    }
}

fn on_kernel(load: &Load, image: &DiskImage) -> Result<Measured> {
    let mut attached = Attached::direct(image.path())?;
    let mounted = Mounted::new(
        "ext4",
        MOUNT_OPTIONS,
        attached.path(),
        Path::new(MOUNT_POINT),
    )?;
    attached.leave_to_mount()?;
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(Path::new(MOUNT_POINT))?);
    load.prepare(&*target)?;
    let before = kernel_counts(&attached)?;
    let seconds = load.run(&target)?;
    let counts = kernel_counts(&attached)? - before;
    drop(target);
    mounted.unmount()?;
    Ok(Measured { seconds, counts })
}

/// Reads the counts of a mounted ext4 and of its device.
fn kernel_counts(attached: &Attached) -> Result<Counts> {
    let requests = attached.requests()?;
    let device = Path::new(attached.path()).file_name();
    let device = device.context("a device without a name")?.to_string_lossy();
    let journal = read(Path::new(&format!("/proc/fs/jbd2/{device}-8/info")))?;
    let fast = read(Path::new(&format!("/proc/fs/ext4/{device}/fc_info")))?;
    Ok(Counts {
        flushes: requests.flushes,
        writes: requests.writes,
        commits: number_before(&journal, "transactions").context("/proc/fs/jbd2")?,
        fast_commits: number_before(&fast, "commits").context("/proc/fs/ext4")?,
    })
}

/// Returns the number before the first occurrence of a word.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|found| *found == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn open(path: &Path) -> Result<FileDevice> {
    FileDevice::open(path, &OpenOptions::direct()).context("the image")
}

/// Runs a load on the engine. The requests are counted by the device if it is attached, else by a
/// meter.
fn on_engine(load: &Load, file: FileDevice, attached: Option<&Attached>) -> Result<Measured> {
    let device = Arc::new(MeterDevice::new(Arc::new(file)));
    let mut mount = ParsedOptions::default();
    mount.add(MOUNT_OPTIONS)?;
    let home = Arc::<MeterDevice>::clone(&device);
    let volume = Volume::open(home, None, mount.options).context("mount")?;
    let target = Arc::new(VolumeTarget::new(volume, "image"));
    let shared: Arc<dyn Target> = Arc::<VolumeTarget>::clone(&target);
    load.prepare(&*shared)?;
    let counts = || -> Result<Counts> {
        let stats = target.volume().journal_stats();
        let stats = stats.context("the volume has no journal")?;
        let (flushes, writes) = match attached {
            Some(attached) => {
                let requests = attached.requests()?;
                (requests.flushes, requests.writes)
            }
            None => {
                let requests = device.counts();
                (requests.flushes + requests.forced_writes, requests.writes)
            }
        };
        Ok(Counts {
            flushes,
            writes,
            commits: stats.commits,
            fast_commits: stats.fast_commits,
        })
    };
    let before = counts()?;
    let seconds = load.run(&shared)?;
    let counts = counts()? - before;
    drop(shared);
    let target = Arc::into_inner(target).ok_or_else(|| anyhow!("the load still runs"))?;
    target.into_volume().close().context("closing")?;
    Ok(Measured { seconds, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_kernel_are_found() {
        let journal = "71 transactions (69 requested), each up to 2048 blocks\naverage: \n";
        assert_eq!(number_before(journal, "transactions"), Some(71));
        let fast = "fc stats:\n12 commits\n3 ineligible\n40 numblks\n";
        assert_eq!(number_before(fast, "commits"), Some(12));
        assert_eq!(number_before("commits", "commits"), None);
        assert_eq!(number_before("", "commits"), None);
    }
}

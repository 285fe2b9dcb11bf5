//! A file system that the kernel or a FUSE program mounts: the arguments of its mkfs and mount, and
//! its figures.

mod made;

use std::sync::Arc;

use anyhow::{Context, Result};
use block::DeviceText;
use workload::Target;
use workload::directory::DirectoryTarget;

use super::{
    Closed, CountsReader, Described, FileSystem, FormatSetup, Instance, JournalPlace, MemorySetup,
};
use crate::record::Measured;
use crate::system::open_files;
use crate::timeline::Counts;

pub use made::{DeviceRequests, MountedFileSystem};

const SECTOR_BYTES: u64 = 512;

/// A file system that is created and mounted for a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedSetup {
    /// The driver.
    pub driver: Driver,
    /// The type: `ext3`, `xfs`.
    pub kind: String,
    /// Its device: a file, a block device, or memory.
    pub device: DeviceText,
    /// Its journal's location, if the file system has an option for it.
    pub journal: JournalPlace,
    /// Options of mkfs.
    pub format: FormatSetup,
    /// Mount options, without those for the journal device.
    pub options: String,
}

/// The driver of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The kernel.
    Kernel,
    /// `fuse2fs` of e2fsprogs.
    Fuse2fs,
    /// `jext mount`: this program, unless another one is given.
    Jext,
    /// libfuse's `passthrough_ll` over a folder in memory, to measure the cost of FUSE alone.
    Passthrough,
}

/// A family of file systems whose mkfs programs share options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Ext,
    Xfs,
    /// Pages of memory without a device: tmpfs and ramfs, which no program makes.
    Memory,
    Other,
}

impl MountedSetup {
    fn family(&self) -> Family {
        match self.kind.as_str() {
            "ext2" | "ext3" | "ext4" => Family::Ext,
            "xfs" => Family::Xfs,
            "tmpfs" | "ramfs" => Family::Memory,
            _ => Family::Other,
        }
    }

    /// Returns the name of its mkfs program; `None` for a file system in memory.
    #[must_use]
    pub fn maker(&self) -> Option<String> {
        match self.family() {
            Family::Ext => Some("mke2fs".to_owned()),
            Family::Memory => None,
            Family::Xfs | Family::Other => Some(format!("mkfs.{}", self.kind)),
        }
    }

    /// Returns true if the kernel mounts it from a block device.
    fn is_on_block_device(&self) -> bool {
        self.driver == Driver::Kernel && self.family() != Family::Memory
    }

    /// Returns the arguments of mkfs, for a device of `bytes` bytes and a journal device.
    #[must_use]
    pub fn maker_arguments(&self, bytes: u64, device: &str, log: Option<&str>) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        let block = self.block_bytes(bytes, log.is_some());
        match self.family() {
            Family::Ext => {
                // Initialise everything now: no kernel thread may do it while the benchmark runs,
                // unless the plan says so.
                let extended = self.format.initialisation();
                add(&["-q", "-F", "-t", &self.kind, "-E", extended]);
                if !self.format.features.is_empty() {
                    add(&["-O", &self.format.features]);
                }
                add(&["-m", &self.format.reserved_percent.to_string()]);
                let numbers = [
                    ("-b", block),
                    ("-I", self.format.inode_bytes),
                    ("-i", self.format.bytes_per_inode),
                ];
                for (flag, number) in numbers {
                    if let Some(number) = number {
                        add(&[flag, &number.to_string()]);
                    }
                }
                match (log, self.format.journal_bytes) {
                    (Some(log), _) => add(&["-J", &format!("device={log}")]),
                    (None, Some(bytes)) => add(&["-J", &format!("size={}", bytes >> 20)]),
                    (None, None) => {}
                }
            }
            Family::Xfs => {
                add(&["-q", "-f", "-K"]);
                if let Some(block) = block {
                    add(&["-b", &format!("size={block}")]);
                }
                if let Some(log) = log {
                    add(&["-l", &format!("logdev={log}")]);
                }
            }
            Family::Memory => {}
            // Without these options they ask for confirmation, or refuse a device that is in use
            // already.
            Family::Other => match self.kind.as_str() {
                "btrfs" => add(&["-q", "-f", "-K"]),
                "f2fs" => add(&["-q", "-f"]),
                "jfs" => add(&["-q"]),
                "reiserfs" => add(&["-q", "-ff"]),
                _ => {}
            },
        }
        add(&[device]);
        all
    }

    /// Returns the arguments of `mke2fs` that create the journal device; `None` if the file
    /// system's own mkfs initialises it.
    #[must_use]
    pub fn journal_arguments(&self, bytes: u64, log: &str) -> Option<Vec<String>> {
        let block = self.block_bytes(bytes, true)?.to_string();
        let words = ["-q", "-F", "-O", "journal_dev", "-b", &block, log];
        (self.family() == Family::Ext).then(|| words.map(str::to_owned).to_vec())
    }

    /// Returns the mount options, with those for the journal device.
    #[must_use]
    pub fn mount_options(&self, log: Option<&str>) -> String {
        match (log, self.family()) {
            (Some(log), Family::Xfs) => format!("{},logdev={log}", self.options),
            (Some(log), Family::Ext) => format!("{},journal_path={log}", self.options),
            (_, Family::Memory) if self.driver == Driver::Kernel => match &self.device {
                DeviceText::Memory { size } if self.kind == "tmpfs" => {
                    format!("{},size={}", self.options, size.bytes())
                }
                _ => self.options.clone(),
            },
            _ => self.options.clone(),
        }
    }

    /// Returns the block size to pass to mkfs. The journal device needs the same block size, so
    /// with one (`must_be_said`) it is always explicit.
    fn block_bytes(&self, bytes: u64, must_be_said: bool) -> Option<u64> {
        let usual = if bytes < LARGE_BLOCKS_FROM {
            1024
        } else {
            4096
        };
        let usual = (must_be_said && self.family() == Family::Ext).then_some(usual);
        self.format.block_bytes.or(usual)
    }
}

/// Device size from which mke2fs makes blocks of 4 KiB.
const LARGE_BLOCKS_FROM: u64 = 512 << 20;

impl Described for MountedSetup {
    fn device(&self) -> &DeviceText {
        &self.device
    }

    fn journal(&self) -> &JournalPlace {
        &self.journal
    }

    fn memory(&self) -> Option<&MemorySetup> {
        None
    }

    fn check_system(&self) -> Result<()> {
        made::check_system(self)
    }
}

impl FileSystem for MountedSetup {
    fn make(&self, _allocation_start: u32) -> Result<Box<dyn Instance>> {
        open_files::raise_limit()?;
        let mounted = MountedFileSystem::make(self)?;
        Ok(Box::new(MountedInstance {
            target: Arc::new(DirectoryTarget::new(mounted.path())?),
            mounted,
            before: None,
        }))
    }
}

/// A mounted file system with its target.
struct MountedInstance {
    target: Arc<DirectoryTarget>,
    mounted: MountedFileSystem,
    before: Option<DeviceRequests>,
}

impl Instance for MountedInstance {
    fn target(&self) -> Arc<dyn Target> {
        Arc::<DirectoryTarget>::clone(&self.target)
    }

    fn counts(&self) -> CountsReader {
        Box::new(Counts::default)
    }

    fn begin(&mut self) -> Result<()> {
        self.before = self.mounted.requests()?;
        Ok(())
    }

    fn measure(&self, measured: &mut Measured) -> Result<()> {
        let Some((before, after)) = self.before.zip(self.mounted.requests()?) else {
            return Ok(());
        };
        let (home, log) = (after.home - before.home, after.log - before.log);
        let figures = [
            ("flushes", (home.flushes + log.flushes) as f64),
            ("home_reads", home.reads as f64),
            ("home_writes", home.writes as f64),
            ("home_bytes_read", (home.read_sectors * SECTOR_BYTES) as f64),
            (
                "home_bytes_written",
                (home.write_sectors * SECTOR_BYTES) as f64,
            ),
            ("log_writes", log.writes as f64),
            (
                "log_bytes_written",
                (log.write_sectors * SECTOR_BYTES) as f64,
            ),
        ];
        let figures = figures.map(|(name, value)| (name.to_owned(), value));
        measured.metrics.extend(figures);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<Closed> {
        let Self {
            target, mounted, ..
        } = *self;
        let target = Arc::into_inner(target);
        drop(target.context("the workload keeps its target")?);
        mounted.close()?;
        Ok(Closed::default())
    }
}

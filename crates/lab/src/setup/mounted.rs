//! Converts keys to a file system that the kernel or a program mounts: checks which keys apply, and
//! sets the options of mkfs and mount.

use block::DeviceText;

use super::ext4::LAZY_INIT;
use super::{Reader, SetupError, wrong};
use crate::file_system::{Driver, JournalPlace, MountedSetup};
use crate::plan::key::{EXT4, LOG_PART_PREFIX, USES};
use crate::plan::value::{FUSE_PREFIX, INTERNAL_PREFIX, KERNEL_PREFIX, Value};

/// Keys of the engine and of simulated worlds.
const ENGINE_KEYS: [&str; 6] = [
    USES,
    "host",
    "host_scale_permille",
    "mkfs",
    "limit.virtual_time",
    "fs.profile",
];
const ENGINE_PREFIXES: [&str; 5] = [
    "fs.ordered",
    "fs.log_policy",
    LOG_PART_PREFIX,
    "memory.",
    "cache.",
];
/// Keys that only the kernel drivers of the ext family support.
const EXT_KEYS: [&str; 7] = [
    "fs.data",
    "fs.commit",
    "fs.barrier",
    "fs.inode_size",
    "fs.bytes_per_inode",
    "fs.journal_size",
    "fs.reserved_percent",
];
/// Keys that fuse2fs has no options for: it does not journal its writes.
const JOURNALING_KEYS: [&str; 5] = [
    "fs.data",
    "fs.commit",
    "fs.barrier",
    "fs.sync",
    "fs.dirsync",
];

/// Returns true for the types that have no device and need no mkfs.
fn is_in_memory(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs")
}

impl Reader<'_> {
    /// Returns the mounted file system, if the target is one.
    pub(super) fn mounted(&self) -> Result<Option<MountedSetup>, SetupError> {
        let target = self.text("target");
        let (driver, kind) = match target.strip_prefix(KERNEL_PREFIX) {
            Some(kind) => (Driver::Kernel, kind),
            None => match target.strip_prefix(FUSE_PREFIX) {
                Some("jext") if self.is_said("fs.type") => (Driver::Jext, self.text("fs.type")),
                Some("jext") => (Driver::Jext, "ext3"),
                Some("passthrough") => (Driver::Passthrough, "tmpfs"),
                Some(_) => (Driver::Fuse2fs, "ext3"),
                None => return Ok(None),
            },
        };
        self.check_keys(driver, kind)?;
        let Some(Value::Text(text)) = self.settings.get("device") else {
            return Err(wrong(
                &["target", "device"],
                "device: a file system needs one: a file, a block device, or mem:SIZE",
            ));
        };
        let device = self.mountable("device", text)?;
        if is_in_memory(kind) && !matches!(device, DeviceText::Memory { .. }) {
            let target = self.text("target");
            let message = format!("device: {target} keeps files in memory; use mem:SIZE");
            return Err(wrong(&["target", "device"], &message));
        }
        let journal = self.journal_of(driver, kind)?;
        Ok(Some(MountedSetup {
            driver,
            kind: kind.to_owned(),
            device,
            format: self.format(kind, &journal)?,
            options: self.options(driver, kind, &journal),
            journal,
        }))
    }

    /// Fails if a setting has no effect on this driver.
    fn check_keys(&self, driver: Driver, kind: &str) -> Result<(), SetupError> {
        let is_ext = matches!(kind, "ext2" | "ext3" | "ext4");
        let target = self.text("target");
        for key in self.settings.said() {
            let is_engines = ENGINE_KEYS.contains(&key)
                || ENGINE_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            let is_ext_key = EXT_KEYS.contains(&key) && !is_ext;
            let is_size =
                key == "journal" && self.text(key).starts_with(INTERNAL_PREFIX) && !is_ext;
            let is_ext2s = kind == "ext2" && ["fs.data", "fs.commit", "fs.barrier"].contains(&key);
            let is_journaling = JOURNALING_KEYS.contains(&key) && driver == Driver::Fuse2fs;
            // No file system is made that mkfs or mount options could change.
            let is_file_systems = key.starts_with("fs.") && driver == Driver::Passthrough
                || key == "fs.block_size" && is_in_memory(kind);
            let is_kernels = key == LAZY_INIT && driver != Driver::Kernel;
            let is_others = is_ext_key || is_size || is_ext2s || is_file_systems || is_kernels;
            if is_engines || is_others || is_journaling {
                return Err(wrong(&[key], &format!("{key}: has no effect for {target}")));
            }
        }
        if self.is_said("fs.type") && self.text("fs.type") != kind {
            let said = self.text("fs.type");
            let message = format!("fs.type: {said}, but the target is {target}; leave it out");
            return Err(wrong(&["fs.type", "target"], &message));
        }
        Ok(())
    }

    fn journal_of(&self, driver: Driver, kind: &str) -> Result<JournalPlace, SetupError> {
        let text = self.journal_word();
        match text {
            "none" if kind == "ext2" => Ok(JournalPlace::None),
            "none" | "internal" if kind == EXT4 && self.has_no_journal() => Ok(JournalPlace::None),
            "none" | "internal" if is_in_memory(kind) => Ok(JournalPlace::None),
            "none" => Err(wrong(
                &["journal"],
                &format!("journal: {kind} has one; without a journal it is kernel:ext2"),
            )),
            "internal" if kind == "ext2" && !self.is_said("journal") => Ok(JournalPlace::None),
            _ if kind == "ext2" => Err(wrong(&["journal"], "journal: ext2 has none; set \"none\"")),
            "internal" => Ok(JournalPlace::Internal),
            _ if driver != Driver::Fuse2fs && ["ext3", "ext4", "xfs"].contains(&kind) => {
                Ok(JournalPlace::External(self.mountable("journal", text)?))
            }
            _ => Err(wrong(
                &["journal"],
                &format!(
                    "journal: {} does not support a separate journal device",
                    self.text("target")
                ),
            )),
        }
    }

    /// Parses a device that the kernel can attach.
    fn mountable(&self, key: &'static str, text: &str) -> Result<DeviceText, SetupError> {
        match self.device(key, text)? {
            device @ (DeviceText::File { .. } | DeviceText::Memory { .. }) => Ok(device),
            other => {
                let message = format!(
                    "{key}: {other} is not a kernel device; use a file, a block device, or mem:SIZE"
                );
                Err(wrong(&["target", key], &message))
            }
        }
    }

    fn options(&self, driver: Driver, kind: &str, journal: &JournalPlace) -> String {
        match driver {
            Driver::Fuse2fs => return "rw".to_owned(),
            Driver::Passthrough => return "writeback".to_owned(),
            Driver::Kernel | Driver::Jext => {}
        }
        self.kernel_options(kind, journal).join(",")
    }
}

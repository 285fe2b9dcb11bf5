//! Converts keys to a file system in a guest: checks which keys apply, and sets the options of mkfs
//! and mount and the limits of the kernel.

use block::DeviceText;

use super::{Reader, SetupError, check_parts, wrong};
use crate::file_system::{GuestFileSystem, JournalPlace};
use crate::plan::key::{
    EXT4, GUEST_DEPTH, GUEST_FLUSH, GUEST_OPTIONS, GUEST_REQUESTS, GUEST_SCHEDULER, GUEST_STREAM,
    JOURNAL_SIZE, LOG_PART_PREFIX, USES,
};
use crate::plan::value::{GUEST_PREFIX, INTERNAL, INTERNAL_PREFIX, NONE, Value};
use crate::system::makers::GUEST_KINDS;

/// Keys of the engine that a kernel has no equivalent of.
const ENGINE_KEYS: [&str; 5] = [
    "fs.profile",
    "memory.kernel",
    "cache.dirty_stop",
    "cache.dirty_of",
    "cache.writers",
];
const ENGINE_PREFIXES: [&str; 3] = ["fs.ordered", "fs.log_policy", LOG_PART_PREFIX];
/// Keys that only the drivers of ext3 and ext4 support.
const JOURNALING_KEYS: [&str; 4] = ["fs.data", "fs.commit", "fs.barrier", GUEST_STREAM];
/// File systems whose makers take the size of a journal, with limits below and above which they
/// make none. They refuse themselves what a device has no room for. ReiserFS counts blocks of
/// 4 KiB.
const SIZED_KINDS: [(&str, u64, Option<u64>); 5] = [
    ("ext3", 1024 << 10, None),
    ("ext4", 1024 << 10, None),
    ("jfs", 1 << 20, None),
    ("reiserfs", 513 << 12, Some(32_749 << 12)),
    ("xfs", 1 << 20, None),
];
/// Keys that only the makers of the ext family support.
const EXT_KEYS: [&str; 6] = [
    USES,
    "mkfs",
    "fs.block_size",
    "fs.inode_size",
    "fs.bytes_per_inode",
    "fs.reserved_percent",
];
/// Keys of virtual time.
const VIRTUAL_KEYS: [&str; 3] = ["host", "host_scale_permille", "limit.virtual_time"];
/// Keys of the kernel's limits, and their names there: percentages, then times in hundredths of a
/// second.
const PERCENTAGES: [(&str, &str); 2] = [
    ("cache.dirty_background", "dirty_background_ratio"),
    ("cache.dirty", "dirty_ratio"),
];
const TIMES: [(&str, &str); 2] = [
    ("cache.writer_interval", "dirty_writeback_centisecs"),
    ("cache.dirty_expiry", "dirty_expire_centisecs"),
];
const NANOS_PER_CENTISECOND: u64 = 10_000_000;

impl Reader<'_> {
    /// Returns the file system, if the target is a guest.
    pub(super) fn guest(&self) -> Result<Option<GuestFileSystem>, SetupError> {
        let Some(kind) = self.text("target").strip_prefix(GUEST_PREFIX) else {
            return Ok(None);
        };
        let kind = GUEST_KINDS
            .iter()
            .map(|(known, _)| *known)
            .find(|known| *known == kind);
        let kind = kind.expect("the kind of the key was checked");
        let Some(Value::Text(text)) = self.settings.get("device") else {
            return Err(wrong(
                &["target", "device"],
                "device: a file system needs one",
            ));
        };
        let device = self.device("device", text)?;
        self.check_keys_of_guest(kind, device.is_ephemeral())?;
        let journal = self.journal_of_guest(kind, &device)?;
        self.check_journal_size(kind)?;
        Ok(Some(GuestFileSystem {
            kind,
            memory: self.memory(&journal)?,
            device,
            format: self.format(kind, &journal)?,
            options: self.options_of_guest(kind, &journal),
            journal,
            scheduler: self
                .is_said(GUEST_SCHEDULER)
                .then(|| self.text(GUEST_SCHEDULER).to_owned()),
            depth: self.is_said(GUEST_DEPTH).then(|| self.small(GUEST_DEPTH)),
            stream: self.is_said(GUEST_STREAM).then(|| self.small(GUEST_STREAM)),
            has_flushes: self.switch(GUEST_FLUSH),
            requests: self
                .is_said(GUEST_REQUESTS)
                .then(|| self.small(GUEST_REQUESTS)),
            limits: self.limits(),
            is_recorded: false,
            has_uses: self.switch(USES),
        }))
    }

    /// Fails if the maker cannot make a journal of the wanted size.
    fn check_journal_size(&self, kind: &str) -> Result<(), SetupError> {
        let limits = SIZED_KINDS.iter().find(|(known, ..)| *known == kind);
        let (Some((_, least, most)), Some(bytes)) = (limits, self.journal_bytes()) else {
            return Ok(());
        };
        if bytes >= *least && most.is_none_or(|most| bytes <= most) {
            return Ok(());
        }
        let range = match most {
            Some(most) => format!("{least} to {most}"),
            None => format!("{least} or more"),
        };
        let key = match self.text("journal").starts_with(INTERNAL_PREFIX) {
            true => "journal",
            false => JOURNAL_SIZE,
        };
        let message = format!("{key}: {bytes} bytes; {kind} takes {range}");
        Err(wrong(&[key], &message))
    }

    /// Fails if a setting has no effect.
    fn check_keys_of_guest(&self, kind: &str, is_virtual: bool) -> Result<(), SetupError> {
        let is_ext = matches!(kind, "ext2" | "ext3" | "ext4");
        let is_journaling = matches!(kind, "ext3" | "ext4");
        let target = self.text("target");
        for key in self.settings.said() {
            let is_engines = ENGINE_KEYS.contains(&key)
                || ENGINE_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            let is_others = EXT_KEYS.contains(&key) && !is_ext
                || JOURNALING_KEYS.contains(&key) && !is_journaling
                || key == JOURNAL_SIZE && !SIZED_KINDS.iter().any(|(known, ..)| *known == kind);
            if is_engines || is_others {
                return Err(wrong(&[key], &format!("{key}: has no effect for {target}")));
            }
            if VIRTUAL_KEYS.contains(&key) && !is_virtual {
                let message = format!("{key}: has no effect for {target} on a file, in real time");
                return Err(wrong(&[key, "device"], &message));
            }
        }
        if self.is_said("fs.type") && self.text("fs.type") != kind {
            let said = self.text("fs.type");
            let message = format!("fs.type: {said}, but the target is {target}; leave it out");
            return Err(wrong(&["fs.type", "target"], &message));
        }
        Ok(())
    }

    fn journal_of_guest(&self, kind: &str, home: &DeviceText) -> Result<JournalPlace, SetupError> {
        let has_none = matches!(kind, "ext2" | "btrfs");
        match self.journal_word() {
            NONE | INTERNAL if kind == EXT4 && self.has_no_journal() => Ok(JournalPlace::None),
            NONE if has_none => Ok(JournalPlace::None),
            INTERNAL if has_none && !self.is_said("journal") => Ok(JournalPlace::None),
            _ if has_none => {
                let message = format!("journal: {kind} has none; set \"none\"");
                Err(wrong(&["journal", "target"], &message))
            }
            NONE => {
                let message = format!("journal: {kind} has one; without a journal it is uml:ext2");
                Err(wrong(&["journal", "target"], &message))
            }
            INTERNAL => Ok(JournalPlace::Internal),
            text => {
                let device = self.device("journal", text)?;
                if device.is_ephemeral() != home.is_ephemeral() {
                    let message = format!(
                        "journal: {device} and {home} are not both simulated; the time of a guest is either virtual or real"
                    );
                    return Err(wrong(&["journal", "device"], &message));
                }
                check_parts(home, &device)?;
                Ok(JournalPlace::External(device))
            }
        }
    }

    fn options_of_guest(&self, kind: &str, journal: &JournalPlace) -> String {
        let mut all = self.kernel_options(kind, journal);
        if self.is_said(GUEST_OPTIONS) {
            all.push(self.text(GUEST_OPTIONS).to_owned());
        }
        all.join(",")
    }

    /// Returns the limits that the plan sets; the kernel has its own for the others.
    fn limits(&self) -> Vec<(&'static str, u64)> {
        let percentages = PERCENTAGES.iter().filter(|(key, _)| self.is_said(key));
        let percentages = percentages.map(|(key, name)| (*name, u64::from(self.percent(key))));
        let times = TIMES.iter().filter(|(key, _)| self.is_said(key));
        let times = times.map(|(key, name)| (*name, self.time(key).get() / NANOS_PER_CENTISECOND));
        percentages.chain(times).collect()
    }
}

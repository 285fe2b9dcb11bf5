//! Converts keys to the options of mkfs, mount and the workload.

use ext::MountOptions;
use ext::options::{AccessTime, DataMode, Memory, OrderedScope};
use ext::tuning::{AllocationProfile, DirtyOf, MemoryAccounting, Tuning, Writeback, Writers};
use jbd2::LogPolicy;
use workload::{Definition, Load, Setting};

use super::ext4::{DELAYED_ALLOCATION, LAZY_INIT};
use super::{CHECKED, Reader, SetupError, wrong};
use crate::file_system::{FormatSetup, JournalPlace};
use crate::plan::key::{AS_POLICY, EXT4, LOG_PART_PREFIX};
use crate::plan::settings::Settings;
use crate::plan::value::Value;

/// The pauses between inode tables that are zeroed in the background, in the time that one takes:
/// Linux's default of `init_itable`.
const INIT_PAUSES: u32 = 10;

impl Reader<'_> {
    /// Returns the options of mkfs for a type and a place of its journal.
    pub(super) fn format(
        &self,
        kind: &str,
        journal: &JournalPlace,
    ) -> Result<FormatSetup, SetupError> {
        let setup = FormatSetup {
            is_classic: self.text("mkfs") == "classic2002",
            block_bytes: self.bytes("fs.block_size"),
            inode_bytes: self.bytes("fs.inode_size"),
            bytes_per_inode: self.bytes("fs.bytes_per_inode"),
            journal_bytes: self.journal_bytes(),
            reserved_percent: self.percent("fs.reserved_percent"),
            features: self.features(kind, journal)?,
            is_lazy: self.switch(LAZY_INIT),
        };
        if let Some(bytes) = setup.block_bytes
            && ![1024, 2048, 4096].contains(&bytes)
        {
            let message = format!("fs.block_size: {bytes} is not 1024, 2048 or 4096");
            return Err(wrong(&["fs.block_size"], &message));
        }
        if let Some(bytes) = setup.inode_bytes
            && ![128, 256].contains(&bytes)
        {
            let message = format!("fs.inode_size: {bytes} is not 128 or 256");
            return Err(wrong(&["fs.inode_size"], &message));
        }
        Ok(setup)
    }

    /// Returns the mount options of a kernel's driver.
    pub(super) fn kernel_options(&self, kind: &str, journal: &JournalPlace) -> Vec<String> {
        let mut all = vec![self.text("fs.access_time").to_owned()];
        if kind == EXT4 && !self.switch(DELAYED_ALLOCATION) {
            all.push("nodelalloc".to_owned());
        }
        if matches!(kind, "ext3" | "ext4") && *journal != JournalPlace::None {
            all.push(format!("data={}", self.text("fs.data")));
            let seconds = self.time("fs.commit").as_secs_f64();
            all.push(format!("commit={}", seconds.ceil().max(1.0)));
            all.push(format!("barrier={}", u8::from(self.switch("fs.barrier"))));
        }
        for (key, word) in [("fs.sync", "sync"), ("fs.dirsync", "dirsync")] {
            if self.switch(key) {
                all.push(word.to_owned());
            }
        }
        all
    }

    /// Returns the mount options of the engine.
    pub(super) fn mount(
        &self,
        budget_bytes: u64,
        ballast_bytes: u64,
        is_simulated: bool,
    ) -> Result<MountOptions, SetupError> {
        let dirty_percent = self.percent("cache.dirty");
        let dirty_background_percent = self.percent("cache.dirty_background");
        if dirty_background_percent > dirty_percent {
            let message = format!(
                "cache.dirty_background: {dirty_background_percent} % is more than cache.dirty, {dirty_percent} %"
            );
            return Err(wrong(&["cache.dirty_background", "cache.dirty"], &message));
        }
        for key in ["fs.commit", "cache.writer_interval"] {
            if self.time(key) == rt::Nanos::default() {
                return Err(wrong(&[key], &format!("{key}: must be greater than zero")));
            }
        }
        Ok(MountOptions {
            data: match self.text("fs.data") {
                "journal" => DataMode::Journal,
                "writeback" => DataMode::Writeback,
                _ => DataMode::Ordered,
            },
            ordered: match self.text("fs.ordered") {
                "allocated" => OrderedScope::Allocated,
                _ => OrderedScope::All,
            },
            delayed_allocation: self.switch(DELAYED_ALLOCATION),
            commit_interval: self.time("fs.commit"),
            barrier: self.switch("fs.barrier"),
            sync: self.switch("fs.sync"),
            directory_sync: self.switch("fs.dirsync"),
            access_time: match self.text("fs.access_time") {
                "noatime" => AccessTime::Never,
                "strictatime" => AccessTime::Strict,
                _ => AccessTime::Relative,
            },
            tuning: self.tuning(ballast_bytes, is_simulated),
            memory: Memory {
                budget_bytes,
                dirty_background_percent,
                dirty_percent,
                writer_interval: self.time("cache.writer_interval"),
                dirty_expiry: self.time("cache.dirty_expiry"),
            },
            // As by default on Linux.
            init_tables: self.switch(LAZY_INIT).then_some(INIT_PAUSES),
            privileged: true,
            ..MountOptions::default()
        })
    }

    fn tuning(&self, ballast_bytes: u64, is_simulated: bool) -> Tuning {
        Tuning {
            log_policy: self.log_policy(),
            allocation: match self.text("fs.profile") {
                "ext3-2.4" => AllocationProfile::Ext3Linux24,
                "multi-block" => AllocationProfile::MultiBlock,
                "windows" => AllocationProfile::Modern,
                _ => AllocationProfile::BySuperblock,
            },
            memory_accounting: match is_simulated {
                true => MemoryAccounting::Contents,
                false => MemoryAccounting::WithOverhead,
            },
            writeback: Writeback {
                dirty_of: match self.text("cache.dirty_of") {
                    "inactive" => DirtyOf::Inactive,
                    _ => DirtyOf::Budget,
                },
                // The ballast stands for a RAM disk, whose pages are on the host's page lists.
                listed_elsewhere: ballast_bytes,
                stop_percent: self.percent("cache.dirty_stop"),
                writers: match self.text("cache.writers") {
                    "submit" => Writers::Submit,
                    _ => Writers::Wait,
                },
            },
            ..Tuning::default()
        }
    }

    /// Returns the named log policy with its individually set parts.
    fn log_policy(&self) -> LogPolicy {
        let named = LogPolicy::named(self.text("fs.log_policy"));
        let policy = named.expect("the words of the key are names");
        LogPolicy::PARTS.iter().fold(policy, |policy, part| {
            match self.text(&format!("{LOG_PART_PREFIX}{}", part.name)) {
                AS_POLICY => policy,
                word => policy
                    .with(part.name, word)
                    .expect("the words of the key are the part's"),
            }
        })
    }

    pub(super) fn workload(&self) -> Result<Load, SetupError> {
        let definition = Definition::named(self.settings.workload());
        load(definition.expect(CHECKED), self.settings)
    }
}

/// Returns a workload with the parameters of the settings.
///
/// # Errors
/// Fails if the parameters are inconsistent.
pub fn load(definition: &'static Definition, settings: &Settings) -> Result<Load, SetupError> {
    let mut values = definition.defaults();
    for parameter in definition.all_parameters() {
        let setting = match settings.get(parameter.name) {
            Some(Value::Switch(on)) => Setting::Switch(*on),
            Some(Value::Number(number)) => Setting::Number(*number),
            Some(Value::Bytes(bytes)) => Setting::Bytes(*bytes),
            Some(Value::Time(nanos)) => Setting::Time(rt::Nanos::new(*nanos)),
            Some(Value::Range(low, high)) => Setting::Range(*low, *high),
            Some(Value::Text(text)) => Setting::Text(text.clone().into()),
            None => continue,
        };
        values.set(parameter.name, setting);
    }
    Load::new(definition, values).map_err(|error| wrong(&[error.name], &error.to_string()))
}

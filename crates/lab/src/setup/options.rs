//! From keys to mkfs's, mount's and the workload's own options.

use ext::MountOptions;
use ext::options::{AccessTime, AllocationProfile, DataMode, Memory, OrderedScope};
use jbd2::LogPolicy;
use workload::postmark::{Bias, FinalSync, Fsync, Options, Parameters};

use workload::{Definition, Load, Setting, stage};

use super::{FormatSetup, Reader, SetupError, Workload, wrong};
use crate::plan::key::{AS_POLICY, LOG_PART_PREFIX};
use crate::plan::settings::Settings;
use crate::plan::value::Value;

impl Reader<'_> {
    pub(super) fn format(&self) -> Result<FormatSetup, SetupError> {
        let setup = FormatSetup {
            is_classic: self.text("mkfs") == "classic2002",
            block_bytes: self.bytes("fs.block_size"),
            inode_bytes: self.bytes("fs.inode_size"),
            bytes_per_inode: self.bytes("fs.bytes_per_inode"),
            journal_bytes: self.bytes("fs.journal_size"),
            reserved_percent: self.percent("fs.reserved_percent"),
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

    pub(super) fn mount(&self, budget_bytes: u64) -> Result<MountOptions, SetupError> {
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
                return Err(wrong(
                    &[key],
                    &format!("{key}: must be longer than no time at all"),
                ));
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
            commit_interval: self.time("fs.commit"),
            barrier: self.switch("fs.barrier"),
            sync: self.switch("fs.sync"),
            directory_sync: self.switch("fs.dirsync"),
            access_time: match self.text("fs.access_time") {
                "noatime" => AccessTime::Never,
                "strictatime" => AccessTime::Strict,
                _ => AccessTime::Relative,
            },
            log_policy: self.log_policy(),
            allocation: match self.text("fs.profile") {
                "ext3-2.4" => AllocationProfile::Ext3Linux24,
                _ => AllocationProfile::Modern,
            },
            memory: Memory {
                budget_bytes,
                dirty_background_percent,
                dirty_percent,
                writer_interval: self.time("cache.writer_interval"),
                dirty_expiry: self.time("cache.dirty_expiry"),
            },
            privileged: true,
            ..MountOptions::default()
        })
    }

    /// The policy of that name, with the parts that are set one by one.
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

    pub(super) fn workload(&self) -> Result<Workload, SetupError> {
        match Definition::named(self.text("workload")) {
            Some(definition) => Ok(Workload::Load(load(definition, self.settings)?)),
            None => self.postmark(),
        }
    }

    fn postmark(&self) -> Result<Workload, SetupError> {
        let &Value::Range(size_low, size_high) = self.value("postmark.size") else {
            unreachable!("the kind of postmark.size was checked");
        };
        let parameters = Parameters {
            size_low,
            size_high,
            number: self.small("postmark.number"),
            transactions: self.small("postmark.transactions"),
            seed: self.small("postmark.seed"),
            subdirectories: self.small("postmark.subdirectories"),
            read_block: self.small("postmark.read"),
            write_block: self.small("postmark.write"),
            buffered: self.switch("postmark.buffering"),
            read_bias: self.bias("postmark.bias_read"),
            create_bias: self.bias("postmark.bias_create"),
            ..Parameters::default()
        };
        let options = Options {
            fsync: match self.text("postmark.fsync") {
                "close" => Fsync::Close,
                "every-write" => Fsync::EveryWrite,
                _ => Fsync::None,
            },
            final_sync: match self.text("postmark.final_sync") {
                "end" => FinalSync::End,
                "each-phase" => FinalSync::EachPhase,
                _ => FinalSync::None,
            },
            threads: self.small("postmark.threads"),
            latencies: self.switch("postmark.latencies"),
            ..Options::lab()
        };
        let keys = ["postmark.size", "postmark.number", "postmark.threads"];
        parameters
            .check()
            .map_err(|error| wrong(&keys, &format!("postmark: {error}")))?;
        options
            .check(&parameters)
            .map_err(|error| wrong(&keys, &format!("postmark: {error}")))?;
        Ok(Workload::PostMark {
            parameters,
            options,
        })
    }

    fn bias(&self, key: &str) -> Bias {
        match u8::try_from(self.number(key)) {
            Ok(tenths) => Bias::new(tenths).expect("checked against its limits"),
            Err(_) => Bias::DISABLED,
        }
    }
}

/// A workload with the parameters that the settings have.
///
/// # Errors
/// If they do not go together.
pub fn load(definition: &'static Definition, settings: &Settings) -> Result<Load, SetupError> {
    let mut values = definition.defaults();
    for parameter in stage::PARAMETERS.iter().chain(definition.parameters) {
        let setting = match settings.get(parameter.name) {
            Some(Value::Switch(on)) => Setting::Switch(*on),
            Some(Value::Number(number)) => Setting::Number(*number),
            Some(Value::Bytes(bytes)) => Setting::Bytes(*bytes),
            Some(Value::Time(nanos)) => Setting::Time(rt::Nanos::new(*nanos)),
            Some(Value::Text(text)) => Setting::Text(text.clone().into()),
            Some(Value::Range(..)) | None => continue,
        };
        values.set(parameter.name, setting);
    }
    Load::new(definition, values).map_err(|error| wrong(&[error.name], &error.to_string()))
}

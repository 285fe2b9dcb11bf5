//! Mount options in their text form: `data=writeback,commit=30,noatime`.
//!
//! The names are those of ext3 and ext4; jext's own options are marked "ours".
//!
//! | option | meaning |
//! |---|---|
//! | `ro`, `rw` | read-only or not |
//! | `noload`, `norecovery` | with `ro`: the journal is not replayed |
//! | `data=journal`, `ordered`, `writeback` | the order of data and journal |
//! | `ordered=all`, `allocated` | the blocks that ordered mode writes before a commit (ours) |
//! | `delalloc`, `nodelalloc` | on ext4: allocate blocks at writeback, or at the write |
//! | `auto_da_alloc`, `noauto_da_alloc`, `auto_da_alloc=1`, `0` | at once for replacing files |
//! | `journal_async_commit` | write the commit block together with the rest of its transaction |
//! | `commit=5` | seconds until a transaction is committed |
//! | `barrier=1`, `0`, `barrier`, `nobarrier` | flush devices around commits |
//! | `sync`, `async`, `dirsync` | the changes that are durable when a call returns |
//! | `noatime`, `relatime`, `strictatime` | the access times that are kept |
//! | `errors=continue`, `remount-ro`, `panic` | after an error in metadata |
//! | `data_err=abort`, `ignore` | after a failed write of ordered data |
//! | `memory=256MiB` | the budget for pages and metadata (ours) |
//! | `dirty_background=40`, `dirty=60` | percent of the budget (ours) |
//! | `discard`, `nodiscard` | discard freed blocks, so that a sparse image shrinks |
//! | `host_space=metadata`, `none`, `all` | space of a sparse image to allocate at open (ours) |
//! | `stripe=0` | blocks in a stripe of an array, in place of the superblock's |
//! | `bsddf`, `minixdf` | the size without the blocks of metadata, or with them |
//! | `init_itable=10`, `noinit_itable` | zero unused inode tables in the background, or not |
//! | `force` | use a device that cannot flush (ours) |
//! | `resuid=0`, `resgid=0` | the user and group with access to the reserved blocks, besides root |
//! | `journal_path=DEV` | the external journal |
//! | `grpid`, `bsdgroups`, `nogrpid`, `sysvgroups` | the group of new files |
//!
//! [`table`] has the other options of ext4: those without effect, and those that are refused.
//! [`ParsedOptions::for_volume`] adds the options that a superblock has.
//!
//! Options for experiments (ours):
//!
//! | option | meaning |
//! |---|---|
//! | `log_policy=default`, `linux24` | the policy of commits and checkpoints |
//! | `log_policy=linux24:log_io=copy` | the same with parts set one by one: see [`jbd2::policy`] |
//! | `alloc=auto`, `multiblock`, `modern`, `ext3-2.4` | the placement of blocks and inodes |

pub mod table;

use block::text::Size;
use ext::MountOptions;
use ext::options::{AccessTime, AsyncCommit, DataMode, HostSpace, OnError, OrderedScope};
use ext::tuning::AllocationProfile;
use layout::feature::Compatible;
use layout::superblock::{DefaultMountOptions, Superblock};
use rt::Nanos;
use table::Treatment;

/// A parsed list of options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedOptions {
    /// The options.
    pub options: MountOptions,
    /// The external journal's device text.
    pub journal_path: Option<String>,
    /// The settings of [`SETTINGS`] that were given.
    given: Vec<&'static str>,
}

/// An unknown option, one with an invalid value, or one that is not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Another form is expected.
    #[error("mount option {option:?}: expected {expected}")]
    Expected {
        /// The option as it was written.
        option: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The option is one of ext4 that is not supported.
    #[error("mount option {option:?}: not supported: {reason}")]
    Refused {
        /// The option as it was written.
        option: String,
        /// The reason.
        reason: &'static str,
    },
}

/// Copies a setting from other options.
type Copy = fn(&mut MountOptions, &MountOptions);
/// The settings that a superblock may have, by a name for each.
const SETTINGS: &[(&str, Copy)] = &[
    ("data", |to, from| to.data = from.data),
    ("errors", |to, from| to.on_error = from.on_error),
    ("data_err", |to, from| {
        to.abort_on_data_error = from.abort_on_data_error;
    }),
    ("delalloc", |to, from| {
        to.delayed_allocation = from.delayed_allocation;
    }),
    ("auto_da_alloc", |to, from| {
        to.auto_da_alloc = from.auto_da_alloc;
    }),
    ("stripe", |to, from| to.stripe_blocks = from.stripe_blocks),
    (ASYNC_COMMIT, |to, from| {
        to.async_commit = from.async_commit;
    }),
    ("commit", |to, from| {
        to.commit_interval = from.commit_interval;
    }),
    ("barrier", |to, from| to.barrier = from.barrier),
    ("discard", |to, from| to.discard = from.discard),
    ("grpid", |to, from| {
        to.directory_groups = from.directory_groups;
    }),
    ("minixdf", |to, from| {
        to.counts_metadata = from.counts_metadata;
    }),
    ("init_itable", |to, from| to.init_tables = from.init_tables),
    ("resuid", |to, from| to.reserved_uid = from.reserved_uid),
    ("resgid", |to, from| to.reserved_gid = from.reserved_gid),
];

/// The setting of commit blocks that are written together with their transactions.
const ASYNC_COMMIT: &str = "journal_async_commit";
/// Maximum of `commit=`, in seconds.
const COMMIT_SECONDS_MAX: u64 = 86_400;
/// The pauses between parts of inode tables, in times of what a part takes, with `init_itable`.
const INIT_TABLES_FACTOR: u32 = 10;
/// Seconds that `commit=0` stands for.
const COMMIT_SECONDS_DEFAULT: u64 = 5;
const NAMES: &str = "one of ro, noload, data, ordered, delalloc, auto_da_alloc, commit, barrier, journal_async_commit, sync, dirsync, noatime, relatime, strictatime, discard, grpid, \
                     errors, data_err, log_policy, alloc, stripe, minixdf, init_itable, memory, dirty_background, dirty, host_space, force, resuid, \
                     resgid, journal_path";

impl ParsedOptions {
    /// Parses a list and adds it to the earlier options; a later option replaces an earlier one.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        for option in split(list) {
            self.set(option)?;
        }
        let memory = &self.options.memory;
        if memory.dirty_background_percent > memory.dirty_percent {
            return Err(OptionError::Expected {
                option: format!("dirty_background={}", memory.dirty_background_percent),
                expected: "no more than dirty=",
            });
        }
        Ok(())
    }

    /// Sets the `init_itable` that holds if neither a list nor the superblock has one, as for
    /// mounts by the kernel.
    pub fn init_tables_by_default(&mut self) {
        if !self.given.contains(&"init_itable") {
            self.options.init_tables = Some(INIT_TABLES_FACTOR);
        }
    }

    /// Takes the options that were not given from a superblock: the bits that `tune2fs -o` sets,
    /// and above them the list of `tune2fs -E mount_opts=`. Returns what is not supported of them,
    /// which is left out.
    pub fn for_volume(&mut self, superblock: &Superblock) -> Vec<OptionError> {
        let (mut own, mut refused) = (Self::default(), Vec::new());
        let bits = superblock.default_mount_options();
        let has_journal = superblock
            .features()
            .compatible
            .contains(Compatible::HAS_JOURNAL);
        let mode = bits & DefaultMountOptions::DATA_MODE;
        for (known, option) in table::DEFAULTS {
            let is_set = match DefaultMountOptions::DATA_MODE.contains(*known) {
                true => has_journal && *known == mode,
                false => bits.contains(*known),
            };
            let taken = option
                .filter(|_| is_set)
                .map_or(Ok(()), |option| own.set(option));
            refused.extend(taken.err());
        }
        let list = superblock.mount_options;
        let list = list.split(|byte| *byte == 0).next().unwrap_or_default();
        for option in split(&String::from_utf8_lossy(list)) {
            refused.extend(own.set(option).err());
        }
        for (name, copy) in SETTINGS {
            if own.given.contains(name) && !self.given.contains(name) {
                copy(&mut self.options, &own.options);
            }
        }
        let is_own = own.options.async_commit && !self.given.contains(&ASYNC_COMMIT);
        let effect = self.options.async_commit_on(&superblock.features());
        if let (true, AsyncCommit::Refused(misfit)) = (is_own, effect) {
            self.options.async_commit = false;
            refused.push(OptionError::Refused {
                option: ASYNC_COMMIT.to_owned(),
                reason: misfit.reason,
            });
        }
        if self.journal_path.is_none() {
            self.journal_path = own.journal_path;
        }
        refused
    }

    fn set(&mut self, option: &str) -> Result<(), OptionError> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let expected = |expected| OptionError::Expected {
            option: option.to_owned(),
            expected,
        };
        match table::find(name, value).map_err(expected)? {
            Some(row) if row.treatment == Treatment::Refused => {
                return Err(OptionError::Refused {
                    option: option.to_owned(),
                    reason: row.note,
                });
            }
            Some(_) => return Ok(()),
            None => {}
        }
        match (name, value) {
            ("journal_path", Some(path)) => self.journal_path = Some(path.to_owned()),
            (_, None) => self.set_flag(name).map_err(expected)?,
            (_, Some(value)) => self.set_value(name, value).map_err(expected)?,
        }
        let name = match name {
            "nobarrier" => "barrier",
            "nodelalloc" => "delalloc",
            "noauto_da_alloc" => "auto_da_alloc",
            "nodiscard" => "discard",
            "noinit_itable" => "init_itable",
            "bsddf" => "minixdf",
            "bsdgroups" | "nogrpid" | "sysvgroups" => "grpid",
            name => name,
        };
        let known = SETTINGS.iter().find(|(known, _)| *known == name);
        self.given.extend(known.map(|(known, _)| *known));
        Ok(())
    }

    fn set_flag(&mut self, name: &str) -> Result<(), &'static str> {
        let options = &mut self.options;
        match name {
            "ro" => options.read_only = true,
            "rw" => options.read_only = false,
            "noload" | "norecovery" => options.no_recovery = true,
            "barrier" => options.barrier = true,
            "nobarrier" => options.barrier = false,
            "delalloc" => options.delayed_allocation = true,
            "nodelalloc" => options.delayed_allocation = false,
            "auto_da_alloc" => options.auto_da_alloc = true,
            "noauto_da_alloc" => options.auto_da_alloc = false,
            "journal_async_commit" => options.async_commit = true,
            "sync" => options.sync = true,
            "async" => options.sync = false,
            "dirsync" => options.directory_sync = true,
            "noatime" => options.access_time = AccessTime::Never,
            "relatime" => options.access_time = AccessTime::Relative,
            "strictatime" => options.access_time = AccessTime::Strict,
            "discard" => options.discard = true,
            "nodiscard" => options.discard = false,
            "grpid" | "bsdgroups" => options.directory_groups = true,
            "nogrpid" | "sysvgroups" => options.directory_groups = false,
            "force" => options.force = true,
            "minixdf" => options.counts_metadata = true,
            "bsddf" => options.counts_metadata = false,
            "init_itable" => options.init_tables = Some(INIT_TABLES_FACTOR),
            "noinit_itable" => options.init_tables = None,
            _ => return Err(NAMES),
        }
        Ok(())
    }

    fn set_value(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let options = &mut self.options;
        let percent = || value.parse().ok().filter(|percent| *percent <= 100_u8);
        match name {
            "data" => {
                options.data = match value {
                    "journal" => DataMode::Journal,
                    "ordered" => DataMode::Ordered,
                    "writeback" => DataMode::Writeback,
                    _ => return Err("data=journal, ordered or writeback"),
                }
            }
            "ordered" => {
                options.ordered = match value {
                    "all" => OrderedScope::All,
                    "allocated" => OrderedScope::Allocated,
                    _ => return Err("ordered=all or allocated"),
                }
            }
            "commit" => {
                let seconds = value.parse().ok().filter(|s| *s <= COMMIT_SECONDS_MAX);
                options.commit_interval = match seconds.ok_or("seconds from 0 to 86400")? {
                    0 => Nanos::from_secs(COMMIT_SECONDS_DEFAULT),
                    seconds => Nanos::from_secs(seconds),
                };
            }
            "barrier" => options.barrier = switch(value)?,
            "auto_da_alloc" => options.auto_da_alloc = switch(value)?,
            "errors" => {
                options.on_error = match value {
                    "continue" => OnError::Continue,
                    "remount-ro" => OnError::RemountReadOnly,
                    "panic" => OnError::Panic,
                    _ => return Err("errors=continue, remount-ro or panic"),
                }
            }
            "data_err" => {
                options.abort_on_data_error = match value {
                    "abort" => true,
                    "ignore" => false,
                    _ => return Err("data_err=abort or ignore"),
                }
            }
            "log_policy" => {
                options.tuning.log_policy = jbd2::LogPolicy::from_text(value).ok_or(
                    "log_policy=default or linux24, and parts behind colons as in linux24:checkpointer=daemon",
                )?;
            }
            "alloc" => {
                options.tuning.allocation = match value {
                    "auto" => AllocationProfile::BySuperblock,
                    "multiblock" => AllocationProfile::MultiBlock,
                    "modern" => AllocationProfile::Modern,
                    "ext3-2.4" => AllocationProfile::Ext3Linux24,
                    _ => return Err("alloc=auto, multiblock, modern or ext3-2.4"),
                }
            }
            "host_space" => {
                options.host_space = match value {
                    "none" => HostSpace::None,
                    "metadata" => HostSpace::Metadata,
                    "all" => HostSpace::All,
                    _ => return Err("host_space=none, metadata or all"),
                }
            }
            "stripe" => {
                options.stripe_blocks = Some(value.parse().map_err(|_| "a number of blocks")?)
            }
            "init_itable" => {
                options.init_tables = Some(value.parse().map_err(|_| "a factor of the pauses")?);
            }
            "memory" => options.memory.budget_bytes = Size::parse(value)?.bytes(),
            "dirty_background" => {
                options.memory.dirty_background_percent = percent().ok_or("a percentage")?;
            }
            "resuid" => options.reserved_uid = Some(value.parse().map_err(|_| "a user's number")?),
            "resgid" => options.reserved_gid = Some(value.parse().map_err(|_| "a group's number")?),
            "dirty" => options.memory.dirty_percent = percent().ok_or("a percentage")?,
            _ => return Err(NAMES),
        }
        Ok(())
    }
}

/// Splits a list at its commas, except those within parentheses and quotes, as in device texts.
#[must_use]
pub fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted, mut start) = (0_usize, false, 0);
    let mut parts = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Parses a number of which every but 0 means yes, as in Linux.
fn switch(value: &str) -> Result<bool, &'static str> {
    let number: u32 = value.parse().map_err(|_| "0 or 1")?;
    Ok(number != 0)
}

#[cfg(test)]
mod tests;

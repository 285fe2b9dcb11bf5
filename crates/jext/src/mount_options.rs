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
//! | `delalloc`, `nodelalloc` | on ext4: allocate blocks when data is written back, or when written |
//! | `auto_da_alloc=1`, `0`, `auto_da_alloc`, `noauto_da_alloc` | allocate at once for a file that replaces another |
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
//! | `force` | use a device that cannot flush (ours) |
//! | `resuid=0`, `resgid=0` | the user and group with access to the reserved blocks, besides root |
//! | `journal_path=DEV` | the external journal |
//! | `acl`, `user_xattr` | nothing: always on |
//! | `defaults` | nothing |
//!
//! Options for experiments (ours):
//!
//! | option | meaning |
//! |---|---|
//! | `log_policy=default`, `linux24` | the policy of commits and checkpoints |
//! | `log_policy=linux24:log_io=copy` | the same with parts set one by one: see [`jbd2::policy`] |
//! | `alloc=auto`, `multiblock`, `modern`, `ext3-2.4` | the placement of blocks and inodes |

use block::text::Size;
use ext::MountOptions;
use ext::options::{AccessTime, DataMode, HostSpace, OnError, OrderedScope};
use ext::tuning::AllocationProfile;
use rt::Nanos;

/// A parsed list of options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedOptions {
    /// The options.
    pub options: MountOptions,
    /// The external journal's device text.
    pub journal_path: Option<String>,
}

/// An unknown option, or one with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mount option {option:?}: expected {expected}")]
pub struct OptionError {
    /// The option as it was written.
    pub option: String,
    /// The expected form.
    pub expected: &'static str,
}

/// Maximum of `commit=`, in seconds.
const COMMIT_SECONDS_MAX: u64 = 86_400;
const NAMES: &str = "one of ro, noload, data, ordered, delalloc, auto_da_alloc, commit, barrier, sync, dirsync, noatime, relatime, strictatime, discard, \
                     errors, data_err, log_policy, alloc, stripe, memory, dirty_background, dirty, host_space, force, \
                     resuid, resgid, journal_path";

impl ParsedOptions {
    /// Parses a list and adds it to the earlier options; a later option replaces an earlier one.
    ///
    /// # Errors
    /// Fails with the first invalid option.
    pub fn add(&mut self, list: &str) -> Result<(), OptionError> {
        for option in split(list) {
            self.set(option).map_err(|expected| OptionError {
                option: option.to_owned(),
                expected,
            })?;
        }
        let memory = &self.options.memory;
        if memory.dirty_background_percent > memory.dirty_percent {
            let option = format!("dirty_background={}", memory.dirty_background_percent);
            return Err(OptionError {
                option,
                expected: "no more than dirty=",
            });
        }
        Ok(())
    }

    fn set(&mut self, option: &str) -> Result<(), &'static str> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match (name, value) {
            ("journal_path", Some(path)) => self.journal_path = Some(path.to_owned()),
            (_, None) => return self.set_flag(name),
            (_, Some(value)) => return self.set_value(name, value),
        }
        Ok(())
    }

    fn set_flag(&mut self, name: &str) -> Result<(), &'static str> {
        let options = &mut self.options;
        match name {
            "defaults" | "acl" | "user_xattr" => {}
            "ro" => options.read_only = true,
            "rw" => options.read_only = false,
            "noload" | "norecovery" => options.no_recovery = true,
            "barrier" => options.barrier = true,
            "nobarrier" => options.barrier = false,
            "delalloc" => options.delayed_allocation = true,
            "nodelalloc" => options.delayed_allocation = false,
            "auto_da_alloc" => options.auto_da_alloc = true,
            "noauto_da_alloc" => options.auto_da_alloc = false,
            "sync" => options.sync = true,
            "async" => options.sync = false,
            "dirsync" => options.directory_sync = true,
            "noatime" => options.access_time = AccessTime::Never,
            "relatime" => options.access_time = AccessTime::Relative,
            "strictatime" => options.access_time = AccessTime::Strict,
            "discard" => options.discard = true,
            "nodiscard" => options.discard = false,
            "force" => options.force = true,
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
                let seconds = value
                    .parse()
                    .ok()
                    .filter(|s| (1..=COMMIT_SECONDS_MAX).contains(s));
                options.commit_interval =
                    Nanos::from_secs(seconds.ok_or("seconds from 1 to 86400")?);
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

fn switch(value: &str) -> Result<bool, &'static str> {
    match value {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("0 or 1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<ParsedOptions, String> {
        let mut parsed = ParsedOptions::default();
        parsed.add(list).map_err(|error| error.to_string())?;
        Ok(parsed)
    }

    #[test]
    fn options_are_read() {
        let parsed = parse(
            "data=writeback,commit=30,barrier=0,noatime,journal_path=slice(a.img,0..8MiB),ro,noload",
        );
        let ParsedOptions {
            options,
            journal_path,
        } = parsed.expect("they are right");
        assert_eq!(options.data, DataMode::Writeback);
        assert_eq!(options.commit_interval, Nanos::from_secs(30));
        assert!(!options.barrier && options.read_only && options.no_recovery);
        assert_eq!(options.access_time, AccessTime::Never);
        assert_eq!(journal_path.as_deref(), Some("slice(a.img,0..8MiB)"));
        let mixed = parse("log_policy=linux24:checkpointer=daemon").expect("it is right");
        assert_eq!(
            Some(mixed.options.tuning.log_policy),
            jbd2::LogPolicy::LINUX24.with("checkpointer", "daemon")
        );
        let striped = parse("stripe=96,alloc=multiblock").expect("right").options;
        assert_eq!(striped.stripe_blocks, Some(96));
        assert_eq!(striped.tuning.allocation, AllocationProfile::MultiBlock);
        let reserve = parse("resuid=7,resgid=8").expect("right").options;
        assert_eq!(
            (reserve.reserved_uid, reserve.reserved_gid),
            (Some(7), Some(8))
        );
        assert_eq!(parse("").expect("nothing"), ParsedOptions::default());
        assert_eq!(
            parse("defaults,acl,user_xattr,").expect("nothing"),
            ParsedOptions::default()
        );
        assert_eq!(
            parse("memory=1GiB")
                .expect("right")
                .options
                .memory
                .budget_bytes,
            1 << 30
        );
    }

    #[test]
    fn delayed_allocation_is_switched() {
        let options = |list: &str| parse(list).expect(list).options;
        let flags = |list: &str| {
            let options = options(list);
            (options.delayed_allocation, options.auto_da_alloc)
        };
        assert_eq!(flags(""), (true, true));
        assert_eq!(flags("nodelalloc,auto_da_alloc=0"), (false, false));
        assert_eq!(
            flags("noauto_da_alloc,auto_da_alloc,delalloc"),
            (true, true)
        );
    }

    #[test]
    fn wrong_options_say_what_was_expected() {
        let error = |list: &str| parse(list).expect_err(list);
        assert_eq!(
            error("data=fast"),
            "mount option \"data=fast\": expected data=journal, ordered or writeback"
        );
        assert!(error("noacl").starts_with("mount option \"noacl\": expected one of ro, noload"));
        assert!(error("commit=0").ends_with("seconds from 1 to 86400"));
        assert!(error("log_policy=linux24:checkpointer=me").contains("parts behind colons"));
        assert!(error("dirty=30").ends_with("no more than dirty="));
    }
}

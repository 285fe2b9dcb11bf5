//! The options of `jext mount`: those of the volume, those of FUSE, those that the kernel keeps,
//! and those of fstab without effect here.
//!
//! | option | meaning |
//! |---|---|
//! | `uid=N`, `gid=N` | owner and group shown for all files; the volume is unchanged |
//! | `allow_other` | other users may use the mount (always the case for root's mounts) |
//! | `lazy_open` | files are opened without a request, see [`fuse::Settings::is_lazy_open`] |
//! | `parallel_direct` | direct writes side by side, see [`fuse::Settings::is_direct_parallel`] |
//! | `threads=N` | number of requests processed at once |
//! | `nopoll` | no processor polls for requests, see [`fuse::Settings::may_poll`] |
//! | `nosuid`, `nodev`, `noexec` and their opposites | kept by the kernel |
//! | `loop` | no effect: an image is a file in any case |
//! | `auto`, `user`, `nofail`, `_netdev`, `x-...`, `comment=` | for other programs; ignored |

use anyhow::{Error, Result, anyhow, bail};
use fuse::Settings;
use fuse::mount_point::is_kernel_flag;
use jext::mount_options::{OptionError, ParsedOptions, split};

use crate::image::{MountArguments, OF_MOUNT};

/// Options of fstab for other programs.
const IGNORED: &[&str] = &[
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "loop",
    "default_permissions",
    "diratime",
];
/// Prefixes of such options.
const IGNORED_PREFIXES: &[&str] = &["x-", "X-", "comment=", "fsname=", "subtype="];
/// Maximum number of threads.
const THREADS_MAX: usize = 1024;

/// The parsed options of `-o`.
#[derive(Debug)]
pub(super) struct Options {
    /// The options of the volume.
    pub(super) engine: ParsedOptions,
    /// The options of the mount.
    pub(super) settings: Settings,
}

impl Options {
    /// Parses all options.
    pub(super) fn parse(arguments: &MountArguments) -> Result<Self> {
        let mut settings = Settings::default();
        settings.description.allow_other = rustix::process::geteuid().is_root();
        let mut for_engine = Vec::new();
        for option in arguments.options.iter().flat_map(|list| split(list)) {
            if is_kernel_flag(option) {
                settings.description.flags.push(option.to_owned());
            }
            if !take(&mut settings, option)? {
                for_engine.push(option.to_owned());
            }
        }
        let engine = MountArguments {
            options: vec![for_engine.join(",")],
            ..arguments.clone()
        };
        let mut engine = engine.parse().map_err(name_own)?;
        engine.init_tables_by_default();
        Ok(Self { engine, settings })
    }
}

/// Adds the options of the mount to those of the volume that an unknown option could be.
fn name_own(error: Error) -> Error {
    match error.downcast_ref() {
        Some(OptionError::Expected { expected, .. }) if expected.starts_with("one of") => {
            anyhow!("{error}, {}", OF_MOUNT.join(", "))
        }
        _ => error,
    }
}

/// Returns true for options that are meant for other programs or have no effect.
pub(super) fn means_nothing(option: &str) -> bool {
    let is_prefix = |known: &&str| option.starts_with(*known);
    IGNORED.contains(&option) || IGNORED_PREFIXES.iter().any(is_prefix)
}

/// Applies an option that is not the volume's. Returns false if it is unknown.
fn take(settings: &mut Settings, option: &str) -> Result<bool> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match name {
        "uid" => settings.owners.uid = Some(number(option, value)?),
        "gid" => settings.owners.gid = Some(number(option, value)?),
        "threads" => settings.threads = number(option, value)?,
        "allow_other" => settings.description.allow_other = true,
        "lazy_open" => settings.is_lazy_open = true,
        "parallel_direct" => settings.is_direct_parallel = true,
        "nopoll" => settings.may_poll = false,
        "nosuid" | "suid" | "nodev" | "dev" | "noexec" | "exec" | "nodiratime" => {}
        _ if means_nothing(option) => {}
        _ => return Ok(false),
    }
    if !(1..=THREADS_MAX).contains(&settings.threads) {
        bail!("mount option {option:?}: expected 1 to {THREADS_MAX} threads");
    }
    Ok(true)
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T> {
    match value.parse() {
        Ok(number) => Ok(number),
        Err(_) => bail!("mount option {option:?}: expected a number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Result<Options, String> {
        let arguments = MountArguments {
            options: vec![list.to_owned()],
            ..MountArguments::default()
        };
        Options::parse(&arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn options_go_where_they_belong() {
        let list = "rw,loop,nosuid,uid=7,noauto,x-systemd.automount,data=journal,sync,lazy_open,parallel_direct,threads=3,nopoll";
        let Options { engine, settings } = parse(list).expect("they are right");
        assert_eq!(engine.options.data, ext::options::DataMode::Journal);
        assert!(engine.options.sync);
        assert_eq!(settings.description.flags, ["rw", "nosuid", "sync"]);
        assert_eq!(settings.owners.uid, Some(7));
        assert!(settings.is_lazy_open);
        assert!(settings.is_direct_parallel);
        assert!(!settings.may_poll);
        assert_eq!(settings.threads, 3);
    }

    #[test]
    fn wrong_options_are_named() {
        for (list, said) in [
            ("uid=me", "mount option \"uid=me\": expected a number"),
            (
                "threads=0",
                "mount option \"threads=0\": expected 1 to 1024 threads",
            ),
            (
                "ro,frobnicate",
                "mount option \"frobnicate\": expected one of ro, noload, ",
            ),
        ] {
            let error = parse(list).expect_err("wrong");
            assert!(error.starts_with(said), "{error}");
        }
        let unknown = parse("frobnicate").expect_err("unknown");
        assert!(unknown.ends_with(", nopoll"), "{unknown}");
    }
}

//! `jext tune`: changes the parameters of a file system, with the options of tune2fs.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::Args;
use ext::mkfs;
use ext::tune::{self, Changes, HashVersion, JournalChange, QuotaKind};
use layout::superblock::{DefaultMountOptions, ErrorPolicy, MOUNT_COUNT_UNLIMITED, Superblock};
use nix::unistd::{Group, User};
use uuid::Uuid;

use super::format_arguments::{megabytes, pairs, parse_uuid, random_uuid, time_uuid};
use crate::image::{Access, note_other_node, open_device};
use crate::output;

/// Name of the journal among the features.
const HAS_JOURNAL: &str = "has_journal";
/// Value of -U for a random UUID.
const RANDOM: &str = "random";

/// Option of -E that clears multiple mount protection.
const CLEAR_MMP: &str = "clear_mmp";
/// Option of -E with the mount options in text.
const MOUNT_TEXT: &str = "mount_opts=";
/// Value of -T for the present time.
const NOW: &str = "now";

/// Hashes of directory indexes by the names of tune2fs.
const HASHES: &[(&str, HashVersion)] = &[
    ("legacy", HashVersion::Legacy),
    ("half_md4", HashVersion::HalfMd4),
    ("tea", HashVersion::Tea),
];

/// Kinds of owners by the names of tune2fs.
const QUOTAS: &[(&str, QuotaKind)] = &[
    ("usrquota", QuotaKind::User),
    ("grpquota", QuotaKind::Group),
    ("prjquota", QuotaKind::Project),
];

/// Change a file system's label, UUID, journal and defaults. It must be closed cleanly.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Device of the file system.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Label, at most 16 bytes.
    #[arg(short = 'L', value_name = "LABEL")]
    label: Option<String>,
    /// UUID, or random, time (from the present time) or clear (none).
    #[arg(short = 'U', value_name = "UUID")]
    uuid: Option<String>,
    /// Percentage of blocks reserved for privileged users.
    #[arg(short = 'm', value_name = "PERCENT")]
    reserved_percent: Option<f64>,
    /// Number of blocks reserved for privileged users.
    #[arg(
        short = 'r',
        value_name = "BLOCKS",
        conflicts_with = "reserved_percent"
    )]
    reserved_blocks: Option<u64>,
    /// Behaviour on errors: continue, remount-ro or panic.
    #[arg(short = 'e', value_name = "WHAT", value_parser = parse_errors)]
    errors: Option<ErrorPolicy>,
    /// Number of mounts after which a check is due; 0 for never.
    #[arg(short = 'c', value_name = "COUNT")]
    max_mount_count: Option<u16>,
    /// Number of mounts since the last check.
    #[arg(short = 'C', value_name = "COUNT")]
    mount_count: Option<u16>,
    /// Time after which a check is due: a number of days, or with d, w or m of days, weeks or
    /// months; 0 for never.
    #[arg(short = 'i', value_name = "INTERVAL", value_parser = parse_interval)]
    check_interval: Option<u32>,
    /// Time of the last check: now, YYYYMMDD with or without HHMM or HHMMSS in UTC, or @SECONDS
    /// since 1970.
    #[arg(short = 'T', value_name = "TIME", value_parser = parse_time)]
    check_time: Option<i64>,
    /// User that may use the reserved blocks: a number, or a name.
    #[arg(short = 'u', value_name = "USER", value_parser = parse_user)]
    reserved_user: Option<u16>,
    /// Group that may use the reserved blocks: a number, or a name.
    #[arg(short = 'g', value_name = "GROUP", value_parser = parse_group)]
    reserved_group: Option<u16>,
    /// Directory of the last mount.
    #[arg(short = 'M', value_name = "DIRECTORY")]
    last_mounted: Option<String>,
    /// Extended options: stride=BLOCKS, stripe_width=BLOCKS, hash_alg=legacy|half_md4|tea,
    /// mmp_update_interval=SECONDS, clear_mmp (with -f, as --clear-mmp), force_fsck (the next check
    /// looks at everything), mount_opts=TEXT (with all that follows).
    #[arg(short = 'E', value_name = "OPTIONS")]
    extended: Vec<String>,
    /// Default mount options to set, or with ^ to clear: acl,^user_xattr,journal_data_writeback.
    #[arg(short = 'o', value_name = "OPTIONS", allow_hyphen_values = true)]
    mount_options: Vec<String>,
    /// Features to set: dir_index, ext_attr, fast_commit, large_file, extent, huge_file, dir_nlink,
    /// metadata_csum, metadata_csum_seed, uninit_bg, mmp, quota, project, has_journal, orphan_file,
    /// casefold; with ^ they are cleared, if nothing uses them. Only to set: large_dir,
    /// inline_data, ea_inode, extra_isize, stable_inodes, encrypt, verity.
    #[arg(short = 'O', value_name = "FEATURES")]
    features: Vec<String>,
    /// Owners to count: usrquota, grpquota, prjquota, and with ^ not any more. Owners that are
    /// counted already are counted again, and keep their limits.
    #[arg(short = 'Q', value_name = "OWNERS")]
    quotas: Vec<String>,
    /// Size of inodes in bytes, larger than before. The file system needs a journal, and free
    /// blocks for new inode tables.
    #[arg(short = 'I', value_name = "BYTES")]
    inode_bytes: Option<u16>,
    /// Release a file system with multiple mount protection that a node has left as in use or being
    /// checked. Only if it is certain that no node uses it.
    #[arg(long)]
    clear_mmp: bool,
    /// Create an internal journal.
    #[arg(short = 'j')]
    with_journal: bool,
    /// Journal: size=MEGABYTES creates an internal one, device=DEV attaches an external one; or
    /// names the present external journal, for -U, -I and -O ^has_journal.
    #[arg(short = 'J', value_name = "OPTIONS")]
    journal: Vec<String>,
    /// Present external journal (the same as -J device=DEV).
    #[arg(long = "journal", value_name = "DEV", conflicts_with = "journal")]
    journal_path: Option<String>,
    /// Remove an external journal even if its device is missing; the journal keeps listing the file
    /// system as its user. With -E clear_mmp: do it.
    #[arg(short = 'f', long)]
    force: bool,
}

/// The requested change of the journal.
#[derive(Debug, Default)]
struct Wish {
    is_made: bool,
    is_removed: bool,
    /// `-J size=`, in blocks.
    blocks: Option<u32>,
    /// `-J device=`.
    device: Option<String>,
}

fn parse_errors(text: &str) -> Result<ErrorPolicy, String> {
    match text {
        "continue" => Ok(ErrorPolicy::Continue),
        "remount-ro" => Ok(ErrorPolicy::RemountReadOnly),
        "panic" => Ok(ErrorPolicy::Panic),
        _ => Err("expected continue, remount-ro or panic".to_owned()),
    }
}

/// Parses an interval of checks into seconds.
fn parse_interval(text: &str) -> Result<u32, String> {
    const DAY: u32 = 24 * 60 * 60;
    let units = [('d', DAY), ('w', 7 * DAY), ('m', 30 * DAY)];
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let (number, seconds) = match unit {
        Some((letter, seconds)) => (text.trim_end_matches(*letter), *seconds),
        None => (text, DAY),
    };
    let number: Option<u32> = number.parse().ok();
    let interval = number.and_then(|number| number.checked_mul(seconds));
    interval.ok_or_else(|| "expected a number of days, such as 180, or 26w or 6m".to_owned())
}

fn parse_time(text: &str) -> Result<i64, String> {
    if text == NOW {
        return Ok(rt::wall().seconds);
    }
    let seconds = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse().ok(),
        None => seconds_of_date(text),
    };
    // The field has 40 bits.
    let seconds = seconds.filter(|seconds| (0..1 << 40).contains(seconds));
    seconds.ok_or_else(|| {
        "expected now, YYYYMMDD, YYYYMMDDHHMM, YYYYMMDDHHMMSS, or @ and seconds since 1970"
            .to_owned()
    })
}

/// Returns the seconds of a date, which may be followed by a time of day, as digits.
fn seconds_of_date(text: &str) -> Option<i64> {
    let is_date = text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_date || ![8, 12, 14].contains(&text.len()) {
        return None;
    }
    let part =
        |from: usize, to: usize| text.get(from..to).map_or(Some(0), |text| text.parse().ok());
    let day = rt::WallTime::of_date(part(0, 4)?, part(4, 6)?, part(6, 8)?)?;
    let (hour, minute, second): (i64, i64, i64) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(day.seconds + (hour * 60 + minute) * 60 + second)
}

/// Parses a user into its number.
fn parse_user(text: &str) -> Result<u16, String> {
    let found = |name: &str| User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
    parse_owner(text, found, "user")
}

/// Parses a group into its number.
fn parse_group(text: &str) -> Result<u16, String> {
    let found =
        |name: &str| Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
    parse_owner(text, found, "group")
}

fn parse_owner(
    text: &str,
    named: impl Fn(&str) -> nix::Result<Option<u32>>,
    what: &str,
) -> Result<u16, String> {
    let number = match text.parse() {
        Ok(number) => number,
        Err(_) => named(text)
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("there is no {what} of this name here"))?,
    };
    u16::try_from(number).map_err(|_| format!("{number} does not fit: at most {}", u16::MAX))
}

/// Takes the mount options, which have commas of their own, out of the options of -E.
fn split_mount_text(lists: &[String]) -> (Vec<String>, Option<String>) {
    let mut text = None;
    let rest = lists.iter().map(|list| {
        let starts = list.match_indices(MOUNT_TEXT).map(|(start, _)| start);
        let mut starts = starts.filter(|start| *start == 0 || list[..*start].ends_with(','));
        let Some(start) = starts.next() else {
            return list.clone();
        };
        text = Some(list[start + MOUNT_TEXT.len()..].to_owned());
        list[..start].to_owned()
    });
    let rest = rest.collect();
    (rest, text)
}

/// Reads the options of -E into changes.
fn read_extended(lists: &[String], changes: &mut Changes) -> Result<()> {
    let (lists, text) = split_mount_text(lists);
    changes.mount_text = text;
    for (name, value) in pairs(&lists) {
        match name {
            "stride" => changes.raid_stride = Some(number(name, value)?),
            "stripe_width" | "stripe-width" => {
                changes.raid_stripe_width = Some(number(name, value)?);
            }
            "hash_alg" => {
                let hash = HASHES.iter().find(|(name, _)| *name == value);
                let (_, hash) = hash.with_context(|| {
                    format!("-E hash_alg={value}: expected legacy, half_md4 or tea")
                })?;
                changes.hash = Some(*hash);
            }
            "mmp_update_interval" => changes.mmp_update_seconds = Some(number(name, value)?),
            "force_fsck" => changes.check_is_due = true,
            CLEAR_MMP => {}
            _ => bail!(
                "-E {name}: expected stride, stripe_width, hash_alg, mmp_update_interval, force_fsck, mount_opts or {CLEAR_MMP}"
            ),
        }
    }
    Ok(())
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    let number = value.parse().ok();
    number.with_context(|| format!("-E {name}={value}: expected a number"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = open_device(&arguments.device, Access::Write)?;
    let mut changes = Changes {
        label: arguments.label.clone(),
        uuid: arguments.uuid.as_deref().map(uuid).transpose()?,
        reserved_percent: arguments.reserved_percent,
        reserved_blocks: arguments.reserved_blocks,
        errors: arguments.errors,
        max_mount_count: arguments.max_mount_count.map(|count| match count {
            0 => MOUNT_COUNT_UNLIMITED,
            count => count,
        }),
        mount_count: arguments.mount_count,
        check_interval: arguments.check_interval,
        check_time: arguments.check_time,
        reserved_user: arguments.reserved_user,
        reserved_group: arguments.reserved_group,
        last_mounted: arguments.last_mounted.clone(),
        mount_options: mount_options(&arguments.mount_options)?,
        quotas: quotas(&arguments.quotas)?,
        inode_bytes: arguments.inode_bytes,
        ..Changes::default()
    };
    read_extended(&arguments.extended, &mut changes)?;
    let mut wish = Wish {
        is_made: arguments.with_journal,
        ..Wish::default()
    };
    let names = arguments.features.iter().flat_map(|list| list.split(','));
    for name in names.filter(|name| !name.is_empty()) {
        match name.strip_prefix('^') {
            Some(HAS_JOURNAL) => wish.is_removed = true,
            // The last word on a feature counts.
            Some(name) => {
                let feature = tune::removable_feature(name)?;
                changes.features.retain(|other| *other != feature);
                changes.features_removed.push(feature);
            }
            None if name == HAS_JOURNAL => wish.is_made = true,
            None => {
                let feature = tune::free_feature(name)?;
                changes.features_removed.retain(|other| *other != feature);
                changes.features.push(feature);
            }
        }
    }
    let raw = super::info::raw_superblock(&device).with_context(|| arguments.device.clone())?;
    wish.read(arguments, &raw)?;
    let external = raw.journal_uuid;
    let journal = wish.decide(external, &mut changes, arguments.force)?;
    let is_cleared = clears_multi_mount(arguments)?;
    if is_cleared {
        tune::clear_multi_mount(&device).with_context(|| arguments.device.clone())?;
    }
    if changes == Changes::default() {
        if is_cleared {
            return Ok(ExitCode::SUCCESS);
        }
        bail!("nothing to change; see jext tune --help");
    }
    note_other_node(&arguments.device, &device);
    let tuned = tune::apply(&device, journal.as_ref(), &changes);
    tuned.with_context(|| arguments.device.clone())?;
    if changes.journal == JournalChange::Abandon && external != [0; 16] {
        let uuid = Uuid::from_bytes(external);
        output::warn(&format!(
            "the journal {uuid} goes on naming this file system as its user; jext journal create -F DEVICE makes it anew"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if multiple mount protection is to be cleared.
fn clears_multi_mount(arguments: &Arguments) -> Result<bool> {
    let (lists, _) = split_mount_text(&arguments.extended);
    let is_extended = pairs(&lists).any(|(name, _)| name == CLEAR_MMP);
    if is_extended && !arguments.force {
        bail!(
            "-E {CLEAR_MMP}: only if it is certain that no node uses the file system; -f does it"
        );
    }
    Ok(is_extended || arguments.clear_mmp)
}

impl Wish {
    /// Parses `-J`.
    fn read(&mut self, arguments: &Arguments, raw: &Superblock) -> Result<()> {
        self.device.clone_from(&arguments.journal_path);
        for (name, value) in pairs(&arguments.journal) {
            match name {
                "size" => {
                    let block_bytes = raw
                        .block_size()
                        .context("the superblock's size of blocks")?;
                    let each = (1 << 20) / u64::from(block_bytes);
                    let blocks = u64::from(megabytes(value)?) * each;
                    self.blocks = Some(u32::try_from(blocks).context("-J size: too large")?);
                }
                "device" => self.device = Some(value.to_owned()),
                _ => bail!("-J {name}={value}: expected size=MEGABYTES or device=DEV"),
            }
        }
        if self.blocks.is_some() && self.device.is_some() {
            bail!("-J: a journal lies inside or on a device; leave out size= or device=");
        }
        if self.is_removed && (self.is_made || self.blocks.is_some()) {
            bail!(
                "-O ^{HAS_JOURNAL}: takes the journal away; make another one with a second command"
            );
        }
        Ok(())
    }

    /// Returns the decision on the journal, and the device that this needs. `external` is the UUID
    /// of the present external journal, or zero.
    fn decide(
        self,
        external: [u8; 16],
        changes: &mut Changes,
        is_forced: bool,
    ) -> Result<Option<Arc<dyn BlockDevice>>> {
        let has_external = external != [0; 16];
        let journal = self.device.as_deref().map(open_journal).transpose()?;
        let (device, found) = journal.unzip();
        let names_own = has_external && found == Some(external);
        changes.journal = match (self.is_removed, &device) {
            (true, Some(_)) => JournalChange::Remove,
            (true, None) if is_forced => JournalChange::Abandon,
            (true, None) if has_external => bail!(
                "the journal is on another device, {}, which has to forget this file system: name it with -J \
                 device=DEV; -f takes it away without",
                Uuid::from_bytes(external)
            ),
            (true, None) => JournalChange::Remove,
            (false, Some(_)) if names_own => JournalChange::Keep,
            (false, Some(_)) => JournalChange::External,
            (false, None) if self.is_made || self.blocks.is_some() => {
                JournalChange::Internal(self.blocks)
            }
            (false, None) => JournalChange::Keep,
        };
        Ok(device)
    }
}

/// Opens a journal device. Returns it and its UUID.
fn open_journal(text: &str) -> Result<(Arc<dyn BlockDevice>, [u8; 16])> {
    let device = open_device(text, Access::Write).context("-J device")?;
    let found = mkfs::journal_device(&device).with_context(|| text.to_owned())?;
    Ok((device, found.uuid))
}

fn uuid(text: &str) -> Result<[u8; 16]> {
    match text {
        RANDOM => return Ok(random_uuid()),
        "time" => return Ok(time_uuid()),
        "clear" => return Ok([0; 16]),
        _ => {}
    }
    parse_uuid(text).map_err(|error| anyhow::anyhow!("-U {text}: {error}"))
}

/// Parses the owners to count, and not to count.
fn quotas(lists: &[String]) -> Result<Vec<(QuotaKind, bool)>> {
    let names = lists.iter().flat_map(|list| list.split(','));
    let parse = |text: &str| -> Result<(QuotaKind, bool)> {
        let name = text.strip_prefix('^');
        let found = QUOTAS
            .iter()
            .find(|(known, _)| *known == name.unwrap_or(text));
        let (_, kind) =
            found.with_context(|| format!("-Q {text}: expected usrquota, grpquota or prjquota"))?;
        Ok((*kind, name.is_none()))
    };
    names.filter(|name| !name.is_empty()).map(parse).collect()
}

/// Parses the options to set and to clear.
fn mount_options(lists: &[String]) -> Result<(DefaultMountOptions, DefaultMountOptions)> {
    let mut changes = (DefaultMountOptions::empty(), DefaultMountOptions::empty());
    let names = lists.iter().flat_map(|list| list.split(','));
    for text in names.filter(|name| !name.is_empty()) {
        let name = text.strip_prefix('^');
        let plain = name.unwrap_or(text);
        let mut names = DefaultMountOptions::NAMES.iter();
        let found = names.find(|(known, _)| *known == plain);
        let (_, bits) = found.with_context(|| format!("-o {text}: no such option"))?;
        if name.is_some() {
            changes.1 |= *bits;
        } else {
            // Only one data mode can be set.
            if bits.intersects(DefaultMountOptions::DATA_MODE) {
                changes.1 |= DefaultMountOptions::DATA_MODE;
            }
            changes.0 |= *bits;
        }
    }
    Ok(changes)
}

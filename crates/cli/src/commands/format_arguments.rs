//! The options of mke2fs that describe a new file system, for every command that makes one.

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ext::mkfs::{FileSystemType, JournalOption, Options, UsageType};
use ext::volume::QuotaKind;
use layout::feature::target::{TARGETS, Target};
use uuid::Uuid;

/// The feature that makes a device a journal.
pub(super) const JOURNAL_DEV: &str = "journal_dev";

/// The settings of a new file system.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct FormatArguments {
    /// ext2, ext3 or ext4; ext4 by default, ext3 with -j or the defaults of 2002.
    #[arg(short = 't', value_name = "TYPE", value_parser = parse_type)]
    file_system: Option<FileSystemType>,
    /// Create a journal: ext3, if no other type with a journal is given.
    #[arg(short = 'j')]
    with_journal: bool,
    /// Block size in bytes: 1024, 2048 or 4096.
    #[arg(short = 'b', value_name = "BYTES")]
    pub(super) block_bytes: Option<u32>,
    /// Cluster size in bytes, with -O bigalloc: a power of two of blocks, 16 by default.
    #[arg(short = 'C', value_name = "BYTES")]
    cluster_bytes: Option<u32>,
    /// Number of bytes for each inode.
    #[arg(short = 'i', value_name = "BYTES")]
    bytes_per_inode: Option<u32>,
    /// Inode size in bytes: a power of two from 128 to the block size.
    #[arg(short = 'I', value_name = "BYTES")]
    inode_bytes: Option<u16>,
    /// Number of inodes.
    #[arg(short = 'N', value_name = "COUNT")]
    inode_count: Option<u32>,
    /// Number of blocks in a group.
    #[arg(short = 'g', value_name = "COUNT")]
    blocks_per_group: Option<u32>,
    /// Percentage of blocks reserved for privileged users.
    #[arg(short = 'm', value_name = "PERCENT")]
    pub(super) reserved_percent: Option<f64>,
    /// Label, at most 16 bytes.
    #[arg(short = 'L', value_name = "LABEL")]
    pub(super) label: Option<String>,
    /// UUID.
    #[arg(short = 'U', value_name = "UUID", value_parser = parse_uuid)]
    pub(super) uuid: Option<[u8; 16]>,
    /// Features to add, or with ^ to remove: ^resize_inode,dir_index. journal_dev creates an
    /// external journal.
    #[arg(short = 'O', value_name = "FEATURES")]
    features: Vec<String>,
    /// System or program that will use the file system: the features of ext4 that its own mke2fs
    /// would choose. Only with ext4.
    #[arg(long = "for", value_name = "TARGET", value_parser = targets())]
    target: Option<Target>,
    /// Journal: size=MEGABYTES, or device=DEV for an external one.
    #[arg(short = 'J', value_name = "OPTIONS")]
    journal: Vec<String>,
    /// Extended options: root_owner[=UID:GID], the owner of the root directory (root by default,
    /// the caller if no numbers are given); hash_seed=UUID, resize=BLOCKS,
    /// mmp_update_interval=SECONDS, quotatype=usrquota:grpquota:prjquota,
    /// lazy_itable_init[=0|1], which leaves inode tables to the first mount.
    #[arg(short = 'E', value_name = "OPTIONS")]
    pub(super) extended: Vec<String>,
    /// Intended use: floppy, small, default, big, huge, news, largefile, largefile4.
    #[arg(short = 'T', value_name = "USAGE", value_parser = parse_usage)]
    usage: Option<UsageType>,
    /// Use the defaults of 2002.
    #[arg(long)]
    classic2002: bool,
}

/// The options of mkfs, and the device of an external journal.
pub(crate) struct Format {
    pub(crate) options: Options,
    pub(crate) journal_device: Option<String>,
}

fn parse_type(text: &str) -> Result<FileSystemType, String> {
    match text {
        "ext2" => Ok(FileSystemType::Ext2),
        "ext3" => Ok(FileSystemType::Ext3),
        "ext4" => Ok(FileSystemType::Ext4),
        _ => Err("expected ext2, ext3 or ext4".to_owned()),
    }
}

fn parse_usage(text: &str) -> Result<UsageType, String> {
    let expected = "expected floppy, small, default, big, huge, news, largefile or largefile4";
    UsageType::from_name(text).ok_or_else(|| expected.to_owned())
}

/// Returns the parser of the name of a target.
pub(super) fn targets() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(TARGETS.iter().map(|target| target.name))
        .map(|name| *Target::named(&name).expect("the parser accepts their names only"))
}

/// Returns a random UUID.
pub(super) fn random_uuid() -> [u8; 16] {
    let random = u128::from(rt::random_u64()) << 64 | u128::from(rt::random_u64());
    let uuid = uuid::Builder::from_random_bytes(random.to_le_bytes());
    *uuid.as_uuid().as_bytes()
}

/// Returns a UUID from the present time.
pub(super) fn time_uuid() -> [u8; 16] {
    /// Ticks of 100 ns from the start of the calendar of UUIDs, in 1582, to 1970.
    const EPOCH: u64 = 0x01B2_1DD2_1381_4000;
    let now = rt::wall();
    let ticks = now.seconds.unsigned_abs() * 10_000_000 + u64::from(now.nanos / 100) + EPOCH;
    let random = rt::random_u64().to_le_bytes();
    // A node whose first bit is set is no network card.
    let node = [
        random[0] | 1,
        random[1],
        random[2],
        random[3],
        random[4],
        random[5],
    ];
    let counter = u16::from_le_bytes([random[6], random[7]]);
    let uuid = uuid::Builder::from_gregorian_timestamp(ticks, counter, &node);
    *uuid.as_uuid().as_bytes()
}

/// Returns the time in `SOURCE_DATE_EPOCH`, which new images record as their creation time, so that
/// builds are reproducible.
pub(super) fn source_date() -> Result<Option<i64>> {
    const VARIABLE: &str = "SOURCE_DATE_EPOCH";
    let Ok(text) = std::env::var(VARIABLE) else {
        return Ok(None);
    };
    let seconds = text.parse();
    let seconds =
        seconds.with_context(|| format!("{VARIABLE}={text}: expected seconds since 1970"))?;
    Ok(Some(seconds))
}

/// Parses a UUID.
pub(super) fn parse_uuid(text: &str) -> Result<[u8; 16], String> {
    Uuid::parse_str(text)
        .map(Uuid::into_bytes)
        .map_err(|error| error.to_string())
}

impl FormatArguments {
    /// Returns true if an external journal is to be created, not a file system.
    pub(super) fn is_journal_device(&self) -> bool {
        let mut names = self.features.iter().flat_map(|list| list.split(','));
        names.any(|name| name == JOURNAL_DEV)
    }

    /// Returns true if all given options apply to an external journal.
    pub(super) fn describes_only_a_journal(&self) -> bool {
        let plain = Self {
            block_bytes: self.block_bytes,
            uuid: self.uuid,
            label: self.label.clone(),
            features: vec![JOURNAL_DEV.to_owned()],
            ..Self::default()
        };
        *self == plain
    }

    /// Parses the arguments.
    pub(crate) fn parse(&self) -> Result<Format> {
        let defaults = if self.classic2002 {
            Options::classic2002()
        } else {
            Options::default()
        };
        let mut options = Options {
            file_system: match self.file_system {
                None | Some(FileSystemType::Ext2) if self.with_journal => FileSystemType::Ext3,
                None => defaults.file_system,
                Some(given) => given,
            },
            usage: self.usage,
            block_bytes: self.block_bytes,
            cluster_bytes: self.cluster_bytes,
            blocks_per_group: self.blocks_per_group,
            bytes_per_inode: self.bytes_per_inode.or(defaults.bytes_per_inode),
            inode_count: self.inode_count,
            inode_bytes: self.inode_bytes.or(defaults.inode_bytes),
            reserved_percent: self.reserved_percent.unwrap_or(defaults.reserved_percent),
            label: self.label.clone().unwrap_or_default(),
            uuid: self.uuid,
            seconds: source_date()?,
            ..defaults
        };
        if let Some(target) = self.target {
            let name = target.name;
            let kind = match options.file_system {
                FileSystemType::Ext4 => None,
                FileSystemType::Ext3 => Some("ext3"),
                FileSystemType::Ext2 => Some("ext2"),
            };
            if let Some(kind) = kind {
                bail!(
                    "--for {name}: it chooses features of ext4, and this is {kind}; leave it out, or use -t ext4"
                );
            }
            options.features.add(target.edits)?;
        }
        for list in &self.features {
            options
                .features
                .add(list)
                .with_context(|| format!("-O {list}"))?;
        }
        for (name, value) in pairs(&self.extended) {
            extend(&mut options, name, value).with_context(|| format!("-E {name}={value}"))?;
        }
        let mut journal_device = None;
        for (name, value) in pairs(&self.journal) {
            match name {
                "size" => options.journal = JournalOption::Megabytes(megabytes(value)?),
                "device" => journal_device = Some(value.to_owned()),
                _ => bail!("-J {name}={value}: expected size=MEGABYTES or device=DEV"),
            }
        }
        if journal_device.is_some() && options.journal != JournalOption::Default {
            bail!("-J: an external journal is as large as its device; leave out size=");
        }
        Ok(Format {
            options,
            journal_device,
        })
    }
}

pub(super) fn megabytes(value: &str) -> Result<u32> {
    let number = value.strip_suffix(['M', 'm']).unwrap_or(value);
    number
        .parse()
        .with_context(|| format!("-J size={value}: expected a number of megabytes"))
}

fn extend(options: &mut Options, name: &str, value: &str) -> Result<()> {
    match name {
        // As in mke2fs: the caller, if no owner is given.
        "root_owner" if value.is_empty() => {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            options.root_owner = (uid.as_raw(), gid.as_raw());
        }
        "root_owner" => {
            let (uid, gid) = value.split_once(':').context("expected UID:GID")?;
            options.root_owner = (uid.parse()?, gid.parse()?);
        }
        "hash_seed" => options.hash_seed = Some(parse_uuid(value).map_err(anyhow::Error::msg)?),
        "resize" => options.resize_blocks_max = Some(value.parse()?),
        "mmp_update_interval" => options.mmp_update_seconds = Some(value.parse()?),
        "lazy_itable_init" => {
            options.lazy_inode_tables = match value {
                "" | "1" => true,
                "0" => false,
                _ => bail!("expected 0 or 1"),
            };
        }
        "quotatype" => {
            let kinds = value.split(':').map(quota_kind).collect::<Result<_>>()?;
            options.quota_kinds = Some(kinds);
        }
        _ => bail!(
            "expected root_owner, hash_seed, lazy_itable_init, resize, mmp_update_interval or quotatype"
        ),
    }
    Ok(())
}

/// Returns the kind of quotas with a name of mke2fs.
fn quota_kind(name: &str) -> Result<QuotaKind> {
    match name {
        "usrquota" => Ok(QuotaKind::User),
        "grpquota" => Ok(QuotaKind::Group),
        "prjquota" => Ok(QuotaKind::Project),
        _ => bail!("{name}: expected usrquota, grpquota or prjquota"),
    }
}

/// Returns the `name=value` pairs of lists; commas within parentheses do not separate pairs.
pub(super) fn pairs(lists: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let parts = lists.iter().flat_map(|list| {
        let mut depth = 0_i32;
        list.split(move |letter| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            letter == ',' && depth == 0
        })
    });
    parts
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_mke2fs() {
        let arguments = FormatArguments {
            journal: vec!["device=slice(a,0..8MiB)".to_owned()],
            extended: vec!["root_owner=1000:100,resize=5000".to_owned()],
            ..FormatArguments::default()
        };
        let format = arguments.parse().expect("they are right");
        assert_eq!(format.journal_device.as_deref(), Some("slice(a,0..8MiB)"));
        assert_eq!(format.options.root_owner, (1000, 100));
        assert_eq!(format.options.resize_blocks_max, Some(5000));
        let error = |journal: &str| {
            let journal = vec![journal.to_owned()];
            let parsed = FormatArguments {
                journal,
                ..FormatArguments::default()
            }
            .parse();
            parsed.err().expect("wrong").to_string()
        };
        assert_eq!(
            error("sise=4"),
            "-J sise=4: expected size=MEGABYTES or device=DEV"
        );
        assert!(error("size=4,device=a").contains("leave out size="));
    }

    #[test]
    fn a_target_is_for_ext4() {
        let parse = |file_system, with_journal| {
            let target = Target::named("debian-13").copied();
            let arguments = FormatArguments {
                target,
                file_system,
                with_journal,
                ..FormatArguments::default()
            };
            arguments.parse().map_err(|error| error.to_string())
        };
        for file_system in [None, Some(FileSystemType::Ext4)] {
            assert!(parse(file_system, false).is_ok());
        }
        for (file_system, with_journal, kind) in [
            (Some(FileSystemType::Ext2), false, "ext2"),
            (Some(FileSystemType::Ext3), false, "ext3"),
            (None, true, "ext3"),
        ] {
            let error = parse(file_system, with_journal).err().expect("not ext4");
            assert_eq!(
                error,
                format!(
                    "--for debian-13: it chooses features of ext4, and this is {kind}; leave it out, or use -t ext4"
                )
            );
        }
    }
}

//! `jext info`: shows a file system or a journal device without mounting it. A journal that needs
//! recovery is replayed in memory; the facts about the journal and the recovery flag are those on
//! the device.

mod descriptors;
mod facts;
mod groups;
mod journal;
mod multi_mount;
mod words;

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::Args;
use layout::feature::target::{Target, Verdict};
use layout::superblock::{self as disk, Superblock};
use serde_json::Value;
use zerocopy::FromBytes;

use super::format_arguments::targets;
use crate::advice;
use crate::foreign;
use crate::image::{self, Replayed, has_replayed, open_to_look, replay_in_memory};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Width of the labels in columns.
const LABEL_COLUMNS: usize = 26;

/// Show a file system's features, sizes, state and journal.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Device to show.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Device of the external journal, if it needs recovery.
    #[arg(long, value_name = "DEV")]
    journal: Option<String>,
    /// Also show each group: its bitmaps, its inode table, its free blocks and inodes.
    #[arg(long)]
    groups: bool,
    /// Only say if this system or program writes or reads the file system. The exit status is 1 if
    /// it does not.
    #[arg(long = "for", value_name = "TARGET", value_parser = targets())]
    target: Option<Target>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One line of the text, and one field of the JSON.
pub(super) struct Fact {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) value: Value,
}

pub(super) fn fact(key: &'static str, label: &'static str, value: impl Into<Value>) -> Fact {
    let value = value.into();
    Fact { key, label, value }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let context = || arguments.device.clone();
    let device = open_to_look(&arguments.device)?;
    let lying = raw_superblock(&device).with_context(context)?;
    if let Some(target) = &arguments.target {
        return judge(target, &lying);
    }
    let log = arguments.journal.as_deref().map(open_to_look).transpose()?;
    let (replayed, superblock) = replayed(&arguments.device, &device, log.as_ref(), lying);
    let mut facts = facts::facts(&superblock);
    facts.extend(journal::facts(&device, &lying));
    facts.extend(multi_mount::facts(&device, &lying));
    let device = replayed.unwrap_or(device);
    let groups = if arguments.groups {
        groups::groups(&device, &superblock).with_context(context)?
    } else {
        Vec::new()
    };
    if arguments.json {
        let map = facts
            .into_iter()
            .map(|fact| (fact.key.to_owned(), fact.value));
        let mut map: serde_json::Map<String, Value> = map.collect();
        if arguments.groups {
            let groups = groups.iter().map(groups::Group::to_json).collect();
            map.insert("groups".to_owned(), Value::Array(groups));
        }
        output::print_json(&Value::Object(map))?;
    } else {
        let mut text = text(&facts);
        groups.iter().for_each(|group| group.render(&mut text));
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the use that a target has for a volume.
fn judge(target: &Target, lying: &Superblock) -> Result<ExitCode> {
    let block_bytes = 1024 << lying.log_block_size.get().min(21);
    let (verdict, status) = match target.judge(lying.features(), block_bytes) {
        Verdict::Writes => ("reads and writes it".to_owned(), ExitCode::SUCCESS),
        Verdict::Reads(names) if names.is_empty() => ("reads it".to_owned(), ExitCode::SUCCESS),
        Verdict::Reads(names) => (
            format!("reads it, and does not write {}", names.join(", ")),
            ExitCode::SUCCESS,
        ),
        Verdict::Refuses(names) => (format!("refuses {}", names.join(", ")), ExitCode::FAILURE),
    };
    output::print(&format!("{} ({}): {verdict}\n", target.name, target.what))?;
    Ok(status)
}

/// Returns the device after a replay in memory, if the journal needs recovery, and the superblock,
/// with the features and state on the device.
fn replayed(
    name: &str,
    device: &Arc<dyn BlockDevice>,
    log: Option<&Arc<dyn BlockDevice>>,
    lying: Superblock,
) -> (Option<Arc<dyn BlockDevice>>, Superblock) {
    let seen = replay_in_memory(device, log).and_then(|replayed| {
        let with_superblock = |replayed: Replayed| -> Result<_> {
            let superblock = raw_superblock(&replayed.device)?;
            Ok((replayed, superblock))
        };
        replayed.map(with_superblock).transpose()
    });
    match seen {
        Ok(None) => (None, lying),
        Ok(Some((replayed, mut superblock))) => {
            let count = image::replayed(&replayed.report);
            if has_replayed(&replayed.report) {
                output::note(&format!(
                    "{name}: was not closed cleanly: shown with {count} of its journal replayed in memory, and left as it is; jext \
                 journal replay does it for good"
                ));
            }
            superblock.set_features(lying.features());
            superblock.state_bits = lying.state_bits;
            (Some(replayed.device), superblock)
        }
        Err(error) => {
            let why = advice::text(&error);
            output::note(&format!(
                "{name}: was not closed cleanly, and is shown as it lies: {why}"
            ));
            (None, lying)
        }
    }
}

/// Reads the superblock of a file system or journal device.
pub(super) fn raw_superblock(device: &Arc<dyn BlockDevice>) -> Result<Superblock> {
    let size = device.geometry().size_bytes;
    if size < disk::OFFSET + disk::SIZE as u64 {
        bail!("has {size} bytes, too few for a superblock");
    }
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let (superblock, _) = Superblock::read_from_prefix(&bytes).expect("as many bytes were read");
    if superblock.magic.get() != disk::MAGIC {
        bail!("{}", foreign::describe(device));
    }
    Ok(superblock)
}

fn text(facts: &[Fact]) -> String {
    let mut text = String::new();
    for Fact { label, value, .. } in facts {
        let label = format!("{label}:");
        writeln!(text, "{label:<LABEL_COLUMNS$}{}", shown(value)).expect(INFALLIBLE);
    }
    text
}

/// Returns a value as text.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "never".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(words) if words.is_empty() => "none".to_owned(),
        Value::Array(words) => words.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

//! `jext info`: what a file system or a journal device is. The superblock is read as it lies; nothing is mounted.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use clap::Args;
use layout::feature::{Compatible, Incompatible};
use layout::superblock::{self as disk, State, Superblock};
use serde_json::{Value, json};
use uuid::Uuid;
use zerocopy::FromBytes;

use crate::image::{Access, open_device};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Say what a file system is: features, sizes, state.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The device.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let device = open_device(&arguments.device, Access::Read)?;
    let superblock = raw_superblock(&device).with_context(|| arguments.device.clone())?;
    let facts = facts(&superblock);
    if arguments.json {
        let map = facts
            .into_iter()
            .map(|fact| (fact.key.to_owned(), fact.value));
        output::print_json(&Value::Object(map.collect()))?;
    } else {
        output::print(&text(&facts))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the superblock of a file system or journal device.
pub(super) fn raw_superblock(device: &Arc<dyn BlockDevice>) -> Result<Superblock> {
    let size = device.geometry().size_bytes;
    if size < disk::OFFSET + disk::SIZE as u64 {
        bail!("has {size} bytes, too few for a superblock");
    }
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let (superblock, _) = Superblock::read_from_prefix(&bytes).expect("as many bytes were read");
    let magic = superblock.s_magic.get();
    if magic != disk::MAGIC {
        bail!(
            "holds no ext file system (magic is {magic:#06x}, not {:#06x})",
            disk::MAGIC
        );
    }
    Ok(superblock)
}

/// One line of the text, one field of the JSON.
struct Fact {
    key: &'static str,
    label: &'static str,
    value: Value,
}

fn facts(raw: &Superblock) -> Vec<Fact> {
    let features = raw.features();
    let fact = |key, label, value: Value| Fact { key, label, value };
    let time = |seconds: u32| match seconds {
        0 => Value::Null,
        seconds => json!(output::time_text(i64::from(seconds))),
    };
    let label = raw
        .s_volume_name
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let mut facts = vec![
        fact("kind", "Kind", json!(kind(raw))),
        fact("label", "Label", json!(output::name_text(label))),
        fact(
            "uuid",
            "UUID",
            json!(Uuid::from_bytes(raw.s_uuid).to_string()),
        ),
        fact("features", "Features", json!(features.names())),
        fact("state", "State", json!(state(raw))),
        fact("block_bytes", "Block bytes", json!(raw.block_size())),
        fact("blocks", "Blocks", json!(raw.blocks_count())),
        fact(
            "reserved_blocks",
            "Reserved blocks",
            json!(raw.reserved_blocks_count()),
        ),
        fact("free_blocks", "Free blocks", json!(raw.free_blocks_count())),
        fact("inodes", "Inodes", json!(raw.s_inodes_count.get())),
        fact(
            "free_inodes",
            "Free inodes",
            json!(raw.s_free_inodes_count.get()),
        ),
        fact("inode_bytes", "Inode bytes", json!(raw.inode_size())),
        fact(
            "blocks_per_group",
            "Blocks per group",
            json!(raw.s_blocks_per_group.get()),
        ),
        fact(
            "inodes_per_group",
            "Inodes per group",
            json!(raw.s_inodes_per_group.get()),
        ),
        fact("mounts", "Mounts", json!(raw.s_mnt_count.get())),
        fact("made", "Made", time(raw.s_mkfs_time.get())),
        fact("mounted", "Last mounted", time(raw.s_mtime.get())),
        fact("written", "Last written", time(raw.s_wtime.get())),
        fact("checked", "Last checked", time(raw.s_lastcheck.get())),
    ];
    if features.compatible.contains(Compatible::HAS_JOURNAL) {
        let external = Uuid::from_bytes(raw.s_journal_uuid);
        let journal = match raw.s_journal_inum.get() {
            0 => json!(format!("external, {external}")),
            number => json!(format!("internal, inode {number}")),
        };
        facts.push(fact("journal", "Journal", journal));
    }
    let orphan = raw.s_last_orphan.get();
    if orphan != 0 {
        facts.push(fact("first_orphan", "First orphan", json!(orphan)));
    }
    facts
}

fn kind(raw: &Superblock) -> &'static str {
    let features = raw.features();
    if features.incompatible.contains(Incompatible::JOURNAL_DEV) {
        "journal device"
    } else if features
        .incompatible
        .intersects(Incompatible::EXTENTS | Incompatible::IS_64BIT)
    {
        "ext4"
    } else if features.compatible.contains(Compatible::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    }
}

fn state(raw: &Superblock) -> String {
    let state = raw.state();
    let mut words = Vec::new();
    words.push(if state.contains(State::VALID) {
        "clean"
    } else {
        "in use or not closed"
    });
    if state.contains(State::ERROR) {
        words.push("with errors");
    }
    if raw
        .features()
        .incompatible
        .contains(Incompatible::NEEDS_RECOVERY)
    {
        words.push("the journal has to be replayed");
    }
    words.join(", ")
}

fn text(facts: &[Fact]) -> String {
    let mut text = String::new();
    for Fact { label, value, .. } in facts {
        let shown = match value {
            Value::Null => "never".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(words) => words
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(" "),
            other => other.to_string(),
        };
        writeln!(text, "{:<18}{shown}", format!("{label}:")).expect(INFALLIBLE);
    }
    text
}

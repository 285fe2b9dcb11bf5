//! `jext stat`: shows all attributes of files.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ext::Volume;
use ext::volume::{Attributes, FileExtent, FileKind};
use layout::FileBlock;
use serde_json::Value;

use crate::image::{ImagePath, MountArguments, with_look};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Show all attributes of files of an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Show the target of a symbolic link.
    #[arg(short = 'L', long)]
    follow: bool,
    /// Also list the blocks.
    #[arg(long)]
    blocks: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

/// The attributes of a file.
struct Facts {
    attributes: Attributes,
    target: Option<String>,
    blocks: Option<Vec<FileExtent>>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut text = String::new();
    let mut documents = Vec::new();
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        let facts = with_look(&path.image, &arguments.mount, |volume| {
            facts(volume, &path.path, arguments).with_context(|| path.text())
        })?;
        let name = path.text();
        render(&mut text, &name, &facts);
        documents.push(to_json(&name, &facts));
    }
    if arguments.json {
        output::print_json(&Value::from(documents))?
    } else {
        output::print(&text)?
    }
    Ok(ExitCode::SUCCESS)
}

fn facts(volume: &Volume, path: &[u8], arguments: &Arguments) -> Result<Facts> {
    let attributes = volume.metadata(path, arguments.follow)?;
    let target = match attributes.kind {
        FileKind::Symlink => Some(output::name_text(&volume.read_link(attributes.inode)?)),
        _ => None,
    };
    let blocks = arguments
        .blocks
        .then(|| volume.blocks_of(attributes.inode))
        .transpose()?;
    Ok(Facts {
        attributes,
        target,
        blocks,
    })
}

fn render(text: &mut String, name: &str, facts: &Facts) {
    let a = &facts.attributes;
    let mut row = |label: &str, value: String| {
        writeln!(text, "{label:>8}: {value}").expect(INFALLIBLE);
    };
    let target = facts.target.as_ref().map(|target| format!(" -> {target}"));
    row("File", format!("{name}{}", target.unwrap_or_default()));
    row("Kind", output::kind_text(a.kind).to_owned());
    row("Size", format!("{} bytes, {} sectors", a.size, a.sectors));
    row(
        "Inode",
        format!(
            "{}, generation {}, {} links",
            a.inode, a.generation, a.links
        ),
    );
    let mode = output::mode_text(a.kind, a.permissions);
    row(
        "Mode",
        format!("{:04o} {mode}, uid {}, gid {}", a.permissions, a.uid, a.gid),
    );
    if let Some(device) = a.device {
        row("Device", format!("{},{}", device.major, device.minor));
    }
    row("Access", output::time_iso(a.atime));
    row("Modify", output::time_iso(a.mtime));
    row("Change", output::time_iso(a.ctime));
    if let Some(birth) = a.crtime {
        row("Birth", output::time_iso(birth));
    }
    for extent in facts.blocks.iter().flatten() {
        let first = extent.first;
        let last = first.get() + u64::from(extent.count) - 1;
        let what = match extent.file_block {
            Some(file_block) if extent.is_unwritten => {
                format!("{file_block}.. at {first}-{last}, unwritten")
            }
            Some(file_block) => format!("{file_block}.. at {first}-{last}"),
            None => format!("map at {first}-{last}"),
        };
        row("Blocks", what);
    }
}

fn to_json(name: &str, facts: &Facts) -> Value {
    let mut value = output::attributes_json(&facts.attributes);
    value["name"] = Value::from(name);
    value["target"] = Value::from(facts.target.clone());
    if let Some(blocks) = &facts.blocks {
        let runs = blocks.iter().map(|extent| {
            serde_json::json!({
                "file_block": extent.file_block.map(FileBlock::get),
                "first": extent.first.get(),
                "count": extent.count,
                "unwritten": extent.is_unwritten,
            })
        });
        value["blocks"] = Value::from(runs.collect::<Vec<_>>());
    }
    value
}

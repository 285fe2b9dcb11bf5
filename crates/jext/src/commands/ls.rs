//! `jext ls`: directories, sorted by name unless told otherwise.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ext::Volume;
use ext::volume::{Attributes, FileKind};
use layout::InodeNr;
use serde_json::{Value, json};

use crate::entered::Entered;
use crate::image::{Access, ImagePath, MountArguments, with_volume};
use crate::output;

const INFALLIBLE: &str = "writing to memory does not fail";

/// List directories and files of an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path, or IMAGE for its root.
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    paths: Vec<OsString>,
    /// Mode, links, owner, size and time.
    #[arg(short)]
    long: bool,
    /// Inode numbers.
    #[arg(short)]
    inode: bool,
    /// Names that begin with a point, too.
    #[arg(short)]
    all: bool,
    /// The directory itself rather than what is in it.
    #[arg(short)]
    directory: bool,
    /// And what is in its directories.
    #[arg(short = 'R')]
    recursive: bool,
    /// In the order of the directory, not sorted.
    #[arg(short = 'U')]
    unsorted: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

/// One line.
struct Line {
    name: Vec<u8>,
    attributes: Attributes,
    target: Option<Vec<u8>>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut documents = Vec::new();
    let mut text = Vec::new();
    for (index, given) in arguments.paths.iter().enumerate() {
        let path = ImagePath::parse_or_root(given)?;
        let listing = with_volume(&path.image, Access::Read, &arguments.mount, |volume| {
            list(volume, &path.path, arguments).with_context(|| path.text())
        })?;
        let is_titled = arguments.recursive || arguments.paths.len() > 1;
        for (number, (directory, lines)) in listing.iter().enumerate() {
            if is_titled {
                let gap = if index + number > 0 { "\n" } else { "" };
                write!(text, "{gap}{}:", path.image).expect(INFALLIBLE);
                text.extend(output::printed_name(directory));
                text.extend(b":\n");
            }
            render(&mut text, lines, arguments);
            documents.push(to_json(&path.image, directory, lines));
        }
    }
    if arguments.json {
        output::print_json(&Value::from(documents))?
    } else {
        output::print_bytes(&text)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The directories of a path, each with its lines.
fn list(volume: &Volume, path: &[u8], arguments: &Arguments) -> Result<Vec<(Vec<u8>, Vec<Line>)>> {
    let own = volume.metadata(path, false)?;
    if arguments.directory || own.kind != FileKind::Directory {
        return Ok(vec![(
            path.to_owned(),
            vec![line(volume, path.to_owned(), own)?],
        )]);
    }
    let mut listing = Vec::new();
    let mut entered = Entered::default();
    let mut waiting = vec![(path.to_owned(), own.inode)];
    while let Some((directory, nr)) = waiting.pop() {
        let context = || output::name_text(&directory);
        entered.enter(nr).with_context(context)?;
        let lines = lines(volume, nr, arguments).with_context(context)?;
        if arguments.recursive {
            let inner = lines
                .iter()
                .filter(|line| line.attributes.kind == FileKind::Directory);
            let base = directory.strip_suffix(b"/").unwrap_or(&directory);
            let paths = inner
                .rev()
                .map(|line| ([base, b"/", &line.name].concat(), line.attributes.inode));
            waiting.extend(paths);
        }
        listing.push((directory, lines));
    }
    Ok(listing)
}

/// What is in a directory.
fn lines(volume: &Volume, nr: InodeNr, arguments: &Arguments) -> Result<Vec<Line>> {
    let mut entries = Vec::new();
    volume.read_directory(nr, 0, &mut |_, entry| {
        if entry.name != b"." && entry.name != b".." {
            entries.push(entry);
        }
        true
    })?;
    let mut lines = Vec::new();
    for entry in entries {
        if arguments.all || entry.name.first() != Some(&b'.') {
            lines.push(line(volume, entry.name, volume.attributes(entry.inode)?)?);
        }
    }
    if !arguments.unsorted {
        lines.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(lines)
}

fn line(volume: &Volume, name: Vec<u8>, attributes: Attributes) -> Result<Line> {
    let target = match attributes.kind {
        FileKind::Symlink => Some(volume.read_link(attributes.inode)?),
        _ => None,
    };
    Ok(Line {
        name,
        attributes,
        target,
    })
}

fn render(text: &mut Vec<u8>, lines: &[Line], arguments: &Arguments) {
    let widest = |of: fn(&Line) -> String| lines.iter().map(|l| of(l).len()).max().unwrap_or(0);
    let inode: fn(&Line) -> String = |line| line.attributes.inode.to_string();
    let links: fn(&Line) -> String = |line| line.attributes.links.to_string();
    let owner: fn(&Line) -> String =
        |line| format!("{} {}", line.attributes.uid, line.attributes.gid);
    let widths = [inode, links, owner, size].map(widest);
    for line in lines {
        if arguments.inode {
            write!(text, "{:>1$} ", inode(line), widths[0]).expect(INFALLIBLE);
        }
        if arguments.long {
            let mode = output::mode_text(line.attributes.kind, line.attributes.permissions);
            let time = output::time_text(line.attributes.mtime.seconds);
            write!(text, "{mode} {:>1$} ", links(line), widths[1]).expect(INFALLIBLE);
            write!(text, "{:>1$} ", owner(line), widths[2]).expect(INFALLIBLE);
            write!(text, "{:>1$} {2} ", size(line), widths[3], time).expect(INFALLIBLE);
        }
        text.extend(output::printed_name(&line.name));
        if let (true, Some(target)) = (arguments.long, &line.target) {
            text.extend(b" -> ");
            text.extend(output::printed_name(target));
        }
        text.push(b'\n');
    }
}

/// The size, or a device's numbers.
fn size(line: &Line) -> String {
    match line.attributes.device {
        Some(device) => format!("{},{}", device.major, device.minor),
        None => line.attributes.size.to_string(),
    }
}

fn to_json(image: &str, directory: &[u8], lines: &[Line]) -> Value {
    let entries = lines.iter().map(|line| {
        let mut entry = output::attributes_json(&line.attributes);
        entry["name"] = Value::from(output::name_text(&line.name));
        if let Some(hex) = output::name_hex(&line.name) {
            entry["name_hex"] = Value::from(hex);
        }
        entry["target"] = Value::from(line.target.as_deref().map(output::name_text));
        entry
    });
    json!({ "image": image, "path": output::name_text(directory), "entries": entries.collect::<Vec<_>>() })
}

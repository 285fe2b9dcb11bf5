//! `jext ls`: lists directories, sorted by name by default.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ext::volume::{Attributes, FileKind};
use ext::{Error, Volume};
use layout::InodeNr;
use serde_json::{Value, json};
use transfer::entered::Entered;

use crate::image::{ImagePath, MountArguments, with_look};
use crate::output;

const INFALLIBLE: &str = "writing to memory does not fail";

/// List directories and files of an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path, or IMAGE for its root.
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    paths: Vec<OsString>,
    /// Show mode, links, owner, size and time.
    #[arg(short)]
    long: bool,
    /// Show inode numbers.
    #[arg(short)]
    inode: bool,
    /// Include names that start with a dot.
    #[arg(short)]
    all: bool,
    /// List the directory itself, not its contents.
    #[arg(short)]
    directory: bool,
    /// List subdirectories recursively.
    #[arg(short = 'R')]
    recursive: bool,
    /// Do not sort; list in directory order.
    #[arg(short = 'U')]
    unsorted: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

/// One line of a listing.
struct Line {
    name: Vec<u8>,
    /// The inode that the entry refers to.
    inode: InodeNr,
    /// The inode's attributes; none if it cannot be read.
    attributes: Option<Attributes>,
    target: Option<Vec<u8>>,
}

/// The listed entries, and the failures.
#[derive(Default)]
struct Listing {
    directories: Vec<(Vec<u8>, Vec<Line>)>,
    /// One line for each failure, with the path.
    faults: Vec<String>,
}

impl Listing {
    fn fault(&mut self, path: &[u8], why: impl std::fmt::Display) {
        let path = output::name_text(path);
        self.faults.push(format!("{path}: {why}"));
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut documents = Vec::new();
    let mut text = Vec::new();
    let mut faults = Vec::new();
    for (index, given) in arguments.paths.iter().enumerate() {
        let path = ImagePath::parse_or_root(given)?;
        let image = &path.image;
        let listing = with_look(image, &arguments.mount, |volume| {
            list(volume, &path.path, arguments).with_context(|| path.text())
        })?;
        let is_titled = arguments.recursive || arguments.paths.len() > 1;
        for (number, (directory, lines)) in listing.directories.iter().enumerate() {
            if is_titled {
                let gap = if index + number > 0 { "\n" } else { "" };
                write!(text, "{gap}{image}:").expect(INFALLIBLE);
                text.extend(output::printed_name(directory));
                text.extend(b":\n");
            }
            render(&mut text, lines, arguments);
            documents.push(to_json(image, directory, lines));
        }
        let advice = format!("jext fsck {image} tells what else is wrong");
        let of_image = listing.faults.into_iter();
        faults.extend(of_image.map(|fault| format!("{image}:{fault}; {advice}")));
    }
    if arguments.json {
        output::print_json(&Value::from(documents))?
    } else {
        output::print_bytes(&text)?
    }
    faults.iter().for_each(|fault| output::complain(fault));
    Ok(match faults.len() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Lists the directories of a path. Damaged entries do not prevent listing the others.
fn list(volume: &Volume, path: &[u8], arguments: &Arguments) -> Result<Listing> {
    let own = volume.metadata(path, false)?;
    let mut listing = Listing::default();
    if arguments.directory || own.kind != FileKind::Directory {
        let line = line(volume, path.to_owned(), own)?;
        listing.directories.push((path.to_owned(), vec![line]));
        return Ok(listing);
    }
    let mut entered = Entered::default();
    let mut waiting = vec![(path.to_owned(), own.inode)];
    while let Some((directory, nr)) = waiting.pop() {
        if let Err(error) = entered.enter(nr) {
            listing.fault(&directory, error);
            continue;
        }
        let lines = lines(volume, (&directory, nr), arguments, &mut listing);
        if arguments.recursive {
            let inner = lines.iter().filter(|line| line.is_directory());
            let paths = inner
                .rev()
                .map(|line| (joined(&directory, &line.name), line.inode));
            waiting.extend(paths);
        }
        listing.directories.push((directory, lines));
    }
    Ok(listing)
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let base = directory.strip_suffix(b"/").unwrap_or(directory);
    [base, b"/", name].concat()
}

/// Returns the lines of a directory.
fn lines(
    volume: &Volume,
    (path, nr): (&[u8], InodeNr),
    arguments: &Arguments,
    listing: &mut Listing,
) -> Vec<Line> {
    let mut entries = Vec::new();
    let read = volume.read_directory(nr, 0, &mut |_, entry| {
        if entry.name != b"." && entry.name != b".." {
            entries.push(entry);
        }
        true
    });
    if let Err(error) = read {
        listing.fault(path, error);
    }
    let mut lines = Vec::new();
    for entry in entries {
        if !arguments.all && entry.name.first() == Some(&b'.') {
            continue;
        }
        let name = entry.name.clone();
        let found = volume.attributes(entry.inode);
        let found = found.and_then(|attributes| line(volume, entry.name, attributes));
        lines.push(found.unwrap_or_else(|error| {
            let why = match error {
                Error::NotFound => format!("its inode {} is not in use", entry.inode),
                error => error.to_string(),
            };
            listing.fault(&joined(path, &name), why);
            Line {
                name,
                inode: entry.inode,
                attributes: None,
                target: None,
            }
        }));
    }
    if !arguments.unsorted {
        lines.sort_by(|a, b| a.name.cmp(&b.name));
    }
    lines
}

fn line(volume: &Volume, name: Vec<u8>, attributes: Attributes) -> Result<Line, Error> {
    let target = match attributes.kind {
        FileKind::Symlink => Some(volume.read_link(attributes.inode)?),
        _ => None,
    };
    Ok(Line {
        name,
        inode: attributes.inode,
        attributes: Some(attributes),
        target,
    })
}

impl Line {
    fn is_directory(&self) -> bool {
        let kind = self.attributes.as_ref().map(|found| found.kind);
        kind == Some(FileKind::Directory)
    }

    /// Returns a column; a question mark if the inode cannot be read.
    fn column(&self, of: impl FnOnce(&Attributes) -> String) -> String {
        self.attributes.as_ref().map_or_else(|| "?".to_owned(), of)
    }
}

fn render(text: &mut Vec<u8>, lines: &[Line], arguments: &Arguments) {
    let widest = |of: fn(&Line) -> String| lines.iter().map(|l| of(l).len()).max().unwrap_or(0);
    let inode: fn(&Line) -> String = |line| line.inode.to_string();
    let links: fn(&Line) -> String = |line| line.column(|found| found.links.to_string());
    let owner: fn(&Line) -> String =
        |line| line.column(|found| format!("{} {}", found.uid, found.gid));
    let widths = [inode, links, owner, size].map(widest);
    for line in lines {
        if arguments.inode {
            write!(text, "{:>1$} ", inode(line), widths[0]).expect(INFALLIBLE);
        }
        if arguments.long {
            let mode = match &line.attributes {
                Some(found) => output::mode_text(found.kind, found.permissions),
                None => "?".repeat(10),
            };
            let time = line.column(|found| output::time_text(found.mtime.seconds));
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

/// Returns the size, or the numbers of a device.
fn size(line: &Line) -> String {
    line.column(|found| match found.device {
        Some(device) => format!("{},{}", device.major, device.minor),
        None => found.size.to_string(),
    })
}

fn to_json(image: &str, directory: &[u8], lines: &[Line]) -> Value {
    let entries = lines.iter().map(|line| {
        let mut entry = match &line.attributes {
            Some(found) => output::attributes_json(found),
            None => json!({ "inode": line.inode.get(), "kind": null }),
        };
        entry["name"] = Value::from(output::name_text(&line.name));
        if let Some(hex) = output::name_hex(&line.name) {
            entry["name_hex"] = Value::from(hex);
        }
        entry["target"] = Value::from(line.target.as_deref().map(output::name_text));
        entry
    });
    json!({ "image": image, "path": output::name_text(directory), "entries": entries.collect::<Vec<_>>() })
}

//! `jext rm`: removes files, and with `-r` directories with all their contents.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ext::volume::FileKind;
use ext::{Error, Volume};
use layout::InodeNr;
use transfer::entered::Entered;

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Remove files of an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Remove directories with all their contents.
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Remove empty directories.
    #[arg(short, long)]
    directory: bool,
    /// Ignore files that do not exist.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        with_volume(&path.image, Access::Write, &arguments.mount, |volume| {
            remove(volume, &path, arguments)
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(volume: &Volume, path: &ImagePath, arguments: &Arguments) -> Result<()> {
    let attributes = match volume.metadata(&path.path, false) {
        Err(Error::NotFound) if arguments.force => return Ok(()),
        other => other.with_context(|| path.text())?,
    };
    if attributes.kind == FileKind::Directory && !arguments.recursive && !arguments.directory {
        bail!(
            "{}: is a directory; -r removes it with all that is in it",
            path.text()
        );
    }
    let (parent, name) = volume
        .resolve_parent(&path.path)
        .with_context(|| path.text())?;
    if attributes.kind != FileKind::Directory {
        return volume.unlink(parent, name).with_context(|| path.text());
    }
    if arguments.recursive {
        empty(volume, attributes.inode).with_context(|| path.text())?;
    }
    volume
        .remove_directory(parent, name)
        .with_context(|| path.text())
}

/// A directory being emptied: its inode, its remaining entries, and its name in its parent.
struct Level {
    nr: InodeNr,
    names: Vec<(Vec<u8>, InodeNr)>,
    name: Vec<u8>,
}

/// Removes all contents of a directory, at any depth.
fn empty(volume: &Volume, directory: InodeNr) -> Result<()> {
    let mut entered = Entered::default();
    entered.enter(directory)?;
    let mut levels = vec![Level {
        nr: directory,
        names: names(volume, directory)?,
        name: Vec::new(),
    }];
    while let Some(level) = levels.last_mut() {
        let parent = level.nr;
        match level.names.pop() {
            Some((name, nr)) if volume.attributes(nr)?.kind == FileKind::Directory => {
                entered.enter(nr)?;
                levels.push(Level {
                    nr,
                    names: names(volume, nr)?,
                    name,
                });
            }
            Some((name, _)) => volume.unlink(parent, &name)?,
            None => {
                let done = levels.pop();
                if let (Some(done), Some(above)) = (done, levels.last()) {
                    volume.remove_directory(above.nr, &done.name)?;
                }
            }
        }
    }
    Ok(())
}

fn names(volume: &Volume, directory: InodeNr) -> Result<Vec<(Vec<u8>, InodeNr)>, Error> {
    let mut names = Vec::new();
    volume.read_directory(directory, 0, &mut |_, entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name, entry.inode));
        }
        true
    })?;
    Ok(names)
}

//! `jext cp`: files into, out of, within and between images.
//!
//! Bytes go through a few buffers of fixed size, so that a file of any length takes no more memory
//! than a short one.

mod copier;
mod copy;
mod end;
mod keep;
mod sink;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::image::MountArguments;
use crate::interrupt;
use copier::{Copier, How};
use end::{End, Images};

/// Copy files into, out of and between images.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Paths of the host or IMAGE:/path; the last is the new name, or the directory to copy into.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// Copy directories with all their contents; copy links and device nodes as such.
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Archive: -r -p, and keep hard links, extended attributes and access control lists.
    #[arg(short, long)]
    archive: bool,
    /// Keep owner, mode and times.
    #[arg(short, long)]
    preserve: bool,
    /// Leave holes for all blocks of zeroes, not only where the source has holes.
    #[arg(long)]
    sparse: bool,
    /// Sync the images before the command ends.
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments, is_verbose: bool) -> Result<ExitCode> {
    let Some((target, sources)) = arguments.paths.split_last() else {
        bail!("nothing to copy")
    };
    interrupt::watch()?;
    interrupt::ends_itself();
    let target = End::parse(target)?;
    let sources: Vec<End> = sources
        .iter()
        .map(|text| End::parse(text))
        .collect::<Result<_>>()?;
    for source in &sources {
        // Checked before an image is opened for writing.
        source.check_on_host()?;
    }
    let mut images = Images::default();
    images.open_all(&sources, &target, &arguments.mount)?;
    let how = How {
        recursive: arguments.recursive || arguments.archive,
        preserve: arguments.preserve || arguments.archive,
        archive: arguments.archive,
        sparse: arguments.sparse,
        verbose: is_verbose,
    };
    let mut copier = Copier::new(&images, how);
    let result = copier.copy_all(&sources, &target);
    copier.end();
    let synced = if arguments.sync && result.is_ok() {
        images.sync()
    } else {
        Ok(())
    };
    let closed = images.close();
    result.and(synced).and(closed)?;
    Ok(ExitCode::SUCCESS)
}

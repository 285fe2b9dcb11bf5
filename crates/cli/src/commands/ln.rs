//! `jext ln`: hard and symbolic links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ext::volume::{FileKind, NewInode};

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Make links in an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Target of the link: IMAGE:/path, or any text with -s.
    #[arg(value_name = "TARGET")]
    target: OsString,
    /// New name.
    #[arg(value_name = "IMAGE:/PATH")]
    link: OsString,
    /// Create a symbolic link.
    #[arg(short, long)]
    symbolic: bool,
    /// Replace an existing file, unless it is a directory.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let link = ImagePath::parse(&arguments.link)?;
    let target = (!arguments.symbolic)
        .then(|| ImagePath::parse(&arguments.target))
        .transpose()?;
    if let Some(target) = target.as_ref().filter(|target| target.image != link.image) {
        bail!(
            "{}: is in another image than {}; a link cannot lead out",
            target.text(),
            link.text()
        );
    }
    with_volume(&link.image, Access::Write, &arguments.mount, |volume| {
        let context = || link.text();
        let (parent, name) = volume.resolve_parent(&link.path).with_context(context)?;
        let linked = target
            .as_ref()
            .map(|target| volume.resolve(&target.path, false));
        let linked = linked
            .transpose()
            .with_context(|| arguments.target.display().to_string())?;
        if arguments.force
            && let Ok(found) = volume.metadata(&link.path, false)
            && found.kind != FileKind::Directory
            && linked != Some(found.inode)
        {
            volume.unlink(parent, name).with_context(context)?;
        }
        match linked {
            Some(nr) => volume.link(nr, parent, name).with_context(context),
            None => {
                let new = NewInode {
                    permissions: 0o777,
                    ..NewInode::default()
                };
                let made = volume.symlink(parent, name, arguments.target.as_bytes(), &new);
                made.map(drop).with_context(context)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

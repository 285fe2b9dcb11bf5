//! `jext mv`: moves and renames files within an image. A moved file keeps its inode.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ext::Volume;
use ext::volume::{FileKind, RenameMode};

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Move or rename files within an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path, one or more; the last is the new name, or the directory to move into.
    #[arg(required = true, num_args = 2.., value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Do not replace an existing file.
    #[arg(short, long, conflicts_with = "exchange")]
    no_clobber: bool,
    /// Exchange the two names.
    #[arg(long)]
    exchange: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let paths: Vec<ImagePath> = arguments
        .paths
        .iter()
        .map(ImagePath::parse)
        .collect::<Result<_>>()?;
    let Some((target, sources)) = paths.split_last() else {
        bail!("nothing to move")
    };
    if let Some(other) = sources.iter().find(|source| source.image != target.image) {
        bail!(
            "{}: is in another image than {}; use cp and rm",
            other.text(),
            target.text()
        );
    }
    let mode = match (arguments.no_clobber, arguments.exchange) {
        (true, _) => RenameMode::NoReplace,
        (_, true) => RenameMode::Exchange,
        _ => RenameMode::Replace,
    };
    with_volume(&target.image, Access::Write, &arguments.mount, |volume| {
        let is_into = mode != RenameMode::Exchange && is_directory(volume, &target.path);
        if sources.len() > 1 && !is_into {
            bail!(
                "{}: not a directory to move several files into",
                target.text()
            );
        }
        sources
            .iter()
            .try_for_each(|source| rename(volume, source, target, is_into, mode))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn is_directory(volume: &Volume, path: &[u8]) -> bool {
    volume
        .metadata(path, true)
        .is_ok_and(|found| found.kind == FileKind::Directory)
}

fn rename(
    volume: &Volume,
    source: &ImagePath,
    target: &ImagePath,
    is_into: bool,
    mode: RenameMode,
) -> Result<()> {
    let context = || format!("{} to {}", source.text(), target.text());
    let (parent, name) = volume.resolve_parent(&source.path).with_context(context)?;
    let path = if is_into {
        [&target.path, &b"/"[..], name].concat()
    } else {
        target.path.clone()
    };
    let (new_parent, new_name) = volume.resolve_parent(&path).with_context(context)?;
    volume
        .rename(parent, name, new_parent, new_name, mode)
        .with_context(context)
}

//! `jext mkdir`: creates directories.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use ext::Error;
use ext::volume::SetAttributes;

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Make directories in an image.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Create missing parents as well; existing directories are no error.
    #[arg(short, long)]
    parents: bool,
    /// Permissions in octal.
    #[arg(short, long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u16>,
    #[command(flatten)]
    mount: MountArguments,
}

/// Parses permissions in octal.
pub(super) fn parse_mode(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| "expected permissions in octal, 0 to 7777".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        with_volume(&path.image, Access::Write, &arguments.mount, |volume| {
            let made = if arguments.parents {
                volume.create_directory_all(&path.path)
            } else {
                volume.create_directory(&path.path)
            };
            let nr = made.map_err(|error| match error {
                Error::NotFound => anyhow!("{error}: {}; -p makes those above it", path.text()),
                other => anyhow::Error::from(other).context(path.text()),
            })?;
            if arguments.mode.is_some() {
                let change = SetAttributes {
                    permissions: arguments.mode,
                    ..SetAttributes::default()
                };
                volume
                    .set_attributes(nr, &change)
                    .with_context(|| path.text())?;
            }
            Ok(())
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `jext cat`: copies files to standard output.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use ext::volume::OpenFlags;

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Number of bytes per read.
const CHUNK_BYTES: usize = 1 << 20;

/// Print files of an image to standard output.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut chunk = vec![0; CHUNK_BYTES];
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        with_volume(&path.image, Access::Read, &arguments.mount, |volume| {
            let name = || path.text();
            let mut file = volume
                .open_file(&path.path, OpenFlags::READ)
                .with_context(name)?;
            loop {
                match file.read(&mut chunk).with_context(name)? {
                    0 => break,
                    count => out.write_all(&chunk[..count])?,
                }
            }
            file.close().with_context(name)
        })?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

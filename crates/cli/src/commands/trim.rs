//! `jext trim`: returns the free space of an image to its host, as fstrim does for a mount.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::image::{Access, MountArguments, with_volume};
use crate::output;

/// Return an image's free space to its host.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Images, or block devices.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Minimum size of free extents to return, in bytes.
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    minimum: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    for image in &arguments.images {
        let bytes = with_volume(image, Access::Write, &arguments.mount, |volume| {
            volume
                .trim(arguments.minimum)
                .with_context(|| image.clone())
        })?;
        if arguments.json {
            output::print_json(&json!({ "image": image, "trimmed_bytes": bytes }))?;
        } else {
            output::print(&format!("{image}: {bytes} bytes trimmed\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `jext trim`: gives the free space of an image back to its host, as fstrim does for a mount.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::image::{Access, MountArguments, with_volume};
use crate::output;

/// Give an image's free space back to its host.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Images, or block devices.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Leave free space that lies in pieces of fewer bytes.
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    minimum: u64,
    /// As JSON.
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

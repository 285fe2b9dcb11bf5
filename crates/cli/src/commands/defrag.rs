//! `jext defrag`: gives files fewer extents, as e4defrag does for a mount.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::image::{Access, ImagePath, MountArguments, with_volume};
use crate::output;

/// Give files of an image fewer extents.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        let done = with_volume(&path.image, Access::Write, &arguments.mount, |volume| {
            volume.defragment(&path.path).with_context(|| path.text())
        })?;
        let (before, after) = (done.extents_before, done.extents_after);
        if arguments.json {
            let document = json!({
                "path": path.text(), "extents_before": before, "extents_after": after,
            });
            output::print_json(&document)?;
        } else {
            output::print(&format!(
                "{}: {before} extents before, {after} after\n",
                path.text()
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `jext journal show`: what a journal is, which transactions it holds, and what their blocks are.

use anyhow::{Context, Result};
use clap::Args;
use jbd2::recovery;

use super::blocks::Blocks;
use super::locate::{Found, locate};
use super::render;
use crate::image::MountArguments;
use crate::output;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file system with a journal, or a journal device.
    #[arg(value_name = "DEVICE")]
    pub(super) device: String,
    /// And which blocks each transaction holds, and what each of them is.
    #[arg(long)]
    blocks: bool,
    /// The file system that uses the journal device, to say what its blocks are.
    #[arg(long, value_name = "DEVICE")]
    pub(super) filesystem: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) mount: MountArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let context = || arguments.device.clone();
    let Found { place, log, home } = locate(arguments)?;
    let inspection = recovery::inspect(&log).with_context(context)?;
    let blocks = match home.map(|home| Blocks::of(&log, &home, &inspection)) {
        Some(Ok(blocks)) => blocks,
        Some(Err(error)) => {
            output::warn(&format!("what the blocks are cannot be said: {error:#}"));
            Blocks::default()
        }
        None => Blocks::default(),
    };
    if arguments.json {
        return output::print_json(&render::to_json(place, &inspection, &blocks));
    }
    output::print(&render::text(place, &inspection, &blocks, arguments.blocks))
}

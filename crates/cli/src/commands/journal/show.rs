//! `jext journal show`: shows a journal, its transactions, and the uses of their blocks.

use std::sync::Arc;

use anyhow::{Context, Result};
use block::BlockDevice;
use jbd2::recovery;
use layout::feature::Incompatible;

use super::super::info::raw_superblock;
use super::blocks::Blocks;
use super::locate::{Arguments, Found, locate};
use super::render;
use crate::advice;
use crate::output;

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let context = || arguments.device.clone();
    let Found { place, log, home } = locate(arguments)?;
    let inspection = recovery::inspect(&log).with_context(context)?;
    let is_called_for = home.as_ref().is_none_or(calls_for_log);
    let blocks = match home.map(|home| Blocks::of(&log, &home, &inspection)) {
        Some(Ok(blocks)) => blocks,
        Some(Err(error)) => {
            let why = advice::text(&error);
            output::warn(&format!("what the blocks are cannot be said: {why}"));
            Blocks::default()
        }
        None => Blocks::default(),
    };
    if arguments.json {
        let mut shown = render::to_json(place, &inspection, &blocks);
        shown["is_called_for"] = is_called_for.into();
        return output::print_json(&shown);
    }
    let fate = if is_called_for {
        "it has to be replayed"
    } else {
        "the superblock does not call for it; jext journal replay or discard decides"
    };
    let with_blocks = arguments.blocks;
    output::print(&render::text(
        place,
        fate,
        &inspection,
        &blocks,
        with_blocks,
    ))
}

/// Returns true if a file system's superblock marks its log for replay.
fn calls_for_log(home: &Arc<dyn BlockDevice>) -> bool {
    raw_superblock(home).is_ok_and(|raw| {
        let features = raw.features().incompatible;
        features.contains(Incompatible::NEEDS_RECOVERY)
    })
}

//! The block of multiple mount protection of a new volume (`mmp`): no node uses it.

use layout::multi_mount::{INTERVAL_SECONDS_MAX, SEQUENCE_CLEAN, UPDATE_SECONDS};

use super::Options;
use super::image::Image;
use super::plan::Plan;
use crate::disk::multi_mount::{Record, encode};
use crate::error::{Error, Result};

/// Name of the node in the block, so that the same parameters give the same bytes.
const NODE: &str = "mkfs";

/// Creates the block.
pub(super) fn make(plan: &Plan, options: &Options, image: &mut Image) -> Result<()> {
    let block = image.take(plan, 1)?[0].first;
    let record = Record::of(NODE, "", SEQUENCE_CLEAN, plan.seconds);
    let bytes = encode(&record, plan.sums.seed(), plan.geometry.block_bytes);
    image.blocks.insert(block, bytes.into_arc());
    image.multi_mount = Some((block, interval(options.mmp_update_seconds)?));
    Ok(())
}

/// Returns the interval of renewal in seconds for the one asked for; 0 asks for the default.
pub(crate) fn interval(seconds: Option<u16>) -> Result<u16> {
    match seconds.unwrap_or(0) {
        0 => Ok(UPDATE_SECONDS),
        seconds if seconds <= INTERVAL_SECONDS_MAX => Ok(seconds),
        _ => Err(Error::Invalid(
            "multiple mount protection is renewed at least every 300 seconds",
        )),
    }
}

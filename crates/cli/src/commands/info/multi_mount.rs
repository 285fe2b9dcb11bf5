//! Facts about multiple mount protection: those in its block on the device.

use std::sync::Arc;

use block::BlockDevice;
use ext::multi_mount::{Status, status};
use layout::feature::Incompatible;
use layout::multi_mount::{SEQUENCE_CHECKED, SEQUENCE_CLEAN};
use layout::superblock::Superblock;

use super::words::{hex, time};
use super::{Fact, fact};

/// Returns the facts; empty without the protection.
pub(super) fn facts(device: &Arc<dyn BlockDevice>, raw: &Superblock) -> Vec<Fact> {
    if !raw.features().incompatible.contains(Incompatible::MMP) {
        return Vec::new();
    }
    match status(device) {
        Ok(Some(found)) => contents(&found),
        Ok(None) => Vec::new(),
        Err(error) => vec![fact("mmp_damage", "MMP is damaged", error.to_string())],
    }
}

fn contents(found: &Status) -> Vec<Fact> {
    let sequence = match found.sequence {
        SEQUENCE_CLEAN => "clean".to_owned(),
        SEQUENCE_CHECKED => "being checked".to_owned(),
        sequence => hex(sequence),
    };
    let seconds = i64::try_from(found.user.seconds).unwrap_or(i64::MAX);
    vec![
        fact("mmp_sequence", "MMP sequence", sequence),
        fact("mmp_node", "MMP node", found.user.node.clone()),
        fact("mmp_device", "MMP device", found.user.device.clone()),
        fact("mmp_time", "MMP time", time(seconds)),
        fact(
            "mmp_check_seconds",
            "MMP check interval, s",
            found.check_seconds,
        ),
    ]
}

//! The groups of an open volume, with the geometry that they belong to.

use std::sync::Arc;

use jbd2::Buffer;
use layout::GroupNr;

use super::areas::Areas;
use super::group::Group;
use super::zones::SystemZones;
use crate::disk::geometry::Geometry;

/// The groups of a volume and everything that depends on their number. It is read through
/// [`Space::table`](super::Space::table), without a lock.
pub(crate) struct GroupTable {
    /// The geometry of the volume.
    pub(crate) geometry: Geometry,
    /// The groups, in order.
    pub(crate) groups: Vec<Group>,
    /// The blocks of the group descriptors, in order.
    pub(crate) descriptors: Vec<Arc<Buffer>>,
    pub(crate) descriptors_per_block: u32,
    /// The blocks that no file may have.
    pub(crate) zones: SystemZones,
    /// Flex groups and stripes.
    pub(crate) areas: Areas,
    /// Number of blocks with the volume's own metadata, for statfs.
    pub(crate) overhead_blocks: u64,
}

impl GroupTable {
    /// Returns a group.
    pub(crate) fn group(&self, group: GroupNr) -> &Group {
        &self.groups[group.index()]
    }

    /// Returns the block of a group's descriptor.
    pub(crate) fn descriptor(&self, group: GroupNr) -> &Arc<Buffer> {
        &self.descriptors[(group.get() / self.descriptors_per_block) as usize]
    }
}

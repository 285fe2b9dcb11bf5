//! Clusters: what a bit of a block bitmap stands for.
//!
//! With `bigalloc` a cluster is a power of two of blocks, and blocks are allocated and freed by
//! whole clusters; without it, it is one block, and has its number. A block that is allocated
//! belongs to one file together with the rest of its cluster: within a file, a block has the same
//! place in its cluster as in the part of the file that the cluster holds.

use core::ops::Add;

use layout::{BlockNr, FileBlock, GroupNr};

use super::geometry::Geometry;
use super::run::Run;

/// The number of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Cluster(u64);

impl Cluster {
    /// Creates the number of a cluster.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

impl Add<u64> for Cluster {
    type Output = Self;

    fn add(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

/// Consecutive clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterRun {
    /// The first cluster.
    pub(crate) first: Cluster,
    /// Number of clusters.
    pub(crate) count: u32,
}

impl ClusterRun {
    /// Returns the cluster after the last.
    pub(crate) fn end(self) -> Cluster {
        self.first + u64::from(self.count)
    }
}

impl Geometry {
    /// Returns the number of blocks in a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        1 << self.cluster_log
    }

    /// Returns the cluster that a block belongs to.
    pub(crate) fn cluster_of(&self, block: BlockNr) -> Cluster {
        Cluster::new(block.get() >> self.cluster_log)
    }

    /// Returns the first block of a cluster.
    pub(crate) fn first_block_in(&self, cluster: Cluster) -> BlockNr {
        BlockNr::new(cluster.get() << self.cluster_log)
    }

    /// Returns the clusters that have a block of an extent.
    pub(crate) fn clusters_of(&self, run: Run) -> ClusterRun {
        let first = self.cluster_of(run.first);
        let last = BlockNr::new(run.end().get() - u64::from(run.count > 0));
        let end = self.cluster_of(last).get() + u64::from(run.count > 0);
        ClusterRun {
            first,
            count: (end - first.get()) as u32,
        }
    }

    /// Returns the number of clusters that have a block of a range of file blocks.
    pub(crate) fn clusters_of_range(&self, from: FileBlock, count: u64) -> u64 {
        let end = (from.get() + count).div_ceil(1 << self.cluster_log);
        end - (from.get() >> self.cluster_log)
    }

    /// Returns the blocks of clusters.
    pub(crate) fn blocks_of(&self, clusters: ClusterRun) -> Run {
        Run {
            first: self.first_block_in(clusters.first),
            count: clusters.count << self.cluster_log,
        }
    }

    /// Returns the group of a cluster, and its index within the group: that of its bit.
    ///
    /// # Panics
    /// Panics if the cluster lies outside the volume.
    pub(crate) fn group_of_cluster(&self, cluster: Cluster) -> (GroupNr, u32) {
        let (group, index) = self.group_of_block(self.first_block_in(cluster));
        (group, index >> self.cluster_log)
    }

    /// Returns the number of clusters of a group; the last group may have fewer than the others.
    pub fn clusters_in(&self, group: GroupNr) -> u32 {
        self.blocks_in(group) >> self.cluster_log
    }

    /// Returns the number of clusters in each group except the last.
    pub fn clusters_per_group(&self) -> u32 {
        self.blocks_per_group >> self.cluster_log
    }
}

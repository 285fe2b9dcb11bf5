//! The quota files of a new volume (`quota`), with the share of its first directories.
//!
//! As of mke2fs, user and group quotas lie in the reserved inodes 3 and 4, and project quotas in
//! the first inode behind `lost+found`.

use layout::inode::{BASE_SIZE, Inode, InodeFlags};
use layout::quota::QuotaKind;
use layout::{Block, InodeNr};
use zerocopy::FromBytes;

use super::hidden_file::{self, Hidden};
use super::image::Image;
use super::plan::{PROJECT_QUOTA, Plan};
use crate::core::quota::owners;
use crate::disk::quota::{Change, QuotaTree};
use crate::error::Result;

/// Inodes of user and group quotas.
pub(crate) const USER_QUOTA: InodeNr = InodeNr::new(3);
pub(crate) const GROUP_QUOTA: InodeNr = InodeNr::new(4);
/// Size of a unit in which inodes count blocks, in bytes.
const SECTOR: u64 = 512;

/// Returns the inode of a kind's quota file.
pub(crate) const fn inode_of(kind: QuotaKind) -> InodeNr {
    match kind {
        QuotaKind::User => USER_QUOTA,
        QuotaKind::Group => GROUP_QUOTA,
        QuotaKind::Project => PROJECT_QUOTA,
    }
}

/// Creates the files.
pub(super) fn make(plan: &Plan, image: &mut Image) -> Result<()> {
    let trees: Vec<(QuotaKind, QuotaTree)> = plan
        .quotas
        .iter()
        .map(|kind| (*kind, tree(plan, *kind, image)))
        .collect();
    for (kind, tree) in trees {
        let (nr, size) = (inode_of(kind), tree.len());
        let file = Hidden {
            nr,
            goal: plan.geometry.first_data_block,
            size: size as u64,
            flags: InodeFlags::IMMUTABLE,
        };
        let file = hidden_file::add(plan, image, &file)?;
        let block_bytes = plan.geometry.block_bytes as usize;
        let runs = file.data.iter();
        let blocks = runs.flat_map(|run| (0..u64::from(run.count)).map(|index| run.first + index));
        for (index, block) in blocks.enumerate() {
            let bytes = tree.padded(index * block_bytes, block_bytes);
            image
                .blocks
                .insert(block, Block::copy_from(&bytes).into_arc());
        }
        image.quotas.push((kind, nr));
    }
    Ok(())
}

/// Returns the file with the shares of the inodes so far.
fn tree(plan: &Plan, kind: QuotaKind, image: &Image) -> QuotaTree {
    let mut tree = QuotaTree::new(kind);
    let is_counted = |nr: InodeNr| nr == InodeNr::ROOT || nr >= plan.geometry.first_inode;
    for (_, bytes) in image.inodes.iter().filter(|(nr, _)| is_counted(**nr)) {
        let (base, extra) = bytes.split_at(BASE_SIZE);
        let base = Inode::ref_from_bytes(base).expect("an inode has its base");
        let owner = owners(base, extra)[kind as usize];
        let space = base.sectors(false, plan.geometry.block_bytes) * SECTOR;
        tree.insert(owner);
        let change = Change {
            space: space.cast_signed(),
            inodes: 1,
        };
        tree.change(owner, change).expect("it has an entry");
    }
    tree
}

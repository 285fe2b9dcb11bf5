//! The use of the blocks in a log, by the file system as it will be after the replay.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use block::BlockDevice;
use ext::census::{self, BlockUse};
use ext::{MountOptions, Volume};
use jbd2::Location;
use jbd2::recovery::{self, Inspection, TransactionInfo};
use layout::{BlockNr, InodeNr};

/// Maximum depth of nested directories in a path.
const DEPTH_MAX: usize = 128;
const DOT_DOT: &[u8] = b"..";

/// The kinds of blocks that are counted separately: a key, its singular, its plural.
pub(super) const SORTS: &[(&str, &str, &str)] = &[
    ("superblock", "superblock", "superblocks"),
    (
        "group_descriptors",
        "block of group descriptors",
        "blocks of group descriptors",
    ),
    (
        "descriptor_room",
        "block of room for descriptors",
        "blocks of room for descriptors",
    ),
    ("block_bitmap", "block bitmap", "block bitmaps"),
    ("inode_bitmap", "inode bitmap", "inode bitmaps"),
    ("inode_table", "inode table block", "inode table blocks"),
    (
        "multi_mount",
        "block of multiple mount protection",
        "blocks of multiple mount protection",
    ),
    ("directory", "directory block", "directory blocks"),
    ("map", "map block", "map blocks"),
    ("attributes", "attribute block", "attribute blocks"),
    ("link_target", "link target", "link targets"),
    ("data", "data block", "data blocks"),
    ("free", "block that is free now", "blocks that are free now"),
    ("unknown", "block of nobody known", "blocks of nobody known"),
];

/// The known uses of the blocks in a log; none without the file system.
#[derive(Default)]
pub(super) struct Blocks {
    uses: BTreeMap<BlockNr, BlockUse>,
    /// Paths of the directories that have blocks in the log.
    paths: BTreeMap<InodeNr, String>,
}

impl Blocks {
    /// Reads a file system through a view of its log.
    pub(super) fn of(
        log: &Location,
        home: &Arc<dyn BlockDevice>,
        found: &Inspection,
    ) -> Result<Self> {
        let transactions = found.transactions.iter();
        let logged: BTreeSet<BlockNr> = transactions
            .flat_map(|transaction| {
                let homes = transaction.blocks.iter().map(|block| block.home);
                homes.chain(transaction.revokes.iter().copied())
            })
            .collect();
        if logged.is_empty() {
            return Ok(Self::default());
        }
        let view = recovery::view(log, home)?;
        let uses = census::census(&view, logged)?;
        let directories = uses.values().filter_map(|block| match block {
            BlockUse::Directory { inode, .. } => Some(*inode),
            _ => None,
        });
        let paths = paths(&view, directories.collect());
        Ok(Self { uses, paths })
    }

    /// Returns true if no use is known.
    pub(super) fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Returns the use of a block.
    pub(super) fn find(&self, block: BlockNr) -> Option<BlockUse> {
        self.uses.get(&block).copied()
    }

    /// Returns the path of a directory.
    pub(super) fn path(&self, directory: InodeNr) -> Option<&str> {
        self.paths.get(&directory).map(String::as_str)
    }

    /// Returns the number of images of each kind in a transaction, in the order of [`SORTS`]; empty
    /// if no use is known.
    pub(super) fn count(&self, transaction: &TransactionInfo) -> Vec<u32> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut counts = vec![0; SORTS.len()];
        for block in &transaction.blocks {
            counts[sort(self.find(block.home).unwrap_or(BlockUse::Unknown))] += 1;
        }
        counts
    }
}

/// Returns the index of a use in [`SORTS`].
pub(super) fn sort(block: BlockUse) -> usize {
    match block {
        BlockUse::Superblock { .. } => 0,
        BlockUse::Descriptors { .. } => 1,
        BlockUse::DescriptorRoom { .. } => 2,
        BlockUse::BlockBitmap { .. } => 3,
        BlockUse::InodeBitmap { .. } => 4,
        BlockUse::InodeTable { .. } => 5,
        BlockUse::MultiMount => 6,
        BlockUse::Directory { .. } => 7,
        BlockUse::Map { .. } | BlockUse::ExtentNode { .. } => 8,
        BlockUse::Attributes { .. } => 9,
        BlockUse::LinkTarget { .. } => 10,
        BlockUse::Data { .. } => 11,
        BlockUse::Free => 12,
        BlockUse::Unknown => 13,
    }
}

/// Returns the paths of directories, as far as their parents lead to the root.
fn paths(view: &Arc<dyn BlockDevice>, directories: BTreeSet<InodeNr>) -> BTreeMap<InodeNr, String> {
    let options = MountOptions {
        read_only: true,
        no_recovery: true,
        ..MountOptions::default()
    };
    let Ok(volume) = Volume::open(Arc::clone(view), None, options) else {
        return BTreeMap::new();
    };
    let mut names = BTreeMap::new();
    let found = directories
        .into_iter()
        .filter_map(|directory| Some((directory, path(&volume, &mut names, directory)?)));
    let paths = found.collect();
    // Nothing was changed, so nothing can be lost.
    let _ = volume.close();
    paths
}

/// Returns a directory's path. `names` caches the parent of each directory on the way, and its name
/// there.
fn path(
    volume: &Volume,
    names: &mut BTreeMap<InodeNr, (InodeNr, String)>,
    directory: InodeNr,
) -> Option<String> {
    let mut parts = Vec::new();
    let mut at = directory;
    while at != InodeNr::ROOT {
        if parts.len() == DEPTH_MAX {
            return None;
        }
        let (parent, name) = match names.entry(at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(name(volume, at)?),
        };
        parts.push(name.clone());
        at = *parent;
    }
    parts.reverse();
    Some(format!("/{}", parts.join("/")))
}

/// Returns a directory's parent, and its name there.
fn name(volume: &Volume, directory: InodeNr) -> Option<(InodeNr, String)> {
    let parent = volume.lookup(directory, DOT_DOT).ok()?;
    let mut found = None;
    volume
        .read_directory(parent, 0, &mut |_, entry| {
            let is_name = entry.inode == directory && entry.name != b"." && entry.name != DOT_DOT;
            if is_name {
                found = Some(crate::output::name_text(&entry.name));
            }
            !is_name
        })
        .ok()?;
    found.map(|name| (parent, name))
}

//! Quotas: the files are made with counts of all inodes, counted again, and removed.
//!
//! | asked for | result |
//! |---|---|
//! | `quota` | users and groups are counted |
//! | `project` | projects are counted, too: both features are set |
//! | without `quota` | nothing is counted: neither feature is left |
//! | without `project` | projects are not counted |
//! | a kind of owners | it is counted, or not; `project` is set or cleared with its kind |
//!
//! `quota` is left as long as something is counted. All of this as in tune2fs, but for a kind that
//! is counted already: it is counted again, as e2fsck does.
//!
//! The change is a step of its own: files are made before the superblock names them, and it has
//! ceased to name those that are removed.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::Arc;

use block::BlockDevice;
use layout::feature::{ReadOnlyCompatible, Word};
use layout::inode::{BASE_SIZE, InodeFlags};
use layout::quota::{Entry, QuotaKind};
use layout::{Block, InodeNr};
use zerocopy::little_endian::U32;

use super::own_files::{OwnFile, blocks_with_map, free_file, with_core};
use super::{Changes, look, take_over, write};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::quota::{END_OF_PROJECT, owners};
use crate::disk::metadata::Kind;
use crate::disk::quota::{Change, QuotaTree};
use crate::disk::superblock::Superblock;
use crate::disk::tables::Tables;
use crate::error::{Error, Result};
use crate::format::mkfs::{GROUP_QUOTA, USER_QUOTA};
use crate::options::MountOptions;
use crate::quota;
use crate::volume::{close_core, open_core};
use crate::xattr;

/// `quota`.
const QUOTA: (Word, u32) = (Word::ReadOnlyCompatible, ReadOnlyCompatible::QUOTA.bits());
/// `project`.
const PROJECT: (Word, u32) = (Word::ReadOnlyCompatible, ReadOnlyCompatible::PROJECT.bits());
/// Size of a unit in which inodes count blocks, in bytes.
const SECTOR: u64 = 512;

/// Counts by owner.
type Counts = BTreeMap<u32, Change>;

/// The change of the quotas.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Kinds without a file that get one.
    made: Vec<QuotaKind>,
    /// Kinds with a file that are counted again.
    counted: Vec<QuotaKind>,
    /// Files that are removed.
    removed: Vec<(QuotaKind, InodeNr)>,
    /// The features `quota` and `project` afterwards; none if nothing changes.
    features: Option<[bool; 2]>,
}

/// Returns the steps of changes of the quotas and of others, at least one: the quotas come last.
pub(super) fn steps(changes: &Changes) -> Vec<Changes> {
    let mut rest = changes.clone();
    let mut own = Changes {
        quotas: core::mem::take(&mut rest.quotas),
        ..Changes::default()
    };
    let is_own = |feature: &(Word, u32)| [QUOTA, PROJECT].contains(feature);
    own.features = rest
        .features
        .extract_if(.., |feature| is_own(feature))
        .collect();
    let removed = &mut rest.features_removed;
    own.features_removed = removed.extract_if(.., |feature| is_own(feature)).collect();
    match own == Changes::default() {
        true => vec![rest],
        false if rest == Changes::default() => vec![own],
        false => vec![rest, own],
    }
}

impl Plan {
    /// Checks a change of the quotas, and writes nothing.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] if the volume cannot have quotas.
    /// - [`Error::NoSpace`] and [`Error::NoInodes`] if it has no room for the files.
    pub(super) fn new(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
        changes: &Changes,
    ) -> Result<Self> {
        let present: BTreeMap<QuotaKind, InodeNr> = superblock.quota_inodes().collect();
        let mut plan = Self::default();
        let wanted = wanted(superblock, changes);
        let is_any = wanted.iter().any(Option::is_some);
        for (kind, is_wanted) in QuotaKind::ALL.into_iter().zip(wanted) {
            match (is_wanted, present.get(&kind)) {
                (Some(true), None) => plan.made.push(kind),
                (Some(true), Some(_)) => plan.counted.push(kind),
                (Some(false), Some(nr)) => plan.removed.push((kind, *nr)),
                (Some(false) | None, _) => {}
            }
        }
        if !is_any {
            return Ok(plan);
        }
        let is_left = |kind: QuotaKind| match wanted[kind as usize] {
            Some(is_wanted) => is_wanted,
            None => present.contains_key(&kind),
        };
        let has_project = match wanted[QuotaKind::Project as usize] {
            Some(is_wanted) => is_wanted,
            None => superblock.has_project(),
        };
        plan.features = Some([QuotaKind::ALL.into_iter().any(is_left), has_project]);
        if !plan.made.is_empty() || !plan.counted.is_empty() {
            plan.check(device, superblock)?;
        }
        Ok(plan)
    }

    /// Checks that the files can be made.
    fn check(&self, device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<()> {
        let inode_bytes = usize::from(superblock.geometry.inode_bytes);
        let is_of_projects = self.made.contains(&QuotaKind::Project);
        if is_of_projects && inode_bytes < BASE_SIZE + END_OF_PROJECT {
            return Err(Error::Invalid(
                "project needs inodes of more than 128 bytes",
            ));
        }
        let block_bytes = u64::from(superblock.geometry.block_bytes);
        let counts = count(device, superblock)?;
        let blocks = |kind: &QuotaKind| {
            let bytes = tree(*kind, &counts[*kind as usize]).len() as u64;
            blocks_with_map(superblock, bytes.div_ceil(block_bytes))
        };
        if self.made.iter().map(blocks).sum::<u64>() > superblock.raw.free_blocks_count() {
            return Err(Error::NoSpace);
        }
        if is_of_projects && superblock.raw.free_inodes_count.get() == 0 {
            return Err(Error::NoInodes);
        }
        let core = look(device, superblock)?;
        for nr in self.made.iter().filter_map(|kind| fixed_inode(*kind)) {
            match Inode::load(&core, nr) {
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let text =
                        format!("inode {nr} is in use although it names no quota file: run e2fsck");
                    return Err(Error::Unsupported(text));
                }
            }
        }
        Ok(())
    }

    /// Returns true if there is something to do.
    pub(super) fn is_change(&self) -> bool {
        self.features.is_some()
    }

    /// Sets the features.
    pub(super) fn change_features(&self, superblock: &mut Superblock) {
        let Some([has_quota, has_project]) = self.features else {
            return;
        };
        let mut features = superblock.raw.features();
        let words = &mut features.read_only_compatible;
        words.set(ReadOnlyCompatible::QUOTA, has_quota);
        words.set(ReadOnlyCompatible::PROJECT, has_project);
        superblock.raw.set_features(features);
    }

    /// Makes the change, and writes the superblock.
    pub(super) fn apply(
        &self,
        device: &Arc<dyn BlockDevice>,
        journal: Option<&Arc<dyn BlockDevice>>,
        superblock: &mut Superblock,
    ) -> Result<()> {
        if !self.counted.is_empty() {
            self.count_again(device, journal, superblock)?;
        }
        if !self.made.is_empty() {
            let counts = count(device, superblock)?;
            let made = with_core(device, |core| {
                let make = |kind: &QuotaKind| {
                    let tree = tree(*kind, &counts[*kind as usize]);
                    Ok((*kind, make(core, *kind, &tree)?))
                };
                self.made.iter().map(make).collect::<Result<Vec<_>>>()
            })?;
            for (kind, nr) in made {
                field(superblock, kind).set(nr.get());
            }
            take_over(device, superblock)?;
        }
        for (kind, _) in &self.removed {
            field(superblock, *kind).set(0);
        }
        write(device, superblock)?;
        self.removed
            .iter()
            .try_for_each(|(_, nr)| free_file(device, superblock, *nr))
    }

    /// Counts files again, on the open volume.
    fn count_again(
        &self,
        device: &Arc<dyn BlockDevice>,
        journal: Option<&Arc<dyn BlockDevice>>,
        superblock: &mut Superblock,
    ) -> Result<()> {
        let counts = count(device, superblock)?;
        let options = MountOptions {
            // The caller holds the volume.
            is_private: true,
            ..MountOptions::default()
        };
        let (core, ..) = open_core(Arc::clone(device), journal.cloned(), options)?;
        let counted = self
            .counted
            .iter()
            .try_for_each(|kind| set_counts(&core, *kind, &counts[*kind as usize]));
        close_core(&core)?;
        counted?;
        take_over(device, superblock)
    }
}

/// Returns for each kind if it shall be counted; none if that stays as it is.
fn wanted(superblock: &Superblock, changes: &Changes) -> [Option<bool>; QuotaKind::ALL.len()] {
    let (mut wanted, raw) = ([None; QuotaKind::ALL.len()], &superblock.raw);
    let has = |(word, bit): (Word, u32)| raw.features().word(word) & bit != 0;
    let is_set = |feature| changes.features.contains(&feature) && !has(feature);
    let is_cleared = |feature| changes.features_removed.contains(&feature) && has(feature);
    let project = QuotaKind::Project as usize;
    if is_cleared(QUOTA) {
        wanted = [Some(false); QuotaKind::ALL.len()];
    }
    if is_cleared(PROJECT) {
        wanted[project] = Some(false);
    }
    if is_set(QUOTA) {
        wanted[QuotaKind::User as usize] = Some(true);
        wanted[QuotaKind::Group as usize] = Some(true);
    }
    if is_set(PROJECT) {
        wanted[project] = Some(true);
    }
    for (kind, is_counted) in &changes.quotas {
        wanted[*kind as usize] = Some(*is_counted);
    }
    wanted
}

/// Returns the inode of a kind's file, unless it is any free one.
fn fixed_inode(kind: QuotaKind) -> Option<InodeNr> {
    match kind {
        QuotaKind::User => Some(USER_QUOTA),
        QuotaKind::Group => Some(GROUP_QUOTA),
        QuotaKind::Project => None,
    }
}

fn field(superblock: &mut Superblock, kind: QuotaKind) -> &mut U32 {
    let raw = &mut superblock.raw;
    match kind {
        QuotaKind::User => &mut raw.user_quota_inode,
        QuotaKind::Group => &mut raw.group_quota_inode,
        QuotaKind::Project => &mut raw.project_quota_inode,
    }
}

/// Returns the counts of all owners, by kind.
fn count(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
) -> Result<[Counts; QuotaKind::ALL.len()]> {
    let mut counts: [Counts; QuotaKind::ALL.len()] = Default::default();
    let geometry = &superblock.geometry;
    let raw = &superblock.raw;
    let own = [
        raw.orphan_file_inode.get(),
        raw.user_quota_inode.get(),
        raw.group_quota_inode.get(),
        raw.project_quota_inode.get(),
    ];
    let has_huge_file = superblock.has_huge_file();
    let core = superblock.has_ea_inode().then(|| look(device, superblock));
    let core = core.transpose()?;
    Tables::open(device, superblock)?.visit(&mut |inode| {
        let is_own = own.contains(&inode.nr.get());
        if inode.nr != InodeNr::ROOT && (inode.nr < geometry.first_inode || is_own) {
            return Ok(ControlFlow::Continue(()));
        }
        let flags = inode.base.flags();
        let values = match &core {
            Some(_) if flags.contains(InodeFlags::ATTRIBUTE_INODE) => {
                return Ok(ControlFlow::Continue(()));
            }
            Some(core) => xattr::count_values(core, inode.nr, inode.bytes)?.cast_signed(),
            None => 0,
        };
        let owners = owners(&inode.base, &inode.bytes[BASE_SIZE..]);
        let space = inode.base.sectors(has_huge_file, geometry.block_bytes) * SECTOR;
        for (counts, owner) in counts.iter_mut().zip(owners) {
            let counted = counts.entry(owner).or_default();
            counted.space += space.cast_signed();
            counted.inodes += 1 + values;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(counts)
}

/// Returns a file with these counts.
fn tree(kind: QuotaKind, counts: &Counts) -> QuotaTree {
    let mut tree = QuotaTree::new(kind);
    for (owner, counted) in counts {
        tree.insert(*owner);
        tree.change(*owner, *counted).expect("it has an entry");
    }
    tree
}

/// Makes a file. Its inode counts for no owner.
fn make(core: &Core, kind: QuotaKind, tree: &QuotaTree) -> Result<InodeNr> {
    let block_bytes = core.block_bytes();
    let file = OwnFile {
        nr: fixed_inode(kind),
        flags: InodeFlags::IMMUTABLE,
        kind: Kind::Contents,
        size: tree.len(),
    };
    file.make(core, |index| {
        Block::copy_from(&tree.padded(index * block_bytes, block_bytes))
    })
}

/// Sets the counts of a file's entries.
fn set_counts(core: &Core, kind: QuotaKind, counts: &Counts) -> Result<()> {
    let found = quota::entries(&core.quotas, kind).unwrap_or_default();
    let former = found.iter().map(|entry| entry.id.get());
    let former = former.filter(|id| !counts.contains_key(id));
    let zero = Change::default();
    let wanted = counts.iter().map(|(id, counted)| (*id, *counted));
    let present: BTreeMap<u32, &Entry> =
        found.iter().map(|entry| (entry.id.get(), entry)).collect();
    for (id, Change { space, inodes }) in wanted.chain(former.map(|id| (id, zero))) {
        let (space, inodes) = (space.cast_unsigned(), inodes.cast_unsigned());
        let is_right = present
            .get(&id)
            .is_some_and(|entry| entry.space.get() == space && entry.inodes.get() == inodes);
        if !is_right {
            quota::edit(core, kind, id, |entry| {
                entry.space.set(space);
                entry.inodes.set(inodes);
            })?;
        }
    }
    Ok(())
}

//! Accounting of quotas: an inode's share in the counts of its owners is changed in the handle that
//! changes the inode in its table, and nowhere else.
//!
//! The share follows from the bytes of the inode: its held space, and one inode. As in Linux an
//! inode counts from its first store until its number is freed, so that one without links, which is
//! open or on the list of orphans, still counts.
//!
//! # Values of attributes in inodes of their own (`ea_inode`)
//!
//! | inode | share |
//! |---|---|
//! | one with attributes | more by an inode for each entry that names one; its space has theirs |
//! | that of a value, with the flag | none |
//! | that of a value, before its first entry and after its last one | as any other |
//!
//! Each entry counts, also if several name one value. The entries of a block count for every inode
//! that has the block. The bytes of an inode do not show those of a block, so that the step that
//! changes entries or owners says how many there are ([`Core::move_values`]).
//!
//! A value without an entry is an orphan, and Linux and e2fsck take its share from its owners when
//! they complete its deletion. Its owners are those of the inode that gets the entry, or has had
//! it: they have an entry in each quota file, since that inode counts for them.

use jbd2::Credits;
use layout::InodeNr;
use layout::inode::{Inode, InodeExtra, InodeFlags};
use zerocopy::FromBytes;

use super::Core;
use super::handle::Handle;
use crate::cache::quotas::{Contents, Owners, QuotaFile, Share};
use crate::disk::inode::{InodeState, table};
use crate::error::{Corrupt, Result};

/// Number of blocks of quota files that a step may dirty: those of the shares of four inodes, in
/// three files.
pub(crate) const CREDITS_QUOTA: u32 = 12;
/// Size of a unit of `i_blocks` in bytes.
const SECTOR: u64 = 512;
/// `i_extra_isize` of an inode that has a project.
pub(crate) const END_OF_PROJECT: usize = 32;

impl Core {
    /// Returns the number of blocks that each handle needs for quotas.
    pub(crate) fn quota_credits(&self) -> u32 {
        match self.quotas.files.is_empty() {
            true => 0,
            false => CREDITS_QUOTA,
        }
    }

    /// Returns the credits of a step with those for quotas.
    pub(super) fn with_quota(&self, credits: Credits) -> Credits {
        Credits {
            blocks: credits.blocks + self.quota_credits(),
            ..credits
        }
    }

    /// Returns the largest number of blocks that a step may ask for; none without a journal.
    pub(crate) fn max_credits(&self) -> Option<u32> {
        let most = self.journal.as_ref()?.max_credits();
        Some(most.saturating_sub(self.quota_credits()))
    }

    /// Returns the share of an inode of the table in the counts of its owners; none for an inode of
    /// the volume's own, and on a volume without quotas.
    pub(super) fn share_of(&self, nr: InodeNr, bytes: &[u8]) -> Option<Share> {
        if self.quotas.files.is_empty() || !self.is_counted(nr) {
            return None;
        }
        let (base, extra) = Inode::ref_from_prefix(bytes).ok()?;
        if self.is_of_value(base) {
            return None;
        }
        let (has_huge_file, block_bytes) =
            (self.superblock.has_huge_file(), self.geometry().block_bytes);
        Some(Share {
            owners: owners(base, extra),
            space: base.sectors(has_huge_file, block_bytes) * SECTOR,
            inodes: u64::from(
                base.links_count.get() > 0 || !rt::mutant!("quota/orphan-not-counted"),
            ),
        })
    }

    /// Takes an inode, which is freed next, out of the counts of its owners: what the table says of
    /// it.
    pub(crate) fn release_share(&self, handle: &mut Handle<'_>, nr: InodeNr) -> Result<()> {
        if self.quotas.files.is_empty() || rt::mutant!("quota/freed-inode-kept") {
            return Ok(());
        }
        let (table, offset) = self.table_of(nr)?;
        let end = offset + usize::from(self.geometry().inode_bytes);
        let share = self.share_of(nr, &table.read()[offset..end]);
        self.charge(handle, share.as_ref(), None)
    }

    /// Returns true if an inode has room for a project once it is stored.
    pub(crate) fn has_room_for_project(&self, nr: InodeNr, state: &InodeState) -> Result<bool> {
        let (buffer, offset) = self.table_of(nr)?;
        let end = offset + usize::from(self.geometry().inode_bytes);
        let bytes = buffer.read();
        Ok(table::grown_extra_size(&bytes[offset..end], state) >= END_OF_PROJECT)
    }

    /// Returns true if an inode is that of a value, which an entry names.
    fn is_of_value(&self, base: &Inode) -> bool {
        base.flags().contains(InodeFlags::ATTRIBUTE_INODE)
            && self.superblock.has_ea_inode()
            && !rt::mutant!("quota/value-counted-twice")
    }

    /// Returns true if the owners of an inode count its values.
    pub(crate) fn counts_values(&self) -> bool {
        self.superblock.has_ea_inode() && !self.quotas.files.is_empty()
    }

    /// Changes the number of values that owners count for an inode, or those owners.
    pub(crate) fn move_values(
        &self,
        handle: &mut Handle<'_>,
        (old, before): (Owners, u64),
        (new, after): (Owners, u64),
    ) -> Result<()> {
        if !self.counts_values() || rt::mutant!("quota/values-not-counted") {
            return Ok(());
        }
        let share = |owners, inodes| Share {
            owners,
            space: 0,
            inodes,
        };
        self.charge(handle, Some(&share(old, before)), Some(&share(new, after)))
    }

    /// Returns true if quotas count an inode: not those of the volume's own.
    fn is_counted(&self, nr: InodeNr) -> bool {
        let is_own = Some(nr) == self.superblock.orphan_file()
            || self.quotas.files.iter().any(|file| file.inode == nr);
        nr == InodeNr::ROOT || nr >= self.geometry().first_inode && !is_own
    }

    /// Changes the counts of the owners of an inode whose share has changed. Counts that were wrong
    /// before are noted as damage, and nothing fails: a checker counts anew.
    pub(super) fn charge(
        &self,
        handle: &mut Handle<'_>,
        old: Option<&Share>,
        new: Option<&Share>,
    ) -> Result<()> {
        if old == new {
            return Ok(());
        }
        for file in &self.quotas.files {
            // Held until the blocks are stored: another handle would store them, too.
            let mut contents = file.contents.lock();
            for (owner, change) in Share::changes(old, new, file.kind) {
                if let Err(why) = contents.tree.change(owner, change) {
                    tracing::warn!(owner, kind = file.kind.name(), "quota file: {why}");
                    let inode = file.inode;
                    self.note_damage(&Corrupt::Quota { inode, why });
                }
            }
            self.store_quota(handle, file, &mut contents)?;
        }
        Ok(())
    }

    /// Stores what was changed in a quota file. The caller has held its contents since the change.
    pub(crate) fn store_quota(
        &self,
        handle: &mut Handle<'_>,
        file: &QuotaFile,
        contents: &mut Contents,
    ) -> Result<()> {
        let block_bytes = self.block_bytes();
        let mut changed: Vec<usize> = contents.tree.take_changed();
        changed.iter_mut().for_each(|offset| *offset /= block_bytes);
        changed.dedup();
        for index in changed {
            let bytes = contents.tree.padded(index * block_bytes, block_bytes);
            let buffer = match self.buffers.peek(contents.blocks[index]) {
                Some(buffer) => buffer,
                // All of its bytes are known.
                None => self.buffers.get_new(contents.blocks[index], file.label),
            };
            if rt::mutant!("quota/counts-in-another-step") {
                handle.tear(self.with_quota(Credits::default()))?;
            }
            handle.write(&buffer)?.copy_from_slice(&bytes);
        }
        Ok(())
    }
}

/// Returns the owners of an inode.
pub(crate) fn owners(base: &Inode, extra: &[u8]) -> Owners {
    let has_project = table::extra_size(extra) >= END_OF_PROJECT;
    let extra = InodeExtra::ref_from_prefix(extra).ok();
    let project = extra.filter(|_| has_project);
    let project = project.map_or(0, |(extra, _)| extra.project.get());
    [base.uid(), base.gid(), project]
}

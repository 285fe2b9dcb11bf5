//! A change of an inode's attributes: decided while nothing has changed yet, with its blocks read,
//! then made within a transaction.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::attribute::MAGIC;
use layout::feature::Compatible;
use layout::inode::BASE_SIZE;
use layout::superblock::GOOD_OLD_REVISION;
use layout::{BlockNr, InodeNr};

use super::block::{self, Counts};
use super::name::AttributeName;
use super::placement::{Placed, Room, place_within, write_within};
use super::set::{AttributeSet, Reference, Value};
use super::values::{self, Found, Owner, Stored};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::quotas::Owners;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::{self, fits_sectors};
use crate::error::{Corrupt, Error, Result};

/// Number of blocks that a change may dirty besides the inode: an allocated and a released block
/// with their bitmaps and descriptors, and the superblock.
const CREDITS: u32 = 2 * CREDITS_PER_GROUP + 3;

/// A decided change. It holds the blocks that it needs in memory. [`Change::end`] ends it.
pub(crate) struct Change {
    /// The new attributes within the inode, if they change.
    inode: Option<AttributeSet>,
    /// The new attributes of the block, if they change.
    block: Option<AttributeSet>,
    /// True if the superblock does not have the feature yet.
    is_first: bool,
    /// The inodes of values that the change may count.
    found: BTreeMap<InodeNr, Found>,
    /// The new values.
    stored: Vec<Stored>,
    /// References that the part within the inode gains and loses.
    gained: Vec<InodeNr>,
    lost: Vec<InodeNr>,
    /// Difference of the sectors of the values.
    sectors: i64,
    /// The owners of the inode before the change, and its number of values before and after.
    owners: Owners,
    values: [u64; 2],
    /// True if a handle has made the change, and has not undone it.
    is_made: Cell<bool>,
    _held: Vec<Arc<Buffer>>,
}

/// The treatment of an entry that a change removes and that names no good inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The change is refused.
    Refused,
    /// The entry is removed, and nothing is counted.
    Removed,
}

/// Returns the attributes of an inode, and the room for them.
pub(super) fn read(core: &Core, nr: InodeNr, state: &InodeState) -> Result<(Placed, Room)> {
    let has_ea_inode = core.superblock.has_ea_inode();
    let mut placed = Placed::default();
    let mut room = Room::of(&core.superblock, 0);
    if usize::from(core.geometry().inode_bytes) > BASE_SIZE {
        let (buffer, offset) = core.hold_table_of(nr)?;
        let bytes = buffer.read();
        let inode = &bytes[offset..offset + usize::from(core.geometry().inode_bytes)];
        let extra = crate::disk::inode::extra_size(inode);
        // The part may grow when the inode is stored, before its attributes are written.
        let later = table::grown_extra_size(inode, state);
        room = Room::of(&core.superblock, later);
        if let Some((MAGIC, place)) = place_within(inode, extra) {
            let corrupt = |why| core.damaged(Corrupt::Attributes { inode: nr, why });
            placed.inode = AttributeSet::decode(place, 0, has_ea_inode).map_err(corrupt)?;
        }
    }
    if state.attribute_block != BlockNr::new(0) {
        placed.block = block::read(core, nr, state.attribute_block)?;
    }
    Ok((placed, room))
}

/// The changes of an inode's references, by entry.
struct References {
    /// The entries whose inodes may be counted.
    counted: Vec<(AttributeName, Reference)>,
    /// Difference of the sectors of the values.
    sectors: i64,
}

impl Change {
    /// Prepares the change from the old to the new attributes, and stores new values in inodes of
    /// their own. The caller has no open handle.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] if the block count of a damaged inode has no room for a block.
    /// - [`Error::NoSpace`] and [`Error::NoInodes`] for a new value; also if the log is too short
    ///   for all references that change.
    pub(super) fn new(
        core: &Core,
        nr: InodeNr,
        state: &InodeState,
        old: &Placed,
        new: Placed,
    ) -> Result<Self> {
        Self::prepare(
            core,
            Owner::new(nr, state),
            state,
            (old, new),
            Broken::Refused,
        )
    }

    /// Prepares a change as [`new`](Self::new) does, for the owner of new values.
    pub(super) fn prepare(
        core: &Core,
        owner: Owner,
        state: &InodeState,
        (old, new): (&Placed, Placed),
        broken: Broken,
    ) -> Result<Self> {
        let raw = core.superblock_now()?;
        let has_features = raw.revision.get() != GOOD_OLD_REVISION;
        if !has_features {
            let text = "an original-revision file system has no attributes; tune2fs -O ext_attr gives it features";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let values = [old.value_count(), new.value_count()];
        let mut change = Self {
            inode: (old.inode != new.inode).then_some(new.inode),
            block: (old.block != new.block).then_some(new.block),
            is_first: !raw.features().compatible.contains(Compatible::EXT_ATTR),
            found: BTreeMap::new(),
            stored: Vec::new(),
            gained: Vec::new(),
            lost: Vec::new(),
            sectors: 0,
            owners: owner.owners,
            values,
            is_made: Cell::new(false),
            _held: Vec::new(),
        };
        if core.superblock.has_ea_inode() {
            change.find_values(core, owner, state, old, broken)?;
        }
        let has_new_block = change.block.is_some() && state.attribute_block == BlockNr::new(0);
        let more = i64::from(has_new_block) * core.sectors_per_cluster() as i64 + change.sectors;
        let sectors = state.sectors.saturating_add_signed(more);
        if more > 0 && !fits_sectors(&core.superblock, sectors) {
            return Err(Error::FileTooLarge);
        }
        let ready = change.store_values(core, owner).and_then(|()| {
            if let Some(set) = &change.block {
                change._held = block::hold(core, owner.nr, state.attribute_block, set)?;
            }
            change.check_room(core)
        });
        if let Err(error) = ready {
            change.end(core);
            return Err(error);
        }
        if let Some(set) = &change.inode {
            change.gained = values::more(set, &old.inode);
            change.lost = values::more(&old.inode, set);
        }
        Ok(change)
    }

    /// Finds the inodes of the values that the change may count, and the difference of sectors.
    fn find_values(
        &mut self,
        core: &Core,
        owner: Owner,
        state: &InodeState,
        old: &Placed,
        broken: Broken,
    ) -> Result<()> {
        let is_shared = self.block.is_some()
            && state.attribute_block != BlockNr::new(0)
            && block::count(core, owner.nr, state.attribute_block)? > 1;
        let References { counted, sectors } = self.references(core, old, is_shared);
        self.sectors = sectors;
        for (name, reference) in counted {
            let found = match values::find(core, owner, &name, &reference) {
                Ok(found) => found,
                Err(Error::Corrupt(_)) if broken == Broken::Removed => continue,
                Err(error) => return Err(error),
            };
            if !found.is_of_lustre() {
                self.found.insert(reference.inode, found);
                continue;
            }
            // Its sectors were never counted, and it goes with the last entry of the owner only.
            let after = [(&self.inode, &old.inode), (&self.block, &old.block)];
            let stays = after.iter().any(|(new, old)| {
                let set = new.as_ref().unwrap_or(old);
                values::numbers(set).any(|nr| nr == reference.inode)
            });
            if !stays {
                self.sectors += sectors_of(core, reference.size);
                self.found.insert(reference.inode, found);
            }
        }
        Ok(())
    }

    /// Returns the entries that may change references: those that differ in one of the places, and
    /// all of a block that other inodes have, too, because it is copied.
    fn references(&self, core: &Core, old: &Placed, is_shared: bool) -> References {
        let mut counted = Vec::new();
        let mut sectors = 0;
        for (new, old) in [(&self.inode, &old.inode), (&self.block, &old.block)] {
            let Some(new) = new else {
                continue;
            };
            let (gained, lost) = (values::more(new, old), values::more(old, new));
            let is_copied = is_shared && self.block.as_ref().is_some_and(|set| set == new);
            let entries = old.references().chain(new.references());
            let differing = entries.filter(|(_, reference)| {
                let nr = reference.inode;
                is_copied || gained.contains(&nr) || lost.contains(&nr)
            });
            counted.extend(differing.map(|(name, reference)| (name.clone(), *reference)));
            let total = |set: &AttributeSet| -> i64 {
                let sizes = set.sizes_of_values();
                sizes.map(|size| sectors_of(core, size)).sum()
            };
            sectors += total(new) - total(old);
        }
        References { counted, sectors }
    }

    /// Stores the new values.
    fn store_values(&mut self, core: &Core, owner: Owner) -> Result<()> {
        for set in [&mut self.inode, &mut self.block].into_iter().flatten() {
            for attribute in set.attributes_mut() {
                let Value::New(bytes) = &attribute.value else {
                    continue;
                };
                let stored = values::store(core, owner, &attribute.name, bytes)?;
                attribute.value = Value::Inode(stored.reference);
                self.stored.push(stored);
            }
        }
        Ok(())
    }

    /// Checks that the log has room for the change.
    fn check_room(&self, core: &Core) -> Result<()> {
        match core.max_credits() {
            Some(most) if self.counted() > 0 => {
                let blocks = self.credits().blocks + 1;
                (blocks <= most).then_some(()).ok_or(Error::NoSpace)
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of inodes of values that the change may count.
    fn counted(&self) -> u32 {
        (self.found.len() + self.stored.len()) as u32
    }

    /// Returns the credits for blocks besides the inode.
    pub(crate) fn credits(&self) -> Credits {
        Credits {
            blocks: CREDITS + self.credits_for_values(),
            revokes: 1,
        }
    }

    /// Returns the credits for the references to values.
    pub(crate) fn credits_for_values(&self) -> u32 {
        values::credits_of_values(self.counted())
    }

    /// Makes the first half of the change: allocates and releases blocks, and counts references.
    /// The caller stores the inode next.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if no block is left: nothing has changed then.
    pub(crate) fn change_blocks(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        state: &mut InodeState,
    ) -> Result<()> {
        let mut counts = Counting::new(self, state.owners());
        if let Some(set) = &self.block {
            block::change(core, handle, nr, state, (set, &mut counts))?;
        }
        self.is_made.set(true);
        let [before, after] = self.values;
        core.move_values(handle, (self.owners, before), (state.owners(), after))?;
        counts.raise(core, handle, &self.gained)?;
        counts.drop_later(&mut self.lost.iter().copied());
        if rt::mutant!("attributes/references-in-another-step") && self.counted() > 0 {
            handle.tear(self.credits())?;
        }
        counts.finish(core, handle)?;
        self.add_sectors(handle, state, self.sectors);
        if self.is_first {
            core.with_superblock(handle, |raw| {
                let features = raw.features().compatible | Compatible::EXT_ATTR;
                raw.compatible_bits.set(features.bits());
            })?;
        }
        Ok(())
    }

    fn add_sectors(&self, handle: &mut Handle<'_>, state: &mut InodeState, more: i64) {
        if more != 0 && !rt::mutant!("attributes/sectors-of-values-not-counted") {
            let claims = state.claims(handle);
            claims.sectors = claims.sectors.saturating_add_signed(more);
        }
    }

    /// Undoes the change of a new inode, which had no attributes before, in the handle that has
    /// made it. The caller frees the inode.
    pub(crate) fn undo(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
        state: &mut InodeState,
    ) -> Result<()> {
        let owners = state.owners();
        let mut counts = Counting::new(self, owners);
        block::release_counted(core, handle, nr, state, &mut counts)?;
        if !self.is_made.replace(false) {
            return Ok(());
        }
        let [before, after] = self.values;
        core.move_values(handle, (owners, after), (owners, before))?;
        counts.drop_later(&mut self.gained.iter().copied());
        counts.finish(core, handle)?;
        self.add_sectors(handle, state, -self.sectors);
        Ok(())
    }

    /// Ends the change: values that no entry names are left to be deleted.
    pub(crate) fn end(&self, core: &Core) {
        for stored in &self.stored {
            stored.end(core, self.is_made.get());
        }
    }

    /// Makes the second half of the change: writes the attributes within the stored inode.
    pub(crate) fn change_inode(
        &self,
        core: &Core,
        handle: &mut Handle<'_>,
        nr: InodeNr,
    ) -> Result<()> {
        let Some(set) = &self.inode else {
            return Ok(());
        };
        let (buffer, _) = core.table_of(nr)?;
        core.change_in_table(handle, nr, &buffer, |inode| write_within(inode, set))
    }
}

/// The references that a change counts in a handle.
struct Counting<'c> {
    change: &'c Change,
    /// The owners of the inode.
    owners: Owners,
    dropped: Vec<InodeNr>,
}

impl<'c> Counting<'c> {
    fn new(change: &'c Change, owners: Owners) -> Self {
        Self {
            change,
            owners,
            dropped: Vec::new(),
        }
    }

    /// Drops the noted references.
    fn finish(self, core: &Core, handle: &mut Handle<'_>) -> Result<()> {
        if self.dropped.is_empty() {
            return Ok(());
        }
        let Change { found, stored, .. } = self.change;
        let (counted, owners) = ((found, stored.as_slice()), self.owners);
        values::lower(core, handle, counted, &self.dropped, owners)
    }
}

impl Counts for Counting<'_> {
    fn raise(&mut self, core: &Core, handle: &mut Handle<'_>, inodes: &[InodeNr]) -> Result<()> {
        if inodes.is_empty() {
            return Ok(());
        }
        let Change { found, stored, .. } = self.change;
        values::raise(core, handle, (found, stored), inodes)
    }

    fn drop_later(&mut self, inodes: &mut dyn Iterator<Item = InodeNr>) {
        self.dropped.extend(inodes);
    }
}

/// Returns the sectors that an inode counts for a value in an inode of its own.
pub(super) fn sectors_of(core: &Core, size: u32) -> i64 {
    let geometry = core.geometry();
    let clusters = size.div_ceil(geometry.block_bytes << geometry.cluster_log);
    i64::from(clusters) * core.sectors_per_cluster() as i64
}

//! The changes of the running transaction as tags of a fast commit.
//!
//! ```text
//! inode, create        for each new file, in the order of all names
//! link, unlink
//! ranges, inode        for each file with changes: what was mapped, what is a hole, the fields
//! ```
//!
//! Tags are written from the blocks in memory, not from the inodes: no handle is open, so that the
//! blocks have whole steps, and a thread that holds an inode's lock may wait for the commit.
//!
//! # What tags do not describe
//!
//! The transaction is then committed as a whole.
//!
//! | change | reason |
//! |---|---|
//! | directories made, removed or moved | replaying does not count their links in Linux |
//! | directories that get or lose blocks | replaying does not count their blocks in Linux |
//! | names in linear directories that are replaced, or made and removed | see below |
//! | names for which a block of a directory is compacted | replaying splits the block in Linux |
//! | modes, owners and times of directories; whiteouts, exchanged names | there is no tag |
//! | symbolic links, devices, fifos, sockets made or changed | Linux does not take their contents |
//! | files without extents, with journaled data or with encryption | Linux does not replay them |
//! | files whose extent trees have more nodes than a quarter of the log | a replay may write all |
//! | extended attributes | their blocks are shared |
//! | inodes that leave the orphan list of an earlier transaction | the list runs through them |
//! | anything else that is not tracked, a resize for example | there is no tag |
//!
//! A replay adds names in the order of their tags. In a linear directory a name goes to the first
//! place with room. So a replay puts each name where it was, unless it removes and adds a name that
//! kept its place, or lacks one that steered others. Other directories compact a block in which the
//! names fit in sum, wherever they were. Either way a replay needs no block that was not needed
//! before. Linux compacts no block: on a full volume its replay may lack one.
//!
//! Each step says if tags describe it (`Handle::describe`). Without that, its transaction is
//! committed as a whole.

use std::collections::{BTreeMap, BTreeSet};

use layout::extent::{Extent, count_max};
use layout::fast_commit::{AddRange, DelRange, EntryHeader, InodeHeader, TagType, encode};
use layout::inode::Inode as Base;
use layout::inode_flags::InodeFlags;
use layout::mode::FileType;
use layout::{FileBlock, InodeNr, Tid};
use zerocopy::{FromBytes, IntoBytes};

use crate::cache::fast_changes::{ChangedName, Collected, NameChange};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::map::{FileMap, Mapped};

/// Largest length of the tags of a fast commit in bytes: that of an area of the default length,
/// with the largest blocks.
const BYTES_MAX: usize = 256 * 4096;

/// The reason why tags do not describe a change.
type Refusal = &'static str;

/// Returns the changes of the running transaction since the last call as tags; none if tags cannot
/// describe them. No handle is open.
pub(super) fn describe(core: &Core, tid: Tid) -> Option<Vec<u8>> {
    let changes = core.fast_changes.as_ref()?;
    let described = changes
        .take(tid)
        .and_then(|collected| Description::of(core, &collected));
    match described {
        Ok(description) => Some(description.tags),
        Err(why) => {
            tracing::debug!(%tid, why, "no fast commit");
            None
        }
    }
}

/// Tags in progress.
struct Description<'c> {
    core: &'c Core,
    tags: Vec<u8>,
}

impl<'c> Description<'c> {
    fn of(core: &'c Core, collected: &Collected) -> Result<Self, Refusal> {
        let mut description = Self {
            core,
            tags: Vec::new(),
        };
        let mut files = BTreeMap::new();
        for (nr, changed) in &collected.inodes {
            let kind = description.kind_of(*nr)?;
            if kind == Some(FileKind::Directory) && changed.blocks.is_some() {
                return Err("a directory has other blocks");
            }
            if let Some(bytes) = description.file(*nr, kind, &collected.unlisted)? {
                files.insert(*nr, bytes);
            }
        }
        let mut is_written = BTreeSet::new();
        for name in in_order(&collected.names) {
            if collected.unlisted.contains(&name.inode) {
                return Err("an orphan of an earlier transaction has other names");
            }
            if name.change == NameChange::Created {
                let bytes = files.get(&name.inode);
                description.add_inode(name.inode, bytes.ok_or("a new inode is no file")?);
                is_written.insert(name.inode);
            }
            description.add_name(name)?;
        }
        for (nr, bytes) in &files {
            let blocks = collected.inodes[nr].blocks.clone();
            if let Some(blocks) = &blocks {
                description.add_ranges(*nr, blocks.start, blocks.end)?;
            }
            if blocks.is_some() || !is_written.contains(nr) {
                description.add_inode(*nr, bytes);
            }
        }
        Ok(description)
    }

    /// Returns the bytes of an inode in its table.
    fn bytes_of(&self, nr: InodeNr) -> Result<Vec<u8>, Refusal> {
        let found = self.core.table_of(nr);
        let (table, offset) = found.map_err(|_| "an inode cannot be read")?;
        let end = offset + usize::from(self.core.geometry().inode_bytes);
        Ok(table.read()[offset..end].to_vec())
    }

    /// Returns the kind of an inode; none if it has no names.
    fn kind_of(&self, nr: InodeNr) -> Result<Option<FileKind>, Refusal> {
        let base = base_of(&self.bytes_of(nr)?);
        let kind = FileKind::from_entry_type(FileType::from_mode(base.mode.get()));
        Ok(kind.filter(|_| base.links_count.get() > 0))
    }

    /// Returns the bytes of a file that is to be described; none for an inode that needs no tags: a
    /// directory, whose changes the names imply, and an inode without names.
    fn file(
        &self,
        nr: InodeNr,
        kind: Option<FileKind>,
        unlisted: &BTreeSet<InodeNr>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let core = self.core;
        if kind.is_none_or(|kind| kind == FileKind::Directory) {
            return Ok(None);
        }
        let bytes = self.bytes_of(nr)?;
        let base = base_of(&bytes);
        if kind != Some(FileKind::Regular) || nr < core.geometry().first_inode {
            return Err("an inode that is no file has changed");
        }
        let flags = base.flags();
        let others = InodeFlags::JOURNAL_DATA
            | InodeFlags::ENCRYPT
            | InodeFlags::VERITY
            | InodeFlags::ATTRIBUTE_INODE
            | InodeFlags::INLINE_DATA;
        if !flags.contains(InodeFlags::EXTENTS) || flags.intersects(others) {
            return Err("a file has no extents, or a form that is not replayed");
        }
        if unlisted.contains(&nr) || core.orphans.lock().contains(nr) {
            return Err("a file is or was on the orphan list");
        }
        Ok(Some(bytes))
    }

    fn add(&mut self, tag_type: TagType, fields: &[u8], rest: &[u8]) -> Result<(), Refusal> {
        self.tags.extend(encode(tag_type, fields, rest));
        match self.tags.len() > BYTES_MAX {
            true => Err("the tags are too long"),
            false => Ok(()),
        }
    }

    fn add_inode(&mut self, nr: InodeNr, bytes: &[u8]) {
        let header = InodeHeader {
            inode: nr.get().into(),
        };
        let tag = encode(TagType::Inode, header.as_bytes(), bytes);
        self.tags.extend(tag);
    }

    fn add_name(&mut self, changed: &ChangedName) -> Result<(), Refusal> {
        let header = EntryHeader {
            parent: changed.parent.get().into(),
            inode: changed.inode.get().into(),
        };
        let tag_type = match changed.change {
            NameChange::Created => TagType::Create,
            NameChange::Linked => TagType::Link,
            NameChange::Unlinked => TagType::Unlink,
        };
        self.add(tag_type, header.as_bytes(), &changed.name)
    }

    /// Checks that a replay fits the log even if it changes each node of all remapped files. They
    /// may take as much as a handle may request, a quarter of the log. The other blocks that a
    /// replay changes are those of the transaction, which takes at most another quarter.
    fn check_nodes(&self, inode: &Inode, state: &InodeState) -> Result<(), Refusal> {
        let most = self.core.max_credits().map_or(0, u64::from);
        let count = FileMap::of(state).node_count_to(self.core, inode, state, most);
        let count = count.map_err(|_| "a block map cannot be read")?;
        let changes = self.core.fast_changes.as_ref();
        match changes.is_some_and(|changes| changes.note_nodes(inode.nr, count) > most) {
            true => Err("the extent trees of changed files have too many nodes"),
            false => Ok(()),
        }
    }

    /// Adds what the blocks of a file from one to another are now.
    fn add_ranges(&mut self, nr: InodeNr, from: u64, end: u64) -> Result<(), Refusal> {
        // Another one than that in the cache, which may be locked.
        let inode = Inode::load(self.core, nr).map_err(|_| "an inode cannot be read")?;
        let state = inode.state.read();
        let map = FileMap::of(&state);
        self.check_nodes(&inode, &state)?;
        let mut at = from;
        while at < end {
            let most = u32::try_from(end - at).unwrap_or(u32::MAX);
            let found = map.find(self.core, &inode, &state, FileBlock::new(at), most);
            let found = found.map_err(|_| "a block map cannot be read")?;
            let (run, is_unwritten) = match found {
                Mapped::Run(run) => (run, false),
                Mapped::Unwritten(run) => (run, true),
                Mapped::Hole(count) => {
                    let count = count.min(end - at);
                    self.add_hole(nr, at, count)?;
                    at += count;
                    continue;
                }
            };
            let count = run.count.min(count_max(is_unwritten));
            let narrow = u32::try_from(at).map_err(|_| "a range is too far behind")?;
            let range = AddRange {
                inode: nr.get().into(),
                extent: Extent::new(narrow, count, run.first.get(), is_unwritten),
            };
            self.add(TagType::AddRange, range.as_bytes(), &[])?;
            at += u64::from(count);
        }
        Ok(())
    }

    fn add_hole(&mut self, nr: InodeNr, from: u64, count: u64) -> Result<(), Refusal> {
        if rt::mutant!("fast-commit/range-not-deleted") {
            return Ok(());
        }
        let narrow = |number| u32::try_from(number).map_err(|_| "a range is too far behind");
        let range = DelRange {
            inode: nr.get().into(),
            file_block: narrow(from)?.into(),
            count: narrow(count)?.into(),
        };
        self.add(TagType::DelRange, range.as_bytes(), &[])
    }
}

/// Returns the fields of an inode.
fn base_of(bytes: &[u8]) -> Base {
    let (base, _) = Base::read_from_prefix(bytes).expect("an inode has at least its base");
    base
}

/// Returns the changes of names in the order of their tags: as they were made.
fn in_order(names: &[ChangedName]) -> Vec<&ChangedName> {
    let mut names: Vec<_> = names.iter().collect();
    if rt::mutant!("fast-commit/names-removed-last") {
        names.sort_by_key(|name| name.change == NameChange::Unlinked);
    }
    names
}

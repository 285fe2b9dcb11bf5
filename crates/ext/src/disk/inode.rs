//! A decoded inode: its fields in the inode table, and the marks that an open volume keeps with
//! them.
//!
//! [`table`] converts the bytes of the table into an [`InodeState`] and back. Parts of an inode
//! beyond the fields known here (extended attributes in its tail, the version word) stay as they
//! are in the table.

mod growth;
pub(crate) mod table;

use core::ops::Deref;

use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use layout::{BlockNr, Tid};

use super::kind::FileKind;
use super::words::Words;
use crate::error::{Error, Result};

/// The decoded inode.
#[derive(Debug, Clone)]
pub(crate) struct InodeState {
    /// File type.
    pub(crate) kind: FileKind,
    /// Permission bits, set-id and sticky: the lower 12 bits of the mode.
    pub(crate) permissions: u16,
    /// Owning user.
    pub(crate) uid: u32,
    /// Owning group.
    pub(crate) gid: u32,
    /// Size in bytes. An operation stores it in the handle that changes it, so that the size that
    /// readers see under the lock is that of the inode table, unless `size_on_disk` says otherwise.
    pub(crate) size: u64,
    /// The size that the inode table has instead, while pages from there on have no block: the size
    /// never covers data that the block map lacks. None if it is `size`.
    pub(crate) size_on_disk: Option<u64>,
    /// The fields that must agree with other blocks of the volume.
    // Invariant: changed through [`InodeState::claims`] only, so that a handle cannot finish
    // successfully before they are stored.
    claims: Claims,
    /// Inode flags (`layout::inode_flags::InodeFlags`).
    pub(crate) flags: InodeFlags,
    /// Generation, for NFS.
    pub(crate) generation: u32,
    /// Project; 0 without the feature, and in an inode without room for it.
    pub(crate) project: u32,
    /// Time of the last access.
    pub(crate) atime: InodeTime,
    /// Time of the last change of contents.
    pub(crate) mtime: InodeTime,
    /// Time of the last change of the inode.
    pub(crate) ctime: InodeTime,
    /// Time of birth, if the inode has room for it.
    pub(crate) crtime: Option<InodeTime>,
    /// Deletion time in seconds. While the inode is on the orphan list, the table holds the next
    /// orphan in its place.
    pub(crate) dtime: u32,
    /// The last transaction that changed the inode in any way: fsync waits for it.
    pub(crate) last_tid: Option<Tid>,
    /// The last transaction that changed anything needed to read the data back: fdatasync waits for
    /// it.
    pub(crate) data_tid: Option<Tid>,
    /// True if blocks of the file have moved, and `last_tid` is not known to be durable. They are
    /// not written in place then: after a power cut they are where they were.
    pub(crate) has_moved: bool,
    /// True if the inode is on the orphan list.
    pub(crate) is_orphan: bool,
    /// True if blocks beyond the end are still to be freed because a device failed during a
    /// truncation.
    pub(crate) is_cut: bool,
    /// True if the file was truncated to nothing, so that its new contents get their blocks when it
    /// is closed (`auto_da_alloc`).
    pub(crate) is_replaced: bool,
    /// True if the inode has never been stored: the first store clears the whole inode.
    pub(crate) is_fresh: bool,
}

/// The fields of an inode that must agree with bitmaps, directory entries and other blocks: its
/// blocks and its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Link count.
    pub(crate) links: u16,
    /// Number of blocks owned, in units of 512 bytes, including indirect and attribute blocks.
    pub(crate) sectors: u64,
    /// The 15 words: the block map, the target of a fast symbolic link, or a device number.
    pub(crate) words: Words,
    /// The attribute block, or 0.
    pub(crate) attribute_block: BlockNr,
    /// True from a change until the inode is stored or discarded.
    is_unstored: bool,
}

/// Claims are read like fields of the state. There is no `DerefMut`: see [`InodeState::claims`].
impl Deref for InodeState {
    type Target = Claims;

    fn deref(&self) -> &Claims {
        &self.claims
    }
}

/// The number of inodes whose claims a handle has changed and not stored.
#[derive(Debug, Default)]
pub(crate) struct Unstored {
    inodes: u32,
}

impl Unstored {
    /// Returns the number of inodes.
    pub(crate) fn count(&self) -> u32 {
        self.inodes
    }

    fn note(&mut self) {
        self.inodes += 1;
    }

    fn settle(&mut self) {
        self.inodes = self.inodes.saturating_sub(1);
    }
}

impl Claims {
    /// Creates the claims of an inode without blocks.
    pub(crate) fn new(links: u16) -> Self {
        Self {
            links,
            sectors: 0,
            words: Words::default(),
            attribute_block: BlockNr::new(0),
            is_unstored: false,
        }
    }
}

impl InodeState {
    /// Creates the state of a new inode: times now, no blocks, one link.
    pub(crate) fn fresh(
        kind: FileKind,
        permissions: u16,
        uid: u32,
        gid: u32,
        generation: u32,
    ) -> Self {
        let now = now();
        Self {
            kind,
            permissions,
            uid,
            gid,
            size: 0,
            size_on_disk: None,
            claims: Claims::new(1),
            flags: InodeFlags::empty(),
            generation,
            project: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: Some(now),
            dtime: 0,
            last_tid: None,
            data_tid: None,
            has_moved: false,
            is_orphan: false,
            is_cut: false,
            is_replaced: false,
            is_fresh: true,
        }
    }

    /// Returns the user, the group and the project.
    pub(crate) fn owners(&self) -> [u32; 3] {
        [self.uid, self.gid, self.project]
    }

    /// Returns the size that is stored in the inode table.
    pub(crate) fn stored_size(&self) -> u64 {
        self.size_on_disk
            .map_or(self.size, |size| size.min(self.size))
    }

    /// Returns a new inode without links, which no handle has to store.
    pub(crate) fn without_links(mut self) -> Self {
        assert!(self.is_fresh, "the links of other inodes are claims");
        self.claims = Claims::new(0);
        self
    }

    /// Returns true if the contents lie within the inode (`inline_data`): in the words, and behind
    /// them in an attribute.
    pub(crate) fn is_inline(&self) -> bool {
        self.flags.contains(InodeFlags::INLINE_DATA)
    }

    /// Keeps the contents of a new inode within it. The caller stores the attribute for them.
    pub(crate) fn use_inline(&mut self) {
        assert!(self.is_fresh, "only a new inode has no contents elsewhere");
        self.flags |= InodeFlags::INLINE_DATA;
    }

    /// Gives an inode with contents within it an empty block map in their place. Returns the words
    /// and flags that it had. A directory has no index then, whatever it said.
    pub(crate) fn leave_inline(
        &mut self,
        step: &mut impl AsMut<Unstored>,
        has_extents: bool,
    ) -> (Words, InodeFlags) {
        assert!(self.is_inline(), "others have a block map");
        let flags = self.flags;
        let words = match has_extents {
            true => Words::empty_tree(),
            false => Words::default(),
        };
        self.flags
            .remove(InodeFlags::INLINE_DATA | InodeFlags::INDEX);
        self.flags.set(InodeFlags::EXTENTS, has_extents);
        let words = core::mem::replace(&mut self.claims(step).words, words);
        (words, flags)
    }

    /// Undoes [`leave_inline`](Self::leave_inline) before the inode is stored.
    pub(crate) fn return_inline(
        &mut self,
        step: &mut impl AsMut<Unstored>,
        (words, flags): (Words, InodeFlags),
    ) {
        self.flags = flags;
        self.claims(step).words = words;
        self.discard(step);
    }

    /// Maps a new inode, which has no blocks, by an extent tree.
    pub(crate) fn use_extents(&mut self) {
        assert!(self.is_fresh, "only a new inode has no blocks");
        self.flags |= InodeFlags::EXTENTS;
        self.claims.words = Words::empty_tree();
    }

    /// Forgets the block map of an inode that is deleted: all of its blocks are free. A number that
    /// is used again for a device or a short link must not look like an extent tree, nor as if it
    /// held contents.
    pub(crate) fn forget_map(&mut self, step: &mut impl AsMut<Unstored>) {
        let forms = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
        if self.flags.intersects(forms) {
            self.flags.remove(forms);
            self.claims(step).words = Words::default();
        }
    }

    /// Checks that the inode has not been deleted. An inode that the caller knows by number only
    /// may have been deleted, and its number reused.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if the inode has been deleted.
    pub(crate) fn check_exists(&self) -> Result<()> {
        if self.links == 0 && !self.is_orphan && !rt::mutant!("inode/changed-when-dead") {
            return Err(Error::NotFound);
        }
        Ok(())
    }

    /// Returns the claims to change them within a handle. The handle cannot finish successfully
    /// before [`InodeState::store`] has written them or [`InodeState::discard`] has dropped them:
    /// it aborts the journal instead.
    pub(crate) fn claims(&mut self, step: &mut impl AsMut<Unstored>) -> &mut Claims {
        if !self.claims.is_unstored {
            self.claims.is_unstored = true;
            step.as_mut().note();
        }
        &mut self.claims
    }

    /// Returns true if the claims are those of the inode table, or of a handle that has stored
    /// them.
    pub(crate) fn is_stored(&self) -> bool {
        !self.claims.is_unstored
    }

    /// Drops unstored claims: the inode is freed in the same handle, or the changes were undone.
    pub(crate) fn discard(&mut self, step: &mut impl AsMut<Unstored>) {
        if self.claims.is_unstored {
            self.claims.is_unstored = false;
            step.as_mut().settle();
        }
    }
}

/// Returns the size in bytes of the extra part of an inode of the table; 0 if there is none.
pub(crate) fn extra_size(inode: &[u8]) -> usize {
    table::extra_size(&inode[layout::inode::BASE_SIZE..])
}

/// Returns the current time in the form of inodes.
pub(crate) fn now() -> InodeTime {
    let wall = rt::wall();
    InodeTime::new(wall.seconds, wall.nanos)
}

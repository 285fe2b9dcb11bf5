//! An inode in memory: its decoded state under one lock, its pages, and its way to and from the inode table.
//!
//! [`table`] turns the bytes of the table into an [`InodeState`] and back. What an inode has beyond the fields known here
//! (extended attributes in its tail, the version word) is left as it lies in the table.
//!
//! # Rules
//!
//! - Whoever changes a state holds the inode lock exclusively and stores the state within the same transaction. For the
//!   [`Claims`] the handle enforces it.
//! - `i_dtime` of an inode on the orphan list belongs to the list ([`crate::orphan`]): storing leaves it alone.

mod table;

use std::ops::Deref;

use layout::inode_flags::InodeFlags;
use layout::mode::FileType;
use layout::time::InodeTime;
use layout::{BlockNr, InodeNr, Tid};
use rt::atomic::AtomicU32;
use rt::{Mutex, RwLock};

use crate::alloc::Window;
use crate::core::Core;
use crate::error::{Corrupt, Error, Result};
use crate::file::FilePages;
use crate::handle::Transaction;
use crate::map::MapCache;
use crate::options::DataMode;

/// What kind of thing an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// The type bits of `i_mode`.
    pub const fn mode(self) -> u16 {
        self.entry_type().mode()
    }

    /// The type as directory entries and modes tell it.
    pub const fn entry_type(self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Symlink => FileType::Symlink,
            Self::CharacterDevice => FileType::CharacterDevice,
            Self::BlockDevice => FileType::BlockDevice,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
        }
    }

    /// From the type in an entry or a mode; none if it is unknown.
    pub const fn from_entry_type(kind: FileType) -> Option<Self> {
        match kind {
            FileType::Regular => Some(Self::Regular),
            FileType::Directory => Some(Self::Directory),
            FileType::Symlink => Some(Self::Symlink),
            FileType::CharacterDevice => Some(Self::CharacterDevice),
            FileType::BlockDevice => Some(Self::BlockDevice),
            FileType::Fifo => Some(Self::Fifo),
            FileType::Socket => Some(Self::Socket),
            FileType::Unknown => None,
        }
    }
}

/// An inode in memory.
pub(crate) struct Inode {
    /// Its number.
    pub(crate) nr: InodeNr,
    /// Its kind, which never changes, so that the order of locks can depend on it ([`crate::namei`]).
    pub(crate) kind: FileKind,
    /// All that the inode table says. Readers of contents hold it shared, changers exclusively. // [inode]
    pub(crate) state: RwLock<InodeState>,
    /// The pages of a regular file. // [folio] leaf
    pub(crate) pages: FilePages,
    /// The reservation window. // leaf
    pub(crate) window: Mutex<Window>,
    /// Where the last look-up in the map ended. // leaf
    pub(crate) map: Mutex<MapCache>,
    /// How often it is held: by open files, and by look-ups that have not been forgotten.
    pub(crate) pins: AtomicU32,
    /// Of a linear directory: its names in memory. // leaf
    pub(crate) names_index: Mutex<crate::dir::NamesIndex>,
}

/// Where an inode's lock stands in the order that [`crate::namei`] describes: directories first, among which the tree decides,
/// then all others by number.
fn rank(kind: FileKind, nr: InodeNr) -> u64 {
    if kind == FileKind::Directory {
        1
    } else {
        2 + u64::from(nr.get())
    }
}

/// The decoded inode.
#[derive(Debug, Clone)]
pub(crate) struct InodeState {
    /// Kind.
    pub(crate) kind: FileKind,
    /// Permission bits, set-id and sticky: the lower 12 bits of the mode.
    pub(crate) permissions: u16,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Size in bytes.
    pub(crate) size: u64,
    /// The fields that must agree with other blocks of the volume.
    // Invariant: changed through [`InodeState::claims`] only, so that a handle cannot end as good before they are stored.
    claims: Claims,
    /// Inode flags (`layout::inode_flags::InodeFlags`).
    pub(crate) flags: InodeFlags,
    /// Generation, for NFS.
    pub(crate) generation: u32,
    /// Times.
    pub(crate) atime: InodeTime,
    /// Last change of contents.
    pub(crate) mtime: InodeTime,
    /// Last change of the inode.
    pub(crate) ctime: InodeTime,
    /// Birth, where the inode has room.
    pub(crate) crtime: Option<InodeTime>,
    /// Deletion time in seconds. While the inode is on the orphan list, the table has the next orphan in its place.
    pub(crate) dtime: u32,
    /// The last transaction that changed the inode in any way: fsync waits for it.
    pub(crate) last_tid: Option<Tid>,
    /// The last transaction that changed what is needed to read the data back: fdatasync waits for it.
    pub(crate) data_tid: Option<Tid>,
    /// Whether it is on the orphan list.
    pub(crate) is_orphan: bool,
    /// Whether blocks behind the end are still to be freed, since a device has failed in between.
    pub(crate) is_cut: bool,
    /// Whether it has never been stored: the first store clears the whole inode.
    pub(crate) is_fresh: bool,
}

/// The fields of an inode that must agree with bitmaps, directory entries and other blocks: what it owns, and who names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Link count.
    pub(crate) links: u16,
    /// Blocks owned, in units of 512 bytes, indirect and attribute blocks included.
    pub(crate) sectors: u64,
    /// The 15 words of the block map; or the target of a fast symbolic link; or a device number.
    pub(crate) words: [u32; 15],
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

impl Inode {
    /// Reads an inode from the table.
    ///
    /// # Errors
    /// - `Corrupt::Inode` for a field that cannot be; [`crate::Error::NotFound`] for an inode that is free (no mode, no links).
    pub(crate) fn load(core: &Core, nr: InodeNr) -> Result<Self> {
        if nr.get() == 0 || nr.get() > core.geometry.inode_count {
            let value = u64::from(nr.get());
            return Err(Corrupt::Inode {
                inode: nr,
                field: "number",
                value,
            }
            .into());
        }
        let (block, offset) = core.inode_location(nr)?;
        let buffer = core.buffers.get(block)?;
        let mut state = {
            let bytes = buffer.read();
            table::decode(
                core,
                nr,
                &bytes[offset..offset + usize::from(core.geometry.inode_bytes)],
            )?
        };
        if state.links == 0 || state.dtime != 0 {
            state.is_orphan = core.orphans.lock().contains(nr);
        }
        if state.links == 0 && !state.is_orphan {
            return Err(Error::NotFound);
        }
        if state.is_orphan {
            state.dtime = 0;
        }
        let inode = Self::new(nr, state);
        inode.pages.note_loaded(&core.pages);
        Ok(inode)
    }

    /// A new inode, not yet stored.
    pub(crate) fn new(nr: InodeNr, state: InodeState) -> Self {
        let kind = state.kind;
        let state = RwLock::new(state);
        rt::sync::set_rank(&state, rank(kind, nr));
        Self {
            nr,
            kind,
            state,
            pages: FilePages::new(),
            window: Mutex::new(Window::default()),
            map: Mutex::new(MapCache::default()),
            pins: AtomicU32::new(0),
            names_index: Mutex::default(),
        }
    }
}

impl Claims {
    /// Claims of an inode without blocks.
    fn new(links: u16) -> Self {
        Self {
            links,
            sectors: 0,
            words: [0; 15],
            attribute_block: BlockNr::new(0),
            is_unstored: false,
        }
    }
}

impl InodeState {
    /// A new inode's state: times now, no blocks, one link.
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
            claims: Claims::new(1),
            flags: InodeFlags::empty(),
            generation,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: Some(now),
            dtime: 0,
            last_tid: None,
            data_tid: None,
            is_orphan: false,
            is_cut: false,
            is_fresh: true,
        }
    }

    /// Checks that the inode has not been deleted: whoever has only its number may come too late, and its place in the table may
    /// be another inode's by now.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if it has.
    pub(crate) fn check_exists(&self) -> Result<()> {
        if self.links == 0 && !self.is_orphan && !rt::mutant!("inode/changed-when-dead") {
            return Err(Error::NotFound);
        }
        Ok(())
    }

    /// Returns the claims to change them within a handle. The handle cannot end as good before [`InodeState::store`] has
    /// written them or [`InodeState::discard`] has given them up: it aborts the journal instead.
    pub(crate) fn claims(&mut self, transaction: &mut Transaction<'_>) -> &mut Claims {
        if !self.claims.is_unstored {
            self.claims.is_unstored = true;
            transaction.note_unstored();
        }
        &mut self.claims
    }

    /// True if the claims are those of the inode table, or of a handle that has stored them.
    pub(crate) fn is_stored(&self) -> bool {
        !self.claims.is_unstored
    }

    /// Gives up unstored claims: the inode is freed in the same handle, or the changes were undone.
    pub(crate) fn discard(&mut self, transaction: &mut Transaction<'_>) {
        if self.claims.is_unstored {
            self.claims.is_unstored = false;
            transaction.note_stored();
        }
    }

    /// Writes the state into the inode table (one credit) and notes the transaction in `last_tid`. With `is_data`, also in `data_tid`.
    ///
    /// # Errors
    /// - [`Error::FileTooLarge`] when size or block count do not fit the format: nothing is changed.
    pub(crate) fn store(
        &mut self,
        core: &Core,
        transaction: &mut Transaction<'_>,
        nr: InodeNr,
        is_data: bool,
    ) -> Result<()> {
        if !table::fits(core, self) {
            return Err(Error::FileTooLarge);
        }
        let (block, offset) = core.inode_location(nr)?;
        let buffer = core.buffers.get(block)?;
        {
            let mut bytes = transaction.write(&buffer)?;
            let end = offset + usize::from(core.geometry.inode_bytes);
            table::encode(core, self, &mut bytes[offset..end]);
        }
        self.is_fresh = false;
        self.discard(transaction);
        if let Some(tid) = transaction.tid() {
            self.last_tid = Some(tid);
            if is_data {
                self.data_tid = Some(tid);
            }
        }
        Ok(())
    }

    /// Whether the file's data goes through the journal.
    pub(crate) fn is_journaled(&self, core: &Core) -> bool {
        core.journal.is_some()
            && (core.options.data == DataMode::Journal
                || self.kind != FileKind::Regular
                || self.flags.contains(InodeFlags::JOURNAL_DATA))
    }

    /// Whether its blocks are changed through the cache of metadata, and have to be forgotten there when they are freed:
    /// directories and symbolic links always, files where their data is journaled.
    pub(crate) fn has_buffered_blocks(&self, core: &Core) -> bool {
        self.kind != FileKind::Regular || self.is_journaled(core)
    }

    /// Whether the words are a map of blocks: not for devices, fifos, sockets and short symbolic links.
    pub(crate) fn has_map(&self, core: &Core) -> bool {
        match self.kind {
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => {
                let has_attributes = self.attribute_block != BlockNr::new(0);
                let attributes = u64::from(has_attributes) * core.sectors_per_block();
                self.sectors > attributes
            }
            _ => false,
        }
    }
}

impl Core {
    /// Blocks in units of 512 bytes, as inodes count them.
    pub(crate) fn sectors_per_block(&self) -> u64 {
        u64::from(self.geometry.block_bytes) / 512
    }

    /// Reads what changing the names of inodes will need, while nothing has changed yet: their table blocks, and the superblock,
    /// from which the orphan list starts. Hold the result until the change is done.
    pub(crate) fn hold_for_names(
        &self,
        inodes: &[InodeNr],
    ) -> Result<Vec<std::sync::Arc<jbd2::Buffer>>> {
        let tables = inodes.iter().map(|nr| {
            let (block, _) = self.inode_location(*nr)?;
            self.buffers.hold(block)
        });
        tables
            .chain(std::iter::once_with(|| self.hold_superblock()))
            .collect()
    }

    /// Reads the table block of an inode, so that storing the inode will not have to. Hold the result until then.
    pub(crate) fn hold_table(&self, nr: InodeNr) -> Result<std::sync::Arc<jbd2::Buffer>> {
        let (block, _) = self.inode_location(nr)?;
        self.buffers.get(block)
    }
}

/// Bytes of the extra part of an inode of the table; 0 where there is none.
pub(crate) fn extra_size(inode: &[u8]) -> usize {
    table::extra_size(&inode[layout::inode::BASE_SIZE..])
}

/// The present time, in the form of inodes.
pub(crate) fn now() -> InodeTime {
    let wall = rt::wall();
    InodeTime::new(wall.seconds, wall.nanos)
}

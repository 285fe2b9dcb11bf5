//! A file that fast commits change: the bytes of its inode and its block map, until all tags are
//! applied.

use layout::extent::Extent;
use layout::inode::{BASE_SIZE, FAST_SYMLINK_MAX, Inode as Base, InodeExtra};
use layout::inode_flags::InodeFlags;
use layout::mode::FileType;
use layout::time::InodeTime;
use layout::{BlockNr, InodeNr};
use zerocopy::FromBytes;

use super::contradiction;
use super::pieces::{Piece, Pieces};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{extra_size, table};
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::error::Result;
use crate::map::{FileMap, Visited};
use crate::xattr::contents;

/// A file, or another inode that is no directory.
pub(super) struct File {
    pub(super) nr: InodeNr,
    /// The inode as in the table; its block map and its count of sectors are set at the end.
    pub(super) bytes: Vec<u8>,
    /// Its block map.
    pub(super) pieces: Pieces,
    /// True if the block map has changed.
    pub(super) is_remapped: bool,
    /// The blocks of the block map in the table, its nodes included.
    pub(super) old: Vec<Run>,
    /// The nodes of that block map.
    pub(super) nodes: Vec<BlockNr>,
    /// Number of sectors that are not of the block map.
    pub(super) other_sectors: u64,
    /// True if the inode is in use without these fast commits.
    pub(super) is_loaded: bool,
    /// True if it is on the orphan list.
    pub(super) is_orphan: bool,
}

impl File {
    /// Creates an inode that was free.
    pub(super) fn new(core: &Core, nr: InodeNr) -> Self {
        Self {
            nr,
            bytes: vec![0; core.geometry().inode_bytes.into()],
            pieces: Pieces::default(),
            is_remapped: true,
            old: Vec::new(),
            nodes: Vec::new(),
            other_sectors: 0,
            is_loaded: false,
            is_orphan: false,
        }
    }

    /// Reads an inode in use, and its block map.
    pub(super) fn load(core: &Core, inode: &Inode) -> Result<Self> {
        let state = inode.state.read();
        let mut file = Self::new(core, inode.nr);
        file.is_remapped = false;
        file.is_loaded = true;
        file.is_orphan = state.is_orphan;
        FileMap::of(&state).walk(core, inode, &state, &mut |visited, run| {
            let is_unwritten = matches!(visited, Visited::Unwritten(_));
            match visited {
                Visited::Data(at) | Visited::Unwritten(at) => {
                    let piece = Piece {
                        first: run.first.get(),
                        count: run.count.into(),
                        is_unwritten,
                    };
                    file.pieces.map(at.get(), piece);
                }
                Visited::Map => file.nodes.push(run.first),
            }
            file.old.push(run);
            Ok(())
        })?;
        let clusters = file.pieces.clusters(core.geometry().cluster_log);
        let mapped = (clusters + file.nodes.len() as u64) * core.sectors_per_cluster();
        file.other_sectors = state.sectors.saturating_sub(mapped);
        let (buffer, offset) = core.table_of(inode.nr)?;
        let end = offset + file.bytes.len();
        file.bytes.copy_from_slice(&buffer.read()[offset..end]);
        Ok(file)
    }

    /// Returns the fields.
    pub(super) fn base(&self) -> &Base {
        let (base, _) = Base::ref_from_prefix(&self.bytes).expect("an inode has at least its base");
        base
    }

    /// Returns the fields for changes.
    pub(super) fn base_mut(&mut self) -> &mut Base {
        let (base, _) =
            Base::mut_from_prefix(&mut self.bytes).expect("an inode has at least its base");
        base
    }

    /// Returns the kind; none if the mode has none.
    pub(super) fn kind(&self) -> Option<FileKind> {
        kind_of(self.base())
    }

    /// Takes the fields of a tag, and leaves alone those that belong to other blocks of the volume:
    /// the block map, the attribute block, and the link of the orphan list.
    pub(super) fn take_fields(&mut self, core: &Core, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.bytes.len() {
            return Err(contradiction(
                self.nr,
                "it is longer than the volume's inodes",
            ));
        }
        let is_64bit = core.superblock.is_64bit();
        self.make_room(bytes)?;
        let before = *self.base();
        let (had_extents, was_inline) = (self.has_extents(), self.is_inline());
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        // The checksums of the map's nodes include the generation.
        let has_new_generation = self.base().generation != before.generation;
        self.is_remapped |= self.has_extents() != had_extents || has_new_generation;
        if was_inline && !self.is_inline() {
            // The tag of an inode with a block map ends before the attributes.
            self.is_remapped = true;
            let removed = contents::put_within(core, &mut self.bytes, None);
            removed.map_err(|why| contradiction(self.nr, why))?;
        }
        if self.is_inline() {
            // Part of the contents lies among the attributes, which the tag brings, too.
            let is_whole = bytes.len() == self.bytes.len();
            let why = "its contents are not all there";
            let found = contents::check_within(core, &self.bytes);
            let checked = is_whole.then_some(()).ok_or(why).and(found);
            checked.map_err(|why| contradiction(self.nr, why))?;
        }
        let is_map = self.is_mapped();
        let base = self.base_mut();
        base.deletion_time = before.deletion_time;
        base.set_attribute_block(before.attribute_block(is_64bit), is_64bit);
        if is_map {
            base.set_map(before.map());
        }
        Ok(())
    }

    /// Moves the attributes behind the extra part of a tag that ends before them: Linux has grown
    /// it since the inode was written.
    fn make_room(&mut self, bytes: &[u8]) -> Result<()> {
        let ends_before = bytes.len() < self.bytes.len() && bytes.len() > BASE_SIZE;
        let wanted = if ends_before { extra_size(bytes) } else { 0 };
        if wanted <= extra_size(&self.bytes) {
            return Ok(());
        }
        table::grow_extra(&mut self.bytes, wanted);
        match extra_size(&self.bytes) == wanted {
            true => Ok(()),
            false => Err(contradiction(
                self.nr,
                "its attributes leave no room for its fields",
            )),
        }
    }

    /// Returns true if the words are a block map: not for devices and short symbolic links, nor for
    /// contents within the inode.
    pub(super) fn is_mapped(&self) -> bool {
        match self.kind() {
            _ if self.is_inline() => false,
            Some(FileKind::Regular) => true,
            Some(FileKind::Symlink) => {
                let is_long = self.base().size(false) > FAST_SYMLINK_MAX as u64;
                self.has_extents() || !self.old.is_empty() || is_long
            }
            _ => false,
        }
    }

    /// Returns true if the contents lie within the inode.
    fn is_inline(&self) -> bool {
        self.base().flags().contains(InodeFlags::INLINE_DATA)
    }

    /// Returns true if the block map is an extent tree.
    pub(super) fn has_extents(&self) -> bool {
        self.base().flags().contains(InodeFlags::EXTENTS)
    }

    /// Maps blocks.
    pub(super) fn map(&mut self, extent: &Extent) {
        let piece = Piece {
            first: extent.start(),
            count: extent.block_count().into(),
            is_unwritten: extent.is_unwritten(),
        };
        self.pieces.map(extent.file_block.get().into(), piece);
        self.is_remapped = true;
    }

    /// Makes a hole.
    pub(super) fn punch(&mut self, from: u32, count: u32) {
        let from = u64::from(from);
        self.pieces.punch(from..from + u64::from(count));
        self.is_remapped = true;
    }

    /// Changes the link count.
    pub(super) fn set_links(&mut self, change: impl FnOnce(u16) -> u16) {
        let base = self.base_mut();
        base.links_count.set(change(base.links_count.get()));
    }
}

/// Returns the kind of an inode; none if the mode has none.
pub(super) fn kind_of(base: &Base) -> Option<FileKind> {
    FileKind::from_entry_type(FileType::from_mode(base.mode.get()))
}

/// Returns the time of the last change of an inode of a tag.
pub(super) fn change_time(bytes: &[u8]) -> InodeTime {
    let word = base_of_tag(bytes).change_time.get();
    match InodeExtra::read_from_prefix(&bytes[BASE_SIZE..]) {
        Ok((extra, _)) => InodeTime::decode_extra(word, extra.change_time_extra.get()),
        Err(_) => InodeTime::decode(word),
    }
}

/// Returns the fields of an inode of a tag.
pub(super) fn base_of_tag(bytes: &[u8]) -> Base {
    const _: () = assert!(size_of::<Base>() == BASE_SIZE);
    let (base, _) = Base::read_from_prefix(bytes).expect("a tag has at least the base");
    base
}

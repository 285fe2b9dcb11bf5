//! The blocks of files with checksums: nodes of extent trees, directories, attributes, and the
//! orphan file.

use core::ops::ControlFlow;
use std::collections::BTreeSet;
use std::sync::Arc;

use layout::inode::InodeFlags;
use layout::mode::FileType;
use layout::{Block, BlockNr, FileBlock, InodeNr};
use zerocopy::IntoBytes;

use super::directories::{self, Role};
use super::writer::Writer;
use super::{Conversion, DirectoryBlock};
use crate::cache::buffers::Refused;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::dir;
use crate::disk::entry::Bad;
use crate::disk::inode::table;
use crate::disk::metadata::Kind;
use crate::disk::tables::{TableInode, Tables};
use crate::error::{Corrupt, Error, Result};
use crate::map::{FileMap, Visited};

/// The blocks of one file.
struct FileBlocks {
    nr: InodeNr,
    generation: u32,
    /// Nodes of its extent tree.
    nodes: Vec<BlockNr>,
    /// Blocks of a directory.
    directory: Vec<(FileBlock, BlockNr)>,
    /// True if the directory has an index.
    has_index: bool,
    /// True if the directory ignores case: the order of its names is not known here.
    is_folded: bool,
    /// Blocks of the orphan file.
    orphans: Vec<BlockNr>,
    attributes: Option<BlockNr>,
}

impl FileBlocks {
    /// Returns the blocks of an inode, whose map is checked.
    fn of(core: &Core, inode: &TableInode<'_>) -> Result<Self> {
        let is_directory = inode.kind == FileType::Directory;
        let is_orphan_file = core.superblock.orphan_file() == Some(inode.nr);
        let flags = inode.base.flags();
        let attributes = inode.base.attribute_block(core.superblock.is_64bit());
        let mut blocks = Self {
            nr: inode.nr,
            generation: inode.base.generation.get(),
            nodes: Vec::new(),
            directory: Vec::new(),
            has_index: flags.contains(InodeFlags::INDEX) && core.superblock.has_dir_index(),
            is_folded: flags.contains(InodeFlags::CASEFOLD),
            orphans: Vec::new(),
            attributes: (attributes != 0).then_some(BlockNr::new(attributes)),
        };
        let has_extents = flags.contains(InodeFlags::EXTENTS);
        if !has_extents && !is_directory && !is_orphan_file {
            return Ok(blocks);
        }
        let loaded = match load(core, inode) {
            // Deleted, with its bit of the bitmap left: nothing of it is read.
            Err(Error::NotFound) => return Ok(blocks),
            loaded => loaded?,
        };
        let state = loaded.state.read();
        if !state.has_map(core) {
            return Ok(blocks);
        }
        FileMap::of(&state).walk(core, &loaded, &state, &mut |visited, run| {
            let all = (run.first.get()..run.end().get()).map(BlockNr::new);
            match visited {
                Visited::Map if has_extents => blocks.nodes.extend(all),
                Visited::Data(first) if is_directory => {
                    let places = (0..).zip(all).map(|(step, block)| (first + step, block));
                    blocks.directory.extend(places);
                }
                Visited::Data(_) if is_orphan_file => blocks.orphans.extend(all),
                _ => {}
            }
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Returns the role of each block of the directory, whose index is checked. `has_tails` is
    /// true if its blocks have checksums.
    fn roles(&self, core: &Core, has_tails: bool, writer: &Writer<'_>) -> Result<Vec<Role>> {
        let read = |at: FileBlock| {
            let place = self.directory.iter().find(|(block, _)| *block == at);
            place.map(|(_, block)| writer.read(*block)).transpose()
        };
        let blocks: Vec<FileBlock> = self.directory.iter().map(|(at, _)| *at).collect();
        if !self.has_index {
            return Ok(vec![Role::Leaf; blocks.len()]);
        }
        let roles = directories::roles(&blocks, dir::levels_max(core), has_tails, read)?;
        roles.map_err(|(block, bad)| damaged(self.nr, block, bad))
    }
}

/// Loads an inode; that of a value, too, to which no name leads.
fn load(core: &Core, inode: &TableInode<'_>) -> Result<Inode> {
    let is_of_value = inode.base.flags().contains(InodeFlags::ATTRIBUTE_INODE);
    if is_of_value && inode.base.links_count.get() > 0 && core.superblock.has_ea_inode() {
        let state = table::decode(&core.superblock, core.geometry(), inode.nr, inode.bytes)?;
        return Ok(Inode::new(inode.nr, state));
    }
    Inode::load(core, inode.nr)
}

/// Visits the blocks of all files in use.
fn visit(core: &Core, work: &mut dyn FnMut(&FileBlocks) -> Result<()>) -> Result<()> {
    let tables = Tables::open(&core.device, &core.superblock)?;
    tables.visit(&mut |inode| {
        core.superblock
            .checksums
            .check_inode(inode.nr, inode.bytes)?;
        work(&FileBlocks::of(core, inode)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Checks all blocks, and returns those of directories that have no room for a tail and need it.
pub(super) fn check(core: &Core, conversion: &Conversion) -> Result<BTreeSet<DirectoryBlock>> {
    let mut full = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let needs_tails = conversion.to.has_tails() && !conversion.from.has_tails();
    let none = Writer::new(&core.device, core.geometry().block_bytes);
    visit(core, &mut |file| {
        let (nr, generation) = (file.nr, file.generation);
        for (_, block) in &file.directory {
            hold(core, *block, Kind::Directory.of_inode(nr, generation), nr)?;
        }
        for block in &file.orphans {
            hold(core, *block, Kind::Orphans.of_inode(nr, generation), nr)?;
        }
        if let Some(block) = file.attributes
            && seen.insert(block)
        {
            hold(core, block, Kind::Attributes.of_volume(), nr)?;
        }
        if needs_tails && file.is_folded {
            return Err(Error::Unsupported(format!(
                "directory {nr} ignores case, so that its names cannot be moved to make room: tune2fs -O metadata_csum"
            )));
        }
        if conversion.writes_directories() && !file.directory.is_empty() {
            let roles = file.roles(core, conversion.from.has_tails(), &none)?;
            for ((at, block), role) in file.directory.iter().zip(roles) {
                if needs_tails && role == Role::Leaf && !directories::has_room(&none.read(*block)?)
                {
                    full.insert((nr, *at));
                }
            }
        }
        Ok(())
    })?;
    Ok(full)
}

/// Reads and checks a block.
fn hold(core: &Core, block: BlockNr, label: jbd2::Label, nr: InodeNr) -> Result<()> {
    match core.buffers.get(block, label) {
        Ok(_) => Ok(()),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::Damaged(found)) => Err(damaged(nr, FileBlock::new(block.get()), found.bad)),
    }
}

fn damaged(inode: InodeNr, file_block: FileBlock, bad: Bad) -> Error {
    let offset = u32::try_from(bad.offset).unwrap_or(u32::MAX);
    let why = bad.why;
    Corrupt::Directory {
        inode,
        file_block,
        offset,
        why,
    }
    .into()
}

/// Writes all blocks that change. Returns the directories that lose their index.
pub(super) fn convert(
    core: &Core,
    conversion: &Conversion,
    writer: &mut Writer<'_>,
) -> Result<BTreeSet<InodeNr>> {
    let mut without_index = BTreeSet::new();
    let mut seen = BTreeSet::new();
    if !conversion.writes_directories() {
        return Ok(without_index);
    }
    visit(core, &mut |file| {
        convert_directory(core, conversion, file, writer, &mut without_index)?;
        let (nr, generation, to) = (file.nr, file.generation, conversion.to);
        let mut seal = |block, seal: &dyn Fn(&mut Arc<Block>)| {
            let mut image = writer.read(block)?;
            seal(&mut image);
            writer.put(block, image)
        };
        for block in &file.orphans {
            seal(*block, &|image| match to.has_tails() {
                true => to.seal_orphans(nr, generation, *block, image),
                false => clear_sum(image),
            })?;
        }
        if !conversion.writes_all() {
            return Ok(());
        }
        for block in &file.nodes {
            seal(*block, &|image| to.seal_extents(nr, generation, image))?;
        }
        if let Some(block) = file.attributes
            && seen.insert(block)
        {
            seal(block, &|image| to.seal_attributes(block, image))?;
        }
        Ok(())
    })?;
    Ok(without_index)
}

/// Clears the checksum of a block of the orphan file: e2fsck takes another one for an orphan.
fn clear_sum(image: &mut Arc<Block>) {
    let bytes: &mut Block = Arc::make_mut(image);
    let at = bytes.len() - layout::orphan::TAIL_SIZE;
    bytes[at..].copy_from_slice(layout::orphan::Tail::new(0).as_bytes());
}

fn convert_directory(
    core: &Core,
    conversion: &Conversion,
    file: &FileBlocks,
    writer: &mut Writer<'_>,
    without_index: &mut BTreeSet<InodeNr>,
) -> Result<()> {
    if file.directory.is_empty() {
        return Ok(());
    }
    let has_tails = conversion.to.has_tails();
    let roles = file.roles(core, conversion.from.has_tails(), writer)?;
    let mut loses_index = false;
    for ((_, block), role) in file.directory.iter().zip(&roles) {
        if let Role::Index(offset) = role {
            let image = writer.read(*block)?;
            loses_index |= !directories::fits_limit(&image, *offset, has_tails);
        }
    }
    if loses_index {
        without_index.insert(file.nr);
    }
    for ((_, block), role) in file.directory.iter().zip(roles) {
        let mut image = writer.read(*block)?;
        let bytes: &mut Block = Arc::make_mut(&mut image);
        match role {
            Role::Index(offset) if !loses_index => {
                directories::set_limit(bytes, offset, has_tails);
            }
            Role::Index(offset) => directories::empty_index(bytes, offset, has_tails),
            Role::Leaf if has_tails => directories::give_tail(bytes),
            Role::Leaf => continue,
        }
        conversion
            .to
            .seal_directory(file.nr, file.generation, &mut image);
        writer.put(*block, image)?;
    }
    Ok(())
}

//! Replaying fast commits: applying their tags to a volume in memory, on which nothing is written
//! to the device. The journal makes the changed blocks durable, all or none.
//!
//! Tags give final states, or names that may be there already: replaying them over a volume that
//! has some of them ends the same.
//!
//! | tag | is applied to |
//! |---|---|
//! | inode | the bytes of a file's inode; a new directory waits for its name |
//! | ranges | the file's block map, in memory |
//! | names | the directory at once; link counts of files |
//!
//! At the end the block maps are written, as new extent trees, and the bitmaps are made to agree
//! with them. Until then no block that a range names, or that a file had, is given to a directory.
//! A file without links goes onto the orphan list.
//!
//! # Where this differs from Linux
//!
//! - Linux writes to the final locations at once, so that a power cut leaves a part.
//! - Linux does not count the links of directories that are made and removed.
//! - Linux takes neither device numbers nor targets of symbolic links from the bytes of an inode.
//!
//! # How much changes
//!
//! All of it has to fit the log as one transaction. A node of an extent tree changes only if its
//! entries do. If the volume has no blocks for the nodes that this takes, the tree is built of full
//! nodes instead. A fast commit of this crate fits either way: see `describe`.
//!
//! One of Linux is refused, and Linux has to replay it, if more nodes have other entries than the
//! log has blocks; if as many are built of full nodes on a volume without free blocks; or if a file
//! of indirect blocks has more of them than the log, and one at its start is new.
//!
//! A tag that contradicts the volume is an error, [`Corrupt::FastCommit`]: nothing is replayed. A
//! tag of an inode that is not in use is skipped, as in Linux: the inode was deleted later.

mod file;
mod finish;
mod pieces;
mod scratch;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::BlockDevice;
use jbd2::recovery::{Changes, FastCommits};
use jbd2::{Credits, LogExtent};
use layout::extent::Extent;
use layout::fast_commit::{EntryHeader, Record};
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use layout::{BlockNr, InodeNr};
use zerocopy::FromBytes;

use super::own_files::OrphanFile;
use crate::cache::inode::Inode;
use crate::cache::space::zones::Holder;
use crate::core::Core;
use crate::disk::extents::blocks_of;
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::disk::superblock::{self, Superblock};
use crate::disk::tables::Tables;
use crate::disk::words::Words;
use crate::error::{Corrupt, Error, Result};
use crate::namei::{self, Named};
use crate::options::{HostSpace, MountOptions};
use crate::{orphan, xattr};
use file::{File, base_of_tag, change_time, kind_of};
use pieces::Pieces;
use scratch::Scratch;

/// Returns the blocks that fast commits change. The device has all transactions of the log, whose
/// blocks on it are given.
///
/// # Errors
/// - [`Corrupt::FastCommit`] for a tag that contradicts the volume, and other damage.
/// - [`Error::Unsupported`] for a volume that is only read.
pub(super) fn apply(
    device: &Arc<dyn BlockDevice>,
    log: &[LogExtent],
    options: &MountOptions,
    found: &FastCommits,
) -> Result<Changes> {
    let superblock = superblock::read(device)?;
    if let Some(why) = superblock.only_read_because() {
        return Err(Error::Unsupported(format!(
            "fast commits have to be replayed on a volume that is only read ({why}); a mount of Linux or e2fsck replays them"
        )));
    }
    if superblock.checksums.has_group_flags() {
        Tables::open(device, &superblock)?;
    }
    let orphan_file = OrphanFile::find(device, &superblock, options)?;
    let block_bytes = superblock.geometry.block_bytes;
    let scratch = Arc::new(Scratch::new(Arc::clone(device), block_bytes));
    let core = assemble(&scratch, superblock, options, log, &orphan_file)?;
    orphan::load(&core, &orphan_file.blocks)?;
    let mut replay = Replay::new(&core, found);
    replay.reserve(found)?;
    let records: Vec<Record<'_>> = found.tags().map(|(_, tag)| tag.record).collect();
    for (index, record) in records.iter().enumerate() {
        replay.bring_forward(record, &records[index + 1..])?;
        replay.apply(record)?;
    }
    replay.finish()?;
    crate::writeback::sync_all(&core)?;
    Ok(scratch.take()?)
}

/// Opens the volume that the tags are applied to, without a journal.
fn assemble(
    scratch: &Arc<Scratch>,
    superblock: Superblock,
    options: &MountOptions,
    log: &[LogExtent],
    orphan_file: &OrphanFile,
) -> Result<Core> {
    let options = MountOptions {
        tuning: options.tuning,
        memory: options.memory,
        host_space: HostSpace::None,
        privileged: true,
        is_being_made: true,
        ..MountOptions::default()
    };
    let device: Arc<dyn BlockDevice> = Arc::<Scratch>::clone(scratch);
    let mut core = Core::assemble(device, superblock, options, None, false)?;
    core.space.protect(Holder::Log, log)?;
    core.space
        .protect(Holder::OrphanFile, &orphan_file.extents)?;
    Ok(core)
}

/// A replay in progress.
struct Replay<'c> {
    core: &'c Core,
    /// The files that tags have named.
    files: BTreeMap<InodeNr, File>,
    /// New directories that have no name yet: the bytes of their inodes.
    directories: BTreeMap<InodeNr, Vec<u8>>,
    /// Blocks of ranges that were free before.
    reserved: Pieces,
    /// Blocks of files whose numbers were used again.
    gone: Pieces,
    /// The newest time in the tags, for directories.
    when: Option<InodeTime>,
}

impl<'c> Replay<'c> {
    fn new(core: &'c Core, found: &FastCommits) -> Self {
        let times = found.tags().filter_map(|(_, tag)| match tag.record {
            Record::Inode(_, bytes) => Some(change_time(bytes)),
            _ => None,
        });
        Self {
            core,
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            reserved: Pieces::default(),
            gone: Pieces::default(),
            when: times.max(),
        }
    }

    /// Checks the blocks of all ranges, and takes them, so that no directory gets them.
    fn reserve(&mut self, found: &FastCommits) -> Result<()> {
        let mut all = Pieces::default();
        for (_, tag) in found.tags() {
            if let Record::AddRange(range) = tag.record {
                all.add(self.check_extent(range.inode.get(), &range.extent)?);
            }
        }
        let mut handle = self.core.begin(Credits::default())?;
        for run in all.runs() {
            for taken in self.core.take_blocks(&mut handle, run)? {
                self.reserved.add(taken);
            }
        }
        handle.finish().map(drop)
    }

    /// Returns the blocks of an extent, which lie in the data area.
    fn check_extent(&self, inode: u32, extent: &Extent) -> Result<Run> {
        let nr = InodeNr::new(inode);
        let run = Run {
            first: BlockNr::new(extent.start()),
            count: extent.block_count().into(),
        };
        let is_file_range = blocks_of(extent).end <= crate::disk::extents::FILE_BLOCKS;
        if run.count == 0 || !is_file_range {
            return Err(contradiction(nr, "a range of blocks is invalid"));
        }
        let size = u64::from(self.core.geometry().cluster_blocks());
        if run.first.get() % size != u64::from(extent.file_block.get()) % size {
            return Err(contradiction(
                nr,
                "a range is not at its place in a cluster",
            ));
        }
        if !self.core.is_data_run(run) {
            return Err(contradiction(nr, "a range lies outside the volume's data"));
        }
        Ok(run)
    }

    fn apply(&mut self, record: &Record<'_>) -> Result<()> {
        match record {
            Record::Head(_) | Record::Pad | Record::Tail(_) => Ok(()),
            Record::Inode(header, bytes) => self.apply_inode(header.inode.get(), bytes),
            Record::AddRange(range) => {
                if let Some(file) = self.mapped_file(range.inode.get())? {
                    file.map(&range.extent);
                }
                Ok(())
            }
            Record::DelRange(range) => {
                if let Some(file) = self.mapped_file(range.inode.get())? {
                    file.punch(range.file_block.get(), range.count.get());
                }
                Ok(())
            }
            Record::Create(entry, name) => self.create(entry, name),
            Record::Link(entry, name) => self.link(entry, name),
            Record::Unlink(entry, name) => self.unlink(entry, name),
        }
    }

    /// Applies the fields of an inode that is not in use before a tag that needs it, if they follow
    /// in the same fast commit: Linux writes those of a file that was created without a name after
    /// its ranges and its name.
    fn bring_forward(&mut self, record: &Record<'_>, rest: &[Record<'_>]) -> Result<()> {
        let raw = match record {
            Record::AddRange(range) => range.inode.get(),
            Record::DelRange(range) => range.inode.get(),
            Record::Link(entry, _) => entry.inode.get(),
            _ => return Ok(()),
        };
        let nr = self.check_nr(raw)?;
        let is_known = self.files.contains_key(&nr) || self.directories.contains_key(&nr);
        if is_known || self.load(nr)?.is_some() {
            return Ok(());
        }
        let mut same = rest
            .iter()
            .take_while(|record| !matches!(record, Record::Tail(_)));
        let found = same.find_map(|record| match record {
            Record::Inode(header, bytes) if header.inode.get() == raw => Some(*bytes),
            _ => None,
        });
        match found {
            Some(bytes) if base_of_tag(bytes).links_count.get() > 0 => self.apply_inode(raw, bytes),
            _ => Ok(()),
        }
    }

    /// Checks the number of an inode that a tag changes.
    fn check_nr(&self, raw: u32) -> Result<InodeNr> {
        let nr = InodeNr::new(raw);
        match self.core.check_inode_nr(raw) {
            Ok(nr) if nr >= self.core.geometry().first_inode => Ok(nr),
            _ => Err(contradiction(nr, "a tag cannot change it")),
        }
    }

    /// Checks the number of a directory.
    fn check_parent(&self, raw: u32) -> Result<InodeNr> {
        match InodeNr::new(raw) {
            InodeNr::ROOT => Ok(InodeNr::ROOT),
            _ => self.check_nr(raw),
        }
    }

    fn named<'n>(&self, parent: InodeNr, name: &'n [u8]) -> Named<'n> {
        Named {
            parent,
            name,
            when: self.when,
        }
    }

    /// Returns an inode in use that is no directory.
    fn file(&mut self, nr: InodeNr) -> Result<Option<&mut File>> {
        if !self.files.contains_key(&nr) {
            let Some(inode) = self.load(nr)? else {
                return Ok(None);
            };
            if inode.kind == FileKind::Directory {
                return Err(contradiction(nr, "a directory is changed like a file"));
            }
            let file = File::load(self.core, &inode)?;
            self.files.insert(nr, file);
        }
        Ok(self.files.get_mut(&nr))
    }

    /// Returns a regular file, or a symbolic link, whose blocks a tag changes.
    fn mapped_file(&mut self, raw: u32) -> Result<Option<&mut File>> {
        let nr = self.check_nr(raw)?;
        let Some(file) = self.file(nr)? else {
            return Ok(None);
        };
        match file.kind() {
            Some(FileKind::Regular | FileKind::Symlink) => Ok(Some(file)),
            _ => Err(contradiction(nr, "it has no blocks")),
        }
    }

    /// Reads an inode of the volume; none if it is free.
    fn load(&self, nr: InodeNr) -> Result<Option<Inode>> {
        if !self.core.is_inode_taken(nr)? {
            return Ok(None);
        }
        match Inode::load(self.core, nr) {
            Err(Error::NotFound) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns true if an inode in use is a directory.
    fn is_directory(&self, nr: InodeNr) -> Result<bool> {
        if self.files.contains_key(&nr) {
            return Ok(false);
        }
        let found = self.load(nr)?;
        Ok(found.is_some_and(|inode| inode.kind == FileKind::Directory))
    }

    fn apply_inode(&mut self, raw: u32, bytes: &[u8]) -> Result<()> {
        let nr = self.check_nr(raw)?;
        let base = base_of_tag(bytes);
        let Some(kind) = kind_of(&base) else {
            return Err(contradiction(nr, "its mode is invalid"));
        };
        if self.is_directory(nr)? {
            // Only new directories have tags: this one has been replayed.
            return match kind {
                FileKind::Directory => Ok(()),
                _ => Err(contradiction(nr, "a directory becomes a file")),
            };
        }
        if self.directories.contains_key(&nr) && kind != FileKind::Directory {
            return Err(contradiction(nr, "a directory becomes a file"));
        }
        if let Some(file) = self.file(nr)? {
            // A number is used again only once its file has lost its last name. Another generation
            // alone is that of `chattr -v`.
            let is_same = file.base().generation == base.generation;
            match is_same || file.base().links_count.get() > 0 {
                true if file.kind() != Some(kind) => {
                    return Err(contradiction(nr, "it becomes a file of another kind"));
                }
                true => return self.take_fields(nr, bytes),
                false => self.give_up(nr)?,
            }
        }
        if kind == FileKind::Directory {
            self.directories.insert(nr, bytes.to_vec());
            return Ok(());
        }
        let mut handle = self.core.begin(Credits::default())?;
        self.core.take_inode(&mut handle, nr, false)?;
        handle.finish()?;
        self.files.insert(nr, File::new(self.core, nr));
        self.take_fields(nr, bytes)
    }

    fn take_fields(&mut self, nr: InodeNr, bytes: &[u8]) -> Result<()> {
        let file = self.files.get_mut(&nr).expect("it was found or made");
        file.take_fields(self.core, bytes)
    }

    /// Frees an inode, whose number is used again. Its blocks are freed at the end.
    fn give_up(&mut self, nr: InodeNr) -> Result<()> {
        let Some(file) = self.files.remove(&nr) else {
            return Ok(());
        };
        file.old.iter().for_each(|run| self.gone.add(*run));
        let mut handle = self.core.begin(Credits::default())?;
        if file.is_loaded {
            let inode = Inode::load(self.core, nr)?;
            let mut state = inode.state.write();
            orphan::remove(self.core, &mut handle, nr, &mut state)?;
            xattr::release(self.core, &mut handle, nr, &mut state)?;
            state.discard(&mut handle);
        }
        self.core.free_inode(&mut handle, nr, false)?;
        handle.finish().map(drop)
    }

    fn create(&mut self, entry: &EntryHeader, name: &[u8]) -> Result<()> {
        let parent = self.check_parent(entry.parent.get())?;
        let nr = self.check_nr(entry.inode.get())?;
        if let Some(bytes) = self.directories.remove(&nr) {
            self.make_directory(nr, &bytes)?;
            return namei::enter_directory(self.core, self.named(parent, name), nr);
        }
        if self.is_directory(nr)? {
            return self.check_named(parent, name, nr);
        }
        let (core, named) = (self.core, self.named(parent, name));
        let Some(file) = self.file(nr)? else {
            return Err(contradiction(
                nr,
                "it gets its first name and is not in use",
            ));
        };
        let Some(kind) = file.kind() else {
            return Ok(());
        };
        namei::enter(core, named, nr, kind)?;
        file.set_links(|_| 1);
        Ok(())
    }

    /// Checks that a directory has its name.
    fn check_named(&self, parent: InodeNr, name: &[u8], nr: InodeNr) -> Result<()> {
        match namei::lookup(self.core, parent, name) {
            Ok(found) if found == nr => Ok(()),
            Ok(_) | Err(Error::NotFound) => Err(contradiction(nr, "a directory gets another name")),
            Err(error) => Err(error),
        }
    }

    /// Writes the inode of a new directory, which has no blocks yet.
    fn make_directory(&self, nr: InodeNr, bytes: &[u8]) -> Result<()> {
        let core = self.core;
        if bytes.len() > usize::from(core.geometry().inode_bytes) {
            return Err(contradiction(nr, "it is longer than the volume's inodes"));
        }
        let mut handle = core.begin(Credits::default())?;
        core.take_inode(&mut handle, nr, true)?;
        let (table, _) = core.table_of(nr)?;
        let made = core.change_in_table(&mut handle, nr, &table, |inode| {
            inode.fill(0);
            inode[..bytes.len()].copy_from_slice(bytes);
            let (base, _) = layout::inode::Inode::mut_from_prefix(inode)
                .expect("an inode has at least its base");
            let flags = base.flags() - InodeFlags::INDEX;
            base.set_flags(flags);
            base.set_map(match flags.contains(InodeFlags::EXTENTS) {
                true => Words::empty_tree().to_raw(),
                false => Words::default().to_raw(),
            });
            let is_empty =
                base.set_size(0, false) && base.set_sectors(0, false, core.geometry().block_bytes);
            assert!(is_empty, "0 fits");
            base.set_attribute_block(0, core.superblock.is_64bit());
            base.deletion_time.set(0);
            base.links_count.set(1);
            match flags.contains(InodeFlags::INLINE_DATA) {
                true => xattr::contents::put_within(core, inode, Some(&[])),
                false => Ok(()),
            }
        })?;
        made.map_err(|why| contradiction(nr, why))?;
        handle.finish().map(drop)
    }

    fn link(&mut self, entry: &EntryHeader, name: &[u8]) -> Result<()> {
        let parent = self.check_parent(entry.parent.get())?;
        let nr = self.check_nr(entry.inode.get())?;
        if self.is_directory(nr)? {
            return self.check_named(parent, name, nr);
        }
        let (core, named) = (self.core, self.named(parent, name));
        let Some(file) = self.file(nr)? else {
            return Ok(());
        };
        if let Some(kind) = file.kind()
            && namei::enter(core, named, nr, kind)?
        {
            file.set_links(|links| links.saturating_add(1));
        }
        Ok(())
    }

    fn unlink(&mut self, entry: &EntryHeader, name: &[u8]) -> Result<()> {
        let parent = self.check_parent(entry.parent.get())?;
        let nr = self.check_nr(entry.inode.get())?;
        let (core, named) = (self.core, self.named(parent, name));
        if self.is_directory(nr)? {
            return namei::leave(core, named, nr, true).map(drop);
        }
        let Some(file) = self.file(nr)? else {
            return Ok(());
        };
        if namei::leave(core, named, nr, false)? {
            file.set_links(|links| links.saturating_sub(1));
        }
        Ok(())
    }
}

fn contradiction(inode: InodeNr, why: &'static str) -> Error {
    Corrupt::FastCommit { inode, why }.into()
}

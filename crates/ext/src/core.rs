//! The state that all parts of an open volume share.

mod area;
pub(crate) mod credits;
mod damage;
pub(crate) mod handle;
mod inodes;
mod own;
pub(crate) mod quota;
mod superblock;

use std::sync::Arc;

use block::BlockDevice;
use jbd2::Journal;
use layout::InodeNr;
use rt::atomic::{AtomicBool, Ordering};
use rt::{Mutex, RwLock};

use crate::cache::absent_names::AbsentNames;
use crate::cache::attribute_blocks::SharedBlocks;
use crate::cache::buffers::BufferCache;
use crate::cache::damage_log::DamageLog;
use crate::cache::fast_changes::FastChanges;
use crate::cache::inodes::InodeCache;
use crate::cache::orphans::OrphanList;
use crate::cache::pages::Pages;
use crate::cache::quotas::Quotas;
use crate::cache::space::Space;
use crate::disk::geometry::Geometry;
use crate::disk::metadata::Checks;
use crate::disk::superblock::Superblock;
use crate::error::{Error, Result};
use crate::options::MountOptions;
use crate::tuning;

/// The shared state of an open volume.
pub(crate) struct Core {
    /// The file-system device.
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The mount options.
    pub(crate) options: MountOptions,
    /// The engine's decisions, resolved from [`MountOptions::tuning`].
    pub(crate) tuning: tuning::Resolved,
    /// The validated superblock as it was at open, features included. Counts that change live in
    /// `space`.
    pub(crate) superblock: Superblock,
    /// Metadata blocks.
    pub(crate) buffers: BufferCache,
    /// The journal, if there is one and the volume is not read-only.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Bitmaps, groups and counts.
    pub(crate) space: Space,
    /// Inodes in memory.
    pub(crate) inodes: InodeCache,
    /// Names that were searched for in vain.
    pub(crate) absent_names: AbsentNames,
    /// File pages: budget, dirty lists, ordered sets, writer.
    pub(crate) pages: Pages,
    /// Shared attribute blocks; locked while their reference counts change. // [attribute blocks]
    pub(crate) attribute_blocks: RwLock<SharedBlocks>,
    /// The lock held across a rename that moves a directory, and nothing else. // [rename]
    pub(crate) rename: Mutex<()>,
    /// The lock held while an inode table is zeroed, and while an inode takes a block of a table
    /// for the first time. // [table zeroing]
    pub(crate) table_zeroing: Mutex<TableZeroing>,
    /// The orphan list; the lock is held while the list on disk changes. // [orphan]
    pub(crate) orphans: Mutex<OrphanList>,
    /// The quota files of a volume that counts its owners; none on others.
    pub(crate) quotas: Quotas,
    /// The time of this mount in seconds, until the superblock counts the mount.
    pub(crate) uncounted_mount: Mutex<Option<i64>>,
    /// Damage found so far, for the superblock.
    pub(crate) damage: DamageLog,
    /// Changes of the running transaction for its next fast commit; none if none are made.
    pub(crate) fast_changes: Option<FastChanges>,
    /// True if the volume is read-only: set at mount, or later by an error; never cleared.
    pub(crate) is_read_only: AtomicBool,
    /// True if the volume was opened read-only, so that there is nothing to write.
    pub(crate) is_opened_read_only: bool,
    /// True after [`Core::abort`]; never cleared.
    pub(crate) is_aborted: AtomicBool,
}

/// The subject of the lock of [`Core::table_zeroing`].
pub(crate) struct TableZeroing;

impl Core {
    /// Returns the geometry of the volume.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.space.table().geometry
    }

    /// Fails with `ReadOnly` if the volume is read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only.load(Ordering::Acquire) {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Stops all changes permanently.
    pub(crate) fn abort(&self, why: &str) {
        if let Some(journal) = &self.journal {
            journal.abort(jbd2::Error::Stopped(why.to_owned()));
        }
        self.is_aborted.store(true, Ordering::Release);
        self.is_read_only.store(true, Ordering::Release);
    }

    /// Checks an inode number from a directory entry: the inode exists, and is none of
    /// the volume's own files.
    pub(crate) fn check_inode_nr(&self, raw: u32) -> Result<InodeNr, &'static str> {
        if raw == 0 || raw > self.geometry().inode_count {
            return Err("an entry names an inode that does not exist");
        }
        let nr = InodeNr::new(raw);
        if self.superblock.orphan_file() == Some(nr) {
            return Err("an entry names the orphan file");
        }
        if self.quotas.files.iter().any(|file| file.inode == nr) {
            return Err("an entry names a quota file");
        }
        Ok(nr)
    }

    /// Returns the size of a block in bytes, as an index.
    pub(crate) fn block_bytes(&self) -> usize {
        self.geometry().block_bytes as usize
    }
}

impl Core {
    /// Assembles the parts of an open volume.
    pub(crate) fn assemble(
        device: Arc<dyn BlockDevice>,
        superblock: Superblock,
        options: MountOptions,
        journal: Option<Arc<Journal>>,
        is_read_only: bool,
    ) -> Result<Self> {
        let checks = Checks::new(
            &superblock.geometry,
            superblock.checksums,
            device.geometry().size_bytes,
        );
        let buffers = BufferCache::new(Arc::clone(&device), checks, journal.is_some());
        let space = Space::open(&superblock, &buffers, options.stripe_blocks)?;
        for group in space.groups() {
            group.note_goal(options.tuning.allocation_start % group.cluster_count);
        }
        let geometry = &superblock.geometry;
        let pages = Pages::new(&options, geometry.block_bytes, geometry.cluster_log);
        let has_fast_commits = journal
            .as_ref()
            .is_some_and(|journal| journal.has_fast_commits());
        Ok(Self {
            device,
            tuning: options.tuning.resolve(superblock.has_extents()),
            options,
            superblock,
            buffers,
            journal,
            space,
            inodes: InodeCache::new(),
            absent_names: AbsentNames::new(),
            pages,
            attribute_blocks: RwLock::default(),
            rename: Mutex::new(()),
            table_zeroing: Mutex::new(TableZeroing),
            orphans: Mutex::default(),
            quotas: Quotas::default(),
            uncounted_mount: Mutex::default(),
            damage: DamageLog::default(),
            fast_changes: has_fast_commits.then(FastChanges::default),
            is_read_only: AtomicBool::new(is_read_only),
            is_opened_read_only: is_read_only,
            is_aborted: AtomicBool::new(false),
        })
    }
}

//! Images in temporary directories, created by `mke2fs` or by this crate's mkfs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::BlockDevice;
use block::file::{FileDevice, OpenOptions, create_sparse};
use ext::Volume;
use ext::options::{Memory, MountOptions};
use ext::volume::{FileKind, OpenFlags};
use layout::InodeNr;
use testkit::{Loop, Mount, tool};

use crate::cell::{Cell, Journal};
use crate::model::kind_letter;
use crate::tree::{Node, Tree};

/// Number of blocks of an external journal: 1024 blocks, the superblocks and a few more.
const JOURNAL_BLOCKS: u64 = 1100;
/// Extended option of mke2fs that gives names the same hashes in each run. With a random one, names
/// of equal hash lie in two leaves at times, in the second of which ext4-view does not look.
const HASH_SEED: &str = "hash_seed=22222222-2222-2222-2222-222222222222";

/// A file-system image, and its external journal if it has one.
pub struct Image {
    pub path: PathBuf,
    pub journal_path: Option<PathBuf>,
    pub block_bytes: u32,
    /// The type for mount(8).
    pub kind: &'static str,
    _directory: tempfile::TempDir,
}

impl Image {
    /// Creates an image with `mke2fs`.
    pub fn by_mke2fs(cell: Cell, size_bytes: u64) -> Self {
        let (kind, is_external) = match cell.journal {
            Journal::None => ("ext2", false),
            Journal::Internal(_) => ("ext3", false),
            Journal::External(_) => ("ext3", true),
        };
        Self::with_arguments(kind, cell.block_bytes, size_bytes, is_external, &[])
    }

    /// Creates an image with `mke2fs` and more arguments. An external journal needs root: mke2fs
    /// accepts only a block device.
    pub fn with_arguments(
        kind: &'static str,
        block_bytes: u32,
        size_bytes: u64,
        is_external: bool,
        more: &[&str],
    ) -> Self {
        let image = Self::empty(kind, block_bytes, size_bytes, is_external);
        image.run_mke2fs(more);
        image
    }

    /// Creates an image as [`with_arguments`](Self::with_arguments) does, on a device full of
    /// garbage: what mke2fs does not write has no valid contents.
    pub fn over_garbage(
        kind: &'static str,
        block_bytes: u32,
        size_bytes: u64,
        is_external: bool,
        more: &[&str],
    ) -> Self {
        let image = Self::empty(kind, block_bytes, size_bytes, is_external);
        std::fs::write(&image.path, vec![0xA5; size_bytes as usize]).expect("room for the image");
        image.run_mke2fs(&[more, &["-E", "nodiscard,lazy_itable_init=1"]].concat());
        image
    }

    fn run_mke2fs(&self, more: &[&str]) {
        let path = self.path.to_str().expect("UTF-8");
        let block_bytes = self.block_bytes.to_string();
        let mut arguments = vec!["-q", "-F", "-t", self.kind, "-b", &block_bytes];
        let mut extended = vec![HASH_SEED];
        let mut words = more.iter();
        while let Some(word) = words.next() {
            match *word {
                "-E" => extended.extend(words.next()),
                word => arguments.push(word),
            }
        }
        let extended = extended.join(",");
        arguments.extend(["-E", &extended]);
        let journal_loop = self.journal_path.as_ref().map(|journal| {
            let file = journal.to_str().expect("UTF-8");
            let arguments = ["-q", "-F", "-O", "journal_dev", "-b", &block_bytes, file];
            tool::run_well("mke2fs", &arguments);
            Loop::attach(journal)
        });
        let device = journal_loop
            .as_ref()
            .map(|journal| format!("device={}", journal.path()));
        if let Some(device) = &device {
            arguments.extend(["-J", device]);
        }
        arguments.push(path);
        tool::run_well("mke2fs", &arguments);
    }

    /// Creates an image without a file system.
    pub fn empty(kind: &'static str, block_bytes: u32, size_bytes: u64, is_external: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the image");
        let path = directory.path().join("image");
        create_sparse(&path, size_bytes).expect("a sparse image");
        let journal_path = is_external.then(|| {
            let journal = directory.path().join("journal");
            create_sparse(&journal, JOURNAL_BLOCKS * u64::from(block_bytes))
                .expect("a sparse journal");
            journal
        });
        Self {
            path,
            journal_path,
            block_bytes,
            kind,
            _directory: directory,
        }
    }

    /// Returns an independent copy.
    pub fn copy(&self) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the image");
        let path = directory.path().join("image");
        std::fs::copy(&self.path, &path).expect("a copy of the image");
        let journal_path = self.journal_path.as_ref().map(|from| {
            let journal = directory.path().join("journal");
            std::fs::copy(from, &journal).expect("a copy of the journal");
            journal
        });
        Self {
            path,
            journal_path,
            block_bytes: self.block_bytes,
            kind: self.kind,
            _directory: directory,
        }
    }

    /// Mounts the image with the kernel.
    ///
    /// # Errors
    /// Returns the message of the kernel.
    pub fn mount(&self, options: &str) -> Result<Mount, String> {
        self.mount_as(self.kind, options)
    }

    /// Mounts the image with the kernel as another type of file system.
    ///
    /// # Errors
    /// Returns the message of the kernel.
    pub fn mount_as(&self, kind: &str, options: &str) -> Result<Mount, String> {
        Mount::new(&self.path, self.journal_path.as_deref(), kind, options)
    }

    /// Returns the device of the image.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        open_device(&self.path)
    }

    /// Returns the device of the external journal.
    pub fn journal_device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.journal_path.as_ref().map(|path| open_device(path))
    }

    /// Opens the volume.
    pub fn open(&self, cell: &Cell) -> Volume {
        Volume::open(self.device(), self.journal_device(), cell.options())
            .expect("the volume opens")
    }

    /// Opens the volume with this memory, in bytes.
    pub fn open_within(&self, cell: &Cell, budget_bytes: u64) -> Volume {
        let options = MountOptions {
            memory: Memory {
                budget_bytes,
                ..Memory::default()
            },
            ..cell.options()
        };
        Volume::open(self.device(), self.journal_device(), options).expect("the volume opens")
    }

    /// Returns the tree as read from the volume itself.
    pub fn own_tree(&self, volume: &Volume) -> Tree {
        tree_of(volume)
    }
}

/// Returns the tree as read from a volume itself.
pub fn tree_of(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    walk(volume, InodeNr::ROOT, &[], &mut tree);
    tree
}

/// Opens an image that others may have open.
pub fn look_at(path: &Path) -> Arc<dyn BlockDevice> {
    let options = OpenOptions {
        locks: false,
        ..OpenOptions::default()
    };
    let device = FileDevice::open(path, &options);
    Arc::new(device.unwrap_or_else(|error| panic!("the image does not open: {error}")))
}

pub fn open_device(path: &Path) -> Arc<dyn BlockDevice> {
    let device = FileDevice::open(path, &OpenOptions::default());
    Arc::new(device.unwrap_or_else(|error| panic!("the image does not open: {error}")))
}

fn walk(volume: &Volume, nr: InodeNr, path: &[u8], tree: &mut Tree) {
    let attributes = volume.attributes(nr).expect("attributes");
    let contents = match attributes.kind {
        FileKind::Regular => {
            let file = volume.open_inode(nr, OpenFlags::READ).expect("open");
            let mut bytes = vec![0; attributes.size as usize];
            let count = volume.read(file, 0, &mut bytes).expect("read");
            assert_eq!(count as u64, attributes.size);
            volume.release(file).expect("close");
            bytes
        }
        FileKind::Symlink => volume.read_link(nr).expect("readlink"),
        _ => Vec::new(),
    };
    let node = Node {
        kind: kind_letter(attributes.kind),
        permissions: attributes.permissions,
        uid: attributes.uid,
        gid: attributes.gid,
        links: Some(attributes.links),
        mtime: Some(attributes.mtime.seconds),
        contents: Some(contents),
        device: attributes.device.map(|device| (device.major, device.minor)),
    };
    tree.insert(path.to_vec(), node);
    if attributes.kind != FileKind::Directory {
        return;
    }
    let mut children = Vec::new();
    volume
        .read_directory(nr, 0, &mut |_, entry| {
            children.push(entry);
            true
        })
        .expect("readdir");
    for child in children {
        if child.name != b"." && child.name != b".." {
            let mut child_path = path.to_vec();
            child_path.push(b'/');
            child_path.extend_from_slice(&child.name);
            walk(volume, child.inode, &child_path, tree);
        }
    }
}

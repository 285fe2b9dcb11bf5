//! Images in a directory of their own, made by `mke2fs` or by our own mkfs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::file::{FileDevice, OpenOptions, create_sparse};
use block::{BlockDevice, DeviceError};
use ext::Volume;
use ext::volume::{FileKind, OpenFlags};
use layout::InodeNr;

use crate::cell::{Cell, Journal};
use crate::model::kind_letter;
use crate::oracle::{self, Loop};
use crate::tree::{Node, Tree};

/// Bytes of an external journal: 1024 blocks, the superblocks and a little more.
const JOURNAL_BLOCKS: u64 = 1100;

/// A file-system image, and its external journal if it has one.
pub struct Image {
    pub path: PathBuf,
    pub journal_path: Option<PathBuf>,
    pub has_journal: bool,
    _directory: tempfile::TempDir,
}

impl Image {
    /// An image made by `mke2fs`.
    pub fn by_mke2fs(cell: Cell, size_bytes: u64) -> Self {
        let image = Self::empty(cell, size_bytes);
        let path = image.path.to_str().expect("UTF-8");
        let block_bytes = cell.block_bytes.to_string();
        let kind = if image.has_journal { "ext3" } else { "ext2" };
        let mut arguments = vec!["-q", "-F", "-t", kind, "-b", &block_bytes];
        let journal_loop = image.journal_path.as_ref().map(|journal| {
            let file = journal.to_str().expect("UTF-8");
            let made = oracle::run(
                "mke2fs",
                &["-q", "-F", "-O", "journal_dev", "-b", &block_bytes, file],
            );
            assert!(made.status.success(), "mke2fs -O journal_dev: {made:?}");
            Loop::attach(journal, false)
        });
        let device = journal_loop
            .as_ref()
            .map(|journal| format!("device={}", journal.path));
        if let Some(device) = &device {
            arguments.extend(["-J", device]);
        }
        arguments.push(path);
        let made = oracle::run("mke2fs", &arguments);
        assert!(made.status.success(), "mke2fs: {made:?}");
        image
    }

    fn empty(cell: Cell, size_bytes: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the image");
        let path = directory.path().join("image");
        create_sparse(&path, size_bytes).expect("a sparse image");
        let is_external = matches!(cell.journal, Journal::External(_));
        let journal_path = is_external.then(|| {
            let journal = directory.path().join("journal");
            create_sparse(&journal, JOURNAL_BLOCKS * u64::from(cell.block_bytes))
                .expect("a sparse journal");
            journal
        });
        let has_journal = cell.journal != Journal::None;
        Self {
            path,
            journal_path,
            has_journal,
            _directory: directory,
        }
    }

    /// The device of the image.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        open_device(&self.path)
    }

    /// The device of the external journal.
    pub fn journal_device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.journal_path.as_ref().map(|path| open_device(path))
    }

    /// Opens the volume.
    pub fn open(&self, cell: &Cell) -> Volume {
        Volume::open(self.device(), self.journal_device(), cell.options())
            .expect("the volume opens")
    }

    /// The tree as the volume itself tells it.
    pub fn own_tree(&self, volume: &Volume) -> Tree {
        let mut tree = Tree::new();
        walk(volume, InodeNr::ROOT, &[], &mut tree);
        tree
    }
}

/// Opens an image. The kernel lets a detached loop device go a moment later when somebody else is looking at it, and until
/// then the image is rightly refused: so this waits for it.
fn open_device(path: &Path) -> Arc<dyn BlockDevice> {
    let mut tries = 0;
    loop {
        match FileDevice::open(path, &OpenOptions::default()) {
            Ok(device) => return Arc::new(device),
            Err(DeviceError::InUse { .. }) if tries < 200 => {
                tries += 1;
                rt::sleep(rt::Nanos::from_millis(50));
            }
            Err(error) => panic!("the image does not open: {error}"),
        }
    }
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

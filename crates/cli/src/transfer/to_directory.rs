//! A directory of the host as a sink. Without root, owners, devices and attributes of the system are left out, and that is said once.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;
use layout::time::InodeTime;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::{Item, Node, Sink, host};

/// What a file is while it is being written.
const MODE_WHILE_OPEN: u32 = 0o600;

/// A directory that is being filled.
pub(crate) struct DirectorySink {
    root: PathBuf,
    open: Option<(File, Box<Node>)>,
    directories: Vec<Node>,
    /// What could not be done for want of root.
    left_out: host::LeftOut,
}

impl DirectorySink {
    /// A directory that is not there yet, or is empty: so that nothing that stands there can lead out of it.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let context = || root.display().to_string();
        match fs::create_dir(root) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if fs::read_dir(root).with_context(context)?.next().is_some() {
                    bail!(
                        "{}: is not empty; export to a new directory",
                        root.display()
                    );
                }
            }
            other => other.with_context(context)?,
        }
        Ok(Self {
            root: root.to_owned(),
            open: None,
            directories: Vec::new(),
            left_out: host::LeftOut::default(),
        })
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn make(&mut self, node: Box<Node>) -> Result<()> {
        let at = self.at(&node.path);
        if let Some(first) = &node.link_to {
            return Ok(fs::hard_link(self.at(first), at)?);
        }
        match node.kind {
            FileKind::Directory => {
                if !node.path.is_empty() {
                    fs::create_dir(&at)?;
                }
                self.directories.push(*node);
                return Ok(());
            }
            FileKind::Regular => {
                let mut options = File::options();
                let options = options.write(true).create_new(true).mode(MODE_WHILE_OPEN);
                let file = options.open(&at)?;
                file.set_len(node.size)?;
                self.open = Some((file, node));
                return Ok(());
            }
            FileKind::Symlink => {
                std::os::unix::fs::symlink(OsStr::from_bytes(&node.target), &at)?;
            }
            kind => {
                let file_type = rustix::fs::FileType::from_raw_mode(u32::from(kind.mode()));
                let device = rustix::fs::makedev(node.device.major, node.device.minor);
                let mode = Mode::from_raw_mode(MODE_WHILE_OPEN);
                let made = rustix::fs::mknodat(CWD, &at, file_type, mode, device);
                self.left_out.note("devices", made)?;
                if fs::symlink_metadata(&at).is_err() {
                    return Ok(());
                }
            }
        }
        self.adopt(&node)
    }

    /// Gives a file its owner, mode, attributes and times, in the order in which none undoes another.
    fn adopt(&mut self, node: &Node) -> Result<()> {
        let at = self.at(&node.path);
        let owner = std::os::unix::fs::lchown(&at, Some(node.uid), Some(node.gid));
        let owner = owner.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        self.left_out.note("owners", owner)?;
        if node.kind != FileKind::Symlink {
            let permissions = Permissions::from_mode(u32::from(node.permissions));
            fs::set_permissions(&at, permissions)?;
        }
        for (name, value) in &node.attributes {
            let set = host::set_attribute(&at, name, value);
            self.left_out.note("some extended attributes", set)?;
        }
        set_times(&at, node.mtime)
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some((file, node)) = self.open.take() else {
            return Ok(());
        };
        drop(file);
        self.adopt(&node).with_context(|| node.text())
    }
}

fn set_times(at: &Path, mtime: InodeTime) -> Result<()> {
    let time = Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: i64::from(mtime.nanos),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::utimensat(
        CWD,
        at,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

impl Sink for DirectorySink {
    fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Node(node) => {
                self.finish_file()?;
                let text = node.text();
                self.make(node).context(text)
            }
            Item::Data { offset, bytes } => match &self.open {
                Some((file, node)) => file
                    .write_all_at(&bytes, offset)
                    .with_context(|| node.text()),
                None => bail!("data without a file"),
            },
        }
    }

    fn end(&mut self) -> Result<()> {
        self.finish_file()?;
        while let Some(node) = self.directories.pop() {
            self.adopt(&node).with_context(|| node.text())?;
        }
        self.left_out.warn();
        Ok(())
    }
}

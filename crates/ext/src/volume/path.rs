//! Operations by path: `/a/b/c`, following symbolic links.
//!
//! A path is text, bytes or a path of the standard library ([`AsPath`]), and starts at the root.
//! Calls with `follow` also follow a symbolic link at the end of the path. Until a call ends, the
//! inodes on its path are pinned: none of them is deleted, and none of their numbers is reused.

mod as_path;
mod entries;
mod extended;
mod files;

use std::sync::Arc;

use layout::InodeNr;

use super::{Attributes, SetAttributes, Volume};
use crate::cache::inode::Inode;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::namei;

pub use as_path::AsPath;

/// Largest number of symbolic links in a path.
const SYMLINKS_MAX: u32 = 40;

impl Volume {
    /// Returns the inode of a path.
    ///
    /// If other threads may remove the path meanwhile, the number can be another inode's by the
    /// time it is used: use [`Volume::with_inode_at`] then.
    ///
    /// # Errors
    /// Fails as [`Volume::with_inode_at`].
    pub fn resolve(&self, path: &(impl AsPath + ?Sized), follow: bool) -> Result<InodeNr> {
        self.with_inode_at(path, follow, Ok)
    }

    /// Calls `work` with the inode of a path. Until it returns, the inode is not deleted and its
    /// number is not reused, even if other threads remove its names.
    ///
    /// # Errors
    /// - [`Error::NotFound`] if a name of the path does not exist, or a link in it is dangling.
    /// - [`Error::NotDirectory`] if a name before a slash is no directory.
    /// - [`Error::TooManySymlinks`] after 40 links; [`Error::NameTooLong`] for a name of more than
    ///   255 bytes.
    /// - [`Error::Device`] and [`Error::Corrupt`] if the path cannot be read.
    /// - Errors of `work`.
    pub fn with_inode_at<T>(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
        work: impl FnOnce(InodeNr) -> Result<T>,
    ) -> Result<T> {
        let inode = self.walk(None, path.path_bytes(), follow, &mut 0)?;
        if rt::mutant!("path/inode-not-held") {
            self.unpin(&inode)?;
            return work(inode.nr);
        }
        let result = work(inode.nr);
        self.unpin(&inode)?;
        result
    }

    /// Walks a path from a directory, or from the root. Returns the inode at its end, pinned.
    fn walk(
        &self,
        start: Option<&Arc<Inode>>,
        path: &[u8],
        follow: bool,
        links: &mut u32,
    ) -> Result<Arc<Inode>> {
        let mut current = match start {
            Some(start) if path.first() != Some(&b'/') => Arc::clone(start),
            _ => self.core.fetch_inode(InodeNr::ROOT)?,
        };
        self.core.inodes.pin(&current);
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        let must_be_directory = path.last() == Some(&b'/');
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            let wants_target = !is_last || follow || must_be_directory;
            let next = self.enter(&current, name, wants_target, links);
            self.unpin(&current)?;
            current = next?;
        }
        if must_be_directory && current.kind != FileKind::Directory {
            self.unpin(&current)?;
            return Err(Error::NotDirectory);
        }
        Ok(current)
    }

    /// Returns the inode of a name in a directory, pinned.
    fn enter(
        &self,
        directory: &Arc<Inode>,
        name: &[u8],
        wants_target: bool,
        links: &mut u32,
    ) -> Result<Arc<Inode>> {
        rt::charge(rt::Cost::Syscall);
        let inode = namei::look_up_and_pin(&self.core, directory.nr, name)?;
        if !wants_target {
            return Ok(inode);
        }
        rt::charge(rt::Cost::Lookup);
        if inode.kind != FileKind::Symlink {
            return Ok(inode);
        }
        *links += 1;
        let target = if *links > SYMLINKS_MAX {
            Err(Error::TooManySymlinks)
        } else {
            self.read_link(inode.nr)
        };
        self.unpin(&inode)?;
        self.walk(Some(directory), &target?, true, links)
    }

    /// Returns the directory of a path's last name, and that name.
    ///
    /// As with [`Volume::resolve`], other threads may remove the directory: use
    /// [`Volume::with_parent_of`] then.
    ///
    /// # Errors
    /// Fails as [`Volume::with_parent_of`].
    pub fn resolve_parent<'p, P>(&self, path: &'p P) -> Result<(InodeNr, &'p [u8])>
    where
        P: AsPath + ?Sized,
    {
        let (parent, name) = split_last(path.path_bytes())?;
        Ok((self.resolve(parent, true)?, name))
    }

    /// Calls `work` with the directory of a path's last name, and that name. The directory's number
    /// is not reused until it returns.
    ///
    /// # Errors
    /// - [`Error::Invalid`] if the path has no last name that could be added or removed: the root,
    ///   `.` and `..`.
    /// - Errors of [`Volume::with_inode_at`].
    pub fn with_parent_of<T>(
        &self,
        path: &(impl AsPath + ?Sized),
        work: impl FnOnce(InodeNr, &[u8]) -> Result<T>,
    ) -> Result<T> {
        let (parent, name) = split_last(path.path_bytes())?;
        self.with_inode_at(parent, true, |parent| work(parent, name))
    }

    /// Returns the attributes of a path, as stat; with `follow`, those of a symbolic link's target.
    ///
    /// # Errors
    /// Fails as [`Volume::with_inode_at`].
    pub fn metadata(&self, path: &(impl AsPath + ?Sized), follow: bool) -> Result<Attributes> {
        self.with_inode_at(path, follow, |nr| self.attributes(nr))
    }

    /// Changes owner, mode, size, times or flags of the inode of a path.
    ///
    /// # Errors
    /// Fails as [`Volume::set_attributes`] and [`Volume::with_inode_at`].
    pub fn set_metadata(
        &self,
        path: &(impl AsPath + ?Sized),
        follow: bool,
        change: &SetAttributes,
    ) -> Result<()> {
        self.with_inode_at(path, follow, |nr| self.set_attributes(nr, change))
    }
}

/// Returns a path without its last name, and that name.
fn split_last(path: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/');
    let trimmed = &path[..end.map_or(0, |last| last + 1)];
    let (parent, name) = match trimmed.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&trimmed[..=at], &trimmed[at + 1..]),
        None => (&b"/"[..], trimmed),
    };
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Error::Invalid(
            "the path has no last name that could be made or removed",
        ));
    }
    Ok((parent, name))
}

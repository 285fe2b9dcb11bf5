//! Effects of operations on the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::device::DeviceNumber;

use super::{Kind, Node, NodeId, Sector, Tree, sector_count};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::marks::Marks;
use crate::op::{Op, Path, Special};

/// The number, time and new ids of a change.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// Number of the state that it creates.
    pub state: usize,
    /// The time, in seconds since 1970.
    pub seconds: i64,
    /// The id of a new node.
    pub new_node: NodeId,
    /// The number of a write.
    pub write: u32,
}

impl Tree {
    /// Returns the tree after an operation; `None` if the operation cannot be done because
    /// something is missing or exists.
    pub fn after(&self, op: &Op, change: Change) -> Option<Self> {
        let mut next = self.clone();
        let done = match op {
            Op::Create(path) => next.add(path, empty_file(), change),
            Op::Mkdir(path) => next.add(path, Kind::Directory(Arc::default()), change),
            Op::Symlink(target, path) => next.add(path, Kind::Symlink(Arc::clone(target)), change),
            Op::Mknod(special, path) => next.add(path, Kind::Special(*special), change),
            Op::Write(path, from, count) => {
                next.write(path, *from as usize, *count as usize, change)
            }
            Op::WriteAs(_, path, from, count) => {
                next.write(path, *from as usize, *count as usize, change)
            }
            Op::Chmod(path, mode) => next.find(path).and_then(|id| {
                next.node_mut(id)?.permissions = *mode;
                next.touch(id, change)
            }),
            Op::Chown(path, user, group) => next.find(path).and_then(|id| {
                next.node_mut(id)?.owner = (*user, *group);
                next.touch(id, change)
            }),
            Op::Setxattr(path, name, length) => next.mark(path, change, |node| {
                let marks = Arc::make_mut(&mut node.marks);
                marks.values.insert(Arc::clone(name), *length);
                Some(())
            }),
            Op::Removexattr(path, name) => next.mark(path, change, |node| {
                let marks = Arc::make_mut(&mut node.marks);
                marks.values.remove(name).map(drop)
            }),
            Op::Setfacl(path, mode) => next.mark(path, change, |node| {
                node.permissions = node.permissions & !0o777 | mode & 0o777;
                Arc::make_mut(&mut node.marks).has_list = true;
                Some(())
            }),
            Op::SetDefaultFacl(path, mode) => next.mark(path, change, |node| {
                matches!(node.kind, Kind::Directory(_)).then_some(())?;
                Arc::make_mut(&mut node.marks).inherited = Some(mode & 0o777);
                Some(())
            }),
            Op::Utimes(path, seconds) => next.find(path).and_then(|id| {
                let node = next.node_mut(id)?;
                node.modified = i64::from(*seconds);
                node.punched_within = None;
                next.touch(id, change)
            }),
            Op::Append(path, count) => {
                let Kind::File { size, .. } = &self.node(self.find(path)?).kind else {
                    return None;
                };
                let from = size.div_ceil(SECTOR_BYTES as u64) as usize;
                next.write(path, from, *count as usize, change)
            }
            Op::Truncate(path, size) => next.truncate(path, *size, change),
            Op::Allocate(path, from, count) => {
                next.allocate(path, *from as usize, *count as usize, change)
            }
            Op::Punch(path, from, count) => {
                next.punch(path, *from as usize, *count as usize, change)
            }
            Op::Zero(path, from, count) => next.zero(path, *from as usize, *count as usize, change),
            Op::Collapse(path, from, count) => {
                next.collapse(path, *from as usize, *count as usize, change)
            }
            Op::Insert(path, from, count) => {
                next.insert(path, *from as usize, *count as usize, change)
            }
            Op::Link(from, to) => next.link(from, to, change),
            Op::Unlink(path) => next.unlink(path, change),
            Op::Rmdir(path) => next.rmdir(path, change),
            Op::Rename(from, to) => next.rename(from, to, change),
            Op::Exchange(one, other) => next.exchange(one, other, change),
            Op::Whiteout(from, to) => next.whiteout(from, to, change),
            Op::Journaled(path, _) => next.change_flags(path, false, change),
            Op::Dirsync(path, is_on) => next.change_flags(path, *is_on, change),
            // Devices and fifos can be synced, too.
            Op::Fsync(path) | Op::Fdatasync(path) => {
                self.names(self.find(path)?).is_none().then_some(())
            }
            Op::SyncDirectory(path) => self.names(self.find(path)?).map(drop),
            Op::Sync => Some(()),
        };
        done.map(|()| next)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        Arc::make_mut(&mut self.nodes)
            .get_mut(&id)
            .map(Arc::make_mut)
    }

    fn names_mut(&mut self, id: NodeId) -> Option<&mut BTreeMap<Path, NodeId>> {
        match &mut self.node_mut(id)?.kind {
            Kind::Directory(names) => Some(Arc::make_mut(names)),
            _ => None,
        }
    }

    /// Returns the directory of a path's last name, and that name.
    fn parent(&self, path: &str) -> Option<(NodeId, Path)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let id = self.find(parent)?;
        self.names(id)?;
        (!name.is_empty()).then(|| (id, name.into()))
    }

    /// Notes a change of a directory's contents.
    fn touch_directory(&mut self, id: NodeId, change: Change) -> Option<()> {
        let node = self.node_mut(id)?;
        node.modified = change.seconds;
        node.changed = change.seconds;
        node.changed_in = change.state;
        Some(())
    }

    /// Notes a change of the inode without its contents.
    fn touch(&mut self, id: NodeId, change: Change) -> Option<()> {
        let node = self.node_mut(id)?;
        node.changed = change.seconds;
        node.changed_in = change.state;
        Some(())
    }

    fn add(&mut self, path: &str, kind: Kind, change: Change) -> Option<()> {
        let (parent, name) = self.parent(path)?;
        let is_directory = matches!(kind, Kind::Directory(_));
        if self.names(parent)?.contains_key(&name) {
            return None;
        }
        let permissions = match kind {
            Kind::Directory(_) => 0o755,
            Kind::File { .. } | Kind::Special(_) => 0o644,
            Kind::Symlink(_) => 0o777,
        };
        let (marks, permissions) = match kind {
            Kind::Symlink(_) => (Marks::default(), permissions),
            _ => self.node(parent).marks.inherit(permissions, is_directory),
        };
        let is_dirsync = is_directory && self.node(parent).is_dirsync;
        let node = Node {
            kind,
            permissions,
            owner: (0, 0),
            is_dirsync,
            marks: Arc::new(marks),
            links: if is_directory { 2 } else { 1 },
            modified: change.seconds,
            changed: change.seconds,
            punched_within: None,
            changed_in: change.state,
            data_in: change.state,
            map_in: change.state,
        };
        Arc::make_mut(&mut self.nodes).insert(change.new_node, Arc::new(node));
        self.names_mut(parent)?.insert(name, change.new_node);
        self.node_mut(parent)?.links += u32::from(is_directory);
        self.touch_directory(parent, change)
    }

    pub(super) fn write(
        &mut self,
        path: &str,
        from: usize,
        count: usize,
        change: Change,
    ) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        let Kind::File { size, sectors } = &mut node.kind else {
            return None;
        };
        let end = ((from + count) * SECTOR_BYTES) as u64;
        let sectors = Arc::make_mut(sectors);
        let old_count = sectors.len();
        sectors.resize(old_count.max(sector_count(end)), Sector::default());
        let blocks = from / BLOCK_SECTORS..(from + count).div_ceil(BLOCK_SECTORS);
        for (index, sector) in sectors
            .iter_mut()
            .enumerate()
            .take(blocks.end * BLOCK_SECTORS)
            .skip(blocks.start * BLOCK_SECTORS)
        {
            let block_end = (index / BLOCK_SECTORS + 1) * BLOCK_SECTORS * SECTOR_BYTES;
            let is_new = sector.allocated_in == 0;
            if is_new {
                sector.allocate(change.state);
                node.map_in = change.state;
            }
            if is_new || block_end as u64 > *size {
                sector.ordered_in = change.state as u32;
            }
        }
        for (index, sector) in (from..).zip(&mut sectors[from..from + count]) {
            sector.write = change.write;
            sector.cut = SECTOR_BYTES as u16;
            sector.written_at = index as u32;
        }
        if end > *size {
            *size = end;
            node.map_in = change.state;
        }
        self.note_contents(id, change)
    }

    fn truncate(&mut self, path: &str, new_size: u64, change: Change) -> Option<()> {
        let node = self.node_mut(self.find(path)?)?;
        let Kind::File { size, sectors } = &mut node.kind else {
            return None;
        };
        let sectors = Arc::make_mut(sectors);
        sectors.resize(sector_count(new_size), Sector::default());
        // The bytes after the end in the last block are cleared.
        let whole = (new_size / SECTOR_BYTES as u64) as usize;
        if new_size < *size {
            let block_start = whole - whole % BLOCK_SECTORS;
            for sector in sectors.iter_mut().skip(block_start) {
                if sector.allocated_in > 0 {
                    sector.ordered_in = change.state as u32;
                }
            }
            for (index, sector) in sectors.iter_mut().enumerate().skip(whole) {
                let kept = if index == whole {
                    (new_size % SECTOR_BYTES as u64) as u16
                } else {
                    0
                };
                sector.cut = sector.cut.min(kept);
                if sector.cut == 0 {
                    sector.write = 0;
                }
            }
        }
        // A truncation to the same size changes times only.
        if new_size != *size {
            *size = new_size;
            node.data_in = change.state;
            node.map_in = change.state;
        }
        node.modified = change.seconds;
        node.changed = change.seconds;
        node.changed_in = change.state;
        Some(())
    }

    /// Changes the attributes of a file or directory.
    fn mark(
        &mut self,
        path: &str,
        change: Change,
        work: impl FnOnce(&mut Node) -> Option<()>,
    ) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        matches!(node.kind, Kind::File { .. } | Kind::Directory(_)).then_some(())?;
        work(node)?;
        self.touch(id, change)
    }

    /// Sets all flags. After an earlier failure the inode may not be of the kind that has them.
    fn change_flags(&mut self, path: &str, is_dirsync: bool, change: Change) -> Option<()> {
        let id = self.find(path)?;
        let node = self.node_mut(id)?;
        node.is_dirsync = is_dirsync && matches!(node.kind, Kind::Directory(_));
        self.touch(id, change)
    }

    fn link(&mut self, from: &str, to: &str, change: Change) -> Option<()> {
        let id = self.find(from)?;
        let (parent, name) = self.parent(to)?;
        if self.names(id).is_some() || self.names(parent)?.contains_key(&name) {
            return None;
        }
        self.names_mut(parent)?.insert(name, id);
        self.node_mut(id)?.links += 1;
        self.touch(id, change)?;
        self.touch_directory(parent, change)
    }

    /// Removes one name; the last one removes the node.
    fn drop_name(&mut self, id: NodeId, change: Change) -> Option<()> {
        let node = self.node_mut(id)?;
        node.links -= 1;
        if node.links == 0 {
            Arc::make_mut(&mut self.nodes).remove(&id);
            return Some(());
        }
        self.touch(id, change)
    }

    fn unlink(&mut self, path: &str, change: Change) -> Option<()> {
        let (parent, name) = self.parent(path)?;
        let id = *self.names(parent)?.get(&name)?;
        if self.names(id).is_some() {
            return None;
        }
        self.names_mut(parent)?.remove(&name);
        self.touch_directory(parent, change)?;
        self.drop_name(id, change)
    }

    /// Removes an empty directory.
    fn rmdir(&mut self, path: &str, change: Change) -> Option<()> {
        let (parent, name) = self.parent(path)?;
        let id = *self.names(parent)?.get(&name)?;
        if !self.names(id)?.is_empty() {
            return None;
        }
        self.names_mut(parent)?.remove(&name);
        Arc::make_mut(&mut self.nodes).remove(&id);
        self.node_mut(parent)?.links -= 1;
        self.touch_directory(parent, change)
    }

    fn rename(&mut self, from: &str, to: &str, change: Change) -> Option<()> {
        let (parent, name) = self.parent(from)?;
        let (new_parent, new_name) = self.parent(to)?;
        let id = *self.names(parent)?.get(&name)?;
        let old = self.names(new_parent)?.get(&new_name).copied();
        if old == Some(id) {
            return Some(());
        }
        let is_directory = self.names(id).is_some();
        if is_directory && self.is_within(new_parent, id) {
            return None;
        }
        if let Some(old) = old {
            match (is_directory, self.names(old)) {
                (true, Some(names)) if names.is_empty() => self.rmdir(to, change)?,
                (false, None) => self.drop_name(old, change)?,
                _ => return None,
            }
        }
        self.names_mut(parent)?.remove(&name);
        self.names_mut(new_parent)?.insert(new_name, id);
        if is_directory {
            self.node_mut(parent)?.links -= 1;
            self.node_mut(new_parent)?.links += 1;
        }
        self.touch(id, change)?;
        self.touch_directory(parent, change)?;
        self.touch_directory(new_parent, change)
    }

    fn whiteout(&mut self, from: &str, to: &str, change: Change) -> Option<()> {
        self.rename(from, to, change)?;
        if self.find(from).is_some() {
            // Both are names of one file, and stay.
            return Some(());
        }
        let special = Special::Character(DeviceNumber::default());
        self.add(from, Kind::Special(special), change)?;
        let node = self.node_mut(change.new_node)?;
        node.permissions = 0;
        node.marks = Arc::default();
        Some(())
    }

    fn exchange(&mut self, one: &str, other: &str, change: Change) -> Option<()> {
        let (parent, name) = self.parent(one)?;
        let (new_parent, new_name) = self.parent(other)?;
        let first = *self.names(parent)?.get(&name)?;
        let second = *self.names(new_parent)?.get(&new_name)?;
        if first == second || self.is_within(new_parent, first) || self.is_within(parent, second) {
            return None;
        }
        for (id, from, to) in [(first, parent, new_parent), (second, new_parent, parent)] {
            if self.names(id).is_some() {
                self.node_mut(from)?.links -= 1;
                self.node_mut(to)?.links += 1;
            }
            self.touch(id, change)?;
        }
        self.names_mut(parent)?.insert(name, second);
        self.names_mut(new_parent)?.insert(new_name, first);
        self.touch_directory(parent, change)?;
        self.touch_directory(new_parent, change)
    }

    /// Returns true if `directory` is `top`, or below it.
    fn is_within(&self, directory: NodeId, top: NodeId) -> bool {
        let below = self.names(top).into_iter().flat_map(|names| names.values());
        directory == top || below.into_iter().any(|id| self.is_within(directory, *id))
    }
}

fn empty_file() -> Kind {
    Kind::File {
        size: 0,
        sectors: Arc::default(),
    }
}

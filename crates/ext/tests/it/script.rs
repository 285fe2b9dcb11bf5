//! A random sequence of operations, applied to a volume and to the model in parallel; results must
//! agree.

mod moves;
mod ranges;
pub mod values;

use ext::volume::{
    DeviceNumber, FileKind, NewInode, OpenFlags, RenameMode, SetAttributes, SetTime, WhiteoutOwner,
};
use ext::{Error, Volume};
use layout::InodeNr;
use layout::time::InodeTime;
use testkit::Random;

use crate::model::{Inode, Model, Outcome};

/// Length of the longest write in bytes.
const WRITE_BYTES_MAX: u64 = 40_000;

/// Bytes of a read of a part.
const READ_STEP_BYTES: usize = 4096;

/// Limit of the bytes of a small change.
const SMALL_BYTES_MAX: u64 = 100;

/// Average number of operations between changes of extended attributes, if there are any.
const VALUES_ONE_IN: u64 = 4;

/// Average number of operations between moves of blocks, on volumes with extents.
const MOVES_ONE_IN: u64 = 12;

/// The operations, with their frequencies.
const WEIGHTS: &[(Operation, u64)] = &[
    (Operation::Create, 14),
    (Operation::MakeDirectory, 6),
    (Operation::MakeNode, 2),
    (Operation::Symlink, 4),
    (Operation::Link, 5),
    (Operation::Unlink, 9),
    (Operation::RemoveDirectory, 3),
    (Operation::Rename, 8),
    (Operation::RenameNoReplace, 2),
    (Operation::Exchange, 4),
    (Operation::Whiteout, 2),
    (Operation::Write, 18),
    (Operation::Append, 8),
    (Operation::SparseWrite, 3),
    (Operation::Truncate, 7),
    (Operation::ChangeRange, 6),
    (Operation::SetAttributes, 4),
    (Operation::Read, 6),
    (Operation::List, 2),
    (Operation::Sync, 2),
];

#[derive(Debug, Clone, Copy)]
enum Operation {
    Create,
    MakeDirectory,
    MakeNode,
    Symlink,
    Link,
    Unlink,
    RemoveDirectory,
    Rename,
    RenameNoReplace,
    Exchange,
    Whiteout,
    Write,
    Append,
    SparseWrite,
    Truncate,
    ChangeRange,
    SetAttributes,
    Read,
    List,
    Sync,
}

/// Both sides, and the source of the next step.
pub struct Script<'a> {
    pub volume: &'a Volume,
    pub model: &'a mut Model,
    pub random: &'a mut Random,
    pub block_bytes: u32,
    /// True if extended attributes change, too, with values of up to 64 KiB.
    pub has_values: bool,
    /// True if half of the changes of contents are small: files may lie within their inodes.
    pub is_small: bool,
}

/// Converts a volume's result to the terms of the model.
fn words<T>(result: Result<T, Error>) -> Outcome<T> {
    result.map_err(|error| match error {
        Error::NotFound => "not found",
        Error::Exists => "exists",
        Error::NotDirectory => "not a directory",
        Error::IsDirectory => "is a directory",
        Error::NotEmpty => "not empty",
        Error::NoSpace | Error::NoInodes => "no space",
        Error::Invalid(_) => "invalid",
        other => panic!("the volume failed: {other:?}"),
    })
}

/// Compares two results. If the volume has no space, which the model cannot know, nothing has
/// happened.
fn agree<T>(real: Outcome<T>, model: impl FnOnce() -> Outcome<()>, what: &str) -> Option<T> {
    match real {
        Err("no space") => None,
        Ok(value) => {
            assert_eq!(model(), Ok(()), "{what}: the volume did it");
            Some(value)
        }
        Err(word) => {
            assert_eq!(model(), Err(word), "{what}: the volume refused");
            None
        }
    }
}

impl Script<'_> {
    /// Runs one operation.
    pub fn step(&mut self) {
        if self.has_values && self.random.below(VALUES_ONE_IN) == 0 {
            return self.change_value();
        }
        let has_extents = self.volume.superblock().has_extents();
        if has_extents && self.random.below(MOVES_ONE_IN) == 0 {
            return self.move_blocks();
        }
        let total = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut at = self.random.below(total);
        for (operation, weight) in WEIGHTS {
            if at < *weight {
                return self.run(*operation);
            }
            at -= weight;
        }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Create => self.create(FileKind::Regular),
            Operation::MakeDirectory => self.create(FileKind::Directory),
            Operation::MakeNode => self.make_node(),
            Operation::Symlink => self.symlink(),
            Operation::Link => self.link(),
            Operation::Unlink => self.unlink(),
            Operation::RemoveDirectory => self.remove_directory(),
            Operation::Rename => self.rename(RenameMode::Replace),
            Operation::RenameNoReplace => self.rename(RenameMode::NoReplace),
            Operation::Exchange => self.rename(RenameMode::Exchange),
            Operation::Whiteout => self.rename_with_whiteout(),
            Operation::Write => self.write_somewhere(),
            Operation::Append => self.append(),
            Operation::SparseWrite => self.sparse_write(),
            Operation::Truncate => self.truncate(),
            Operation::ChangeRange => {
                if let Some(nr) = self.file() {
                    self.change_range(nr);
                }
            }
            Operation::SetAttributes => self.set_attributes(),
            Operation::Read => self.read(),
            Operation::List => self.list(),
            Operation::Sync => self.sync(),
        }
    }

    fn directory(&mut self) -> InodeNr {
        *self.random.pick(&self.model.of_kind(FileKind::Directory))
    }

    fn file(&mut self) -> Option<InodeNr> {
        let files = self.model.of_kind(FileKind::Regular);
        (!files.is_empty()).then(|| *self.random.pick(&files))
    }

    /// Returns a name: mostly one of a few, so that they collide; sometimes long.
    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(40);
        if self.random.below(12) == 0 {
            let mut name = vec![b'x'; 60 + self.random.below(190) as usize];
            name.extend_from_slice(number.to_string().as_bytes());
            return name;
        }
        format!("name{number}").into_bytes()
    }

    /// Returns an existing name, most of the time.
    fn old_name(&mut self, directory: InodeNr) -> Vec<u8> {
        let names: Vec<Vec<u8>> = self.model.get(directory).names.keys().cloned().collect();
        if names.is_empty() || self.random.below(10) == 0 {
            return self.name();
        }
        self.random.pick(&names).clone()
    }

    fn new_inode(&mut self) -> NewInode {
        NewInode {
            permissions: [0o644, 0o600, 0o755, 0o4755, 0o1777][self.random.below(5) as usize],
            uid: [0, 1000, 70_000][self.random.below(3) as usize],
            gid: [0, 100, 90_000][self.random.below(3) as usize],
            ..NewInode::default()
        }
    }

    fn made(&mut self, kind: FileKind, parent: InodeNr, name: &[u8], nr: InodeNr, new: &NewInode) {
        let permissions = if kind == FileKind::Symlink {
            0o777
        } else {
            new.permissions
        };
        let inode = Inode::new(kind, permissions, new.uid, new.gid, parent);
        self.model.make(parent, name, nr, inode);
    }

    fn create(&mut self, kind: FileKind) {
        let (parent, name, new) = (self.directory(), self.name(), self.new_inode());
        let real = match kind {
            FileKind::Directory => self.volume.make_directory(parent, &name, &new),
            _ => self.volume.create(parent, &name, &new),
        };
        let checked = self.model.check_new(parent, &name);
        if let Some(nr) = agree(words(real), || checked, "create") {
            self.made(kind, parent, &name, nr, &new);
        }
    }

    fn make_node(&mut self) {
        let (parent, name, new) = (self.directory(), self.name(), self.new_inode());
        let kinds = [
            FileKind::CharacterDevice,
            FileKind::BlockDevice,
            FileKind::Fifo,
            FileKind::Socket,
        ];
        let kind = *self.random.pick(&kinds);
        let numbers = [(1, 3), (8, 300), (259, 5)];
        let (major, minor) = *self.random.pick(&numbers);
        let device = DeviceNumber { major, minor };
        let real = self.volume.make_node(parent, &name, kind, device, &new);
        let checked = self.model.check_new(parent, &name);
        if let Some(nr) = agree(words(real), || checked, "mknod") {
            self.made(kind, parent, &name, nr, &new);
            if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
                self.model.get_mut(nr).device = Some((major, minor));
            }
        }
    }

    fn symlink(&mut self) {
        let (parent, name, new) = (self.directory(), self.name(), self.new_inode());
        let length: usize = [1, 30, 59, 60, 61, 700][self.random.below(6) as usize];
        let target: Vec<u8> = (0..length)
            .map(|i| b"abcdefghijklmnopqrstuvwxyz/"[i % 27])
            .collect();
        let real = self.volume.symlink(parent, &name, &target, &new);
        let checked = self.model.check_new(parent, &name);
        if let Some(nr) = agree(words(real), || checked, "symlink") {
            self.made(FileKind::Symlink, parent, &name, nr, &new);
            self.model.get_mut(nr).contents = target;
        }
    }

    fn link(&mut self) {
        let Some(nr) = self.file() else { return };
        let (parent, name) = (self.directory(), self.name());
        let real = words(self.volume.link(nr, parent, &name));
        agree(real, || self.model.link(nr, parent, &name), "link");
    }

    fn unlink(&mut self) {
        let parent = self.directory();
        let name = self.old_name(parent);
        let real = words(self.volume.unlink(parent, &name));
        agree(real, || self.model.unlink(parent, &name), "unlink");
    }

    fn remove_directory(&mut self) {
        let parent = self.directory();
        let name = self.old_name(parent);
        if name == b"lost+found" {
            return;
        }
        let real = words(self.volume.remove_directory(parent, &name));
        agree(real, || self.model.remove_directory(parent, &name), "rmdir");
    }

    fn rename(&mut self, mode: RenameMode) {
        let parent = self.directory();
        let name = self.old_name(parent);
        let new_parent = self.directory();
        let new_name = if mode == RenameMode::Exchange || self.random.below(2) == 0 {
            self.old_name(new_parent)
        } else {
            self.name()
        };
        if name == b"lost+found" || new_name == b"lost+found" {
            return;
        }
        let real = words(
            self.volume
                .rename(parent, &name, new_parent, &new_name, mode),
        );
        let owner = match mode {
            RenameMode::Whiteout(owner) if real.is_ok() => Some(owner),
            _ => None,
        };
        let model = &mut *self.model;
        let apply = || match mode {
            RenameMode::Replace | RenameMode::Whiteout(_) => {
                model.rename(parent, &name, new_parent, &new_name)
            }
            RenameMode::Exchange => model.exchange(parent, &name, new_parent, &new_name),
            RenameMode::NoReplace => {
                let is_there = model.lookup(new_parent, &new_name).is_some();
                let before = model.clone();
                let moved = model.rename(parent, &name, new_parent, &new_name);
                match moved {
                    Err("not found" | "invalid") => moved,
                    _ if is_there => {
                        *model = before;
                        Err("exists")
                    }
                    other => other,
                }
            }
        };
        agree(
            real,
            apply,
            &format!("rename {mode:?} {parent}/{name:?} {new_parent}/{new_name:?}"),
        );
        if let Some(owner) = owner {
            self.whiteout_is_left(parent, &name, owner);
        }
    }

    fn rename_with_whiteout(&mut self) {
        let NewInode { uid, gid, .. } = self.new_inode();
        self.rename(RenameMode::Whiteout(WhiteoutOwner { uid, gid }));
    }

    /// Adds the whiteout at the old name to the model, unless both names were of one inode.
    fn whiteout_is_left(&mut self, parent: InodeNr, name: &[u8], owner: WhiteoutOwner) {
        if self.model.lookup(parent, name).is_some() {
            return;
        }
        let nr = self.volume.lookup(parent, name).expect("a whiteout");
        let new = NewInode {
            permissions: 0,
            uid: owner.uid,
            gid: owner.gid,
            ..NewInode::default()
        };
        self.made(FileKind::CharacterDevice, parent, name, nr, &new);
        self.model.get_mut(nr).device = Some((0, 0));
    }

    fn write_somewhere(&mut self) {
        let Some(nr) = self.file() else { return };
        let size = self.model.get(nr).contents.len() as u64;
        let offset = self.random.below(size + 1);
        let length = 1 + self.below(WRITE_BYTES_MAX);
        self.write(nr, offset, length);
    }

    fn append(&mut self) {
        let Some(nr) = self.file() else { return };
        let offset = self.model.get(nr).contents.len() as u64;
        let length = 1 + self.below(3000);
        self.write(nr, offset, length);
    }

    /// Returns a random number below a limit: of bytes, where they may be few.
    fn below(&mut self, limit: u64) -> u64 {
        let is_small = self.is_small && self.random.below(2) == 0;
        self.random
            .below(if is_small { SMALL_BYTES_MAX } else { limit })
    }

    /// Writes beyond the end, across the boundaries of the indirect trees.
    fn sparse_write(&mut self) {
        let Some(nr) = self.file() else { return };
        let block = u64::from(self.block_bytes);
        let borders = [12 * block, (12 + block / 4) * block];
        let border = *self.random.pick(&borders);
        let offset = (border - block + self.random.below(2 * block)).min(2 << 20);
        let length = 1 + self.random.below(5000);
        self.write(nr, offset, length);
    }

    fn write(&mut self, nr: InodeNr, offset: u64, length: u64) {
        let bytes = self.random.bytes(length as usize);
        let sync = self.random.below(20) == 0;
        let direct = self.random.below(16) == 0;
        let flags = OpenFlags {
            sync,
            direct,
            ..OpenFlags::READ_WRITE
        };
        let file = self.volume.open_inode(nr, flags).expect("the file opens");
        let written = match words(self.volume.write(file, offset, &bytes)) {
            Ok(count) => count,
            Err("no space") => 0,
            Err(word) => panic!("write: {word}"),
        };
        if self.random.below(10) == 0 {
            let data_only = self.random.below(2) == 0;
            self.volume.sync_file(file, data_only).expect("fsync");
        }
        self.volume.release(file).expect("close");
        if written > 0 {
            let inode = self.model.get_mut(nr);
            let end = offset as usize + written;
            if inode.contents.len() < end {
                inode.contents.resize(end, 0);
            }
            inode.contents[offset as usize..end].copy_from_slice(&bytes[..written]);
            inode.mtime = None;
        }
    }

    fn truncate(&mut self) {
        let Some(nr) = self.file() else { return };
        let size = self.model.get(nr).contents.len() as u64;
        let new = match self.random.below(4) {
            0 => 0,
            1 => self.random.below(size + 1),
            2 => (size + self.below(100_000)).min(2 << 20),
            _ => size / 2,
        };
        let change = SetAttributes {
            size: Some(new),
            ..Default::default()
        };
        match words(self.volume.set_attributes(nr, &change)) {
            Ok(()) => {
                let inode = self.model.get_mut(nr);
                inode.contents.resize(new as usize, 0);
                inode.mtime = None;
            }
            Err("no space") => {}
            Err(word) => panic!("truncate: {word}"),
        }
    }

    fn set_attributes(&mut self) {
        let nodes: Vec<InodeNr> = self.model.inodes.keys().copied().collect();
        let nr = *self.random.pick(&nodes);
        let new = self.new_inode();
        let seconds = self.random.below(1 << 31) as i64;
        let time = InodeTime::new(seconds, 0);
        let change = SetAttributes {
            permissions: Some(new.permissions),
            uid: Some(new.uid),
            gid: Some(new.gid),
            mtime: Some(SetTime::At(time)),
            ..Default::default()
        };
        self.volume
            .set_attributes(nr, &change)
            .expect("attributes are set");
        let inode = self.model.get_mut(nr);
        inode.permissions = new.permissions;
        inode.uid = new.uid;
        inode.gid = new.gid;
        inode.mtime = Some(seconds);
    }

    fn read(&mut self) {
        let Some(nr) = self.file() else { return };
        let size = self.model.get(nr).contents.len() as u64;
        let is_stepwise = self.random.below(2) == 0;
        let (offset, length) = match is_stepwise {
            true => (0, READ_STEP_BYTES * 3),
            false => {
                let offset = self.random.below(size + 100);
                (offset, self.random.below(60_000) as usize)
            }
        };
        let file = self
            .volume
            .open_inode(nr, OpenFlags::READ)
            .expect("the file opens");
        let mut bytes = vec![0xAA; length];
        let step = match is_stepwise {
            true => READ_STEP_BYTES,
            false => length.max(1),
        };
        let mut count = 0;
        // Step by step more is read ahead, and is not used yet when the file changes.
        for part in bytes.chunks_mut(step) {
            let at = offset + count as u64;
            count += self.volume.read(file, at, part).expect("read");
        }
        self.volume.release(file).expect("close");
        let contents = &self.model.get(nr).contents;
        let start = (offset as usize).min(contents.len());
        let end = (start + length).min(contents.len());
        assert_eq!(count, end - start, "bytes read of inode {nr} at {offset}");
        assert!(
            bytes[..count] == contents[start..end],
            "contents of inode {nr} at {offset}"
        );
        if is_stepwise && self.random.below(2) == 0 {
            self.change_range(nr);
        }
    }

    fn list(&mut self) {
        let nr = self.directory();
        let mut seen = Vec::new();
        let mut cookie = 0;
        loop {
            let mut taken = 0;
            self.volume
                .read_directory(nr, cookie, &mut |next, entry| {
                    if taken == 7 {
                        return false;
                    }
                    taken += 1;
                    cookie = next;
                    if entry.name != b"." && entry.name != b".." {
                        seen.push((entry.name, entry.inode));
                    }
                    true
                })
                .expect("readdir");
            if taken == 0 {
                break;
            }
        }
        seen.sort();
        let expected: Vec<_> = self
            .model
            .get(nr)
            .names
            .iter()
            .map(|(name, nr)| (name.clone(), *nr))
            .collect();
        assert_eq!(seen, expected, "entries of directory {nr}");
    }

    fn sync(&mut self) {
        self.volume.sync().expect("sync");
    }
}

//! Operations, with a text form that resembles the call.
//!
//! ```text
//! create(d0/f1)  write(d0/f1,2,4)  rename(d0/f1,d1/f0)  fsync(d1/f0)  sync
//! ```
//!
//! Offsets and lengths of writes are in sectors, the units that can be distinguished after a crash;
//! sizes of truncations are in bytes.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use layout::device::DeviceNumber;

/// A path below the root, without a leading slash. The empty path is the root.
pub type Path = Arc<str>;

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Creates an empty file.
    Create(Path),
    /// Creates a directory.
    Mkdir(Path),
    /// Writes sectors from a sector on.
    Write(Path, u32, u32),
    /// Writes sectors through a file that was opened with special flags.
    WriteAs(How, Path, u32, u32),
    /// Appends sectors.
    Append(Path, u32),
    /// Sets the size.
    Truncate(Path, u64),
    /// Allocates zeroed blocks for the holes in a range of sectors, and extends the file to the end
    /// of the range.
    Allocate(Path, u32, u32),
    /// Frees the blocks of a range of sectors.
    Punch(Path, u32, u32),
    /// Zeroes a range of sectors.
    Zero(Path, u32, u32),
    /// Removes a range of whole blocks, given in sectors: what lies behind it moves to its start.
    Collapse(Path, u32, u32),
    /// Inserts a hole of whole blocks, given in sectors: what lies behind its start moves to its
    /// end.
    Insert(Path, u32, u32),
    /// Adds a name to a file.
    Link(Path, Path),
    /// Creates a fifo, socket or device.
    Mknod(Special, Path),
    /// Creates a symbolic link: target, path.
    Symlink(Path, Path),
    /// Removes a name.
    Unlink(Path),
    /// Removes an empty directory.
    Rmdir(Path),
    /// Renames, replacing an existing file.
    Rename(Path, Path),
    /// Exchanges two names.
    Exchange(Path, Path),
    /// Renames, and leaves a whiteout at the old name.
    Whiteout(Path, Path),
    /// Sets the permission bits.
    Chmod(Path, u16),
    /// Sets owner and group.
    Chown(Path, u32, u32),
    /// Sets the time of the last change of contents, in seconds since 1970.
    Utimes(Path, u32),
    /// Sets an extended attribute: path, name without `user.`, length of the value.
    Setxattr(Path, Path, u32),
    /// Removes an extended attribute.
    Removexattr(Path, Path),
    /// Sets the access ACL that corresponds to permission bits.
    Setfacl(Path, u16),
    /// Sets the default ACL of a directory, by its permission bits.
    SetDefaultFacl(Path, u16),
    /// Switches data journaling of a file on or off.
    Journaled(Path, bool),
    /// Makes all changes of a directory's names durable when they return, or no longer.
    Dirsync(Path, bool),
    /// Makes a file durable.
    Fsync(Path),
    /// Makes a file's contents durable.
    Fdatasync(Path),
    /// Makes a directory durable.
    SyncDirectory(Path),
    /// Makes everything durable.
    Sync,
}

/// The flags with which a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// O_SYNC.
    Sync,
    /// O_DSYNC.
    DataSync,
    /// O_DIRECT.
    Direct,
}

/// A node without contents: neither a file, nor a directory, nor a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Special {
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, by its number.
    Character(DeviceNumber),
    /// A block device, by its number.
    Block(DeviceNumber),
}

impl fmt::Display for Special {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => write!(out, "fifo"),
            Self::Socket => write!(out, "socket"),
            Self::Character(number) => write!(out, "char.{}.{}", number.major, number.minor),
            Self::Block(number) => write!(out, "block.{}.{}", number.major, number.minor),
        }
    }
}

fn parse_special(text: &str) -> Option<Special> {
    let parts: Vec<&str> = text.split('.').collect();
    match parts[..] {
        ["fifo"] => Some(Special::Fifo),
        ["socket"] => Some(Special::Socket),
        [name, major, minor] => {
            let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
            let number = DeviceNumber { major, minor };
            match name {
                "char" => Some(Special::Character(number)),
                "block" => Some(Special::Block(number)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Op {
    /// Returns true if it is a sync call.
    pub fn is_sync(&self) -> bool {
        let is_file = matches!(self, Self::Fsync(_) | Self::Fdatasync(_));
        is_file || matches!(self, Self::SyncDirectory(_) | Self::Sync)
    }

    /// Returns true if it is a fallocate call.
    pub fn is_range(&self) -> bool {
        matches!(self, Self::Allocate(..) | Self::Punch(..) | Self::Zero(..)) || self.moves_blocks()
    }

    /// Returns true if it moves blocks within a file.
    pub fn moves_blocks(&self) -> bool {
        matches!(self, Self::Collapse(..) | Self::Insert(..))
    }

    /// Returns the names that it adds and removes.
    pub fn names(&self) -> Vec<&Path> {
        match self {
            Self::Create(path)
            | Self::Mkdir(path)
            | Self::Mknod(_, path)
            | Self::Symlink(_, path)
            | Self::Link(_, path)
            | Self::Unlink(path)
            | Self::Rmdir(path) => vec![path],
            Self::Rename(from, to) | Self::Exchange(from, to) | Self::Whiteout(from, to) => {
                vec![from, to]
            }
            _ => vec![],
        }
    }

    /// Returns its paths.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Create(path)
            | Self::Mkdir(path)
            | Self::Write(path, ..)
            | Self::WriteAs(_, path, ..)
            | Self::Mknod(_, path)
            | Self::Chmod(path, _)
            | Self::Setxattr(path, ..)
            | Self::Removexattr(path, _)
            | Self::Setfacl(path, _)
            | Self::SetDefaultFacl(path, _)
            | Self::Chown(path, ..)
            | Self::Utimes(path, _)
            | Self::Append(path, _)
            | Self::Truncate(path, _)
            | Self::Allocate(path, ..)
            | Self::Punch(path, ..)
            | Self::Zero(path, ..)
            | Self::Collapse(path, ..)
            | Self::Insert(path, ..)
            | Self::Journaled(path, _)
            | Self::Dirsync(path, _)
            | Self::Unlink(path)
            | Self::Rmdir(path)
            | Self::Fsync(path)
            | Self::Fdatasync(path)
            | Self::SyncDirectory(path) => vec![path],
            Self::Link(from, to)
            | Self::Symlink(from, to)
            | Self::Rename(from, to)
            | Self::Exchange(from, to)
            | Self::Whiteout(from, to) => vec![from, to],
            Self::Sync => vec![],
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(out, "create({path})"),
            Self::Mkdir(path) => write!(out, "mkdir({path})"),
            Self::Write(path, from, count) => write!(out, "write({path},{from},{count})"),
            Self::WriteAs(How::Sync, path, from, count) => {
                write!(out, "write-sync({path},{from},{count})")
            }
            Self::WriteAs(How::DataSync, path, from, count) => {
                write!(out, "write-dsync({path},{from},{count})")
            }
            Self::WriteAs(How::Direct, path, from, count) => {
                write!(out, "write-direct({path},{from},{count})")
            }
            Self::Chmod(path, mode) => write!(out, "chmod({path},{mode:o})"),
            Self::Setxattr(path, name, length) => write!(out, "setxattr({path},{name},{length})"),
            Self::Removexattr(path, name) => write!(out, "removexattr({path},{name})"),
            Self::Setfacl(path, mode) => write!(out, "setfacl({path},{mode:o})"),
            Self::SetDefaultFacl(path, mode) => write!(out, "setfacl-default({path},{mode:o})"),
            Self::Mknod(special, path) => write!(out, "mknod({special},{path})"),
            Self::Chown(path, user, group) => write!(out, "chown({path},{user},{group})"),
            Self::Utimes(path, seconds) => write!(out, "utimes({path},{seconds})"),
            Self::Append(path, count) => write!(out, "append({path},{count})"),
            Self::Truncate(path, size) => write!(out, "truncate({path},{size})"),
            Self::Allocate(path, from, count) => write!(out, "allocate({path},{from},{count})"),
            Self::Punch(path, from, count) => write!(out, "punch({path},{from},{count})"),
            Self::Zero(path, from, count) => write!(out, "zero({path},{from},{count})"),
            Self::Collapse(path, from, count) => write!(out, "collapse({path},{from},{count})"),
            Self::Insert(path, from, count) => write!(out, "insert({path},{from},{count})"),
            Self::Link(from, to) => write!(out, "link({from},{to})"),
            Self::Symlink(target, path) => write!(out, "symlink({target},{path})"),
            Self::Unlink(path) => write!(out, "unlink({path})"),
            Self::Rmdir(path) => write!(out, "rmdir({path})"),
            Self::Rename(from, to) => write!(out, "rename({from},{to})"),
            Self::Exchange(one, other) => write!(out, "exchange({one},{other})"),
            Self::Whiteout(from, to) => write!(out, "whiteout({from},{to})"),
            Self::Journaled(path, true) => write!(out, "chattr(+j,{path})"),
            Self::Journaled(path, false) => write!(out, "chattr(-j,{path})"),
            Self::Dirsync(path, true) => write!(out, "chattr(+D,{path})"),
            Self::Dirsync(path, false) => write!(out, "chattr(-D,{path})"),
            Self::Fsync(path) => write!(out, "fsync({path})"),
            Self::Fdatasync(path) => write!(out, "fdatasync({path})"),
            Self::SyncDirectory(path) => write!(out, "syncdir({path})"),
            Self::Sync => write!(out, "sync"),
        }
    }
}

/// The error of a text that is not an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an operation: they look like create(d0/f0), write(d0/f0,0,2), sync")]
pub struct OpError(pub String);

impl FromStr for Op {
    type Err = OpError;

    fn from_str(text: &str) -> Result<Self, OpError> {
        let error = || OpError(text.to_owned());
        if text == "sync" {
            return Ok(Self::Sync);
        }
        let inner = text.strip_suffix(')').ok_or_else(error)?;
        let (name, arguments) = inner.split_once('(').ok_or_else(error)?;
        let arguments: Vec<&str> = arguments.split(',').collect();
        parse_call(name, &arguments).ok_or_else(error)
    }
}

fn octal(text: &str) -> Option<u16> {
    u16::from_str_radix(text, 8).ok()
}

fn parse_call(name: &str, arguments: &[&str]) -> Option<Op> {
    let number = |text: &str| text.parse::<u32>().ok();
    Some(match (name, arguments) {
        ("create", [path]) => Op::Create((*path).into()),
        ("mkdir", [path]) => Op::Mkdir((*path).into()),
        ("write", [path, from, count]) => Op::Write((*path).into(), number(from)?, number(count)?),
        (name @ ("write-sync" | "write-dsync" | "write-direct"), [path, from, count]) => {
            let how = match name {
                "write-sync" => How::Sync,
                "write-dsync" => How::DataSync,
                _ => How::Direct,
            };
            Op::WriteAs(how, (*path).into(), number(from)?, number(count)?)
        }
        ("chmod", [path, mode]) => Op::Chmod((*path).into(), octal(mode)?),
        ("setfacl", [path, mode]) => Op::Setfacl((*path).into(), octal(mode)?),
        ("setfacl-default", [path, mode]) => Op::SetDefaultFacl((*path).into(), octal(mode)?),
        ("setxattr", [path, name, length]) => {
            Op::Setxattr((*path).into(), (*name).into(), number(length)?)
        }
        ("removexattr", [path, name]) => Op::Removexattr((*path).into(), (*name).into()),
        ("mknod", [special, path]) => Op::Mknod(parse_special(special)?, (*path).into()),
        ("chown", [path, user, group]) => Op::Chown((*path).into(), number(user)?, number(group)?),
        ("utimes", [path, seconds]) => Op::Utimes((*path).into(), number(seconds)?),
        ("append", [path, count]) => Op::Append((*path).into(), number(count)?),
        ("truncate", [path, size]) => Op::Truncate((*path).into(), size.parse().ok()?),
        ("allocate", [path, from, count]) => {
            Op::Allocate((*path).into(), number(from)?, number(count)?)
        }
        ("punch", [path, from, count]) => Op::Punch((*path).into(), number(from)?, number(count)?),
        ("zero", [path, from, count]) => Op::Zero((*path).into(), number(from)?, number(count)?),
        ("collapse", [path, from, count]) => {
            Op::Collapse((*path).into(), number(from)?, number(count)?)
        }
        ("insert", [path, from, count]) => {
            Op::Insert((*path).into(), number(from)?, number(count)?)
        }
        ("link", [from, to]) => Op::Link((*from).into(), (*to).into()),
        ("symlink", [target, path]) => Op::Symlink((*target).into(), (*path).into()),
        ("unlink", [path]) => Op::Unlink((*path).into()),
        ("rmdir", [path]) => Op::Rmdir((*path).into()),
        ("rename", [from, to]) => Op::Rename((*from).into(), (*to).into()),
        ("exchange", [one, other]) => Op::Exchange((*one).into(), (*other).into()),
        ("whiteout", [from, to]) => Op::Whiteout((*from).into(), (*to).into()),
        ("chattr", ["+j", path]) => Op::Journaled((*path).into(), true),
        ("chattr", ["-j", path]) => Op::Journaled((*path).into(), false),
        ("chattr", ["+D", path]) => Op::Dirsync((*path).into(), true),
        ("chattr", ["-D", path]) => Op::Dirsync((*path).into(), false),
        ("fsync", [path]) => Op::Fsync((*path).into()),
        ("fdatasync", [path]) => Op::Fdatasync((*path).into()),
        ("syncdir", [path]) => Op::SyncDirectory((*path).into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let texts = [
            "create(a)",
            "mkdir(a/b)",
            "write(a,0,3)",
            "write-sync(a,0,3)",
            "write-dsync(a,0,3)",
            "write-direct(a,2,4)",
            "chmod(a,640)",
            "setxattr(a,colour,200)",
            "removexattr(a,colour)",
            "setfacl(a,750)",
            "setfacl-default(a,750)",
            "utimes(a,7)",
            "chown(a,1000,70000)",
            "mknod(fifo,a)",
            "mknod(socket,a)",
            "mknod(char.4.66,a)",
            "mknod(block.8.300,a)",
            "append(a,2)",
            "truncate(a,700)",
            "allocate(a,1,5)",
            "punch(a,0,3)",
            "zero(a,2,2)",
            "collapse(a,2,2)",
            "insert(a,0,4)",
            "link(a,b)",
            "symlink(x,b)",
            "unlink(a)",
            "rmdir(a)",
            "rename(a,b)",
            "exchange(a,b)",
            "whiteout(a,b)",
            "chattr(+j,a)",
            "chattr(-j,a)",
            "fsync(a)",
            "fdatasync(a)",
            "syncdir()",
            "sync",
        ];
        for text in texts {
            let op: Op = text.parse().expect("an operation");
            assert_eq!(op.to_string(), text);
        }
        for text in [
            "",
            "create",
            "create(a,b)",
            "write(a,x,1)",
            "sync()",
            "chattr(a)",
            "mknod(file,a)",
            "mknod(char.4,a)",
            "chown(a,1)",
            "fly(a)",
        ] {
            assert!(text.parse::<Op>().is_err(), "{text}");
        }
    }
}

//! Users of an image or a device: mounts, loop devices, processes. Reads Linux's tables, and skips
//! the unreadable ones.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use block::DeviceText;

/// The table of file locks.
const LOCKS: &str = "/proc/locks";
/// The mount table, and the file system type of jext in it.
const MOUNTS: &str = "/proc/self/mountinfo";
const TYPE: &str = "fuse.jext";
/// The kernel's error for a FUSE mount whose process has ended: ENOTCONN.
pub(crate) const NOT_CONNECTED: i32 = rustix::io::Errno::NOTCONN.raw_os_error();
const BLOCK_DEVICES: &str = "/sys/block";

/// A line of the mount table.
struct Mounted {
    point: String,
    kind: String,
    source: String,
    is_read_only: bool,
}

impl Mounted {
    /// Returns true if the process of a FUSE mount is gone.
    fn is_abandoned(&self) -> bool {
        let found = fs::metadata(&self.point);
        found.is_err_and(|error| error.raw_os_error() == Some(NOT_CONNECTED))
    }
}

/// A use of an image by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    /// The use in words, with process and mount point.
    pub(crate) text: String,
    /// Advice on how to end the use.
    pub(crate) end: Option<String>,
}

impl Use {
    /// Returns the use and the advice.
    pub(crate) fn sentence(&self) -> String {
        match &self.end {
            Some(end) => format!("{}; {end}", self.text),
            None => self.text.clone(),
        }
    }
}

/// Returns the file or block device of a device text, if it has one.
pub(crate) fn path_of(device: &DeviceText) -> Option<PathBuf> {
    match device {
        DeviceText::File { path, .. } => Some(PathBuf::from(path)),
        DeviceText::Slice { device, .. } | DeviceText::Shared { device } => path_of(device),
        _ => None,
    }
}

/// Returns the mount that may write a file or block device.
pub(crate) fn mounted(path: &Path) -> Option<Use> {
    let metadata = fs::metadata(path).ok()?;
    let mounts = mounts();
    let mut own = mounts.iter().filter(|mount| {
        let source = || fs::metadata(&mount.source).ok();
        mount.kind == TYPE
            && !mount.is_read_only
            && source().is_some_and(|source| is_same(&source, &metadata))
    });
    let holder = holder(&metadata);
    // The mount of a process that is gone stays in the table until it is taken away.
    if let Some(mount) = own.find(|mount| holder.is_some() || !mount.is_abandoned()) {
        let process = holder.map_or_else(String::new, |(number, name)| {
            format!(" (process {number}, {name})")
        });
        return Some(Use {
            text: format!("jext has it mounted on {}{process}", mount.point),
            end: Some(format!("jext umount {} ends that", mount.point)),
        });
    }
    let device = loop_of(&metadata);
    let seen = device.as_deref().unwrap_or(path);
    let seen_as = fs::metadata(seen).ok()?;
    let mount = mounts.iter().find(|mount| {
        let source = fs::metadata(&mount.source).ok();
        !mount.is_read_only
            && source.is_some_and(|source| {
                source.file_type().is_block_device() && source.rdev() == seen_as.rdev()
            })
    })?;
    Some(Use {
        text: format!(
            "the kernel has {} mounted on {}",
            seen.display(),
            mount.point
        ),
        end: Some(format!("umount {} ends that", mount.point)),
    })
}

/// Returns a mount or a process that uses a file or block device.
pub(crate) fn used(path: &Path) -> Option<Use> {
    if let Some(found) = mounted(path) {
        return Some(found);
    }
    let (number, name) = holder(&fs::metadata(path).ok()?)?;
    Some(Use {
        text: format!("process {number} ({name}) has it open"),
        end: None,
    })
}

/// Returns the process that has the exclusive lock of a file, if there is one.
pub(crate) fn locker(metadata: &Metadata) -> Option<u32> {
    let table = fs::read_to_string(LOCKS).ok()?;
    locker_in(&table, metadata.dev(), metadata.ino())
}

/// Returns the owner of an exclusive lock in a `/proc/locks`: `1: FLOCK ADVISORY WRITE 17 fe:00:12
/// 0 EOF`, where `->` in the second field marks a process that waits for the lock.
fn locker_in(table: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_exclusive = fields.next() == Some("FLOCK") && fields.nth(1) == Some("WRITE");
        let number = fields.next()?.parse().ok()?;
        (is_exclusive && fields.next() == Some(&wanted)).then_some(number)
    })
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Returns the loop device that a file backs.
fn loop_of(metadata: &Metadata) -> Option<PathBuf> {
    let folders = fs::read_dir(BLOCK_DEVICES).ok()?;
    folders.flatten().find_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let backing = fs::read_to_string(folder.path().join("loop/backing_file")).ok()?;
        let backing = fs::metadata(backing.trim_end_matches('\n')).ok()?;
        is_same(&backing, metadata).then(|| Path::new("/dev").join(name))
    })
}

/// A process that has a file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    number: u32,
    parent: u32,
}

/// Returns the number and name of another process that has a file open.
fn holder(metadata: &Metadata) -> Option<(u32, String)> {
    let holders = holders(metadata).into_iter().filter_map(|number| {
        let parent = parent_in(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)?;
        Some(Holder { number, parent })
    });
    let number = outermost(&holders.collect::<Vec<Holder>>())?.number;
    let name = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    Some((number, name.trim().to_owned()))
}

/// Returns the numbers of the other processes that have a file open.
fn holders(metadata: &Metadata) -> Vec<u32> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_holder = |number: &u32| *number != own && has_open(*number, metadata).unwrap_or(false);
    numbers.filter(is_holder).collect()
}

/// The other processes that have a file or block device open at a given time.
pub(crate) struct Holders {
    metadata: Metadata,
    numbers: Vec<u32>,
}

impl Holders {
    /// Returns the present holders of a path, as far as this user may see them.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let numbers = holders(&metadata);
        Some(Self { metadata, numbers })
    }

    /// Returns true if one of them has closed the file, or if there was none.
    pub(crate) fn has_shrunk(&self) -> bool {
        let is_holder = |number: &u32| has_open(*number, &self.metadata).unwrap_or(false);
        self.numbers.is_empty() || !self.numbers.iter().all(is_holder)
    }
}

fn has_open(number: u32, metadata: &Metadata) -> Option<bool> {
    let mut open = fs::read_dir(format!("/proc/{number}/fd")).ok()?.flatten();
    Some(open.any(|entry| {
        fs::metadata(entry.path()).is_ok_and(|found| {
            let is_device = found.file_type().is_block_device();
            is_same(&found, metadata) || is_device && found.rdev() == metadata.rdev()
        })
    }))
}

/// Returns the first process whose parent does not have the file open too: until a child executes
/// its program, it has every file of its parent open.
fn outermost(holders: &[Holder]) -> Option<Holder> {
    let is_inherited = |child: &Holder| {
        let mut others = holders.iter();
        others.any(|other| other.number == child.parent)
    };
    let own = holders.iter().find(|holder| !is_inherited(holder));
    own.copied()
}

/// Returns the parent in a `/proc/N/stat`: the second field behind the name, which may contain
/// spaces and parentheses.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

fn mounts() -> Vec<Mounted> {
    let table = fs::read_to_string(MOUNTS).unwrap_or_default();
    table.lines().filter_map(parse).collect()
}

/// Parses `36 35 98:0 /root /point options ... - type source options`.
fn parse(line: &str) -> Option<Mounted> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (point, options) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, source, own) = (
        file_system.next()?,
        file_system.next()?,
        file_system.next().unwrap_or_default(),
    );
    let is_ro = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mounted {
        point: unescape(point),
        kind: kind.to_owned(),
        source: unescape(source),
        is_read_only: is_ro(own) || is_ro(options),
    })
}

/// Decodes the escapes of the mount table: `\040` is a space.
fn unescape(field: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = field.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = behind.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &behind[3..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_of_mounts_are_read() {
        let line = r"36 35 0:52 / /a\040b ro,nosuid shared:1 - fuse.jext /x\134y rw,user_id=0";
        let mount = parse(line).expect("it is one");
        assert_eq!((&*mount.point, &*mount.source), ("/a b", r"/x\y"));
        assert_eq!((&*mount.kind, mount.is_read_only), ("fuse.jext", true));
        assert!(parse("36 35 0:52 / /a").is_none());
    }

    #[test]
    fn the_owner_of_an_exclusive_lock_is_found() {
        let table = "1: POSIX  ADVISORY  WRITE 5 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  READ 6 fe:00:12 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 7 fe:00:13 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 8 fe:00:13 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(locker_in(table, device, 13), Some(7));
        assert_eq!(locker_in(table, device, 12), None);
    }

    #[test]
    fn the_parent_of_a_forked_process_is_named() {
        let [parent, child] =
            [(29_161, 1), (10_324, 29_161)].map(|(number, parent)| Holder { number, parent });
        assert_eq!(outermost(&[child, parent]), Some(parent));
        assert_eq!(outermost(&[child]), Some(child));
        assert_eq!(parent_in("10324 (a) b (c) S 29161 1 1 0"), Some(29_161));
    }
}

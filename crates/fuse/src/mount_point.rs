//! Mounting and unmounting.
//!
//! Root mounts by the system call. Other users, and root where it may not, use `fusermount3`, which
//! is installed set-user-ID and sends the open device back through a socket (`_FUSE_COMMFD`).
//!
//! A process that serves a mount must not wait in the kernel for requests that it has to answer
//! itself. If it is killed meanwhile, that wait never ends: the device stays open, and the kernel
//! and all users of the mount wait for answers forever. So all operations that make the kernel
//! write back, unmounting included, run in a child process without the device. A forced unmount
//! waits for nothing. Remounting read-only is the exception: every write fails at once then, and no
//! program can set one flag and keep the others.
//!
//! A mount is identified by its device number. Nothing is unmounted unless the table of mounts has
//! that number at that place, so that later mounts of others are left alone.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::io::{Errno, FdFlags};
use rustix::mount::{FsPickFlags, MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

/// Device of all FUSE file systems.
const DEVICE: &str = "/dev/fuse";
/// Type in the table of mounts.
const TYPE: &str = "fuse.jext";
/// Table of mounts of this process.
const TABLE: &str = "/proc/self/mountinfo";
/// Program that mounts for unprivileged users.
const HELPER: &str = "fusermount3";
/// umount(8), without its own helpers, of which jext may be one.
const UNMOUNT: (&str, &[&str]) = ("umount", &["-i"]);
/// sync(1), for a whole file system.
const SYNC: (&str, &[&str]) = ("sync", &["-f"]);

/// stat(1), for a whole file system.
const STATFS: (&str, &[&str]) = ("stat", &["-f"]);

/// Mount flags kept by the kernel, by their names in mount(8).
const FLAGS: &[(&str, MountFlags, bool)] = &[
    ("ro", MountFlags::RDONLY, true),
    ("rw", MountFlags::RDONLY, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("suid", MountFlags::NOSUID, false),
    ("nodev", MountFlags::NODEV, true),
    ("dev", MountFlags::NODEV, false),
    ("noexec", MountFlags::NOEXEC, true),
    ("exec", MountFlags::NOEXEC, false),
    ("noatime", MountFlags::NOATIME, true),
    ("nodiratime", MountFlags::NODIRATIME, true),
    ("sync", MountFlags::SYNCHRONOUS, true),
    ("dirsync", MountFlags::DIRSYNC, true),
];

/// True if the kernel keeps an option as a mount flag.
#[must_use]
pub fn is_kernel_flag(option: &str) -> bool {
    FLAGS.iter().any(|(name, _, _)| *name == option)
}

/// The description of a mount, and its permitted users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Source in the table of mounts.
    pub source: String,
    /// Mount flags by their names in mount(8); see [`is_kernel_flag`].
    pub flags: Vec<String>,
    /// True if users other than the mounting one may use it.
    pub allow_other: bool,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            // The kernel refuses an empty source.
            source: "jext".to_owned(),
            flags: Vec::new(),
            allow_other: false,
        }
    }
}

/// A mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    path: PathBuf,
    /// `major:minor` of the mounted file system.
    device: String,
    has_helper: bool,
}

impl MountPoint {
    /// Mounts, and returns the device of the connection to the kernel.
    ///
    /// # Errors
    /// Returns the error of the kernel or of fusermount3.
    pub(crate) fn mount(directory: &Path, what: &Description) -> io::Result<(Self, OwnedFd)> {
        let path = directory.canonicalize()?;
        let is_root = rustix::process::geteuid().is_root();
        let direct = if is_root {
            mount_directly(&path, what)
        } else {
            Err(Errno::PERM.into())
        };
        let (device, has_helper) = match direct {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                (mount_by_helper(&path, what)?, true)
            }
            direct => (direct?, false),
        };
        let Some(number) = device_at(&path)? else {
            return Err(io::Error::other("the mount is gone already"));
        };
        let point = Self {
            path,
            device: number,
            has_helper,
        };
        Ok((point, device))
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it is still mounted.
    ///
    /// # Errors
    /// Fails if the table of mounts cannot be read.
    pub fn is_mounted(&self) -> io::Result<bool> {
        Ok(device_at(&self.path)?.as_deref() == Some(&self.device))
    }

    /// Unmounts, unless it is no longer mounted. A mount in use is busy.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`], or another error of the kernel or of fusermount3.
    pub fn unmount(&self) -> io::Result<()> {
        if !self.is_mounted()? {
            return Ok(());
        }
        if self.has_helper {
            return self.take_down_by_helper(&[]);
        }
        match run(UNMOUNT, &self.path) {
            // Without umount(8), risk the wait in the kernel rather than leave the mount.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(rustix::mount::unmount(&self.path, UnmountFlags::empty())?)
            }
            done => done,
        }
    }

    /// Unmounts even if the mount is in use: its open files fail from then on. Without root, open
    /// files stay usable until they are closed.
    ///
    /// # Errors
    /// Returns the error of the kernel or of fusermount3.
    pub fn unmount_by_force(&self) -> io::Result<()> {
        if !self.is_mounted()? {
            return Ok(());
        }
        if self.has_helper {
            return self.take_down_by_helper(&["-z"]);
        }
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        Ok(rustix::mount::unmount(&self.path, flags)?)
    }

    /// Remounts read-only; the other flags stay.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while a file is open for writing, or another error of the
    /// kernel; without root it always fails.
    pub(crate) fn make_read_only(&self) -> io::Result<()> {
        if !self.is_mounted()? {
            return Ok(());
        }
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_NO_AUTOMOUNT;
        let file_system = rustix::mount::fspick(CWD, &self.path, flags)?;
        rustix::mount::fsconfig_set_flag(file_system.as_fd(), "ro")?;
        Ok(rustix::mount::fsconfig_reconfigure(file_system.as_fd())?)
    }

    /// Queries free space in a child process; the kernel passes each query on.
    ///
    /// # Errors
    /// Returns the error of the program.
    pub(crate) fn ask(&self) -> io::Result<()> {
        run(STATFS, &self.path)
    }

    /// Makes the kernel submit its cached writes. They may still be in flight afterwards: see
    /// [`crate::arrivals`].
    ///
    /// # Errors
    /// Returns the error of the program.
    pub(crate) fn sync(&self) -> io::Result<()> {
        run(SYNC, &self.path)
    }

    fn take_down_by_helper(&self, flags: &[&str]) -> io::Result<()> {
        let flags = [&["-u", "-q"], flags].concat();
        run((HELPER, flags.as_slice()), &self.path)
    }
}

/// Runs a program on a path, shielded from signals that the terminal sends to this process.
fn run((program, flags): (&str, &[&str]), path: &Path) -> io::Result<()> {
    let output = Command::new(program)
        .args(flags)
        .arg("--")
        .arg(path)
        .stdin(Stdio::null())
        .process_group(0)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

/// Returns the source of the file system mounted at a place, if any.
///
/// # Errors
/// Fails if the table of mounts cannot be read.
pub fn source_at(path: &Path) -> io::Result<Option<String>> {
    let table = fs::read_to_string(TABLE)?;
    let mount = mounts_at(&table, path).last();
    Ok(mount
        .filter(|mount| mount.kind == TYPE)
        .map(|mount| String::from_utf8_lossy(&unescape(mount.source)).into_owned()))
}

/// Returns the device number of the topmost mount at a place.
fn device_at(path: &Path) -> io::Result<Option<String>> {
    let table = fs::read_to_string(TABLE)?;
    let mount = mounts_at(&table, path).last();
    Ok(mount.map(|mount| mount.device.to_owned()))
}

struct Line<'t> {
    device: &'t str,
    kind: &'t str,
    source: &'t str,
}

/// Parses `36 35 98:0 /root /point options ... - type source options`.
fn mounts_at<'t>(table: &'t str, path: &'t Path) -> impl Iterator<Item = Line<'t>> {
    table.lines().filter_map(move |line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (device, _root, point) = (mount.next()?, mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let (kind, source) = (file_system.next()?, file_system.next()?);
        let is_here = unescape(point) == path.as_os_str().as_bytes();
        is_here.then_some(Line {
            device,
            kind,
            source,
        })
    })
}

/// Undoes escapes of the table: `\040` is a space.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digits = bytes.as_slice().get(..3).unwrap_or_default();
        let code = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if *byte == b'\\' => {
                plain.push(code);
                bytes.nth(2);
            }
            _ => plain.push(*byte),
        }
    }
    plain
}

fn mount_directly(path: &Path, what: &Description) -> io::Result<OwnedFd> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|error| io::Error::new(error.kind(), format!("{DEVICE}: {error}")))?;
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(path)?);
    let mut options = format!(
        "fd={},rootmode={mode:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if what.allow_other {
        options.push_str(",allow_other");
    }
    let options = CString::new(options).map_err(io::Error::other)?;
    let mut flags = MountFlags::empty();
    for (name, flag, is_on) in FLAGS {
        if what.flags.iter().any(|given| given == name) {
            flags.set(*flag, *is_on);
        }
    }
    rustix::mount::mount(&*what.source, path, TYPE, flags, options.as_c_str())?;
    Ok(OwnedFd::from(device))
}

fn mount_by_helper(path: &Path, what: &Description) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
    // A comma would end the source and start another option.
    let source = what.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = format!("fsname={source},subtype=jext,default_permissions");
    if what.allow_other {
        options.push_str(",allow_other");
    }
    for flag in &what.flags {
        options.push(',');
        options.push_str(flag);
    }
    let output = Command::new(HELPER)
        .args(["-o", &options, "--"])
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            let said = format!("mounting without root needs {HELPER} (Debian: fuse3): {error}");
            io::Error::new(error.kind(), said)
        })?;
    drop(theirs);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(said.trim().replace('\n', "; ")));
    }
    receive(&ours)
}

/// Receives the device through the socket.
fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8];
    rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut devices) => devices.next(),
        _ => None,
    });
    device.ok_or_else(|| io::Error::other(format!("{HELPER} sent no device")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        40 21 0:50 / /mnt/a\\040b rw shared:5 - fuse.jext /images/one\\054two.img rw,user_id=0\n\
        41 40 0:51 / /mnt/a\\040b rw - tmpfs none rw\n";

    #[test]
    fn the_table_of_mounts_is_read() {
        let found: Vec<_> = mounts_at(LINES, Path::new("/mnt/a b"))
            .map(|line| (line.device, line.kind, line.source))
            .collect();
        let expected = [
            ("0:50", "fuse.jext", "/images/one\\054two.img"),
            ("0:51", "tmpfs", "none"),
        ];
        assert_eq!(found, expected);
        assert_eq!(unescape("/images/one\\054two.img"), b"/images/one,two.img");
        assert_eq!(mounts_at(LINES, Path::new("/mnt")).count(), 0);
    }
}

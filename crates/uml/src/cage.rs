//! [`Cage`]: the namespaces that a guest lives in.
//!
//! A guest's kernel runs guest programs as processes of the host, traced by itself. If it is killed
//! alone, they go on without it: their system calls then reach the host. And a guest's root can
//! mount the directory tree of its kernel for writing. So the kernel gets a tree in which there is
//! nothing to change, and a process namespace that ends with it:
//!
//! | namespace | effect |
//! |---|---|
//! | user | no privilege of the host, not even for root: no device nodes, no system settings |
//! | mount | its root is a read-only file system in memory with read-only binds of programs |
//! | process | this program is its first process: with it every other one is killed |
//! | network, IPC | nothing is reachable |
//!
//! A guest's root may put code of its own into the kernel, which then calls the host. So the kernel
//! runs without capabilities, which would let it undo the mounts; it cannot get any
//! (`no_new_privs`), and in a user namespace of its own the mounts are locked. It inherits no open
//! file and no environment, writes no core file, and no file longer than its memory or its images.
//!
//! Three programs of util-linux start a cage: `setpriv` makes it end with its parent, `unshare`
//! makes the namespaces, and this program ([`enter`]) makes the tree and starts the kernel, through
//! `setarch`, which turns address-space randomisation off.
//!
//! The sockets between both sides are made inside as well. Their listening ends are passed out
//! through the standard input, so that no file of them exists on the host.

use std::ffi::OsString;
use std::fs;
use std::io::{IoSlice, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, openat, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_remount, unmount,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

use crate::GuestError;
use crate::kernel::Library;

/// Name of the hidden command that calls [`enter`].
pub const COMMAND: &str = "guest-cage";
/// Folder of the sockets, inside.
pub const SOCKET_FOLDER: &str = "/run";
/// Folder of the guest's memory, inside.
pub const MEMORY_FOLDER: &str = "/shm";
/// The programs that start a cage, and the packages that contain them.
pub const TOOLS: [(&str, &str); 3] = [
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("setarch", "util-linux"),
];

/// Folders that the new root may be mounted on; what they contain on the host does not matter.
const PLACES: [&str; 4] = ["/mnt", "/media", "/srv", "/tmp"];
/// Folders of programs and libraries; on most systems links into `/usr`.
const SYSTEM_FOLDERS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Folders that a guest mounts something on.
const MOUNT_POINTS: [&str; 8] = ["proc", "sys", "dev", "tmp", "mnt", "etc", "run", "shm"];
/// Size of the tree without binds, in bytes.
const TREE_BYTES: u64 = 16 << 20;
/// Size that the memory's file system has beyond the memory, in bytes.
const ROOM_BYTES: u64 = 16 << 20;
/// Maximum number of processes in a cage, unless root started it: no limit of this kind applies to
/// root.
const PROCESSES_MAX: u64 = 4096;
/// The limit on core files that also stops those that the host's kernel pipes to a program.
const NO_CORE: u64 = 1;
/// Maximum size of a description in bytes.
const DESCRIPTION_BYTES_MAX: u32 = 64 << 20;

/// A file of the host inside a cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Its path on the host.
    pub source: PathBuf,
    /// Its name in the root of the cage.
    pub name: String,
    /// True if the guest may write it.
    pub is_writable: bool,
}

/// The description of a cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cage {
    /// The program, inside, and its arguments.
    pub command: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Files of the host.
    pub binds: Vec<Bind>,
    /// Names and contents of small files.
    pub files: Vec<(String, String)>,
    /// Libraries of the kernel, which are files there too.
    pub libraries: Vec<Library>,
    /// Names of the sockets to listen on.
    pub sockets: Vec<String>,
    /// Size of the guest's memory in bytes.
    pub memory_bytes: u64,
}

impl Cage {
    /// Returns the command that starts a cage; `program` is this program. The command reads the
    /// description from its standard input, a socket.
    #[must_use]
    pub fn command(program: &Path, input: UnixStream, output: Stdio) -> Command {
        let mut command = Command::new("setpriv");
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            // What this program was told in its environment is no business of a guest.
            .env_clear()
            .env("PATH", path)
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--user",
                "--map-root-user",
            ])
            .args([
                "--mount",
                "--net",
                "--ipc",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--",
            ])
            .arg(program)
            .arg(COMMAND)
            .stdin(Stdio::from(OwnedFd::from(input)))
            .stdout(output)
            .process_group(0);
        command
    }

    /// Returns the description in bytes, after their number.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).expect("texts and numbers");
        let length = u32::try_from(text.len()).expect("a description of less than 4 GiB");
        [&length.to_ne_bytes()[..], &text].concat()
    }

    fn read(mut input: &UnixStream) -> Result<Self, GuestError> {
        const WHAT: &str = "the description of a cage";
        let mut length = [0; 4];
        input
            .read_exact(&mut length)
            .map_err(GuestError::at(WHAT))?;
        let length = u32::from_ne_bytes(length).min(DESCRIPTION_BYTES_MAX);
        let mut text = vec![0; length as usize];
        input.read_exact(&mut text).map_err(GuestError::at(WHAT))?;
        serde_json::from_slice(&text).map_err(GuestError::at(WHAT))
    }
}

/// Makes the cage that the standard input describes, and runs its program; returns the program's
/// status. The caller is in new namespaces already. It stays their first process, whose end is that
/// of all others: a kernel in its place could not abort, because signals of the first process to
/// itself have no effect.
///
/// # Errors
/// Fails if the namespaces are missing, or if the cage cannot be made.
pub fn enter() -> Result<ExitCode, GuestError> {
    // In any other namespace the following would change the host.
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        let what = format!("{COMMAND}: is started by this program only");
        return Err(GuestError::Missing(what));
    }
    close_inherited()?;
    let input = rustix::io::dup(rustix::stdio::stdin()).map_err(GuestError::at("input"))?;
    let input = UnixStream::from(input);
    let cage = Cage::read(&input)?;
    let null = open("/dev/null".as_ref(), OFlags::RDONLY)?;
    let root = cage.make_tree()?;
    let sockets = cage.listen(&root)?;
    seal(&root)?;
    let files: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    send(&input, &files)?;
    rustix::stdio::dup2_stdin(&null).map_err(GuestError::at("input"))?;
    cage.limit()?;
    drop_privileges().map_err(GuestError::at("dropping capabilities"))?;
    let status = Command::new("/usr/bin/setarch")
        .arg("-R")
        .args(&cage.command)
        .env_clear()
        .envs(cage.environment.iter().cloned())
        .status();
    let status = status.map_err(GuestError::at("setarch"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Closes all files but the standard ones: those that this program inherited lead out of the cage.
fn close_inherited() -> Result<(), GuestError> {
    const FOLDER: &str = "/proc/self/fd";
    let entries = fs::read_dir(FOLDER).map_err(GuestError::at(FOLDER))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let numbers: Vec<i32> = entries.flatten().filter_map(number).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The folder itself is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Gives up all capabilities for good. Without the secure bit, a program that root executes would
/// count as one that gains them, and the host's kernel would turn address-space randomisation on.
fn drop_privileges() -> Result<(), Errno> {
    let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    set_capabilities_secure_bits(bits)?;
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)
}

impl Cage {
    /// Limits what the processes of the cage may take from the host.
    fn limit(&self) -> Result<(), GuestError> {
        let images = self.binds.iter().filter(|bind| bind.is_writable);
        let images = images
            .filter_map(|bind| Some(fs::metadata(Path::new("/").join(&bind.name)).ok()?.len()));
        let memory = self.memory_bytes.saturating_add(ROOM_BYTES);
        for (resource, limit) in [
            (Resource::Core, NO_CORE),
            (Resource::Fsize, images.fold(memory, u64::max)),
            (Resource::Nproc, PROCESSES_MAX),
        ] {
            // Only a lower limit than the present one can be set.
            let most = rustix::process::getrlimit(resource).maximum;
            let limit = Some(most.map_or(limit, |most| most.min(limit)));
            let limits = Rlimit {
                current: limit,
                maximum: limit,
            };
            setrlimit(resource, limits).map_err(GuestError::at("limits of a cage"))?;
        }
        Ok(())
    }

    /// Makes the directory tree; returns where it is mounted.
    fn make_tree(&self) -> Result<PathBuf, GuestError> {
        let open_source = |bind: &Bind| open(&bind.source, OFlags::PATH);
        let sources: Vec<OwnedFd> = self
            .binds
            .iter()
            .map(open_source)
            .collect::<Result<_, _>>()?;
        let place = PLACES.iter().map(Path::new).find(|place| place.is_dir());
        let place = place.ok_or_else(|| GuestError::Missing("no place for a root".to_owned()))?;
        let root = place.to_path_buf();
        mount_memory(&root, TREE_BYTES)?;
        for name in MOUNT_POINTS {
            make_folder(&root.join(name))?;
        }
        bind("/usr".as_ref(), &root.join("usr"), false)?;
        for name in SYSTEM_FOLDERS {
            add_system_folder(&root, name)?;
        }
        let links = fs::File::create(root.join("etc/mtab")).map(drop);
        links.map_err(GuestError::at("etc/mtab"))?;
        for (name, text) in &self.files {
            fs::write(root.join(name), text).map_err(GuestError::at(name.as_str()))?;
        }
        for library in &self.libraries {
            let name = library.file_name();
            fs::write(root.join(name), library.contents()).map_err(GuestError::at(name))?;
        }
        for (own, source) in self.binds.iter().zip(&sources) {
            use std::os::fd::AsRawFd;
            let path = PathBuf::from(format!("/proc/self/fd/{}", source.as_raw_fd()));
            bind(&path, &root.join(&own.name), own.is_writable)?;
        }
        let memory = root.join(MEMORY_FOLDER.trim_start_matches('/'));
        mount_memory(&memory, self.memory_bytes.saturating_add(ROOM_BYTES))?;
        Ok(root)
    }

    fn listen(&self, root: &Path) -> Result<Vec<UnixListener>, GuestError> {
        let folder = root.join(SOCKET_FOLDER.trim_start_matches('/'));
        let listen = |name: &String| {
            UnixListener::bind(folder.join(name)).map_err(GuestError::at(name.as_str()))
        };
        self.sockets.iter().map(listen).collect()
    }
}

/// Makes a mounted tree read-only, and the root.
fn seal(root: &Path) -> Result<(), GuestError> {
    let at = || GuestError::at::<Errno>(format!("{} as the root", root.display()));
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    mount_remount(root, flags, "").map_err(at())?;
    rustix::process::chdir(root).map_err(at())?;
    rustix::process::pivot_root(".", ".").map_err(at())?;
    unmount(".", UnmountFlags::DETACH).map_err(at())?;
    rustix::process::chdir("/").map_err(at())
}

fn mount_memory(place: &Path, bytes: u64) -> Result<(), GuestError> {
    let options = std::ffi::CString::new(format!("size={bytes},mode=755")).expect("no zero byte");
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    let mounted = mount("tmpfs", place, "tmpfs", flags, options.as_c_str());
    mounted.map_err(GuestError::at(format!(
        "a file system in memory on {}",
        place.display()
    )))
}

/// Adds a system folder as it is on the host: a link, a directory, or nothing.
fn add_system_folder(root: &Path, name: &str) -> Result<(), GuestError> {
    let source = Path::new("/").join(name);
    let target = root.join(name);
    match fs::read_link(&source) {
        Ok(link) => symlink(link, target).map_err(GuestError::at(name)),
        Err(_) if source.is_dir() => bind(&source, &target, false),
        Err(_) => Ok(()),
    }
}

/// Binds a file or directory to a new name, with what is mounted below it: in a user namespace, a
/// folder cannot be separated from that.
fn bind(source: &Path, target: &Path, is_writable: bool) -> Result<(), GuestError> {
    let name = format!("bind of {}", target.display());
    match source.is_dir() {
        true => make_folder(target)?,
        false => drop(fs::File::create(target).map_err(GuestError::at(name.as_str()))?),
    }
    mount_bind_recursive(source, target).map_err(GuestError::at(name))?;
    if is_writable {
        return Ok(());
    }
    mounts_from(target)?
        .iter()
        .try_for_each(|place| make_read_only(place))
}

/// Returns the mount points at and below a folder or file.
fn mounts_from(target: &Path) -> Result<Vec<PathBuf>, GuestError> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = fs::read(TABLE).map_err(GuestError::at(TABLE))?;
    let point = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescape);
    let points = table.split(|byte| *byte == b'\n').filter_map(point);
    Ok(points.filter(|point| point.starts_with(target)).collect())
}

/// Undoes the escapes of the table of mounts: a blank is `\040`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut plain = Vec::new();
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn make_read_only(place: &Path) -> Result<(), GuestError> {
    let at = || GuestError::at::<Errno>(format!("making {} read-only", place.display()));
    // The flags that the mount has already are locked in a user namespace: they must stay.
    let had = statvfs(place).map_err(at())?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    for (old, new) in [
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if had.contains(old) {
            flags |= new;
        }
    }
    mount_remount(place, flags, "").map_err(at())
}

fn make_folder(path: &Path) -> Result<(), GuestError> {
    fs::create_dir(path).map_err(GuestError::at(path.display().to_string()))
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, GuestError> {
    let opened = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(GuestError::at(path.display().to_string()))
}

/// Passes files through a socket.
fn send(socket: &UnixStream, files: &[BorrowedFd<'_>]) -> Result<(), GuestError> {
    let mut space =
        vec![std::mem::MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(files).size()];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let has_room = files.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(files));
    assert!(has_room, "the buffer has the size of the message");
    let sent = sendmsg(
        socket,
        &[IoSlice::new(&[0])],
        &mut ancillary,
        SendFlags::empty(),
    );
    sent.map(drop).map_err(GuestError::at("passing sockets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        for (field, plain) in [
            (&b"/mnt/usr"[..], "/mnt/usr"),
            (b"/a\\040b\\134", "/a b\\"),
            (b"/x\\9", "/x\\9"),
        ] {
            assert_eq!(unescape(field), Path::new(plain));
        }
        let all = mounts_from("/".as_ref()).expect("a table");
        assert!(all.contains(&PathBuf::from("/")), "{all:?}");
        let none = mounts_from("/no/such/folder".as_ref()).expect("a table");
        assert!(none.is_empty(), "{none:?}");
    }
}

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
//! Three programs of util-linux start a cage: `setpriv` makes it end with its parent, `unshare`
//! makes the namespaces, and this program ([`enter`]) makes the tree and starts the kernel, through
//! `setarch`, which turns address-space randomisation off.
//!
//! The sockets between both sides are made inside as well. Their listening ends are passed out
//! through the standard input, so that no file of them exists on the host.

use std::fs;
use std::io::{IoSlice, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, openat, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};

use crate::GuestError;

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
        command
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

impl Cage {
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

/// Binds a file or directory to a new name.
fn bind(source: &Path, target: &Path, is_writable: bool) -> Result<(), GuestError> {
    let name = format!("bind of {}", target.display());
    let at = || GuestError::at::<Errno>(name.as_str());
    match source.is_dir() {
        true => make_folder(target)?,
        false => drop(fs::File::create(target).map_err(GuestError::at(name.as_str()))?),
    }
    mount_bind(source, target).map_err(at())?;
    if is_writable {
        return Ok(());
    }
    // The flags that the mount has already are locked in a user namespace: they must stay.
    let had = statvfs(target).map_err(at())?.f_flag;
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
    mount_remount(target, flags, "").map_err(at())
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

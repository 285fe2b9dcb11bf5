//! A file system that is made and mounted, by the kernel or by a program, and unmounted when its
//! value is dropped.
//!
//! Before it is used, all that mkfs and mount have left dirty is written, and the kernel's caches
//! are emptied.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use block::DeviceText;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::system::attached::Requests;
use crate::system::tool::{self, Needed};
use crate::system::{Attached, Mounted, namespace, strays};

use super::super::JournalPlace;
use super::{Driver, MountedSetup};

/// Beside what is in it, a tmpfs holds so much.
const ROOM_BYTES: u64 = 16 << 20;
/// Maximum number of open files of a process of root, unless it was changed (`fs.nr_open`).
const FILES_MAX: u64 = 1 << 20;
/// The time that a FUSE program may take to mount, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
const TOOLS: [Needed; 3] = [
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];
/// The packages of the programs that make file systems.
const MAKERS: [Needed; 7] = [
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.jfs", "jfsutils"),
    ("mkfs.reiserfs", "reiserfsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("fuse2fs", "fuse2fs"),
];

/// The example of libfuse that passes everything on.
const PASSTHROUGH: &str = "passthrough_ll";

/// A file system that was made and mounted. Fields are dropped in this order.
pub struct MountedFileSystem {
    mount: Option<Mount>,
    log: Option<Device>,
    home: Device,
    folder: Folder,
}

/// The work of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceRequests {
    /// The file system's own.
    pub home: Requests,
    /// The journal's own, if it has a device.
    pub log: Requests,
}

impl MountedFileSystem {
    /// Makes a file system and mounts it.
    ///
    /// # Errors
    /// What the system lacks, or what a tool said.
    pub fn make(setup: &MountedSetup) -> Result<Self> {
        check_system(setup)?;
        let folder = Folder::make()?;
        let is_kernels = setup.driver == Driver::Kernel;
        let make = |text, kind| Device::make(text, &folder, kind, is_kernels);
        let home = make(&setup.device, "home")?;
        let log = match &setup.journal {
            JournalPlace::External(text) => Some(make(text, "log")?),
            JournalPlace::Internal | JournalPlace::None => None,
        };
        format(setup, &home, log.as_ref())?;
        let mut made = Self {
            mount: None,
            log,
            home,
            folder,
        };
        let place = made.path();
        fs::create_dir(&place).context("mount point")?;
        made.mount = Some(Mount::new(setup, &made.home, made.log.as_ref(), &place)?);
        for device in [Some(&mut made.home), made.log.as_mut()]
            .into_iter()
            .flatten()
        {
            device.leave_to_mount()?;
        }
        let root = File::open(&place).context("the mounted file system")?;
        rustix::fs::syncfs(&root).context("sync")?;
        fs::write("/proc/sys/vm/drop_caches", "3").context("the kernel's caches")?;
        Ok(made)
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.0.join("mounted")
    }

    /// Returns the work of its devices; none if they are files that a program has opened.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn requests(&self) -> Result<Option<DeviceRequests>> {
        let Some(home) = self.home.requests()? else {
            return Ok(None);
        };
        let log = match &self.log {
            Some(log) => log.requests()?,
            None => None,
        };
        let log = log.unwrap_or_default();
        Ok(Some(DeviceRequests { home, log }))
    }

    /// Unmounts it, and waits until all is written.
    ///
    /// # Errors
    /// What `umount` said.
    pub fn close(mut self) -> Result<()> {
        self.mount.take().map_or(Ok(()), Mount::close)
    }
}

/// Says what the system lacks for such a file system, before anything is touched.
///
/// # Errors
/// The first thing that is missing.
pub(super) fn check_system(setup: &MountedSetup) -> Result<()> {
    let kind = &setup.kind;
    ensure!(
        namespace::may_mount(),
        "a file system is made and mounted, so this needs root"
    );
    tool::check(&TOOLS)?;
    let maker = setup.maker();
    let is_fuse = setup.driver != Driver::Kernel;
    let needed = match setup.driver {
        Driver::Kernel | Driver::Jext => vec![maker.as_str()],
        Driver::Fuse2fs => vec![maker.as_str(), "fuse2fs"],
        Driver::Passthrough => {
            ensure!(
                tool::find(PASSTHROUGH).is_some(),
                "{PASSTHROUGH} is missing: scripts/install-passthrough makes it of what Debian's libfuse3-dev brings"
            );
            vec![]
        }
    };
    for needed in needed {
        match MAKERS.iter().find(|(tool, _)| *tool == needed) {
            Some(known) => tool::check(std::slice::from_ref(known))?,
            None if tool::find(needed).is_none() => bail!("{needed} is missing"),
            None => {}
        }
    }
    let known = fs::read_to_string("/proc/filesystems").context("/proc/filesystems")?;
    let wanted = if is_fuse { "fuse" } else { kind };
    // A driver that is a module is known once it is loaded.
    let is_known = known
        .lines()
        .any(|line| line.split_whitespace().last() == Some(wanted));
    ensure!(
        is_known || tool::call("modprobe", &[wanted]).is_ok(),
        "this kernel has no {wanted}: see /proc/filesystems"
    );
    let journal = match &setup.journal {
        JournalPlace::External(device) => Some(device),
        _ => None,
    };
    for device in journal.into_iter().chain([&setup.device]) {
        if let DeviceText::File { path, .. } = device {
            fs::metadata(path).with_context(|| {
                format!("{path}: a file (`truncate -s SIZE` makes one) or a block device")
            })?;
        }
    }
    Ok(())
}

fn format(setup: &MountedSetup, home: &Device, log: Option<&Device>) -> Result<()> {
    if setup.driver == Driver::Passthrough {
        return Ok(());
    }
    let call = |tool: &str, arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tool::call(tool, &arguments)
    };
    let log = log.map(Device::path);
    if let Some(arguments) = log.and_then(|log| setup.journal_arguments(home.bytes, log)) {
        call("mke2fs", arguments).context("journal device")?;
    }
    let arguments = setup.maker_arguments(home.bytes, home.path(), log);
    call(&setup.maker(), arguments)
}

/// A folder for all that a trial mounts, removed with its value.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(strays::name(number));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Mount points only: whatever is still mounted is not to be emptied.
        strays::remove_folder(&self.0);
    }
}

/// A device, and the memory that it may be made of. Fields are dropped in this order.
struct Device {
    /// The file or device that the plan names, or the file that was made.
    file: String,
    /// None for a file that a program opens itself.
    attached: Option<Attached>,
    bytes: u64,
    /// The folder beside the image, if that is in memory.
    place: Option<PathBuf>,
    _memory: Option<Mounted>,
}

impl Device {
    /// Attaches a device; if it is to be memory, a tmpfs in a trial's folder holds it, in a file
    /// that has the folder's name.
    fn make(text: &DeviceText, folder: &Folder, kind: &str, is_kernels: bool) -> Result<Self> {
        let (path, place, memory) = match text {
            DeviceText::File { path, .. } => (PathBuf::from(path), None, None),
            DeviceText::Memory { size } => {
                let place = folder.0.join(kind);
                fs::create_dir(&place).context("mount point")?;
                let bytes = size.bytes();
                let options = format!("size={}", bytes + ROOM_BYTES);
                let memory = Mounted::new("tmpfs", &options, "jext-lab", &place)?;
                let name = folder.0.file_name().context("a folder has a name")?;
                let path = place.join(name);
                let image = File::create(&path).context("image")?;
                image.set_len(bytes).context("image")?;
                (path, Some(place), Some(memory))
            }
            other => bail!("{other}: not a device of the kernel"),
        };
        let attached = is_kernels.then(|| Attached::new(&path)).transpose()?;
        let bytes = bytes_of(&path)?;
        Ok(Self {
            file: path.to_str().context("a path is UTF-8")?.to_owned(),
            attached,
            bytes,
            place,
            _memory: memory,
        })
    }

    /// Returns its path, for mkfs and mount.
    fn path(&self) -> &str {
        self.attached.as_ref().map_or(&self.file, Attached::path)
    }

    fn leave_to_mount(&mut self) -> Result<()> {
        self.attached
            .as_mut()
            .map_or(Ok(()), Attached::leave_to_mount)
    }

    fn requests(&self) -> Result<Option<Requests>> {
        self.attached.as_ref().map(Attached::requests).transpose()
    }
}

fn bytes_of(device: &Path) -> Result<u64> {
    use std::io::Seek as _;
    let mut file = File::open(device).with_context(|| device.display().to_string())?;
    Ok(file.seek(std::io::SeekFrom::End(0))?)
}

/// A mounted file system, and the program that mounts it.
struct Mount {
    mounted: Mounted,
    program: Option<Child>,
}

impl Mount {
    fn new(
        setup: &MountedSetup,
        home: &Device,
        log: Option<&Device>,
        place: &Path,
    ) -> Result<Self> {
        let options = setup.mount_options(log.map(Device::path));
        let device = home.path();
        if setup.driver == Driver::Kernel {
            let mounted = Mounted::new(&setup.kind, &options, device, place)?;
            return Ok(Self {
                mounted,
                program: None,
            });
        }
        let mut program = serve(setup.driver, &options, home, place)?;
        let is_up = || -> Result<bool> {
            if let Some(status) = program.try_wait()? {
                bail!("the FUSE program did not mount: {status}");
            }
            is_mount_point(place)
        };
        match wait_until(is_up) {
            Ok(()) => Ok(Self {
                mounted: Mounted::found(place),
                program: Some(program),
            }),
            Err(error) => {
                let _ = program.kill();
                let _ = program.wait();
                Err(error)
            }
        }
    }

    /// Unmounts, and waits until all is written.
    fn close(self) -> Result<()> {
        self.mounted.unmount()?;
        let Some(mut program) = self.program else {
            return Ok(());
        };
        wait_until(|| Ok(program.try_wait()?.is_some()))
    }
}

/// Starts the program that mounts by FUSE, and serves.
fn serve(driver: Driver, options: &str, home: &Device, place: &Path) -> Result<Child> {
    let mut command = match driver {
        Driver::Jext => {
            let mut command = Command::new(std::env::current_exe().context("this program")?);
            command.args(["mount", "-f", "-o", options, home.path()]);
            command
        }
        Driver::Passthrough => {
            // Beside the image, which is not written otherwise: so there is as much room.
            let memory = home.place.as_ref().context("the folder is in memory")?;
            let source = memory.join("passed-on");
            fs::create_dir(&source).context("the folder that is passed on")?;
            raise_file_limit()?;
            let mut command = Command::new(tool::find(PASSTHROUGH).context("it was there")?);
            command.args([
                "-f",
                "-o",
                &format!("{options},source={}", source.display()),
            ]);
            command
        }
        Driver::Kernel | Driver::Fuse2fs => {
            let mut command = Command::new(tool::find("fuse2fs").context("fuse2fs is missing")?);
            command.args(["-f", "-o", options, home.path()]);
            command
        }
    };
    command
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("the FUSE program")
}

/// More open files, for the programs that this process starts: `passthrough_ll` keeps one for each
/// inode.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let to = |most: Option<u64>| {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: most,
                maximum: most,
            },
        )
    };
    // Where not even root may raise what is the most for this process, that has to do.
    to(limit.maximum.map(|most| most.max(FILES_MAX)))
        .or_else(|_| to(limit.maximum))
        .context("the limit of open files")
}

fn wait_until(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(
            began.elapsed() < PATIENCE,
            "the FUSE program: nothing for {} s",
            PATIENCE.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns true if another file system begins at a folder.
fn is_mount_point(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let above = folder.parent().context("a mount point has a parent")?;
    Ok(fs::metadata(folder)?.dev() != fs::metadata(above)?.dev())
}

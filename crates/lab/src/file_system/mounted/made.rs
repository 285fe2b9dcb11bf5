//! A file system that is created, mounted by the kernel or a program, and unmounted on drop.
//!
//! Before the trial, all dirty data of mkfs and mount is written, and the kernel's caches are
//! dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use block::DeviceText;

use crate::system::attached::Requests;
use crate::system::tool::{self, Needed};
use crate::system::{self, Attached, Mounted, namespace, open_files, strays};

use super::super::JournalPlace;
use super::{Driver, MountedSetup};

/// Size of a tmpfs beyond its contents.
const ROOM_BYTES: u64 = 16 << 20;
/// Time limit for a FUSE program to mount or to exit.
const PATIENCE: Duration = Duration::from_secs(60);
const TOOLS: [Needed; 3] = [
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];
/// The packages of the mkfs programs.
const MAKERS: [Needed; 7] = [
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.jfs", "jfsutils"),
    ("mkfs.reiserfs", "reiserfsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("fuse2fs", "fuse2fs"),
];

/// The pass-through example of libfuse.
const PASSTHROUGH: &str = "passthrough_ll";

/// A mounted file system. The field order is the drop order.
pub struct MountedFileSystem {
    mount: Option<Mount>,
    log: Option<Device>,
    home: Device,
    folder: Folder,
}

/// The requests to the devices of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceRequests {
    /// Requests to the file-system device.
    pub home: Requests,
    /// Requests to the journal device, if there is one.
    pub log: Requests,
}

impl MountedFileSystem {
    /// Creates a file system and mounts it.
    ///
    /// # Errors
    /// Fails if the system lacks something, or with the message of the tool that failed.
    pub fn make(setup: &MountedSetup) -> Result<Self> {
        Self::make_by(setup, &system::program()?)
    }

    /// Creates a file system and mounts it; one of jext is mounted by the program `jext`.
    ///
    /// # Errors
    /// Fails as [`make`](Self::make).
    pub fn make_by(setup: &MountedSetup, jext: &Path) -> Result<Self> {
        check_system(setup)?;
        let folder = Folder::make()?;
        let is_attached = setup.is_on_block_device();
        let make = |text, kind| Device::make(text, &folder, kind, is_attached);
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
        made.mount = Some(Mount::new(
            setup,
            (&made.home, made.log.as_ref()),
            &place,
            jext,
        )?);
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

    /// Returns the requests to its devices; `None` if they are files that a program has opened.
    ///
    /// # Errors
    /// Fails if the kernel does not report them.
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

    /// Unmounts it, and waits until everything is written.
    ///
    /// # Errors
    /// Fails with the message of `umount`.
    pub fn close(mut self) -> Result<()> {
        self.mount.take().map_or(Ok(()), Mount::close)
    }
}

/// Checks the prerequisites of such a file system. Changes nothing.
///
/// # Errors
/// Fails with the first missing prerequisite.
pub(super) fn check_system(setup: &MountedSetup) -> Result<()> {
    let kind = &setup.kind;
    ensure!(
        namespace::may_mount(),
        "creating and mounting a file system requires root"
    );
    tool::check(&TOOLS)?;
    let maker = setup.maker();
    let is_fuse = setup.driver != Driver::Kernel;
    let needed = match setup.driver {
        Driver::Kernel | Driver::Jext => maker.as_deref().into_iter().collect(),
        Driver::Fuse2fs => maker.as_deref().into_iter().chain(["fuse2fs"]).collect(),
        Driver::Passthrough => {
            ensure!(
                tool::find(PASSTHROUGH).is_some(),
                "{PASSTHROUGH} is missing: scripts/install-passthrough builds it from Debian's libfuse3-dev"
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
    // A driver that is a module is listed only after it is loaded.
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
    let Some(maker) = setup.maker() else {
        return Ok(());
    };
    let call = |tool: &str, arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tool::call(tool, &arguments)
    };
    let log = log.map(Device::path);
    if let Some(arguments) = log.and_then(|log| setup.journal_arguments(home.bytes, log)) {
        call("mke2fs", arguments).context("journal device")?;
    }
    let arguments = setup.maker_arguments(home.bytes, home.path(), log);
    call(&maker, arguments)
}

/// A folder for the mount points of a trial, removed on drop.
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
        // Contains mount points only. The contents of a file system that is still mounted must
        // stay.
        strays::remove_folder(&self.0);
    }
}

/// A device, and the memory that it may be made of. The field order is the drop order.
struct Device {
    /// The file or device that the plan names, or the file that was created.
    file: String,
    /// `None` for a file that a program opens itself.
    attached: Option<Attached>,
    bytes: u64,
    /// The folder of the image, if it is in memory.
    place: Option<PathBuf>,
    _memory: Option<Mounted>,
}

impl Device {
    /// Attaches a device. A device in memory is a file on a tmpfs in a trial's folder; the file has
    /// the folder's name.
    fn make(text: &DeviceText, folder: &Folder, kind: &str, is_attached: bool) -> Result<Self> {
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
            other => bail!("{other}: not a kernel device"),
        };
        let attached = is_attached.then(|| Attached::new(&path)).transpose()?;
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
        (home, log): (&Device, Option<&Device>),
        place: &Path,
        jext: &Path,
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
        let mut program = serve((setup.driver, jext), &options, home, place)?;
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

    /// Unmounts, and waits until everything is written.
    ///
    /// # Errors
    /// Fails if the FUSE program does, which is how it says that something could not be written.
    fn close(self) -> Result<()> {
        self.mounted.unmount()?;
        let Some(mut program) = self.program else {
            return Ok(());
        };
        let mut ended = None;
        wait_until(|| {
            ended = program.try_wait()?;
            Ok(ended.is_some())
        })?;
        let status = ended.context("it has ended")?;
        ensure!(
            status.success(),
            "the FUSE program failed after the unmount: {status}"
        );
        Ok(())
    }
}

/// Starts the FUSE program, which mounts and serves.
fn serve(
    (driver, jext): (Driver, &Path),
    options: &str,
    home: &Device,
    place: &Path,
) -> Result<Child> {
    let mut command = match driver {
        Driver::Jext => {
            let mut command = Command::new(jext);
            command.args(["mount", "-f", "-o", options, home.path()]);
            command
        }
        Driver::Passthrough => {
            // In the image's tmpfs: nothing writes the image, so its space is free for this folder.
            let memory = home.place.as_ref().context("the folder is in memory")?;
            let source = memory.join("passed-on");
            fs::create_dir(&source).context("the folder that passthrough_ll serves")?;
            // It keeps a file open for each inode.
            open_files::raise_limit()?;
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

fn wait_until(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(
            began.elapsed() < PATIENCE,
            "the FUSE program: no change for {} s",
            PATIENCE.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns true if another file system is mounted at a folder.
fn is_mount_point(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let above = folder.parent().context("a mount point has a parent")?;
    Ok(fs::metadata(folder)?.dev() != fs::metadata(above)?.dev())
}

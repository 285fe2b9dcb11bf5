//! A trial on a file system that is made and mounted for it, by the kernel or by a program.
//!
//! What mkfs and mount have left dirty is written, and the kernel's caches are emptied, before the workload begins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use block::DeviceText;
use workload::Target;
use workload::directory::DirectoryTarget;

use super::Work;
use crate::record::Measured;
use crate::setup::{Driver, JournalPlace, MountedSetup};
use crate::system::attached::Requests;
use crate::system::tool::{self, Needed};
use crate::system::{Attached, Mounted, namespace};
use crate::timeline::Counts;

const SECTOR_BYTES: u64 = 512;
/// Beside what is in it, a tmpfs holds so much.
const ROOM_BYTES: u64 = 16 << 20;
/// How long a FUSE program may take to mount, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
const TOOLS: [Needed; 3] = [
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];
/// Where makers of file systems are from.
const MAKERS: [Needed; 7] = [
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.jfs", "jfsutils"),
    ("mkfs.reiserfs", "reiserfsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("fuse2fs", "fuse2fs"),
];

/// Says what the system lacks for such a trial, before anything is touched.
pub(super) fn check_system(setup: &MountedSetup) -> Result<()> {
    let kind = &setup.kind;
    ensure!(
        namespace::may_mount(),
        "a file system is made and mounted, so this needs root"
    );
    tool::check(&TOOLS)?;
    let maker = setup.maker();
    let is_fuse = setup.driver == Driver::Fuse2fs;
    for needed in [maker.as_str()]
        .into_iter()
        .chain(is_fuse.then_some("fuse2fs"))
    {
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

pub(super) fn run(setup: &MountedSetup, work: &Work) -> Result<Measured> {
    check_system(setup)?;
    let folder = Folder::make()?;
    let home = Device::make(&setup.device, &folder.0.join("home"))?;
    let log = match &setup.journal {
        JournalPlace::External(text) => Some(Device::make(text, &folder.0.join("log"))?),
        JournalPlace::Internal | JournalPlace::None => None,
    };
    format(setup, &home, log.as_ref())?;
    let place = folder.0.join("mounted");
    fs::create_dir(&place).context("mount point")?;
    let mount = Mount::new(setup, &home, log.as_ref(), &place)?;
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(&place)?);
    target.sync()?;
    fs::write("/proc/sys/vm/drop_caches", "3").context("the kernel's caches")?;
    let read = || -> Result<(Requests, Requests)> {
        let log = log.as_ref().map(|log| log.attached.requests());
        Ok((
            home.attached.requests()?,
            log.transpose()?.unwrap_or_default(),
        ))
    };
    let before = read()?;
    let mut measured = work.run(target, Counts::default)?;
    let after = read()?;
    let closing = Instant::now();
    mount.close()?;
    let (home, log) = (after.0 - before.0, after.1 - before.1);
    let figures = [
        ("close_time", closing.elapsed().as_secs_f64()),
        ("flushes", (home.flushes + log.flushes) as f64),
        ("home_reads", home.reads as f64),
        ("home_writes", home.writes as f64),
        ("home_bytes_read", (home.read_sectors * SECTOR_BYTES) as f64),
        (
            "home_bytes_written",
            (home.write_sectors * SECTOR_BYTES) as f64,
        ),
        ("log_writes", log.writes as f64),
        (
            "log_bytes_written",
            (log.write_sectors * SECTOR_BYTES) as f64,
        ),
    ];
    let figures = figures.map(|(name, value)| (name.to_owned(), value));
    measured.metrics.extend(figures);
    Ok(measured)
}

fn format(setup: &MountedSetup, home: &Device, log: Option<&Device>) -> Result<()> {
    let call = |tool: &str, arguments: Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tool::call(tool, &arguments)
    };
    let log = log.map(|log| log.attached.path());
    if let Some(arguments) = log.and_then(|log| setup.journal_arguments(home.bytes, log)) {
        call("mke2fs", arguments).context("journal device")?;
    }
    let arguments = setup.maker_arguments(home.bytes, home.attached.path(), log);
    call(&setup.maker(), arguments)
}

/// A folder for all that a trial mounts, removed with its value.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jext-lab-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Mount points only: whatever is still mounted is not to be emptied.
        for name in ["mounted", "home", "log"] {
            let _ = fs::remove_dir(self.0.join(name));
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// A device, and the memory that it may be made of. Fields are dropped in this order.
struct Device {
    attached: Attached,
    bytes: u64,
    _memory: Option<Mounted>,
}

impl Device {
    /// Attaches a device; if it is to be memory, a tmpfs at a folder holds it.
    fn make(text: &DeviceText, folder: &Path) -> Result<Self> {
        let (path, memory) = match text {
            DeviceText::File { path, .. } => (PathBuf::from(path), None),
            DeviceText::Memory { size } => {
                fs::create_dir(folder).context("mount point")?;
                let bytes = size.bytes();
                let options = format!("size={}", bytes + ROOM_BYTES);
                let memory = Mounted::new("tmpfs", &options, "jext-lab", folder)?;
                let path = folder.join("image");
                let image = File::create(&path).context("image")?;
                image.set_len(bytes).context("image")?;
                (path, Some(memory))
            }
            other => bail!("{other}: not a device of the kernel"),
        };
        let attached = Attached::new(&path)?;
        let bytes = bytes_of(attached.path())?;
        Ok(Self {
            attached,
            bytes,
            _memory: memory,
        })
    }
}

fn bytes_of(device: &str) -> Result<u64> {
    use std::io::Seek as _;
    let mut file = File::open(device).with_context(|| device.to_owned())?;
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
        let options = setup.mount_options(log.map(|log| log.attached.path()));
        let device = home.attached.path();
        if setup.driver == Driver::Kernel {
            let mounted = Mounted::new(&setup.kind, &options, device, place)?;
            return Ok(Self {
                mounted,
                program: None,
            });
        }
        let program = tool::find("fuse2fs").context("fuse2fs is missing")?;
        let mut program = Command::new(program)
            .args(["-f", "-o", &options, device])
            .arg(place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("fuse2fs")?;
        let is_up = || -> Result<bool> {
            if let Some(status) = program.try_wait()? {
                bail!("fuse2fs did not mount: {status}");
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

fn wait_until(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(
            began.elapsed() < PATIENCE,
            "fuse2fs: nothing for {} s",
            PATIENCE.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether another file system begins at a folder.
fn is_mount_point(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let above = folder.parent().context("a mount point has a parent")?;
    Ok(fs::metadata(folder)?.dev() != fs::metadata(above)?.dev())
}

//! An image, mounted by this process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use block::{BlockDevice, FileDevice};
use ext::mkfs::{self, FileSystemType};
use ext::{MountOptions, Volume};
use fuse::{Mount, MountError, Settings, Unmounter};
use rustix::fs::IFlags;
use tempfile::TempDir;
use testkit::tool;

/// The flag of inodes with extents (`chattr +e`).
pub(crate) const EXTENTS: IFlags = IFlags::from_bits_retain(0x0008_0000);
/// Size of an image in bytes.
pub(crate) const IMAGE_BYTES: u64 = 64 << 20;

/// The types of file systems, by their names in mount(8), and the ways of opening files of each:
/// lazily or not.
pub(crate) const KINDS: [(FileSystemType, &str, &[bool]); 2] = [
    (FileSystemType::Ext3, "ext3", &[false, true]),
    (FileSystemType::Ext4, "ext4", &[false]),
];

/// A folder with an image and a mount point.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// Creates a place with a new file system.
    pub(crate) fn new() -> Self {
        Self::with(&mkfs::Options::default())
    }

    /// Creates a place with a new file system and these options.
    pub(crate) fn with(options: &mkfs::Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Users other than root pass through it too.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(folder.path().join("mounted")).unwrap();
        let place = Self { folder };
        block::file::create_sparse(place.image(), IMAGE_BYTES).unwrap();
        mkfs::format(&place.device(), options).unwrap();
        place
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(FileDevice::open(self.image(), &Default::default()).unwrap())
    }

    pub(crate) fn point(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Runs e2fsck, which must find no problem.
    pub(crate) fn check(&self) {
        tool::run_well("e2fsck", &["-fn".as_ref(), self.image().as_os_str()]);
    }

    /// Mounts the image.
    pub(crate) fn mount(&self, settings: &Settings) -> Mounted {
        self.mount_device(self.device(), settings, MountOptions::default())
    }

    /// Mounts a device.
    pub(crate) fn mount_device(
        &self,
        device: Arc<dyn BlockDevice>,
        settings: &Settings,
        options: MountOptions,
    ) -> Mounted {
        let volume = Volume::open(device, None, options).unwrap();
        let mount = Mount::new(volume, &self.point(), settings).unwrap();
        Mounted {
            point: self.point(),
            unmounter: mount.unmounter(),
            server: Some(std::thread::spawn(move || mount.run())),
        }
    }
}

/// A mounted image; it is unmounted on drop.
pub(crate) struct Mounted {
    point: PathBuf,
    unmounter: Unmounter,
    server: Option<JoinHandle<Result<(), MountError>>>,
}

impl Mounted {
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Returns the flag of new files that have extents: none on ext3.
    pub(crate) fn extents(&self) -> IFlags {
        let root = std::fs::File::open(&self.point).unwrap();
        rustix::fs::ioctl_getflags(root).unwrap() & EXTENTS
    }

    /// Unmounts. Returns the result of serving the mount.
    pub(crate) fn end(mut self) -> Result<(), MountError> {
        self.unmounter.end().unwrap();
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = self.unmounter.end();
            let _ = server.join();
        }
    }
}

/// Runs `work` on mounted images of all types, with both ways of opening files; the image must be
/// clean afterwards.
#[track_caller]
pub(crate) fn on_a_mount(work: impl Fn(&Mounted)) {
    if !testkit::privilege::is_granted() {
        return;
    }
    for (file_system, _, are_lazy) in KINDS {
        for is_lazy_open in are_lazy.iter().copied() {
            let place = Place::with(&mkfs::Options {
                file_system,
                ..mkfs::Options::default()
            });
            let mut settings = Settings {
                is_lazy_open,
                ..Settings::default()
            };
            settings.description.allow_other = true;
            let mounted = place.mount(&settings);
            work(&mounted);
            mounted.end().unwrap();
            place.check();
        }
    }
}

/// Runs `work` on mounted images of all types, with open files, and then `check` on the same
/// images, mounted again; they must be clean each time.
#[track_caller]
pub(crate) fn on_a_mount_and_later(work: impl Fn(&Mounted), check: impl Fn(&Mounted)) {
    if !testkit::privilege::is_granted() {
        return;
    }
    for (file_system, ..) in KINDS {
        let place = Place::with(&mkfs::Options {
            file_system,
            ..mkfs::Options::default()
        });
        let mut settings = Settings::default();
        settings.description.allow_other = true;
        for part in [&work as &dyn Fn(&Mounted), &check] {
            let mounted = place.mount(&settings);
            part(&mounted);
            mounted.end().unwrap();
            place.check();
        }
    }
}

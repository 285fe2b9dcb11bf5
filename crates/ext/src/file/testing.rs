//! Volumes in memory for tests, made by `mke2fs` and checked by `e2fsck`.

use std::process::{Command, Output};
use std::sync::Arc;

use block::BlockDevice;
use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use block::memory::MemoryDevice;
use layout::InodeNr;
use layout::device::DeviceNumber;

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::kind::FileKind;
use crate::disk::new_inode::NewInode;
use crate::options::MountOptions;
use crate::volume::{OpenReport, close_core, open_core};
use crate::{file, namei, writeback};

/// Message for systems without e2fsprogs.
const INSTALL: &str = "e2fsprogs is needed: apt-get install e2fsprogs";

/// Runs a tool.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} does not run ({error}); {INSTALL}");
        })
}

/// Returns a device with a file system of `mke2fs`.
pub(crate) fn image(size_bytes: u64, arguments: &[&str]) -> Arc<MemoryDevice> {
    let directory = tempfile::tempdir().expect("a directory for the image");
    let path = directory.path().join("image");
    let path = path.to_str().expect("UTF-8");
    std::fs::File::create(path)
        .and_then(|file| file.set_len(size_bytes))
        .expect("a sparse file");
    let mut all = vec!["-q", "-F"];
    all.extend(arguments);
    all.push(path);
    let made = run("mke2fs", &all);
    assert!(made.status.success(), "mke2fs {arguments:?}: {made:?}");
    Arc::new(MemoryDevice::load_from_file(path).expect("the image loads"))
}

/// Checks that `e2fsck -fn` finds nothing.
pub(crate) fn check(device: &MemoryDevice) {
    let directory = tempfile::tempdir().expect("a directory for the image");
    let path = directory.path().join("image");
    device.write_to_file(&path).expect("the image is written");
    let checked = run("e2fsck", &["-fn", path.to_str().expect("UTF-8")]);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );
}

/// Returns the output of a `debugfs` request.
pub(crate) fn debugfs(device: &MemoryDevice, request: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory for the image");
    let path = directory.path().join("image");
    device.write_to_file(&path).expect("the image is written");
    let said = run("debugfs", &["-R", request, path.to_str().expect("UTF-8")]);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Asserts that a test fails with the mutant, and passes without it.
pub(crate) fn assert_notices(mutant: &'static str, test: fn()) {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, test)
    };
    run(None).unwrap_or_else(|error| panic!("with nothing broken: {error}"));
    if rt::mutant::IS_POSSIBLE {
        assert!(run(Some(mutant)).is_err(), "{mutant} is not noticed");
    }
}

/// Runs one round of the writer daemon.
pub(crate) fn write_back(core: &Core) {
    let (busy, allocated) = file::allocate_old(core);
    allocated.expect("there is room");
    writeback::write_back_round(core).expect("it is memory");
    file::write_busy(core, &busy).expect("there is room");
}

/// An open volume without a writer daemon.
pub(crate) struct Bench {
    pub(crate) core: Arc<Core>,
}

impl Bench {
    /// Opens a volume.
    pub(crate) fn open(device: Arc<dyn BlockDevice>, options: MountOptions) -> Self {
        Self::open_with_report(device, options).0
    }

    /// Opens a volume, and reports the events of the open.
    pub(crate) fn open_with_report(
        device: Arc<dyn BlockDevice>,
        options: MountOptions,
    ) -> (Self, OpenReport) {
        let (core, report, _) = open_core(device, None, options).expect("the volume opens");
        (Self { core }, report)
    }

    /// Creates a file in the root directory.
    pub(crate) fn create(&self, name: &str) -> Arc<Inode> {
        let (kind, device, new) = (
            FileKind::Regular,
            DeviceNumber::default(),
            NewInode::default(),
        );
        let inode = namei::create(
            &self.core,
            InodeNr::ROOT,
            name.as_bytes(),
            kind,
            device,
            &new,
        )
        .expect("the file is made");
        self.core.inodes.unpin(&inode);
        inode
    }

    /// Looks up a file of the root directory.
    pub(crate) fn find(&self, name: &str) -> Arc<Inode> {
        self.inode(namei::lookup(&self.core, InodeNr::ROOT, name.as_bytes()).expect("it is there"))
    }

    /// Unlinks a file of the root directory.
    pub(crate) fn unlink(&self, name: &str) {
        namei::unlink(&self.core, InodeNr::ROOT, name.as_bytes()).expect("it is there");
    }

    fn inode(&self, nr: InodeNr) -> Arc<Inode> {
        self.core.inode(nr).expect("the inode is there")
    }

    /// Writes all of the bytes.
    pub(crate) fn write(&self, inode: &Arc<Inode>, offset: u64, bytes: &[u8]) {
        self.write_with(inode, offset, bytes, file::WriteOptions::default());
    }

    /// Writes all of the bytes, with options.
    pub(crate) fn write_with(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        bytes: &[u8],
        options: file::WriteOptions,
    ) {
        let count = file::write(&self.core, inode, offset, bytes, options).expect("it is written");
        assert_eq!(count, bytes.len());
    }

    /// Reads `length` bytes, or up to the end.
    pub(crate) fn read(&self, inode: &Arc<Inode>, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; length];
        let count = file::read(&self.core, inode, None, offset, &mut bytes).expect("it is read");
        bytes.truncate(count);
        bytes
    }

    /// Closes the volume.
    pub(crate) fn close(self) {
        close_core(&self.core).expect("the volume closes");
    }
}

/// Returns a device that fails all of these operations while it is armed, which it is not yet.
pub(crate) fn failing(device: &Arc<MemoryDevice>, operations: Operations) -> Arc<FaultDevice> {
    let rule = FaultRule {
        operations,
        when: When::Always,
        effect: Effect::Fail,
    };
    let plan = FaultPlan {
        rules: vec![rule],
        ..FaultPlan::default()
    };
    let inner: Arc<dyn BlockDevice> = device.clone();
    let faults = Arc::new(FaultDevice::new(inner, plan));
    faults.set_armed(false);
    faults
}

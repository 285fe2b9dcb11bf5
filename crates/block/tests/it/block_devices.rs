//! Real block devices, played by a loop device: their size and contents, and that nobody writes to what is mounted, claimed
//! or attached. This needs root; somebody without it sets `JEXT_TEST_UNPRIVILEGED=1` knowingly.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests ask the environment whether they may need root"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use block::file::create_sparse;
use block::{DeviceError, FileDevice, OpenOptions};
use tempfile::TempDir;

use crate::support::Modelled;

const SIZE: u64 = 4 << 20;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} is needed ({error}): run scripts/install-test-tools")
        });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?} needs root (or JEXT_TEST_UNPRIVILEGED=1): {errors}"
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An image with a loop device, which is detached in the end.
struct Loop {
    folder: TempDir,
    device: String,
    is_mounted: bool,
}

impl Loop {
    /// Nothing if the tests may not need root.
    fn attach() -> Option<Self> {
        if std::env::var_os("JEXT_TEST_UNPRIVILEGED").is_some_and(|value| value == "1") {
            eprintln!("left out: a test that needs root for a loop device");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let image = folder.path().join("image");
        create_sparse(&image, SIZE).expect("the folder is writable");
        let device = run("losetup", &["--find", "--show", text(&image)]);
        Some(Self {
            folder,
            device,
            is_mounted: false,
        })
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mount(&mut self) {
        let place = self.folder.path().join("with space");
        fs::create_dir(&place).expect("the folder is writable");
        run("mke2fs", &["-q", "-F", &self.device]);
        run("mount", &[&self.device, text(&place)]);
        self.is_mounted = true;
    }

    fn unmount(&mut self) {
        if core::mem::take(&mut self.is_mounted) {
            run("umount", &[&self.device]);
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        run("losetup", &["--detach", &self.device]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn refusal(path: impl AsRef<Path>, options: &OpenOptions) -> Option<String> {
    match FileDevice::open(path, options) {
        Ok(_) => None,
        Err(DeviceError::InUse { cause, .. }) => Some(cause),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_block_device_reads_what_was_written() {
    let Some(attached) = Loop::attach() else {
        return;
    };
    for (seed, options) in [OpenOptions::default(), OpenOptions::direct()]
        .iter()
        .enumerate()
    {
        run("blkdiscard", &["--zeroout", &attached.device]);
        let device = FileDevice::open(&attached.device, options).expect("nobody else uses it");
        let mut modelled = Modelled::new(Arc::new(device), seed as u64);
        assert_eq!(modelled.bytes.len() as u64, SIZE);
        (0..100).for_each(|_| modelled.step());
        modelled.compare();
    }
}

#[test]
fn what_others_use_is_not_written_to() {
    let Some(mut attached) = Loop::attach() else {
        return;
    };
    let (writing, reading) = (OpenOptions::default(), OpenOptions::read_only());
    let forced = OpenOptions {
        ignores_users: true,
        ..writing.clone()
    };
    let image = attached.image();
    let cause = refusal(&image, &writing).expect("the image is attached");
    assert!(cause.contains(&attached.device), "{cause}");
    assert_eq!(refusal(&image, &reading), None);
    assert_eq!(refusal(&image, &forced), None);
    assert_eq!(refusal(&attached.device, &writing), None);

    attached.mount();
    let cause = refusal(&attached.device, &writing).expect("the device is mounted");
    assert!(cause.contains("with space"), "{cause}");
    assert_eq!(refusal(&attached.device, &reading), None);
    attached.unmount();

    let claimed = FileDevice::open(&attached.device, &writing).expect("it is free again");
    let unlocked = OpenOptions {
        locks: false,
        ..writing.clone()
    };
    let cause = refusal(&attached.device, &unlocked).expect("the device is claimed");
    assert!(cause.contains("the kernel"), "{cause}");
    drop(claimed);
    assert_eq!(refusal(&attached.device, &writing), None);
}

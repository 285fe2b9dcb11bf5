//! Real block devices, represented by a loop device: their size and contents, and refusal of
//! mounted, claimed or attached ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::file::create_sparse;
use block::{BlockDevice, DeviceError, FileDevice, OpenOptions, Request};
use layout::{Block, SectorNr};
use tempfile::TempDir;
use testkit::{Loop, Mount, privilege, tool};

use crate::support::Modelled;

const SIZE: u64 = 4 << 20;

/// Creates an image in a folder of its own.
fn image() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let image = folder.path().join("image");
    create_sparse(&image, SIZE).expect("the folder is writable");
    (folder, image)
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
    if !privilege::is_granted() {
        return;
    }
    let (_folder, image) = image();
    let attached = Loop::attach(&image);
    for (seed, options) in [OpenOptions::default(), OpenOptions::direct()]
        .iter()
        .enumerate()
    {
        tool::run_well("blkdiscard", &["--zeroout", attached.path()]);
        let device = FileDevice::open(attached.path(), options).expect("nobody else uses it");
        let mut modelled = Modelled::new(Arc::new(device), seed as u64);
        assert_eq!(modelled.bytes.len() as u64, SIZE);
        (0..100).for_each(|_| modelled.step());
        modelled.compare();
    }
}

#[test]
fn what_others_use_is_not_written_to() {
    if !privilege::is_granted() {
        return;
    }
    let (_folder, image) = image();
    let attached = Loop::attach(&image);
    let (writing, reading) = (OpenOptions::default(), OpenOptions::read_only());
    let forced = OpenOptions {
        ignores_users: true,
        ..writing.clone()
    };
    let cause = refusal(&image, &writing).expect("the image is attached");
    assert!(cause.contains(attached.path()), "{cause}");
    assert_eq!(refusal(&image, &reading), None);
    assert_eq!(refusal(&image, &forced), None);
    assert_eq!(refusal(attached.path(), &writing), None);

    tool::run_well("mke2fs", &["-q", "-F", attached.path()]);
    let folder = image.with_file_name("with space");
    let mount = Mount::of_device(attached.path(), &folder, &[]).expect("root may mount");
    let cause = refusal(attached.path(), &writing).expect("the device is mounted");
    assert!(cause.contains("with space"), "{cause}");
    assert_eq!(refusal(attached.path(), &reading), None);
    drop(mount);

    let claimed = FileDevice::open(attached.path(), &writing).expect("it is free again");
    let unlocked = OpenOptions {
        locks: false,
        ..writing.clone()
    };
    let cause = refusal(attached.path(), &unlocked).expect("the device is claimed");
    assert!(cause.contains("the kernel"), "{cause}");
    drop(claimed);
    assert_eq!(refusal(attached.path(), &writing), None);
}

/// A flush of the device is the largest part of a commit.
#[test]
fn a_forced_write_costs_one_flush() {
    if !privilege::is_granted() {
        return;
    }
    let (_folder, image) = image();
    let attached = Loop::attach(&image);
    let flushes = || {
        let place = format!("/sys/block/{}/stat", attached.name());
        let text = std::fs::read_to_string(place).expect("the kernel counts");
        let counts: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        counts[15]
    };
    let device = FileDevice::open(attached.path(), &OpenOptions::direct()).expect("it opens");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let before = flushes();
    for number in 0..10 {
        let write = Request::Write {
            sector: SectorNr::new(number * 8),
            payload: vec![Block::zeroed(4096).into_arc()],
            force_unit_access: true,
        };
        device
            .request(vec![write])
            .wait_all()
            .expect("it is written");
    }
    assert_eq!(flushes() - before, 10);
}

//! Volumes with blocks of 8 to 64 KiB, which are only read. `mke2fs` and `debugfs` make them: Linux
//! mounts no blocks that are larger than a page.

mod damaged;
mod dirty;
mod sparse;
mod trees;

use std::path::Path;
use std::sync::Arc;

use block::MemoryDevice;
use ext::options::DataMode;
use ext::{Error, Volume};
use testkit::tool;

use crate::image::Image;
use crate::rig::{device, quiet};

/// The sizes of blocks in bytes.
const SIZES: [u32; 4] = [8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Size of the smallest image in bytes.
const IMAGE_BYTES_MIN: u64 = 96 << 20;
/// Number of blocks of an image, at least: with fewer than 2048 it gets no journal.
const BLOCKS_MIN: u64 = 2560;

/// Makes an image with `mke2fs -t KIND`, and more arguments separated by spaces.
fn image(kind: &'static str, block_bytes: u32, more: &str) -> Image {
    let more: Vec<&str> = more.split_whitespace().collect();
    let bytes = IMAGE_BYTES_MIN.max(BLOCKS_MIN * u64::from(block_bytes));
    Image::with_arguments(kind, block_bytes, bytes, false, &more)
}

/// Runs requests of debugfs, one on each line, and returns its output.
fn debugfs(image: &Image, requests: &str) -> String {
    let file = image.path.with_file_name("requests");
    std::fs::write(&file, requests).unwrap();
    let (file, path) = (file.to_str().unwrap(), image.path.to_str().unwrap());
    tool::run_well("debugfs", &["-w", "-f", file, path])
}

fn in_memory(image: &Image) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::from_bytes(&read(&image.path)))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Opens a volume for writing. Asserts that it can only be read because of its blocks, calls
/// `look`, and asserts that nothing was written.
fn look_at(image: &Image, look: impl FnOnce(&Arc<MemoryDevice>, &Volume)) {
    let memory = in_memory(image);
    let before = memory.snapshot();
    let opened = Volume::open_with_report(device(&memory), None, quiet(DataMode::Ordered));
    let (volume, report) = opened.unwrap_or_else(|error| panic!("{error}"));
    let bytes = image.block_bytes;
    let why = report.read_only_because.expect("it is only read");
    assert_eq!(why, format!("blocks of {bytes} bytes are only read"));
    assert!(volume.is_read_only());
    let made = volume.create_directory("/made");
    assert!(matches!(made, Err(Error::ReadOnly)), "{made:?}");
    look(&memory, &volume);
    volume.close().unwrap();
    assert_eq!(memory.first_difference(&before), None, "nothing is written");
}

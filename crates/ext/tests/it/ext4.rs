//! Images of ext4, which are read: trees made by the kernel, compared with the kernel, `ext4-view`
//! and `debugfs`; logs that the kernel left; checksums that do not match. And images that are
//! written.

mod case_folded;
mod clusters;
mod damaged;
mod encrypted;
mod exchanges;
mod grown;
mod inline_data;
mod inode_sizes;
mod large_directories;
mod large_volumes;
mod lazy_tables;
mod logs;
mod mapped;
mod meta_groups;
mod moves;
mod mutations;
mod orphan_file;
mod pitfalls;
mod sequences;
mod trees;
mod tuned;
mod verity;
mod written;

use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::{Error, MountOptions, Result, Volume};
use layout::BlockNr;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::Mount;
use zerocopy::FromBytes;

use crate::image::{Image, look_at};

const MIB: u64 = 1 << 20;

/// Makes an image with `mke2fs -t ext4`, and more arguments separated by spaces.
fn image(block_bytes: u32, size_bytes: u64, more: &str) -> Image {
    let more: Vec<&str> = more.split_whitespace().collect();
    Image::with_arguments("ext4", block_bytes, size_bytes, false, &more)
}

/// Makes an image, and fills it through the kernel.
fn filled(block_bytes: u32, size_bytes: u64, more: &str, fill: impl FnOnce(&Path)) -> Image {
    filled_further(image(block_bytes, size_bytes, more), fill)
}

fn filled_further(image: Image, fill: impl FnOnce(&Path)) -> Image {
    let mount = mount(&image);
    fill(mount.path());
    drop(mount);
    image
}

fn mount(image: &Image) -> Mount {
    let mounted = image.mount("noatime");
    mounted.unwrap_or_else(|why| panic!("{why}"))
}

/// Returns the image in memory.
fn in_memory(image: &Image) -> Arc<MemoryDevice> {
    let bytes = std::fs::read(&image.path).expect("the image is there");
    Arc::new(MemoryDevice::from_bytes(&bytes))
}

fn read_only() -> MountOptions {
    MountOptions {
        read_only: true,
        ..MountOptions::default()
    }
}

fn open(device: &Arc<MemoryDevice>) -> Result<Volume> {
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(device);
    Volume::open(device, None, read_only())
}

fn superblock(image: &Image) -> Superblock {
    let device = look_at(&image.path);
    let bytes = device.read_block(OFFSET, SIZE as u32).expect("it is there");
    Superblock::read_from_prefix(&bytes)
        .expect("as many bytes were read")
        .0
}

fn all_blocks(volume: &Volume) -> impl Iterator<Item = BlockNr> + use<> {
    let geometry = &volume.superblock().geometry;
    (geometry.first_data_block.get()..geometry.block_count).map(BlockNr::new)
}

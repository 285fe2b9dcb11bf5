//! Blocks of directories, long symbolic links and block maps that are freed and become file data:
//! no old contents may reach the disk any more, whichever thread writes back.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FileSystemType};
use ext::options::DataMode;
use ext::volume::NewInode;
use ext::{MountOptions, Volume};
use layout::InodeNr;

use crate::cell::{Cell, Journal};

const VOLUME_BYTES: u64 = 4 << 20;
/// Number of files of each kind.
const VICTIMS: usize = 40;

/// Creates files whose blocks are written through the metadata cache, and removes them again.
fn litter(volume: &Volume) {
    for number in 0..VICTIMS {
        let name = format!("victim {number}");
        let target = vec![b'x'; 200];
        let new = NewInode::default();
        volume
            .symlink(InodeNr::ROOT, name.as_bytes(), &target, &new)
            .expect("symlink");
        volume
            .create_directory(&format!("/directory {number}"))
            .expect("mkdir");
        volume
            .write_file(&format!("/mapped {number}"), &[b'm'; 14 << 10])
            .expect("write");
    }
    for number in 0..VICTIMS {
        volume
            .remove_file(&format!("/victim {number}"))
            .expect("unlink");
        volume
            .remove_directory_at(&format!("/directory {number}"))
            .expect("rmdir");
        volume
            .remove_file(&format!("/mapped {number}"))
            .expect("unlink");
    }
}

fn check(cell: Cell) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(VOLUME_BYTES));
    let file_system = match cell.journal {
        Journal::None => FileSystemType::Ext2,
        _ => FileSystemType::Ext3,
    };
    let options = mkfs::Options {
        file_system,
        block_bytes: Some(cell.block_bytes),
        reserved_percent: 0.0,
        ..mkfs::Options::default()
    };
    mkfs::format(&device, &options).expect("mkfs");
    let options = || MountOptions {
        barrier: false,
        ..cell.options()
    };
    let volume = Volume::open(Arc::clone(&device), None, options()).expect("open");
    litter(&volume);
    // Freed blocks may be used after their transaction is durable; nothing is checkpointed yet.
    volume.sync_directory(InodeNr::ROOT).expect("sync");
    litter(&volume);
    let free_blocks = volume.usage().blocks_free;
    let bytes = (free_blocks - free_blocks / 16) * u64::from(cell.block_bytes);
    let contents: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    volume.write_file("/all", &contents).expect("it fits");
    volume.close().expect("close");
    let volume = Volume::open(device, None, options()).expect("open again");
    let read = volume.read_file("/all").expect("read");
    let place = read.iter().zip(&contents).position(|(is, was)| is != was);
    assert_eq!((place, read.len()), (None, contents.len()), "{cell}");
    volume.close().expect("close again");
}

#[test]
fn old_metadata_never_overwrites_new_data() {
    let modes = [DataMode::Ordered, DataMode::Writeback, DataMode::Journal];
    let journals = [Journal::None].into_iter();
    for journal in journals.chain(modes.map(Journal::Internal)) {
        for block_bytes in [1024, 4096] {
            check(Cell {
                block_bytes,
                journal,
            });
        }
    }
}

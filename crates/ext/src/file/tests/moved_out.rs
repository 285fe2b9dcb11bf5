//! Contents that were durable within their inode, and move out into a block.

use std::sync::Arc;

use block::fault::{FaultDevice, Operations};
use block::memory::MemoryDevice;
use layout::FileBlock;

use super::testing::{self, Bench, check, image};
use crate::Error;
use crate::cache::inode::Inode;
use crate::file::{self, WriteOptions};
use crate::map::{FileMap, Mapped};
use crate::options::MountOptions;

fn volume(journal: &str) -> Arc<MemoryDevice> {
    let features = format!("inline_data,{journal}");
    image(32 << 20, &["-t", "ext4", "-b", "1024", "-O", &features])
}

/// Returns the first block of a file or directory as it is on the device.
fn first_on_device(bench: &Bench, device: &MemoryDevice, inode: &Arc<Inode>) -> Vec<u8> {
    let (core, state) = (&bench.core, inode.state.read());
    let found = FileMap::of(&state).find(core, inode, &state, FileBlock::new(0), 1);
    let Mapped::Run(run) = found.unwrap() else {
        panic!("it has a block");
    };
    let at = run.first.get() as usize * 1024;
    device.to_bytes()[at..at + 1024].to_vec()
}

/// The inode may be written at any time without a journal.
#[test]
fn without_a_journal_the_block_is_written_before_the_inode() {
    let device = volume("^has_journal");
    let bench = Bench::open(device.clone(), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[1; 100]);
    file::sync_all(&bench.core).unwrap();
    bench.write(&inode, 100, &[2; 300]);
    let found = first_on_device(&bench, &device, &inode);
    assert_eq!(found[..100], [1; 100]);
    let root = layout::InodeNr::ROOT;
    let new = crate::disk::new_inode::NewInode::default();
    let directory = crate::namei::make_directory(&bench.core, root, b"directory", &new).unwrap();
    let mut number = 0;
    while directory.state.read().is_inline() {
        let name = format!("name-{number}");
        crate::namei::link(&bench.core, inode.nr, directory.nr, name.as_bytes()).unwrap();
        number += 1;
    }
    let found = first_on_device(&bench, &device, &directory);
    assert!(found.windows(6).any(|part| part == b"name-0"));
    bench.core.inodes.unpin(&directory);
    bench.close();
    check(&device);
}

/// Opens a volume whose device fails all writes while it is armed.
fn failing(device: &Arc<MemoryDevice>) -> (Arc<FaultDevice>, Bench) {
    let faults = testing::failing(device, Operations::WRITES);
    let bench = Bench::open(faults.clone(), MountOptions::default());
    (faults, bench)
}

#[test]
fn what_cannot_be_written_elsewhere_stays_in_the_inode() {
    for journal in ["has_journal", "^has_journal", "^extent,^64bit"] {
        let device = volume(journal);
        let (faults, bench) = failing(&device);
        let inode = bench.create("file");
        bench.write(&inode, 0, &[1; 100]);
        file::sync_all(&bench.core).unwrap();
        faults.set_armed(true);
        let written = file::write(&bench.core, &inode, 100, &[2; 300], WriteOptions::default());
        assert!(matches!(written, Err(Error::Device(_))), "{written:?}");
        faults.set_armed(false);
        assert!(inode.state.read().is_inline());
        assert_eq!(bench.read(&inode, 0, 1000), [1; 100]);
        bench.write(&inode, 100, &[3; 300]);
        bench.close();
        check(&device);
        let bench = Bench::open(device, MountOptions::default());
        let found = bench.read(&bench.find("file"), 0, 1000);
        assert_eq!(found, [vec![1; 100], vec![3; 300]].concat());
        bench.close();
    }
}

//! Many inodes that a kernel knows, and many open files: what they take, and what the next one
//! costs.

use std::sync::Arc;

use block::device::BlockDevice;
use block::meter::MeterDevice;
use ext::options::{DataMode, Memory};
use ext::volume::{NewInode, OpenFlags};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use crate::rig::{Place, Rig, Structures, device, quiet};

const BUDGET_BYTES: u64 = 4 << 20;
const VOLUME_BYTES: u64 = 512 << 20;
const BLOCK_BYTES: u32 = 4096;
/// Number of files whose inodes in memory would take four times the budget.
const FILES: u32 = 20_000;
/// Number of new files after which they are made durable, because the journal of an image is small.
const FILES_AT_A_TIME: u32 = 500;

fn options() -> MountOptions {
    let quiet = quiet(DataMode::Ordered);
    MountOptions {
        memory: Memory {
            budget_bytes: BUDGET_BYTES,
            ..quiet.memory
        },
        ..quiet
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

/// Creates files that are known from then on. Returns the directory and their numbers.
fn make_known(volume: &Volume) -> (InodeNr, Vec<InodeNr>) {
    let directory = volume.create_directory("/many").expect("mkdir");
    let nodes = (0..FILES).map(|number| {
        let name = name(number);
        let new = NewInode::default();
        volume.create(directory, &name, &new).expect("create");
        if number % FILES_AT_A_TIME == 0 {
            volume.sync().expect("sync");
        }
        let node = volume.look_up_node(directory, &name).expect("it is there");
        node.inode
    });
    let nodes = nodes.collect();
    (directory, nodes)
}

#[test]
fn known_inodes_leave_memory_and_keep_their_pins() {
    let rig = Rig::of(Structures::Ext4, Place::Internal, BLOCK_BYTES, VOLUME_BYTES);
    let volume = rig.open(options());
    let (directory, nodes) = make_known(&volume);
    let used = volume.memory_used();
    assert!(used <= BUDGET_BYTES + (1 << 20), "{used} bytes");

    // The first ones left memory long ago.
    let (kept, gone, twice) = (nodes[0], nodes[1], nodes[2]);
    volume.look_up_node(directory, &name(2)).expect("again");
    for number in 0..3 {
        volume.unlink(directory, &name(number)).expect("unlink");
    }
    let free = volume.usage().inodes_free;
    for node in [kept, gone, twice] {
        assert_eq!(volume.attributes(node).expect("it is known").links, 0);
    }
    volume.forget(gone, 1).expect("the last look-up");
    volume.forget(twice, 1).expect("the first of two");
    assert!(matches!(volume.attributes(gone), Err(Error::NotFound)));
    assert_eq!(volume.attributes(twice).expect("it is known").links, 0);
    volume.forget(twice, 1).expect("the second of two");
    assert!(matches!(volume.attributes(twice), Err(Error::NotFound)));
    assert_eq!(volume.usage().inodes_free, free + 2);

    for node in &nodes[3..] {
        volume.forget(*node, 1).expect("forget");
    }
    assert_eq!(volume.usage().inodes_free, free + 2, "they have names");
    volume.unlink(directory, &name(3)).expect("unlink");
    assert_eq!(volume.usage().inodes_free, free + 3, "it was forgotten");
    assert_eq!(volume.attributes(kept).expect("it is known").links, 0);
    volume.close().expect("close");
    rig.assert_fsck_clean("after they were forgotten");
}

#[test]
fn an_inode_that_has_left_memory_is_forgotten_without_a_read() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES, VOLUME_BYTES);
    let home = Arc::new(MeterDevice::new(device(&rig.home)));
    let metered: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&home);
    let volume = Volume::open(metered, None, options()).expect("open");
    let (_, nodes) = make_known(&volume);
    let before = home.counts().reads;
    for node in &nodes[..nodes.len() / 2] {
        volume.forget(*node, 1).expect("forget");
    }
    assert_eq!(home.counts().reads, before);
    volume.close().expect("close");
}

#[test]
fn an_open_file_costs_no_more_beside_many_others() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES, VOLUME_BYTES);
    let home = Arc::new(MeterDevice::new(device(&rig.home)));
    let metered: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&home);
    let volume = Volume::open(metered, None, options()).expect("open");
    let directory = volume.create_directory("/many").expect("mkdir");
    let mut costs = Vec::new();
    for number in 0..FILES {
        if number % (FILES / 10) == 0 {
            costs.push(home.counts());
        }
        let new = NewInode::default();
        let made = volume.create(directory, &name(number), &new);
        let file = volume.open_inode(made.expect("create"), OpenFlags::READ_WRITE);
        volume
            .write_all(file.expect("open"), 0, b"x")
            .expect("write");
    }
    costs.push(home.counts());
    let requests = |part: usize| {
        let cost = costs[part + 1] - costs[part];
        cost.reads + cost.writes
    };
    let (few, many) = (requests(1), requests(9));
    println!("{few} requests for 2,000 files beside 2,000, {many} beside 18,000");
    assert!(many <= few * 3 / 2, "{many}, not {few}");
    volume.close().expect("close");
}

//! Many inodes that a kernel knows, and many open files: what they take, and what the next one
//! costs.

use std::sync::Arc;

use block::device::BlockDevice;
use block::meter::MeterDevice;
use ext::options::{DataMode, Memory};
use ext::volume::{NewInode, OpenFlags, RenameMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use testkit::Random;

use crate::rig::{Place, Rig, Structures, device, quiet};

const BUDGET_BYTES: u64 = 4 << 20;
const VOLUME_BYTES: u64 = 512 << 20;
const BLOCK_BYTES: u32 = 4096;
/// Number of files whose inodes in memory would take four times the budget.
const FILES: u32 = 20_000;
/// Number of new files after which they are made durable, because the journal of an image is small.
const FILES_AT_A_TIME: u32 = 500;
/// Number of names that threads change, four times as many as inodes fit into memory; number of the
/// threads and of the steps of each.
const NAMES: u64 = 4096;
const THREADS: u64 = 4;
const STEPS: u32 = 20_000;

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

#[test]
fn files_that_were_open_leave_memory_when_others_come() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES, VOLUME_BYTES);
    let volume = rig.open(options());
    let (directory, nodes) = make_known(&volume);
    let open = |node: &InodeNr| volume.open_inode(*node, OpenFlags::READ).expect("open");
    let files: Vec<_> = nodes.iter().map(open).collect();
    assert!(volume.memory_used() > BUDGET_BYTES * 3);
    for file in files {
        volume.release(file).expect("close");
    }
    // They leave for what is read instead.
    let bytes = vec![7; BUDGET_BYTES as usize * 2];
    let new = NewInode::default();
    let large = volume.create(directory, b"large", &new).expect("create");
    let file = volume
        .open_inode(large, OpenFlags::READ_WRITE)
        .expect("open");
    volume.write_all(file, 0, &bytes).expect("write");
    volume.sync().expect("sync");
    let mut into = vec![0; BLOCK_BYTES as usize];
    for _ in 0..3 {
        for at in (0..bytes.len()).step_by(into.len()) {
            volume.read(file, at as u64, &mut into).expect("read");
        }
    }
    let used = volume.memory_used();
    assert!(used <= BUDGET_BYTES + (1 << 20), "{used} bytes");
    volume.close().expect("close");
}

/// The nodes that a thread has looked up, with their generations.
type Known = Vec<(InodeNr, u32)>;

/// Looks nodes up, forgets them, and adds and removes names. A node that is known stays the same
/// file.
fn change_known(volume: &Volume, directory: InodeNr, seed: u64) {
    let mut random = Random::new(seed);
    let mut known = Known::new();
    for step in 0..STEPS {
        let name = name(random.below(NAMES) as u32);
        match random.below(16) {
            0..5 => match volume.look_up_node(directory, &name) {
                Ok(found) => known.push((found.inode, found.generation)),
                Err(error) => assert!(matches!(error, Error::NotFound), "{error}"),
            },
            5..10 if !known.is_empty() => {
                let place = random.below(known.len() as u64) as usize;
                let (node, generation) = known.swap_remove(place);
                let found = volume.attributes(node).expect("it is known");
                assert_eq!(found.generation, generation, "{node} after {step} steps");
                let file = volume.open_inode(node, OpenFlags::READ);
                if let Ok(file) = file {
                    volume.release(file).expect("close");
                }
                volume.forget(node, 1).expect("forget");
            }
            10..12 => drop(volume.unlink(directory, &name)),
            12..14 => drop(volume.create(directory, &name, &NewInode::default())),
            14 => {
                let target = self::name(random.below(NAMES) as u32);
                let mode = RenameMode::Replace;
                drop(volume.rename(directory, &name, directory, &target, mode));
            }
            _ if step % 64 == 0 => volume.sync().expect("sync"),
            _ => {}
        }
    }
    for (node, generation) in known {
        let found = volume.attributes(node).expect("it is known");
        assert_eq!(found.generation, generation, "{node} at the end");
        volume.forget(node, 1).expect("forget");
    }
}

#[test]
fn a_known_node_stays_the_same_file_whatever_other_threads_do() {
    for (place, seed) in [(Place::None, 1), (Place::Internal, 2)] {
        let rig = Rig::of(Structures::Ext4, place, BLOCK_BYTES, VOLUME_BYTES);
        let volume = rig.open(options());
        let directory = volume.create_directory("/many").expect("mkdir");
        volume.sync().expect("sync");
        let free = volume.usage().inodes_free;
        for number in 0..NAMES as u32 {
            let new = NewInode::default();
            volume
                .create(directory, &name(number), &new)
                .expect("create");
            if number % FILES_AT_A_TIME == 0 {
                volume.sync().expect("sync");
            }
        }
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let volume = &volume;
                scope.spawn(move || change_known(volume, directory, seed * THREADS + thread));
            }
        });
        for number in 0..NAMES as u32 {
            drop(volume.unlink(directory, &name(number)));
        }
        assert_eq!(volume.orphan_count(), 0);
        assert_eq!(volume.usage().inodes_free, free, "{place:?}");
        volume.close().expect("close");
        rig.assert_fsck_clean("after all is forgotten");
    }
}

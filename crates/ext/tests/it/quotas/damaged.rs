//! Damaged quota files: what is believed of them, and what is noted.

use std::sync::Arc;

use block::MemoryDevice;
use ext::options::DataMode;
use ext::volume::{NewInode, QuotaKind};
use ext::{MountOptions, Volume};
use layout::quota::BLOCK_SIZE;
use layout::{InodeNr, superblock::State};

use super::{assert_counted, e2fscks, make, open, run_on_copy, usage};
use crate::damage::assert_notices;
use crate::rig::{device, quiet};

const OWNER: u32 = 1000;
/// Offsets in the header.
const FREE_BLOCK: usize = 0x18;
const BLOCK_WITH_ROOM: usize = 0x1C;

fn create(volume: &Volume, name: &str, uid: u32) {
    let new = NewInode {
        uid,
        ..NewInode::default()
    };
    let nr = volume.create(InodeNr::ROOT, name.as_bytes(), &new);
    volume.forget(nr.expect("create"), 1).expect("it is pinned");
}

/// Makes a volume with some users.
fn with_users() -> Arc<MemoryDevice> {
    let memory = make(1024, "quota");
    let volume = open(&memory);
    for number in 0..20 {
        create(&volume, &format!("f{number}"), OWNER + number);
    }
    volume.close().expect("close");
    memory
}

/// Returns the byte offsets of the blocks of the file of users.
fn blocks(memory: &Arc<MemoryDevice>) -> Vec<usize> {
    let options = MountOptions {
        read_only: true,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(memory), None, options).expect("it opens");
    let mapped = volume.blocks_of(InodeNr::new(3)).expect("the quota file");
    volume.close().expect("close");
    let runs = mapped.iter().filter(|extent| extent.file_block.is_some());
    let blocks = runs.flat_map(|extent| extent.blocks());
    blocks.map(|block| block as usize * BLOCK_SIZE).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn with_word(memory: &MemoryDevice, at: usize, value: u32) -> Arc<MemoryDevice> {
    let mut bytes = memory.to_bytes();
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    Arc::new(MemoryDevice::from_bytes(&bytes))
}

fn has_error(memory: &MemoryDevice) -> bool {
    let bytes = memory.to_bytes();
    State::from_bits_retain(u16::from_le_bytes([bytes[1024 + 0x3A], bytes[1024 + 0x3B]]))
        .contains(State::ERROR)
}

fn counts(volume: &Volume) -> Vec<(u32, u64)> {
    let quotas = volume.quotas(QuotaKind::User).expect("read");
    let quotas = quotas.expect("counted");
    quotas
        .iter()
        .map(|quota| (quota.id, quota.inodes))
        .collect()
}

/// No block that a list names is overwritten unless it is free, or has room.
fn lists_are_verified() {
    let memory = with_users();
    let before = counts(&open(&Arc::new(memory.snapshot())));
    let header = blocks(&memory)[0];
    let count = blocks(&memory).len() as u32;
    for list in [FREE_BLOCK, BLOCK_WITH_ROOM] {
        for block in (0..count + 2).chain([u32::MAX]) {
            let damaged = with_word(&memory, header + list, block);
            let report = fsck::check_bytes(&damaged.to_bytes(), None, &fsck::Options::default());
            let is_found = !report.expect("it can be checked").is_clean();
            let volume = open(&damaged);
            for number in 0..30 {
                create(&volume, &format!("g{number}"), 1 << 20 | number << 8);
            }
            let after = counts(&volume);
            volume.close().expect("close");
            let when = format!("list at {list}, block {block}");
            assert_eq!(after.len(), before.len() + 30, "{when}");
            assert!(before.iter().all(|count| after.contains(count)), "{when}");
            assert_eq!(has_error(&damaged), is_found, "{when}");
            assert_counted(&damaged, &when);
        }
    }
}

#[test]
fn lists_of_a_damaged_file_are_not_believed() {
    assert_notices("quota/free-list-believed", lists_are_verified);
}

/// Counts that are wrong become damage when they are changed, and a checker counts anew.
#[test]
fn missing_and_small_entries_are_noted() {
    let memory = with_users();
    let blocks = blocks(&memory);
    let bytes = memory.to_bytes();
    let mut node = 1;
    let mut pointer = 0;
    for level in 0..4 {
        let index = (OWNER >> (8 * (3 - level)) & 0xFF) as usize;
        pointer = blocks[node] + 4 * index;
        node = word(&bytes, pointer) as usize;
    }
    let entry = (0..14)
        .map(|index| blocks[node] + 16 + 72 * index)
        .find(|at| word(&bytes, *at) == OWNER)
        .expect("the owner has an entry");
    let inodes = entry + 24;
    assert_eq!(word(&bytes, inodes), 1);
    for (at, what) in [(pointer, "no entry"), (inodes, "no inode")] {
        let damaged = with_word(&memory, at, 0);
        let report = fsck::check_bytes(&damaged.to_bytes(), None, &fsck::Options::default());
        assert!(!report.expect("it can be checked").is_clean(), "{what}");
        let volume = open(&damaged);
        volume.remove_file("/f0").expect("unlink");
        assert!(!volume.is_read_only());
        volume.close().expect("close");
        assert!(has_error(&damaged), "{what}");
        for e2fsck in e2fscks() {
            let (_, said) = run_on_copy(&damaged.snapshot(), &e2fsck, "-fy");
            assert!(!said.contains("UNEXPECTED"), "{what}: {said}");
        }
    }
}

/// An owner without an entry gets one when a file becomes its own.
#[test]
fn a_missing_entry_is_added_for_a_new_file() {
    let memory = with_users();
    let volume = open(&memory);
    assert_eq!(usage(&volume, QuotaKind::User, 77), None);
    create(&volume, "g", 77);
    assert_eq!(usage(&volume, QuotaKind::User, 77), Some((1, 0)));
    volume.close().expect("close");
    assert_counted(&memory, "with another owner");
}

//! Large directories: thousands of names, indexed and not, checked by `e2fsck` and read by the
//! kernel.

use std::collections::BTreeMap;

use ext::volume::{InodeFlags, NewInode};
use layout::InodeNr;
use testkit::Random;

use crate::cell::{Cell, Journal};
use crate::image::Image;
use crate::oracle;

const VOLUME_BYTES: u64 = 64 << 20;

fn grow_and_shrink(block_bytes: u32, names: u32, name_bytes: usize) {
    let cell = Cell {
        block_bytes,
        journal: Journal::Internal(Default::default()),
    };
    let image = Image::by_mke2fs(cell, VOLUME_BYTES);
    let volume = image.open(&cell);
    let new = NewInode::default();
    let directory = volume
        .make_directory(InodeNr::ROOT, b"large", &new)
        .expect("mkdir");
    let target = volume.create(directory, b"target", &new).expect("create");
    let mut expected = BTreeMap::new();
    expected.insert(b"target".to_vec(), target);
    let mut random = Random::new(u64::from(names));
    for number in 0..names {
        let name = format!("{number:0name_bytes$}").into_bytes();
        let nr = volume.create(directory, &name, &new).expect("create");
        expected.insert(name, nr);
        if random.below(4) == 0 {
            let victim = format!("{:0name_bytes$}", random.below(u64::from(number) + 1));
            if expected.remove(victim.as_bytes()).is_some() {
                volume.unlink(directory, victim.as_bytes()).expect("unlink");
            }
        }
    }
    for (name, nr) in &expected {
        assert_eq!(volume.lookup(directory, name).expect("found"), *nr);
    }
    assert!(volume.lookup(directory, b"absent").is_err());
    let flags = volume.attributes(directory).expect("attributes").flags;
    assert!(
        flags.contains(InodeFlags::INDEX),
        "a large directory is indexed"
    );
    let mut seen = BTreeMap::new();
    volume
        .read_directory(directory, 0, &mut |_, entry| {
            if entry.name != b"." && entry.name != b".." {
                let twice = seen.insert(entry.name, entry.inode);
                assert!(twice.is_none(), "a name is read once");
            }
            true
        })
        .expect("readdir");
    assert_eq!(seen, expected);
    volume.close().expect("close");
    oracle::assert_fsck_clean(&image, "with a large directory");
    if let Some(tree) = oracle::kernel_tree(&image) {
        assert_eq!(tree.len(), expected.len() + 3, "the kernel sees every name");
    }
}

#[test]
fn one_level_of_4k_blocks() {
    grow_and_shrink(4096, 6000, 8);
}

#[test]
fn two_levels_of_1k_blocks() {
    grow_and_shrink(1024, 9000, 40);
}

#[test]
fn the_longest_names() {
    grow_and_shrink(1024, 800, 255);
}

//! A volume that is being created restores a tree: an inode has the attributes of the tree, and
//! inherits none from its directory.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FeatureEdits};
use ext::options::DataMode;
use ext::tune::{self, Changes};
use ext::volume::{NewInode, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use layout::superblock::{MiscFlags, OFFSET, SIZE, Superblock};
use zerocopy::{FromBytes, IntoBytes};

use crate::damage::assert_notices;
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 8 << 20;
const DEFAULT: &[u8] = b"system.posix_acl_default";
const ACCESS: &[u8] = b"system.posix_acl_access";
/// `u:rwx u1000:rwx g:r-x m:rwx o:---`, in the form of programs.
const LIST: &[u8] = &[
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 7, 0, 0xE8, 3, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

/// Returns the attributes of a file and a directory that are created in a directory with a default
/// ACL, and their permissions.
fn handed_down(options: MountOptions) -> Vec<(Vec<Vec<u8>>, u16)> {
    let rig = Rig::new(Place::None, 1024, VOLUME_BYTES);
    let volume = Volume::open(device(&rig.home), None, options).expect("the volume opens");
    let new = NewInode {
        permissions: 0o755,
        ..NewInode::default()
    };
    let parent = volume
        .make_directory(InodeNr::ROOT, b"d", &new)
        .expect("mkdir");
    volume
        .set_attribute(parent, DEFAULT, LIST, SetMode::Any)
        .expect("setfacl");
    let file = volume.create(parent, b"f", &new).expect("create");
    let directory = volume.make_directory(parent, b"e", &new).expect("mkdir");
    let of = |nr| {
        let names = volume.list_attributes(nr).expect("listxattr");
        (names, volume.attributes(nr).expect("stat").permissions)
    };
    let found = vec![of(file), of(directory)];
    volume.close().expect("close");
    found
}

#[test]
fn a_volume_that_is_made_inherits_nothing() {
    assert_notices("inherit/while-being-made", || {
        let being_made = MountOptions {
            is_being_made: true,
            ..quiet(DataMode::Ordered)
        };
        assert_eq!(handed_down(being_made), [(vec![], 0o755), (vec![], 0o755)]);
    });
    // Elsewhere, ACLs are inherited.
    let (access, default) = (ACCESS.to_vec(), DEFAULT.to_vec());
    let expected = [
        (vec![access.clone()], 0o750),
        (vec![access, default], 0o750),
    ];
    let mut found = handed_down(quiet(DataMode::Ordered));
    found.iter_mut().for_each(|(names, _)| names.sort());
    assert_eq!(found, expected);
}

fn superblock(memory: &MemoryDevice) -> Superblock {
    let device: &dyn BlockDevice = memory;
    let bytes = device.read_block(OFFSET, SIZE as u32).expect("it is there");
    let (raw, _) = Superblock::read_from_prefix(&bytes).expect("as many bytes");
    raw
}

/// Linux has taken names without that mark for unsigned bytes since 6.2.
#[test]
fn an_index_says_the_sign_of_its_hashes() {
    let make = |features: &str| {
        let memory = Arc::new(MemoryDevice::new(VOLUME_BYTES));
        let options = mkfs::Options {
            features: FeatureEdits::parse(features).expect("features"),
            ..mkfs::Options::classic2002()
        };
        mkfs::format(&device(&memory), &options).expect("it is made");
        memory
    };
    let is_signed = |memory: &MemoryDevice| {
        let flags = superblock(memory).misc_flags();
        flags.contains(MiscFlags::SIGNED_HASH)
    };
    assert!(is_signed(&make("dir_index")));
    let memory = make("");
    let changes = Changes {
        features: vec![tune::free_feature("dir_index").expect("a feature")],
        ..Changes::default()
    };
    tune::apply(&device(&memory), None, &changes).expect("tuned");
    assert!(is_signed(&memory));
    let raw = superblock(&memory);
    assert_eq!(raw.default_hash_version, tune::HashVersion::HalfMd4 as u8);
    assert!(raw.hash_seed_words.iter().any(|word| word.get() != 0));
    // Of an older volume, the first mount for writing says it.
    let memory = make("dir_index");
    let mut raw = superblock(&memory);
    raw.misc_flag_bits.set(0);
    let block = layout::Block::copy_from(raw.as_bytes()).into_arc();
    let shared = device(&memory);
    shared.write_blocks(OFFSET, vec![block]).expect("written");
    let volume = Volume::open(shared, None, quiet(DataMode::Ordered)).expect("it opens");
    volume.close().expect("close");
    assert!(is_signed(&memory));
}

#[test]
fn clusters_may_have_any_size_up_to_256_mebibytes() {
    let memory = MemoryDevice::new(64 << 20);
    let geometry = block::Geometry {
        size_bytes: 8 << 30,
        ..memory.geometry()
    };
    for block_bytes in [1024, 2048, 4096] {
        for cluster_log in [20, 27, 28, 29] {
            let options = mkfs::Options {
                features: FeatureEdits::parse("bigalloc").expect("a feature"),
                block_bytes: Some(block_bytes),
                cluster_bytes: Some(1 << cluster_log),
                ..mkfs::Options::default()
            };
            let planned = mkfs::preview(&geometry, &options);
            let what = format!("blocks of {block_bytes}, clusters of 2^{cluster_log}");
            match planned {
                Ok(_) => assert!(cluster_log < 29, "{what}"),
                Err(Error::Invalid(_)) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

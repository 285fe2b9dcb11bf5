//! A volume that is being created restores a tree: an inode has the attributes of the tree, and
//! inherits none from its directory.

use ext::options::DataMode;
use ext::volume::{NewInode, SetMode};
use ext::{MountOptions, Volume};
use layout::InodeNr;

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

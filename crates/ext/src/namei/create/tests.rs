//! Creations that fail on the way.

use super::*;
use crate::file::testing::{Bench, assert_notices, check, image};
use crate::options::MountOptions;

/// A creation that fails after the inode was stored leaves nothing in the counts of its owners.
fn fail_behind_the_store() {
    let device = image(8 << 20, &["-t", "ext4", "-b", "1024", "-O", "quota"]);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let new = NewInode {
        uid: 1000,
        ..NewInode::default()
    };
    let fill: Fill<'_> = &mut |core, handle, inode, state| {
        dir::initialise(core, handle, inode, state, InodeNr::ROOT)?;
        state.store(core, handle, inode.nr, true)?;
        Err(Error::NoSpace)
    };
    let kind = FileKind::Directory;
    let made = make(&bench.core, InodeNr::ROOT, b"d", kind, &new, fill);
    assert!(matches!(made, Err(Error::NoSpace)));
    bench.close();
    check(&device);
}

#[test]
fn a_failed_creation_is_not_counted() {
    assert_notices("quota/undone-inode-kept", fail_behind_the_store);
}

//! The largest quota file.

use layout::device::DeviceNumber;

use super::*;
use crate::disk::new_inode::NewInode;
use crate::file::testing::{Bench, check, image};
use crate::namei;
use crate::options::MountOptions;

/// A file that has its largest size takes no further owner, and is loaded by the next open.
#[test]
fn a_file_has_a_largest_size() {
    let arguments = ["-t", "ext4", "-b", "1024", "-O", "quota", "-N", "2000"];
    let device = image(16 << 20, &arguments);
    let bench = Bench::open(device.clone(), MountOptions::default());
    let mut owners = 0;
    let refused = loop {
        let new = NewInode {
            uid: (owners + 1) << 8,
            ..NewInode::default()
        };
        let name = format!("f{owners}");
        let (kind, number) = (FileKind::Regular, DeviceNumber::default());
        let root = InodeNr::ROOT;
        match namei::create(&bench.core, root, name.as_bytes(), kind, number, &new) {
            Ok(inode) => drop(bench.core.inodes.unpin(&inode)),
            Err(error) => break error,
        }
        owners += 1;
    };
    assert!(matches!(refused, Error::NoSpace), "{refused:?}");
    assert!(owners > 200, "{owners}");
    bench.close();
    check(&device);
    let bench = Bench::open(device, MountOptions::default());
    let found = entries(&bench.core.quotas, QuotaKind::User).expect("counted");
    assert_eq!(found.len() as u32, owners + 1);
    bench.close();
}

//! A panic under the mount.

use std::fs;
use std::sync::Arc;

use block::FileDevice;
use ext::{MountOptions, Volume};
use fuse::Settings;
use testkit::tool;

use super::devices::Bomb;
use super::support::Place;

/// The caller gets an error, no further request is executed, the process continues, and the image
/// recovers all synced data.
#[test]
fn a_panic_is_an_error_and_the_end_of_changes() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    let volume = Volume::open(place.device(), None, MountOptions::default()).unwrap();
    volume.write_file("/old", &vec![5; 1 << 20]).unwrap();
    volume.close().unwrap();
    let bomb = Arc::new(Bomb::new(place.device()));
    let device = Arc::<Bomb>::clone(&bomb);
    let mounted = place.mount_device(device, &Settings::default(), MountOptions::default());
    fs::write(mounted.at("new"), "promised").unwrap();
    fs::File::open(mounted.at("new"))
        .unwrap()
        .sync_all()
        .unwrap();
    bomb.set_armed(true);
    let read = fs::read(mounted.at("old")).unwrap_err();
    assert_eq!(read.raw_os_error(), Some(5));
    bomb.set_armed(false);
    let refused = fs::create_dir(mounted.at("more")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(5));
    assert!(matches!(mounted.end(), Err(fuse::MountError::Panicked)));
    // The image after a power cut; the daemons of the volume may still have the image itself open.
    let left = place.image().with_extension("left");
    fs::copy(place.image(), &left).unwrap();
    let device = Arc::new(FileDevice::open(&left, &Default::default()).unwrap());
    let recovered = Volume::open(device, None, MountOptions::default()).unwrap();
    assert_eq!(recovered.read_file("/new").unwrap(), b"promised");
    recovered.close().unwrap();
    tool::run_well("e2fsck", &["-fn".as_ref(), left.as_os_str()]);
}

//! Directories without "..": a move that would have to change the entry is refused before anything
//! has changed, so that the journal goes on.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::options::{DataMode, OnError};
use ext::volume::RenameMode;
use ext::{Error, MountOptions, Volume};

use super::{BLOCK_BYTES, VOLUME_BYTES, put};
use crate::rig::{Place, Rig, device, quiet};

/// Offset of the name of the second entry of a directory.
const SECOND_NAME: usize = 12 + 8;

#[test]
fn a_directory_without_its_parent_entry_does_not_move() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    for path in ["/a", "/b", "/a/moved", "/b/other"] {
        volume.create_directory(path).expect("mkdir");
    }
    let nr = |path| volume.resolve(path, true).expect("there");
    let (a, b) = (nr("/a"), nr("/b"));
    let block = volume.blocks_of(nr("/a/moved")).expect("blocks")[0]
        .first
        .get() as usize;
    volume.close().expect("close");
    let mut bytes = rig.home.to_bytes();
    put(&mut bytes, block * BLOCK_BYTES + SECOND_NAME, b"up");
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let options = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(&memory), None, options).expect("it opens");
    let refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Corrupt(_))), "{result:?}");
        volume.write_file("/rest", b"rest").expect("the rest works");
        volume.sync().expect("the journal goes on");
    };
    refused(volume.rename(a, b"moved", b, b"moved", RenameMode::Replace));
    refused(volume.rename(a, b"moved", b, b"other", RenameMode::Replace));
    refused(volume.rename(a, b"moved", b, b"other", RenameMode::Exchange));
    refused(volume.rename(b, b"other", a, b"moved", RenameMode::Exchange));
    let renamed = volume.rename(a, b"moved", a, b"renamed", RenameMode::Replace);
    renamed.expect("its parent stays");
    volume.close().expect("close");
}

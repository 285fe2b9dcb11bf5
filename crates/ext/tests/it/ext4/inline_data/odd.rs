//! Inodes with contents that no tool writes so.

use ext::options::OnError;
use ext::volume::{RenameMode, SetAttributes};

use super::*;

/// Files whose size reaches further than their inodes have bytes, and claims in the way.
#[test]
fn sizes_that_fit_are_set_on_a_full_volume() {
    let image = image(1024, 16 * MIB, "-O inline_data -m 0");
    let volume = open_on(&image);
    let paths = ["/cut", "/grown", "/zeroed"];
    for path in paths {
        put(&volume, path, &contents(100, 0));
    }
    volume.close().unwrap();
    debugfs(&image, "sif /cut size 4096");
    let volume = open_on(&image);
    let [cut, grown, zeroed] = paths.map(|path| volume.resolve(path, false).unwrap());
    let big = put(&volume, "/big", b"");
    let file = volume.open_inode(big, OpenFlags::READ_WRITE).unwrap();
    let (mut end, mut step) = (0, 64 << 10);
    // Every second block, so that much is claimed that is not needed in the end.
    while step > 0 {
        match volume.write(file, end, &vec![1; step]) {
            Ok(count) => end += count as u64,
            Err(_) => step /= 64,
        }
    }
    volume.release(file).unwrap();
    let set_size = |nr, size| {
        let change = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        volume.set_attributes(nr, &change)
    };
    set_size(cut, 0).expect("nothing fits");
    assert_eq!(volume.attributes(cut).unwrap().size, 0);
    set_size(grown, 120).expect("it fits");
    for result in [
        set_size(grown, 5000),
        volume.change_range(zeroed, 0, 2000, RangeChange::Allocate, true),
    ] {
        if let Err(error) = result {
            assert!(matches!(error, Error::NoSpace), "{error}");
        }
    }
    assert_eq!(read_all(&volume, zeroed), contents(100, 0));
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the engine");
}

#[test]
fn a_directory_that_moves_out_has_no_index() {
    let image = image(1024, 16 * MIB, "-O inline_data");
    let volume = open_on(&image);
    volume.create_directory("/directory").unwrap();
    volume.close().unwrap();
    debugfs(&image, "sif /directory flags 0x10001000");
    let volume = open_on(&image);
    for number in 0..20 {
        put(&volume, &format!("/directory/{number}"), b"");
    }
    volume.close().unwrap();
    assert!(!is_inline(&image, "/directory"));
    oracle::assert_fsck_clean(&image, "after the engine");
}

/// Two attributes whose values are the same bytes: neither can be changed.
#[test]
fn attributes_that_overlap_are_refused() {
    let image = image(1024, 16 * MIB, "-O inline_data,^metadata_csum,uninit_bg");
    let volume = open_on(&image);
    let nr = put(&volume, "/file", &contents(80, 0));
    let set = volume.set_attribute(nr, b"user.a", &[1; 20], SetMode::Any);
    set.expect("the inode has room");
    volume.close().unwrap();
    let mut bytes = std::fs::read(&image.path).unwrap();
    let find = |bytes: &[u8], head: [u8; 2], name: &[u8]| {
        let entry =
            |at: &usize| bytes[*at..].starts_with(&head) && bytes[at + 16..].starts_with(name);
        let end = bytes.len() - 64;
        // Behind the log, which comes last or holds older copies: all of them are changed.
        (0..end).filter(entry).collect::<Vec<_>>()
    };
    let (own, contents_at) = (
        find(&bytes, [1, 1], b"a\0\0\0"),
        find(&bytes, [4, 7], b"data"),
    );
    for (own, at) in own.iter().zip(&contents_at) {
        let offset = [bytes[own + 2], bytes[own + 3]];
        bytes[at + 2..at + 4].copy_from_slice(&offset);
    }
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let volume = Volume::open(device(&memory), None, MountOptions::default()).unwrap();
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
    let removed = volume.remove_attribute(nr, b"user.a");
    assert!(matches!(removed, Err(Error::Corrupt(_))), "{removed:?}");
    assert!(volume.write(file, 0, b"x").is_err());
    volume.release(file).unwrap();
    volume.close().unwrap();
}

/// The entry of the first of two names has a wrong length.
#[test]
fn damage_in_a_directory_hides_no_names() {
    let memory = made("inline_data,^metadata_csum,uninit_bg", 256);
    let volume = writable(&memory);
    for directory in ["/d", "/e"] {
        volume.create_directory(directory).unwrap();
    }
    for name in ["first-name", "second-name"] {
        put(&volume, &format!("/d/{name}"), b"");
    }
    volume.close().unwrap();
    let mut bytes = memory.to_bytes();
    let name = b"first-name";
    let places: Vec<_> = (8..bytes.len() - name.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    for at in places {
        bytes[at - 4] = 3;
    }
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let options = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(&memory), None, options).unwrap();
    let is_told = |done: Result<(), Error>| {
        assert!(matches!(done, Err(Error::Corrupt(_))), "{done:?}");
    };
    is_told(volume.list("/d").map(drop));
    is_told(volume.resolve("/d/second-name", false).map(drop));
    is_told(volume.resolve("/d/other", false).map(drop));
    is_told(volume.remove_directory(InodeNr::ROOT, b"d"));
    is_told(volume.rename(
        InodeNr::ROOT,
        b"e",
        InodeNr::ROOT,
        b"d",
        RenameMode::Replace,
    ));
    assert!(volume.resolve("/d", false).is_ok());
    volume.close().unwrap();
}

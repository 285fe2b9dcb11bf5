//! Damage is recorded in the superblock, under every `errors=`, for tools and the next open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::options::{DataMode, OnError};
use ext::volume::{NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::Nanos;
use testkit::tool;

use super::{BLOCK_BYTES, INODE_MAP, Populated, VOLUME_BYTES, assert_notices, put};
use crate::rig::{Place, Rig, device, quiet};

const POLICIES: [OnError; 3] = [OnError::Continue, OnError::RemountReadOnly, OnError::Panic];

fn with_policy(on_error: OnError) -> MountOptions {
    MountOptions {
        on_error,
        ..quiet(DataMode::Ordered)
    }
}

/// Returns a volume whose bitmap shows a block of `/a` as free.
fn bad_bitmap(place: Place) -> Rig {
    let rig = Rig::new(place, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.write_file("/a", &[1; 40_960]).expect("write");
    let nr = volume.resolve("/a", true).expect("there");
    let block = volume.blocks_of(nr).expect("blocks")[0].first.get() as usize;
    volume.close().expect("close");
    let mut bytes = rig.home.to_bytes();
    let descriptor = &bytes[BLOCK_BYTES..BLOCK_BYTES + 4];
    let bitmap = u32::from_le_bytes(descriptor.try_into().expect("four bytes")) as usize;
    bytes[bitmap * BLOCK_BYTES + block / 8] &= !(1 << (block % 8));
    // `bg_free_blocks_count` agrees with it.
    let free = BLOCK_BYTES + 12;
    let count = u16::from_le_bytes([bytes[free], bytes[free + 1]]) + 1;
    put(&mut bytes, free, &count.to_le_bytes());
    Rig {
        home: Arc::new(MemoryDevice::from_bytes(&bytes)),
        ..rig
    }
}

/// Returns the output of tools for an image: the header of dumpe2fs, and `e2fsck -n`, which is not
/// forced.
fn tools_say(home: &MemoryDevice) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("image");
    home.write_to_file(&path).expect("the image is written");
    let path = path.to_str().expect("it is text");
    let header = tool::run_well("dumpe2fs", &["-h", path]);
    (header, tool::said(&tool::run("e2fsck", &["-n", path])))
}

fn field<'h>(header: &'h str, name: &str) -> &'h str {
    let line = header.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or("", |(_, value)| value.trim())
}

fn assert_noted(rig: &Rig, what: &str) {
    let home = &rig.home;
    let (header, check) = tools_say(home);
    let state = field(&header, "Filesystem state");
    assert!(state.ends_with("with errors"), "{what}: {header}");
    assert_ne!(field(&header, "FS Error count"), "", "{what}: {header}");
    assert_eq!(field(&header, "First error err"), "EFSCORRUPTED", "{what}");
    assert_eq!(field(&header, "Last error err"), "EFSCORRUPTED", "{what}");
    if rig.log.is_some() {
        // `e2fsck -n` requires the journal's device.
        return;
    }
    assert!(!check.contains(": clean"), "{what}: {check}");
    let is_forced = check.contains("with errors, check forced")
        || check.contains("not cleanly unmounted, check forced");
    assert!(is_forced, "{what}: {check}");
}

/// Asserts the same after another open and close.
fn assert_seen(rig: &Rig, what: &str) {
    let options = with_policy(OnError::Continue);
    let opened = Volume::open_with_report(device(&rig.home), rig.log_device(), options);
    let (volume, report) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.has_errors, "{what}: the next open knows");
    volume.write_file("/later", b"").expect("it takes changes");
    volume.close().expect("close");
    assert_noted(rig, what);
}

/// Makes the volume find its damage.
fn meet(volume: &Volume, on_error: OnError) {
    let removed = catch_unwind(AssertUnwindSafe(|| volume.remove_file("/a")));
    match on_error {
        OnError::Panic => assert!(removed.is_err(), "it panics"),
        OnError::Continue | OnError::RemountReadOnly => drop(removed.expect("it does not panic")),
    }
    assert_eq!(volume.is_read_only(), on_error != OnError::Continue);
}

#[test]
fn a_close_keeps_the_note() {
    for place in [Place::None, Place::Internal, Place::External] {
        for on_error in POLICIES {
            let what = format!("{place:?}, {on_error:?}, closed");
            let rig = bad_bitmap(place);
            let volume = rig.open(with_policy(on_error));
            volume.write_file("/before", b"").expect("write");
            meet(&volume, on_error);
            let closed = volume.close();
            assert_eq!(closed.is_err(), on_error == OnError::Panic, "{what}");
            assert_noted(&rig, &what);
            assert_seen(&rig, &what);
        }
    }
}

#[test]
fn a_power_cut_after_a_sync_keeps_the_note_and_what_was_changed_before() {
    for place in [Place::None, Place::Internal, Place::External] {
        for on_error in [OnError::Continue, OnError::RemountReadOnly] {
            let what = format!("{place:?}, {on_error:?}, synced");
            let rig = bad_bitmap(place);
            let volume = rig.open(with_policy(on_error));
            volume.write_file("/before", b"").expect("write");
            meet(&volume, on_error);
            volume
                .sync()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let cut = rig.copy();
            drop(volume);
            let again = cut.copy();
            assert_seen(&cut, &what);
            let volume = again.open(with_policy(OnError::Continue));
            volume.resolve("/before", true).expect("it is there");
            drop(volume);
        }
    }
}

#[test]
fn a_power_cut_a_moment_later_keeps_the_note() {
    for place in [Place::None, Place::Internal, Place::External] {
        for on_error in POLICIES {
            let what = format!("{place:?}, {on_error:?}, cut");
            let rig = bad_bitmap(place);
            let volume = rig.open(with_policy(on_error));
            meet(&volume, on_error);
            let is_noted = || {
                let cut = rig.copy();
                let options = with_policy(OnError::Continue);
                let opened = Volume::open_with_report(device(&cut.home), cut.log_device(), options);
                let (_, report) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
                report.has_errors
            };
            let limit = rt::monotonic() + Nanos::from_secs(60);
            while !is_noted() {
                assert!(rt::monotonic() < limit, "{what}: nothing is noted");
                rt::sleep(Nanos::from_millis(1));
            }
            assert_seen(&rig.copy(), &what);
            drop(volume);
        }
    }
}

#[test]
fn reading_a_damaged_directory_notes_its_inode() {
    let image = super::populated();
    let mut bytes = image.bytes.clone();
    put(&mut bytes, image.directory_block * BLOCK_BYTES + 4, &[0, 0]);
    let home = Arc::new(MemoryDevice::from_bytes(&bytes));
    let volume = Volume::open(device(&home), None, with_policy(OnError::Continue)).expect("opens");
    for _ in 0..3 {
        volume.list("/d").expect_err("it is damaged");
    }
    volume.close().expect("close");
    let (header, _) = tools_say(&home);
    assert_eq!(field(&header, "FS Error count"), "1", "{header}");
    let inode = image.directory.get().to_string();
    assert_eq!(field(&header, "First error inode #"), inode, "{header}");
    let function = field(&header, "First error function");
    assert!(function.starts_with("dir"), "{function}");
    assert_ne!(field(&header, "First error line #"), "0", "{header}");
    // A read-only open writes nothing.
    let before = home.snapshot();
    let options = MountOptions {
        read_only: true,
        ..with_policy(OnError::Continue)
    };
    let (volume, report) = Volume::open_with_report(device(&home), None, options).expect("opens");
    assert!(report.has_errors);
    volume.list("/d").expect_err("it is damaged");
    volume.close().expect("close");
    assert_eq!(home.first_difference(&before), None);
}

/// Returns a volume with an orphan whose block map leads outside.
fn bad_orphan() -> Rig {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    let nr = volume
        .create(InodeNr::ROOT, b"gone", &NewInode::default())
        .expect("create");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    volume.write(file, 0, &[1; 8192]).expect("write");
    volume.remove_file("/gone").expect("unlink");
    volume.sync().expect("sync");
    let cut = rig.copy();
    drop(volume);
    let reader = cut.open(MountOptions {
        read_only: true,
        ..quiet(DataMode::Ordered)
    });
    reader.close().expect("the log is replayed");
    let mut image = Populated {
        bytes: cut.home.to_bytes(),
        file: nr,
        large: nr,
        directory: nr,
        directory_block: 0,
    };
    let at = image.inode_at(nr) + INODE_MAP;
    put(&mut image.bytes, at, &[0xFF; 4]);
    Rig {
        home: Arc::new(MemoryDevice::from_bytes(&image.bytes)),
        ..rig
    }
}

#[test]
fn a_volume_with_an_orphan_left_is_not_closed_as_clean() {
    for on_error in [OnError::Continue, OnError::RemountReadOnly] {
        let rig = bad_orphan();
        let opened = Volume::open_with_report(device(&rig.home), None, with_policy(on_error));
        let (volume, report) = opened.expect("it opens");
        assert!(report.has_errors);
        let is_read_only = on_error == OnError::RemountReadOnly;
        assert_eq!(report.read_only_because.is_some(), is_read_only);
        assert_eq!(volume.is_read_only(), is_read_only);
        volume.close().expect("close");
        assert_noted(&rig, &format!("an orphan, {on_error:?}"));
    }
}

#[test]
fn the_note_is_stored() {
    assert_notices("damage/not-stored", stored_note);
}

fn stored_note() {
    let rig = bad_bitmap(Place::Internal);
    let volume = rig.open(with_policy(OnError::RemountReadOnly));
    meet(&volume, OnError::RemountReadOnly);
    volume.close().expect("close");
    let superblock = device(&rig.home).read_block(1024, 1024).expect("readable");
    assert_eq!(superblock[0x3A] & 2, 2, "s_state has EXT2_ERROR_FS");
}

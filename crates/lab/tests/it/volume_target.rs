//! A volume as a target: the contract of the trait, and PostMark's published counts.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::{MountOptions, Volume, mkfs};
use lab::targets::VolumeTarget;
use workload::postmark::{self, NoObserver, Options, Parameters};
use workload::{Control, ErrorKind, FileKind, InodeFlags, OpenFlags, Target};

fn target(size: u64) -> VolumeTarget {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(size));
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    VolumeTarget::new(
        Volume::open(device, None, MountOptions::default()).unwrap(),
        "memory",
    )
}

fn kind<T>(result: Result<T, workload::TargetError>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.kind,
    }
}

#[test]
fn positions_move_and_appends_go_to_the_end() {
    let target = target(16 << 20);
    let mut file = target
        .open("/a", OpenFlags::READ_WRITE.create_new())
        .unwrap();
    assert_eq!(target.write(&mut file, b"hello").unwrap(), 5);
    target.seek(&mut file, 1).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(target.read(&mut file, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"ello");
    assert_eq!(target.read(&mut file, &mut buffer).unwrap(), 0);
    assert_eq!(target.pwrite(&file, b"J", 0).unwrap(), 1);
    target.fsync(&file).unwrap();
    target.close(file).unwrap();
    let mut file = target.open("a", OpenFlags::READ_WRITE.append()).unwrap();
    target.write(&mut file, b" world").unwrap();
    assert_eq!(
        target.read(&mut file, &mut buffer).unwrap(),
        0,
        "the position is at the end"
    );
    target.seek(&mut file, 0).unwrap();
    target.write(&mut file, b"!").unwrap();
    let mut all = [0; 16];
    assert_eq!(target.pread(&file, &mut all, 0).unwrap(), 12);
    assert_eq!(&all[..12], b"Jello world!");
    target.close(file).unwrap();
    let emptied = target.open("/a", OpenFlags::WRITE.truncate()).unwrap();
    target.close(emptied).unwrap();
    assert_eq!(target.stat("/a").unwrap().size, 0);
    target.into_volume().close().unwrap();
}

#[test]
fn names_are_made_moved_and_removed() {
    let target = target(16 << 20);
    target.mkdir("/d").unwrap();
    target.mkdir("/d/e").unwrap();
    target
        .close(target.open("/d/e/f", OpenFlags::WRITE.create()).unwrap())
        .unwrap();
    target.link("/d/e/f", "/d/g").unwrap();
    assert_eq!(target.stat("/d/g").unwrap().links, 2);
    target.symlink("g", "/d/s").unwrap();
    assert_eq!(target.read_link("/d/s").unwrap(), "g");
    assert_eq!(target.stat("/d/s").unwrap().kind, FileKind::Symlink);
    target.rename("/d/e", "/h").unwrap();
    assert_eq!(
        kind(target.stat("/d/e/f")),
        ErrorKind::NotFound,
        "the directory has moved"
    );
    assert_eq!(target.stat("/h/f").unwrap().kind, FileKind::File);
    let mut names: Vec<String> = target
        .readdir("/d")
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    // Names are listed in hash order, which depends on the volume's seed.
    names.sort();
    assert_eq!(names, ["g", "s"]);
    assert_eq!(kind(target.rmdir("/h")), ErrorKind::NotEmpty);
    target.unlink("/h/f").unwrap();
    target.rmdir("/h").unwrap();
    assert_eq!(
        kind(target.open("/h/x", OpenFlags::WRITE.create())),
        ErrorKind::NotFound
    );
    target.mkdir("/h").unwrap();
    target
        .close(target.open("/h/x", OpenFlags::WRITE.create()).unwrap())
        .unwrap();
    target.truncate("/h/x", 5000).unwrap();
    assert_eq!(target.stat("/h/x").unwrap().size, 5000);
    target.fsync_directory("/h").unwrap();
    target.fsync_directory("/").unwrap();
    target.sync().unwrap();
    target.into_volume().close().unwrap();
}

/// The directories that the target remembers by their paths may have been reached by a link.
#[test]
fn a_removed_link_leads_nowhere() {
    let target = target(16 << 20);
    for directory in ["/d", "/d/inner", "/e", "/e/inner"] {
        target.mkdir(directory).unwrap();
    }
    for path in ["/d/file", "/d/inner/file"] {
        let file = target.open(path, OpenFlags::WRITE.create_new()).unwrap();
        target.close(file).unwrap();
    }
    for path in ["/link/file", "/link/inner/file"] {
        target.symlink("d", "/link").unwrap();
        target.stat(path).unwrap();
        target.unlink("/link").unwrap();
        assert_eq!(kind(target.stat(path)), ErrorKind::NotFound, "{path}");
        target.symlink("e", "/link").unwrap();
        assert_eq!(kind(target.stat(path)), ErrorKind::NotFound, "{path}");
        target.unlink("/link").unwrap();
    }
    target.into_volume().close().unwrap();
}

#[test]
fn errors_have_their_kind() {
    let target = target(16 << 20);
    target.mkdir("/d").unwrap();
    target
        .close(target.open("/f", OpenFlags::WRITE.create_new()).unwrap())
        .unwrap();
    assert_eq!(
        kind(target.open("/f", OpenFlags::WRITE.create_new())),
        ErrorKind::Exists
    );
    assert_eq!(
        kind(target.open("/n", OpenFlags::READ)),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(target.open("/d", OpenFlags::WRITE)),
        ErrorKind::IsDirectory
    );
    assert_eq!(
        kind(target.open("/f/x", OpenFlags::READ)),
        ErrorKind::NotDirectory
    );
    assert_eq!(kind(target.stat("/d/../f")), ErrorKind::BadName);
    assert_eq!(kind(target.mkdir("/")), ErrorKind::Invalid);
    assert_eq!(kind(target.unlink("/d")), ErrorKind::IsDirectory);
    let reader = target.open("/f", OpenFlags::READ).unwrap();
    assert_eq!(kind(target.pwrite(&reader, b"x", 0)), ErrorKind::Invalid);
    target.close(reader).unwrap();
    let long = format!("/{}", "x".repeat(256));
    assert_eq!(kind(target.mkdir(&long)), ErrorKind::BadName);
    target.into_volume().close().unwrap();
}

#[test]
fn flags_are_set_and_cleared() {
    let target = target(16 << 20);
    target.mkdir("/d").unwrap();
    target
        .set_flags(
            "/d",
            InodeFlags {
                sync: true,
                directory_sync: true,
                journal_data: false,
            },
        )
        .unwrap();
    let nr = target.volume().resolve("/d", false).unwrap();
    let flags = || target.volume().attributes(nr).unwrap().flags;
    assert!(flags().contains(ext::volume::InodeFlags::SYNC | ext::volume::InodeFlags::DIRSYNC));
    target.set_flags("/d", InodeFlags::default()).unwrap();
    assert!(!flags().intersects(ext::volume::InodeFlags::SYNC | ext::volume::InodeFlags::DIRSYNC));
    target.into_volume().close().unwrap();
}

#[test]
fn extents_are_where_the_bytes_lie() {
    let target = target(16 << 20);
    let mut file = target.open("/f", OpenFlags::WRITE.create_new()).unwrap();
    for _ in 0..100 {
        target.write(&mut file, &[7; 1024]).unwrap();
    }
    target.fsync(&file).unwrap();
    target.close(file).unwrap();
    let extents = target.extents("/f").unwrap();
    assert_eq!(extents.iter().map(|e| e.length).sum::<u64>(), 100 << 10);
    let mut end = 0;
    for extent in &extents {
        assert_eq!(extent.offset, end, "no holes");
        end += extent.length;
    }
    assert_eq!(kind(target.extents("/none")), ErrorKind::NotFound);
    target.into_volume().close().unwrap();
}

/// Checks against a golden vector of the original: seed 7, ten subdirectories, unbuffered.
#[test]
fn postmark_does_on_a_volume_what_the_original_does() {
    let target = Arc::new(target(256 << 20));
    let parameters = Parameters {
        number: 2000,
        transactions: 4000,
        subdirectories: 10,
        buffered: false,
        seed: 7,
        ..Parameters::default()
    };
    let shared: Arc<dyn Target> = Arc::<VolumeTarget>::clone(&target);
    let control = Arc::new(Control::new());
    let outcome = postmark::run(
        &parameters,
        &Options::lab(),
        &shared,
        &control,
        &mut NoObserver,
    );
    let outcome = outcome.unwrap();
    let figures = ["created", "bytes_read", "bytes_written"].map(|name| outcome.value(name));
    // The original sums bytes in 32-bit floats and prints 25009070.
    assert_eq!(
        figures.map(Option::unwrap),
        [3995.0, 11_980_711.0, 25_009_047.0]
    );
    assert!(
        outcome.documents[0]
            .text
            .contains("Deletion alone: 1990 files")
    );
    drop(shared);
    let volume = Arc::into_inner(target).unwrap().into_volume();
    assert_eq!(
        volume.list("/").unwrap().len(),
        1,
        "only lost+found is left"
    );
    volume.close().unwrap();
}

#[test]
fn a_directory_is_forgotten_however_its_path_is_spelled() {
    for spelled in ["/a//b", "/./a/b", "/a/./b"] {
        let target = target(16 << 20);
        target.mkdir("/a").unwrap();
        target.mkdir("/a/b").unwrap();
        let file = target.open("/a/b/f", OpenFlags::WRITE.create()).unwrap();
        target.close(file).unwrap();
        target.unlink("/a/b/f").unwrap();
        target.rename(spelled, "/moved").unwrap();
        let found = target.open("/a/b/f", OpenFlags::WRITE.create());
        assert!(found.is_err(), "{spelled}: it went to /moved/f");
    }
}

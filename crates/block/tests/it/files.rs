//! Files: buffered and direct, with and without threads; locks; refusals.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use block::file::create_sparse;
use block::payload::{payload_from_bytes, payload_to_bytes};
use block::{BlockDevice, DeviceError, FileDevice, OpenOptions, Request};
use layout::SectorNr;
use tempfile::TempDir;

use crate::support::Modelled;

fn image(size: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("image");
    create_sparse(&path, size).expect("the folder is writable");
    (folder, path)
}

fn open(path: &PathBuf, options: &OpenOptions) -> FileDevice {
    FileDevice::open(path, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a file for direct I/O, if the file system supports it.
fn open_direct(path: &PathBuf, options: &OpenOptions) -> Option<FileDevice> {
    match FileDevice::open(
        path,
        &OpenOptions {
            is_direct: true,
            ..options.clone()
        },
    ) {
        Ok(device) => Some(device),
        Err(DeviceError::Open { cause, .. }) if cause.contains("direct I/O is not possible") => {
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the space that a file takes on its file system in bytes.
fn taken(path: &PathBuf) -> u64 {
    fs::metadata(path).expect("it is there").blocks() * 512
}

#[test]
fn zeroes_are_holes() {
    const SIZE: u64 = 8 << 20;
    let (_folder, path) = image(SIZE);
    let device = open(&path, &OpenOptions::default());
    assert_eq!(
        device.next_data(0..SIZE),
        SIZE..SIZE,
        "a new file has no data"
    );
    let written = payload_from_bytes(&vec![7; 3 << 20], 4096);
    let device: &dyn BlockDevice = &device;
    device
        .write_blocks(1 << 20, written)
        .expect("it is written");
    let data = device.next_data(0..SIZE);
    assert!(data.start <= 1 << 20 && data.end > 1 << 20, "{data:?}");
    assert_eq!(device.next_data(data.end..SIZE).end, SIZE);
    let before = taken(&path);
    let ranges = [0..2 << 20, (2 << 20) + 512..(3 << 20) - 512, 4 << 20..SIZE];
    device.zero(&ranges).expect("it is zeroed");
    assert!(taken(&path) < before, "{before} bytes were taken");
    let bytes = device.read_blocks(0, 1, SIZE as u32).expect("it is read");
    for (at, byte) in (0u64..).zip(payload_to_bytes(&bytes)) {
        let is_left = (1 << 20..4 << 20).contains(&at) && !ranges.iter().any(|r| r.contains(&at));
        assert_eq!(byte, if is_left { 7 } else { 0 }, "{at}");
    }
    let end = SIZE - 512..SIZE + 512;
    let beyond = device.zero(std::slice::from_ref(&end));
    assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
    assert_eq!(
        fs::metadata(&path).expect("it is there").len(),
        SIZE,
        "the file did not grow"
    );
}

#[test]
fn every_way_of_doing_io_reads_what_was_written() {
    let ways = [
        OpenOptions::default(),
        OpenOptions {
            threads: 1,
            queue_depth: 1,
            ..OpenOptions::default()
        },
        OpenOptions {
            threads: 4,
            ..OpenOptions::default()
        },
    ];
    for (seed, options) in ways.iter().enumerate() {
        let (_folder, path) = image(2 << 20);
        let mut modelled = Modelled::new(Arc::new(open(&path, options)), seed as u64);
        (0..300).for_each(|_| modelled.step());
        modelled.compare();
        let Modelled { device, bytes, .. } = modelled;
        drop(device);
        assert!(fs::read(&path).expect("it is there") == bytes);
    }
}

#[test]
fn direct_io_reads_what_was_written() {
    for options in [
        OpenOptions::direct(),
        OpenOptions {
            threads: 2,
            ..OpenOptions::direct()
        },
    ] {
        let (_folder, path) = image(2 << 20);
        let Some(device) = open_direct(&path, &options) else {
            return;
        };
        assert!(device.is_direct());
        let mut modelled = Modelled::new(Arc::new(device), 7);
        (0..200).for_each(|_| modelled.step());
        modelled.compare();
        let Modelled { device, bytes, .. } = modelled;
        drop(device);
        assert!(fs::read(&path).expect("it is there") == bytes);
    }
}

#[test]
fn many_threads_share_a_small_queue() {
    let (_folder, path) = image(1 << 20);
    let options = OpenOptions {
        threads: 3,
        queue_depth: 2,
        ..OpenOptions::default()
    };
    let device = Arc::new(open(&path, &options));
    let threads: Vec<_> = (0..8_u64)
        .map(|number| {
            let device = Arc::clone(&device);
            rt::spawn("writer", move || {
                let device: &dyn BlockDevice = &*device;
                for round in 0..50_u64 {
                    let offset = (round % 25 * 8 + number) * 4096;
                    let byte = (number * 50 + round) as u8;
                    let payload = payload_from_bytes(&[byte; 4096], 4096);
                    device
                        .write_blocks(offset, payload)
                        .expect("the file system works");
                    let block = device
                        .read_block(offset, 4096)
                        .expect("the file system works");
                    assert!(block.iter().all(|own| *own == byte));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every thread reads what it wrote");
    }
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let (_folder, path) = image(1 << 20);
    let (writing, reading) = (OpenOptions::default(), OpenOptions::read_only());
    let is_in_use = |options: &OpenOptions| match FileDevice::open(&path, options) {
        Ok(_) => false,
        Err(DeviceError::InUse { device, .. }) => device.ends_with("image"),
        Err(error) => panic!("{error}"),
    };
    let writer = open(&path, &writing);
    assert!(is_in_use(&writing));
    assert!(is_in_use(&reading));
    assert!(!is_in_use(&OpenOptions {
        locks: false,
        ..reading.clone()
    }));
    drop(writer);
    let readers = [open(&path, &reading), open(&path, &reading)];
    assert!(is_in_use(&writing));
    drop(readers);
    assert!(!is_in_use(&writing));
}

/// Takes or releases a shared lock on one byte, as QEMU does.
fn lock_byte(file: &fs::File, kind: i32, byte: i64) {
    let lock = nix::libc::flock {
        l_type: kind as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).expect("it can be locked");
}

/// True if another open file has locked a byte.
fn is_byte_locked(file: &fs::File, byte: i64) -> bool {
    let mut lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_OFD_GETLK(&mut lock)).expect("it can be asked");
    i32::from(lock.l_type) != nix::libc::F_UNLCK
}

/// QEMU's scheme: byte 100 + n is a permission that is held, 200 + n one that is not shared.
#[test]
fn qemu_and_we_keep_each_other_out() {
    let (_folder, path) = image(1 << 20);
    let qemu = fs::File::open(&path).expect("the image is there");
    let (writing, reading) = (OpenOptions::default(), OpenOptions::read_only());
    // Byte locked by QEMU, then: true if jext may write, and true if it may read.
    let cases = [
        (100, false, true),
        (101, false, false),
        (103, false, false),
        (200, false, false),
        (201, false, true),
        (203, true, true),
    ];
    for (byte, may_write, may_read) in cases {
        lock_byte(&qemu, nix::libc::F_RDLCK, byte);
        for (options, may) in [(&writing, may_write), (&reading, may_read)] {
            match FileDevice::open(&path, options) {
                Ok(_) => assert!(may, "byte {byte}"),
                Err(DeviceError::InUse { cause, .. }) => {
                    assert!(!may && cause.contains("QEMU"), "byte {byte}: {cause}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        lock_byte(&qemu, nix::libc::F_UNLCK, byte);
    }
    let locked = || -> Vec<i64> {
        let bytes = (100..104).chain(200..204);
        bytes.filter(|byte| is_byte_locked(&qemu, *byte)).collect()
    };
    let writer = open(&path, &writing);
    assert_eq!(locked(), [100, 101, 200, 201, 202, 203]);
    drop(writer);
    let readers = [open(&path, &reading), open(&path, &reading)];
    assert_eq!(locked(), [100, 201, 202, 203]);
    drop(readers);
    assert_eq!(locked(), [0; 0]);
}

#[test]
fn an_image_behind_a_loop_device_is_not_written() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let (_folder, path) = image(1 << 20);
    let writer = open(&path, &OpenOptions::default());
    assert_eq!(writer.intruder(), None);
    // `losetup` ignores locks.
    let attached = testkit::Loop::attach(&path);
    let intruder = writer.intruder().expect("it is noticed");
    assert!(intruder.contains(attached.path()), "{intruder}");
    drop(writer);
    match FileDevice::open(&path, &OpenOptions::default()) {
        Err(DeviceError::InUse { cause, .. }) => assert!(cause.contains(attached.path())),
        other => panic!("{:?}", other.map(drop)),
    }
    let reader = open(&path, &OpenOptions::read_only());
    assert_eq!(reader.intruder(), None, "who only reads changes nothing");
    drop(reader);
    drop(attached);
    open(&path, &OpenOptions::default());
}

/// The file must be free as soon as the device is dropped, although the device's threads exit
/// later.
#[test]
fn threads_do_not_keep_the_lock() {
    let (_folder, path) = image(1 << 20);
    let options = OpenOptions {
        threads: 4,
        ..OpenOptions::default()
    };
    for round in 0..50_u64 {
        let device = open(&path, &options);
        let payload = payload_from_bytes(&vec![round as u8; 65_536], 4096);
        let dynamic: &dyn BlockDevice = &device;
        dynamic
            .write_blocks(round * 4096, payload)
            .expect("the file system works");
    }
}

#[test]
fn a_read_only_device_refuses_writes() {
    let (_folder, path) = image(1 << 20);
    let device = open(&path, &OpenOptions::read_only());
    assert!(device.geometry().is_read_only);
    let device: &dyn BlockDevice = &device;
    let refused = device.write_blocks(0, payload_from_bytes(&[1; 512], 512));
    assert_eq!(refused, Err(DeviceError::ReadOnly));
    assert!(device.flush().is_ok());
}

#[test]
fn opening_says_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let empty = folder.path().join("empty");
    fs::write(&empty, []).expect("the folder is writable");
    let short = folder.path().join("short");
    fs::write(&short, b"some text").expect("the folder is writable");
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).expect("the folder is writable");
    let cases = [
        (folder.path().join("missing"), "No such file"),
        (
            folder.path().to_path_buf(),
            "neither a regular file nor a block device",
        ),
        (empty, "it is empty"),
        (short, "it has 9 bytes, less than a sector of 512"),
        (socket, "neither a regular file nor a block device"),
    ];
    for (path, expected) in cases {
        match FileDevice::open(&path, &OpenOptions::default()) {
            Err(DeviceError::Open { cause, .. }) => assert!(cause.contains(expected), "{cause}"),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{} was opened", path.display()),
        }
    }
}

#[test]
fn images_are_made_sparse_and_never_over_another() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("image");
    let options = OpenOptions {
        create_bytes: Some(1 << 30),
        ..OpenOptions::default()
    };
    let device = open(&path, &options);
    assert_eq!(device.geometry().size_bytes, 1 << 30);
    assert!(fs::metadata(&path).expect("it was made").blocks() * 512 < 1 << 20);
    drop(device);
    assert!(matches!(
        create_sparse(&path, 4096),
        Err(DeviceError::Open { .. })
    ));
    let again = OpenOptions {
        create_bytes: Some(4096),
        ..OpenOptions::default()
    };
    assert_eq!(open(&path, &again).geometry().size_bytes, 1 << 30);
}

#[test]
fn a_discard_punches_a_hole() {
    let (_folder, path) = image(4 << 20);
    let device = open(&path, &OpenOptions::default());
    let dynamic: &dyn BlockDevice = &device;
    dynamic
        .write_blocks(0, payload_from_bytes(&vec![1; 4 << 20], 65_536))
        .expect("there is room");
    dynamic.flush().expect("the file system works");
    let before = fs::metadata(&path).expect("it is there").blocks();
    let discard = Request::Discard {
        sector: SectorNr::new(2048),
        sectors: 4096,
    };
    device
        .submit(vec![discard])
        .wait_all()
        .expect("the file system works");
    let after = fs::metadata(&path).expect("it is there").blocks();
    assert!(after < before, "{after} of {before} blocks are left");
    let kept = dynamic
        .read_block((2048 + 4096) * 512, 4096)
        .expect("the file system works");
    assert!(kept.iter().all(|byte| *byte == 1));
    assert_eq!(fs::metadata(&path).expect("it is there").len(), 4 << 20);
}

/// A file truncated by another program fails the requests beyond its end, and only those.
#[test]
fn a_merged_request_fails_only_where_it_must() {
    let (_folder, path) = image(64 * 1024);
    let device = open(&path, &OpenOptions::default());
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("it is there");
    file.set_len(32 * 1024).expect("the file system works");
    let read = |sector| Request::Read {
        sector: SectorNr::new(sector),
        blocks: 1,
        block_bytes: 8192,
    };
    let results = device
        .submit(vec![read(32), read(48), read(64), read(80)])
        .wait();
    let went: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(went, [true, true, false, false]);
    let expected_sector = SectorNr::new(64);
    match &results[2] {
        Err(DeviceError::Failed {
            operation: "read",
            sector,
            sectors: 16,
            ..
        }) => {
            assert_eq!(*sector, expected_sector);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_pieces_than_one_call_takes_are_written_and_read() {
    let (_folder, path) = image(2 << 20);
    let device = open(&path, &OpenOptions::default());
    let device: &dyn BlockDevice = &device;
    let bytes: Vec<u8> = (0..2 << 20)
        .map(|at| (at / 512) as u8 ^ (at / 131_072) as u8)
        .collect();
    device
        .write_blocks(0, payload_from_bytes(&bytes, 512))
        .expect("the file system works");
    let back = device
        .read_blocks(0, 4096, 512)
        .expect("the file system works");
    assert!(payload_to_bytes(&back) == bytes);
}

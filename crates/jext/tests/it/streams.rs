//! The library's files as streams of the standard library, and its errors as system errors.

use std::error::Error as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};

use jext::volume::{File, NewInode, OpenFlags};
use jext::{
    BlockDevice, DeviceError, Error, MemoryDevice, MountOptions, OpenOptions, Volume, mkfs,
};

fn volume() -> Volume {
    let device: std::sync::Arc<dyn BlockDevice> = std::sync::Arc::new(MemoryDevice::new(8 << 20));
    mkfs::format(&device, &mkfs::Options::default()).unwrap();
    Volume::open(device, None, MountOptions::default()).unwrap()
}

fn create<'v>(volume: &'v Volume, path: &str) -> File<'v> {
    volume.create_file(path, &NewInode::default()).unwrap()
}

/// Copies a stream in upper case; uses only the standard library.
fn shout(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    to.write_all(text.to_uppercase().as_bytes())?;
    to.flush()
}

#[test]
fn files_are_read_written_and_copied_as_streams() {
    let volume = volume();
    volume.write_file("/quiet", b"it journals\n").unwrap();
    let mut from = volume.open_file("/quiet", OpenFlags::READ).unwrap();
    let mut to = create(&volume, "/loud");
    shout(&mut from, &mut to).unwrap();
    assert_eq!(volume.read_file("/loud").unwrap(), b"IT JOURNALS\n");

    from.rewind().unwrap();
    assert_eq!(io::copy(&mut from, &mut to).unwrap(), 12);
    to.seek(SeekFrom::Start(0)).unwrap();
    let lines: Vec<String> = BufReader::new(&to).lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["IT JOURNALS", "it journals"]);
    from.close().unwrap();
    to.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn a_position_moves_as_in_the_standard_library() {
    let volume = volume();
    let mut file = create(&volume, "/f");
    file.write_all(b"0123456789").unwrap();
    assert_eq!(file.stream_position().unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::Current(-4)).unwrap(), 6);
    assert_eq!(file.seek(SeekFrom::End(-2)).unwrap(), 8);
    let mut two = [0; 4];
    assert_eq!(file.read(&mut two).unwrap(), 2);
    assert_eq!(&two[..2], b"89");
    let error = file.seek(SeekFrom::Current(-11)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(file.position(), 10);

    // Past the end: a write leaves a hole, and calls with an offset do not move the position.
    assert_eq!(file.seek(SeekFrom::End(100)).unwrap(), 110);
    assert_eq!(file.read(&mut two).unwrap(), 0);
    file.write_at(0, b"x").unwrap();
    assert_eq!(file.read_at(0, &mut two).unwrap(), 4);
    assert_eq!(&two, b"x123");
    assert_eq!(file.position(), 110);
    file.write_all(b"!").unwrap();
    assert_eq!(file.metadata().unwrap().size, 111);
    file.set_position(10);
    assert_eq!(file.position(), 10);
    file.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn what_is_appended_leaves_the_position_behind_it() {
    let volume = volume();
    volume.write_file("/log", b"first\n").unwrap();
    let flags = OpenFlags {
        append: true,
        ..OpenFlags::READ_WRITE
    };
    let mut file = volume.open_file("/log", flags).unwrap();
    file.write_all(b"second\n").unwrap();
    assert_eq!(file.position(), 13);
    assert_eq!(Write::write(&mut file, b"third\n").unwrap(), 6);
    assert_eq!(file.stream_position().unwrap(), 19);
    assert_eq!(Write::write(&mut file, b"").unwrap(), 0);
    file.set_position(6);
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second\nthird\n");
    file.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn threads_that_share_a_file_write_parts_of_their_own() {
    const THREADS: usize = 4;
    const RECORDS: usize = 200;
    let volume = volume();
    let file = create(&volume, "/shared");
    std::thread::scope(|scope| {
        for letter in (b'a'..).take(THREADS) {
            let mut file = &file;
            scope.spawn(move || {
                for _ in 0..RECORDS {
                    file.write_all(&[letter; 7]).unwrap();
                }
            });
        }
    });
    (&file).rewind().unwrap();
    let mut bytes = Vec::new();
    (&file).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), THREADS * RECORDS * 7);
    for record in bytes.chunks(7) {
        assert!(record.iter().all(|byte| *byte == record[0]), "{record:?}");
    }
    file.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn a_full_volume_ends_a_stream_with_its_kind_and_number() {
    let volume = volume();
    let mut file = create(&volume, "/large");
    let error = io::copy(&mut io::repeat(7), &mut file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let error: Error = error.downcast().unwrap();
    assert!(matches!(error, Error::NoSpace), "{error}");
    assert_eq!(error.raw_os_error(), 28);
    assert!(file.metadata().unwrap().size > 1 << 20);
    file.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn errors_pass_through_functions_of_the_standard_library() {
    fn first_line(volume: &Volume, path: &str) -> io::Result<String> {
        let file = volume.open_file(path, OpenFlags::READ)?;
        let mut line = String::new();
        BufReader::new(&file).read_line(&mut line)?;
        file.close()?;
        Ok(line)
    }
    let volume = volume();
    volume.write_file("/f", b"one\ntwo\n").unwrap();
    assert_eq!(first_line(&volume, "/f").unwrap(), "one\n");
    let error = first_line(&volume, "/g").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "no such file or directory");
    assert!(error.get_ref().unwrap().is::<Error>());
    let error = first_line(&volume, "/lost+found").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    assert!(error.source().is_none());
    let written = volume.open_file("/f", OpenFlags::READ).unwrap();
    assert_eq!((&written).write(b"x").unwrap_err().kind(), {
        io::Error::from_raw_os_error(9).kind()
    });
    written.close().unwrap();
    volume.close().unwrap();
}

#[test]
fn errors_of_opening_have_the_kinds_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let open = || jext::FileDevice::open(&path, &OpenOptions::default());
    let kind = |error: DeviceError| io::Error::from(error).kind();
    assert_eq!(open().map(drop).map_err(kind), Err(ErrorKind::NotFound));
    jext::create_image(&path, 1 << 20).unwrap();
    let again = jext::create_image(&path, 1 << 20);
    assert_eq!(again.map_err(kind), Err(ErrorKind::AlreadyExists));
    let held = open().unwrap();
    assert_eq!(open().map(drop).map_err(kind), Err(ErrorKind::ResourceBusy));
    drop(held);
    let wrong = jext::device::open("slice(").map(drop);
    assert_eq!(wrong.map_err(kind), Err(ErrorKind::InvalidInput));
}

#[test]
fn a_file_that_is_open_for_reading_keeps_its_size() {
    let volume = volume();
    volume.write_file("/file", b"contents").unwrap();
    let file = volume.open_file("/file", OpenFlags::READ).unwrap();
    for size in [0, 8, 100] {
        assert!(matches!(file.set_len(size), Err(Error::BadHandle)));
    }
    file.close().unwrap();
    assert_eq!(volume.read_file("/file").unwrap(), b"contents");
    volume.close().unwrap();
}

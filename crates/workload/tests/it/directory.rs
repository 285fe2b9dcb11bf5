//! Tests a host directory as a target: written data is present, and calls reach the host as
//! intended.

use workload::directory::{DirectoryTarget, Terminal};
use workload::postmark::Console;
use workload::{ErrorKind, InodeFlags, OpenFlags, Target};

#[test]
fn what_is_written_is_in_the_directory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let target = DirectoryTarget::new(directory.path()).expect("it exists");
    let flags = OpenFlags::READ_WRITE.create().sync();
    let mut file = target.open("/f", flags).expect("it is not there");
    target.write(&mut file, b"hello ").expect("there is space");
    target.write(&mut file, b"world").expect("there is space");
    let mut buffer = [0; 5];
    assert_eq!(target.pread(&file, &mut buffer, 6), Ok(5));
    assert_eq!(&buffer, b"world");
    target.close(file).expect("it is open");
    let text = std::fs::read(directory.path().join("f")).expect("it is there");
    assert_eq!(text, b"hello world");
    let stat = target.stat("f").expect("it is there");
    assert_eq!((stat.size, stat.links), (11, 1));
    let entry = target.readdir("").expect("it is a directory").remove(0);
    assert_eq!((entry.name.as_str(), entry.inode), ("f", stat.inode));
}

#[test]
fn the_root_must_be_a_directory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("f");
    std::fs::write(&path, b"").expect("there is space");
    let kind = |path| {
        DirectoryTarget::new(path)
            .expect_err("it is no directory")
            .kind
    };
    assert_eq!(kind(path), ErrorKind::NotDirectory);
    assert_eq!(kind(directory.path().join("none")), ErrorKind::NotFound);
}

/// Sets inode flags. A file system may not support them; the error must then be one that a
/// benchmark can handle.
#[test]
fn inode_flags_are_set_or_refused_as_unsupported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let target = DirectoryTarget::new(directory.path()).expect("it exists");
    let result = target.set_flags(
        "",
        InodeFlags {
            sync: true,
            ..InodeFlags::default()
        },
    );
    if let Err(error) = result {
        let kinds = [
            ErrorKind::Unsupported,
            ErrorKind::Permission,
            ErrorKind::Invalid,
        ];
        assert!(kinds.contains(&error.kind), "{error:?}");
    }
}

#[test]
fn the_terminal_adds_to_files_and_reads_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("report");
    let path = path.to_str().expect("temporary names are ASCII");
    let mut terminal = Terminal;
    assert!(terminal.load(path).is_err());
    terminal.append(path, "one\n").expect("there is space");
    terminal.append(path, "two\n").expect("there is space");
    assert_eq!(terminal.load(path).expect("it is there"), "one\ntwo\n");
    assert!(terminal.append(&format!("{path}/x"), "").is_err());
}

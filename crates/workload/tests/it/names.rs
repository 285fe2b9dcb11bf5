//! Names, sizes and errors: equal on a directory of the host and on the target without data.

use std::sync::Arc;

use workload::counting::CountingTarget;
use workload::directory::DirectoryTarget;
use workload::{ErrorKind, FileKind, OpenFlags, Target, TargetError};

/// Runs `check` with both targets.
fn both(check: impl Fn(&dyn Target)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    check(&DirectoryTarget::new(directory.path()).expect("it exists"));
    check(&CountingTarget::new());
}

fn kind<T>(result: Result<T, TargetError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

fn make(target: &dyn Target, path: &str, size: usize) {
    let flags = OpenFlags::WRITE.create_new();
    let mut file = target.open(path, flags).expect("it is not there yet");
    assert_eq!(
        target
            .write(&mut file, &vec![7; size])
            .expect("there is space"),
        size
    );
    target.close(file).expect("it is open");
}

fn names(target: &dyn Target, path: &str) -> Vec<String> {
    let entries = target.readdir(path).expect("it is a directory");
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn a_tree_is_made_listed_and_removed() {
    both(|target| {
        target.mkdir("/d").expect("it is not there");
        target.mkdir("d/e/").expect("it is not there");
        make(target, "d/e/f", 5);
        make(target, "d!", 6);
        assert_eq!(names(target, "/"), ["d", "d!"]);
        assert_eq!(names(target, "d"), ["e"]);
        assert_eq!(target.stat("d/e/f").map(|s| (s.kind, s.size, s.links)), {
            Ok((FileKind::File, 5, 1))
        });
        assert_eq!(target.stat("d").map(|s| s.kind), Ok(FileKind::Directory));
        target.fsync_directory("d").expect("it is a directory");
        assert_eq!(kind(target.rmdir("d")), Some(ErrorKind::NotEmpty));
        target.unlink("d/e/f").expect("it is there");
        target.rmdir("d/e").expect("it is empty");
        target.rmdir("d").expect("it is empty");
        assert_eq!(names(target, ""), ["d!"]);
        target.sync().expect("nothing is wrong");
    });
}

#[test]
fn errors_have_their_kinds() {
    both(|target| {
        make(target, "file", 1);
        target.mkdir("directory").expect("it is not there");
        for (found, expected) in [
            (
                kind(target.open("none", OpenFlags::READ)),
                ErrorKind::NotFound,
            ),
            (
                kind(target.open("none/x", OpenFlags::WRITE.create())),
                ErrorKind::NotFound,
            ),
            (
                kind(target.open("file", OpenFlags::WRITE.create_new())),
                ErrorKind::Exists,
            ),
            (
                kind(target.open("directory", OpenFlags::WRITE)),
                ErrorKind::IsDirectory,
            ),
            (kind(target.mkdir("file")), ErrorKind::Exists),
            (kind(target.rmdir("file")), ErrorKind::NotDirectory),
            (kind(target.rmdir("none")), ErrorKind::NotFound),
            (kind(target.unlink("none")), ErrorKind::NotFound),
            (kind(target.unlink("directory")), ErrorKind::IsDirectory),
            (kind(target.stat("none")), ErrorKind::NotFound),
            (kind(target.stat("a/../b")), ErrorKind::BadName),
            (kind(target.rename("none", "x")), ErrorKind::NotFound),
            (
                kind(target.rename("file", "directory")),
                ErrorKind::IsDirectory,
            ),
            (
                kind(target.rename("directory", "file")),
                ErrorKind::NotDirectory,
            ),
            (kind(target.link("none", "x")), ErrorKind::NotFound),
            (kind(target.link("file", "directory")), ErrorKind::Exists),
            (kind(target.readdir("none")), ErrorKind::NotFound),
            (kind(target.truncate("none", 1)), ErrorKind::NotFound),
            (kind(target.read_link("file")), ErrorKind::Invalid),
        ] {
            assert_eq!(found, Some(expected), "{}", target.name());
        }
        let error = target.unlink("none").expect_err("it is not there");
        assert!(error.to_string().starts_with("unlink "), "{error}");
    });
}

#[test]
fn renames_links_and_symlinks() {
    both(|target| {
        make(target, "a", 3);
        make(target, "b", 4);
        target.rename("a", "b").expect("it replaces");
        assert_eq!(target.stat("b").map(|s| s.size), Ok(3));
        target.link("b", "c").expect("it is not there");
        assert_eq!(target.stat("c").map(|s| s.links), Ok(2));
        target
            .rename("b", "c")
            .expect("the same file: nothing happens");
        assert_eq!(names(target, ""), ["b", "c"]);
        target.symlink("b", "s").expect("it is not there");
        assert_eq!(target.read_link("s").as_deref(), Ok("b"));
        assert_eq!(target.stat("s").map(|s| s.kind), Ok(FileKind::Symlink));
        target.mkdir("d").expect("it is not there");
        target.rename("c", "d/c").expect("it moves");
        target.rename("d", "e").expect("a tree moves");
        assert_eq!(names(target, "e"), ["c"]);
        assert!(
            target.rename("e", "e/f").is_err(),
            "a tree cannot move into itself"
        );
        target.unlink("b").expect("it is there");
        assert_eq!(target.stat("e/c").map(|s| s.links), Ok(1));
    });
}

#[test]
fn positions_and_sizes() {
    both(|target| {
        let flags = OpenFlags::READ_WRITE.create();
        let mut file = target.open("f", flags).expect("it is not there");
        let mut buffer = [0; 8];
        assert_eq!(target.write(&mut file, &[1; 6]), Ok(6));
        assert_eq!(target.read(&mut file, &mut buffer), Ok(0), "at the end");
        target.seek(&mut file, 4).expect("it is open");
        assert_eq!(target.read(&mut file, &mut buffer), Ok(2));
        assert_eq!(target.pwrite(&file, &[2; 5], 10), Ok(5));
        assert_eq!(target.pread(&file, &mut buffer, 12), Ok(3));
        assert_eq!(target.stat("f").map(|s| s.size), Ok(15));
        target
            .fsync(&file)
            .and(target.fdatasync(&file))
            .expect("nothing is wrong");
        target.close(file).expect("it is open");
        let mut file = target
            .open("f", OpenFlags::WRITE.append())
            .expect("it is there");
        assert_eq!(target.write(&mut file, &[3; 1]), Ok(1));
        target.close(file).expect("it is open");
        assert_eq!(target.stat("f").map(|s| s.size), Ok(16));
        target.truncate("f", 9).expect("it is there");
        assert_eq!(target.stat("f").map(|s| s.size), Ok(9));
        let file = target
            .open("f", OpenFlags::WRITE.truncate())
            .expect("it is there");
        target.close(file).expect("it is open");
        assert_eq!(target.stat("f").map(|s| s.size), Ok(0));
    });
}

#[test]
fn a_file_belongs_to_its_target() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let host: Arc<dyn Target> = Arc::new(DirectoryTarget::new(directory.path()).expect("exists"));
    let counting: Arc<dyn Target> = Arc::new(CountingTarget::new());
    let file = host
        .open("f", OpenFlags::WRITE.create())
        .expect("it is not there");
    assert_eq!(kind(counting.fsync(&file)), Some(ErrorKind::Invalid));
    host.close(file).expect("it is open");
}

#[test]
fn space_comes_back() {
    let target = CountingTarget::with_capacity(100);
    make(&target, "a", 60);
    assert_eq!(kind(target.truncate("a", 101)), Some(ErrorKind::NoSpace));
    let mut file = target
        .open("b", OpenFlags::WRITE.create())
        .expect("it is not there");
    assert_eq!(
        kind(target.write(&mut file, &[0; 41])),
        Some(ErrorKind::NoSpace)
    );
    assert_eq!(target.write(&mut file, &[0; 40]), Ok(40));
    target.unlink("a").expect("it is there");
    assert_eq!(target.write(&mut file, &[0; 60]), Ok(60));
    target.close(file).expect("it is open");
}

//! Encrypted files and directories, which the kernel makes with a key, and which the engine and
//! the kernel use without one: names, attributes, outcomes and what is left must be the same.

mod outcomes;

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use ext::options::DataMode;
use ext::volume::{SetAttributes, SetMode};
use layout::InodeNr;
use layout::inode_flags::InodeFlags;
use testkit::{privilege, tool};

use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::rig::quiet;

/// Formats: with checksums of all metadata, with blocks as large as pages, without extents, and
/// with directories that stay linear.
const FORMATS: [(u32, &str); 4] = [
    (1024, "-O encrypt"),
    (4096, "-O encrypt,orphan_file"),
    (1024, "-O encrypt,^extent,^64bit,^metadata_csum"),
    (1024, "-O encrypt,^dir_index"),
];
/// Lengths of names around the shortest ciphertext and around what is shown of it.
const LENGTHS: &[usize] = &[
    1, 15, 16, 17, 31, 33, 100, 143, 144, 145, 149, 150, 160, 161, 200, 255,
];
/// Number of names of the directory that gets an index.
const MANY: usize = 400;
/// Contents of files, by name.
type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Adds the key to a mount. Returns its identifier.
fn add_key(root: &Path) -> String {
    let root = root.to_str().unwrap();
    let key = "k".repeat(64);
    let line = format!("printf %s {key} | xfs_io -c add_enckey {root}");
    let said = tool::run_well("sh", &["-c", &line]);
    let identifier = said.trim().rsplit(' ').next();
    identifier.expect("an identifier").to_owned()
}

/// Gives an empty directory a policy of version 2.
fn encrypt(directory: &Path, key: &str) {
    let policy = format!("set_encpolicy {key}");
    tool::run_well("xfs_io", &["-c", &policy, directory.to_str().unwrap()]);
}

fn bytes_of(number: usize) -> Vec<u8> {
    (0..number * 37 % 9000)
        .map(|at| (at * 11 + number) as u8)
        .collect()
}

/// Fills the mount: `secret` is encrypted, `plain` is not.
fn fill(root: &Path) {
    let key = add_key(root);
    let secret = root.join("secret");
    std::fs::create_dir(root.join("plain")).unwrap();
    std::fs::write(root.join("plain/file"), b"for all").unwrap();
    std::fs::create_dir(&secret).unwrap();
    encrypt(&secret, &key);
    for (number, length) in LENGTHS.iter().enumerate() {
        let name = |letter: &str| letter.repeat(*length);
        std::fs::write(secret.join(name("f")), bytes_of(number)).unwrap();
        std::fs::create_dir(secret.join(name("d"))).unwrap();
        symlink(name("t"), secret.join(name("l"))).unwrap();
    }
    std::fs::hard_link(secret.join("f"), secret.join("hard")).unwrap();
    let nested = secret.join("d").join("nested");
    std::fs::write(nested, b"below").unwrap();
    let many = secret.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..MANY {
        std::fs::write(many.join(format!("name-{number}")), bytes_of(number)).unwrap();
        let long = format!("{}-{number}", "long".repeat(45));
        if number % 10 == 0 {
            std::fs::write(many.join(long), b"").unwrap();
        }
    }
    let empty = secret.join("empty");
    std::fs::create_dir(empty).unwrap();
    // An encrypted file may leave for a directory that is not encrypted.
    std::fs::write(secret.join("leaves"), bytes_of(99)).unwrap();
    std::fs::rename(secret.join("leaves"), root.join("plain/left")).unwrap();
}

/// A file as both sides see it: its number, mode, links, size and target.
type Seen = (u32, u32, u32, u64, Vec<u8>);

fn seen_by_kernel(at: &Path, path: &[u8], seen: &mut BTreeMap<Vec<u8>, Seen>) {
    let found = std::fs::symlink_metadata(at).unwrap();
    let target = match found.is_symlink() {
        true => std::fs::read_link(at).unwrap().into_os_string().into_vec(),
        false => Vec::new(),
    };
    let size = found.size();
    let (number, links) = (found.ino() as u32, found.nlink() as u32);
    let file = (number, found.mode(), links, size, target);
    seen.insert(path.to_vec(), file);
    if !found.is_dir() {
        return;
    }
    for entry in std::fs::read_dir(at).unwrap() {
        let entry = entry.unwrap();
        let path = [path, b"/", entry.file_name().as_bytes()].concat();
        seen_by_kernel(&entry.path(), &path, seen);
    }
}

fn seen_by_engine(volume: &Volume, nr: InodeNr, path: &[u8], seen: &mut BTreeMap<Vec<u8>, Seen>) {
    let found = volume.attributes(nr).unwrap();
    let is_link = found.kind == ext::volume::FileKind::Symlink;
    let target = match is_link {
        true => volume.read_link(nr).unwrap(),
        false => Vec::new(),
    };
    let mode = u32::from(found.kind.mode() | found.permissions);
    let file = (nr.get(), mode, found.links, found.size, target);
    seen.insert(path.to_vec(), file);
    if found.kind != ext::volume::FileKind::Directory {
        return;
    }
    let mut entries = Vec::new();
    let visit = &mut |_, entry: ext::volume::Entry| {
        entries.push(entry);
        true
    };
    volume.read_directory(nr, 0, visit).unwrap();
    for entry in entries {
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        // A name that is listed is found.
        assert_eq!(volume.lookup(nr, &entry.name).unwrap(), entry.inode);
        let path = [path, b"/", &entry.name].concat();
        seen_by_engine(volume, entry.inode, &path, seen);
    }
}

fn engine_sees(volume: &Volume) -> BTreeMap<Vec<u8>, Seen> {
    let mut seen = BTreeMap::new();
    seen_by_engine(volume, InodeNr::ROOT, &[], &mut seen);
    seen
}

fn kernel_sees(image: &Image) -> BTreeMap<Vec<u8>, Seen> {
    let mounted = image.mount("ro").unwrap_or_else(|why| panic!("{why}"));
    let mut seen = BTreeMap::new();
    seen_by_kernel(mounted.path(), &[], &mut seen);
    seen
}

/// Returns the contents of the files that are left, which the kernel reads with the key.
fn with_key(image: &Image) -> Contents {
    let mounted = mount(image);
    add_key(mounted.path());
    let tree = crate::tree::of_folder(mounted.path());
    let files = tree.into_iter().filter(|(_, node)| node.kind != 'd');
    let contents = files.map(|(path, node)| (path, node.contents.expect("it is read")));
    contents.collect()
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, quiet(DataMode::Ordered)).expect("the volume opens")
}

#[test]
fn names_links_and_attributes_are_those_of_the_kernel_without_a_key() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, more) in FORMATS {
        let image = filled(block_bytes, 32 * MIB, more, fill);
        oracle::assert_fsck_clean(&image, more);
        let expected = kernel_sees(&image);
        assert!(expected.len() > MANY + 3 * LENGTHS.len(), "{more}");
        let volume = open_on(&image);
        let seen = engine_sees(&volume);
        for (path, file) in &expected {
            let path_text = String::from_utf8_lossy(path);
            assert_eq!(seen.get(path), Some(file), "{more}: {path_text}");
        }
        assert_eq!(seen.len(), expected.len(), "{more}");
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, more);
    }
}

/// Removes every second file by the name that is shown, and all of the directory with an index but
/// a few; what is left is whole for the kernel with the key.
#[test]
fn files_are_removed_by_the_names_that_are_shown() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, more) in FORMATS {
        let image = filled(block_bytes, 32 * MIB, more, fill);
        let before = with_key(&image);
        let volume = open_on(&image);
        let secret = volume.resolve("/secret", false).unwrap();
        let mut removed = 0;
        for (path, (number, mode, ..)) in engine_sees(&volume) {
            let text = String::from_utf8(path.clone()).unwrap();
            let is_directory = mode & 0o170_000 == 0o040_000;
            if !text.starts_with("/secret/") || is_directory || number % 2 == 0 {
                continue;
            }
            volume.remove_file(&text).unwrap();
            assert!(matches!(volume.resolve(&text, false), Err(Error::NotFound)));
            removed += 1;
        }
        assert!(removed > MANY / 3, "{removed}");
        let mut directories = 0;
        for entry in volume.list("/secret").unwrap() {
            match volume.remove_directory(secret, &entry.name) {
                Ok(()) => directories += 1,
                Err(Error::NotDirectory | Error::NotEmpty) => {}
                Err(error) => panic!("{more}: {error}"),
            }
        }
        // All but the one with a file, and the one with many.
        assert_eq!(directories, LENGTHS.len(), "{more}");
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, more);
        if let Some(newer) = oracle::newer_e2fsck() {
            tool::run_well(&newer, &["-fn", image.path.to_str().unwrap()]);
        }
        let after = with_key(&image);
        assert_eq!(before.len() - after.len(), removed, "{more}");
        assert!(
            after.iter().all(|(path, bytes)| before[path] == *bytes),
            "{more}"
        );
    }
}

/// A truncation that was interrupted is completed, and the bytes before the new end stay: the block
/// is ciphertext, of which no byte may change.
#[test]
fn a_truncation_is_completed_without_the_key() {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(1024, 16 * MIB, "-O encrypt,^orphan_file", |root| {
        let key = add_key(root);
        std::fs::create_dir(root.join("secret")).unwrap();
        encrypt(&root.join("secret"), &key);
        std::fs::write(root.join("secret/file"), [7; 20_000]).unwrap();
    });
    let volume = open_on(&image);
    let nr = volume.list("/secret").unwrap()[0].inode;
    volume.close().unwrap();
    let path = image.path.to_str().unwrap();
    for request in [
        format!("set_inode_field <{nr}> size 5000"),
        format!("set_super_value last_orphan {nr}"),
    ] {
        tool::run_well("debugfs", &["-w", "-R", &request, path]);
    }
    let volume = open_on(&image);
    assert_eq!(volume.attributes(nr).unwrap().size, 5000);
    assert_eq!(volume.attributes(nr).unwrap().sectors, 10);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the truncation");
    let left = with_key(&image);
    assert_eq!(left[b"/secret/file".as_slice()], [7; 5000]);
}

/// Modes, owners, attributes and the place of an encrypted directory are changed without the key.
#[test]
fn attributes_of_encrypted_files_are_changed() {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(1024, 32 * MIB, "-O encrypt", fill);
    let volume = open_on(&image);
    let entries = volume.list("/secret").unwrap();
    for entry in &entries {
        let change = SetAttributes {
            uid: Some(1000),
            ..SetAttributes::default()
        };
        volume.set_attributes(entry.inode, &change).unwrap();
        let is_link = entry.kind == Some(ext::volume::FileKind::Symlink);
        if !is_link {
            let value = vec![b'v'; 60];
            let name = b"user.note";
            volume
                .set_attribute(entry.inode, name, &value, SetMode::Any)
                .unwrap();
            assert_eq!(volume.list_attributes(entry.inode).unwrap(), [b"user.note"]);
        }
    }
    let secret = volume.resolve("/secret", false).unwrap();
    let flags = volume.attributes(secret).unwrap().flags;
    assert!(flags.contains(InodeFlags::ENCRYPT));
    volume.rename_path("/secret", "/plain/moved").unwrap();
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the changes");
    let left = with_key(&image);
    assert_eq!(left[b"/plain/moved/d/nested".as_slice()], b"below");
    let long = [b"/plain/moved/".as_slice(), &[b'f'; 255]].concat();
    assert_eq!(left[&long], bytes_of(LENGTHS.len() - 1));
}

#[test]
fn mutants_are_noticed() {
    assert_notices(
        "encrypted/tail-zeroed",
        a_truncation_is_completed_without_the_key,
    );
}

//! Work on a file system that the kernel makes durable by fast commits.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use testkit::{Random, tool};

/// Work on a file system after its first full commits; each fsync of it is a fast commit.
pub type Script = fn(&Path);

pub const SCRIPTS: &[(&str, Script)] = &[
    ("new files", new_files),
    ("names", names),
    ("directories", directories),
    ("ranges", ranges),
    ("many extents", many_extents),
    ("a large directory", large_directory),
    ("numbers used again", reused),
    ("attributes of inodes", inode_fields),
    ("open and removed", removed_while_open),
];

/// Makes the changes of a file durable.
fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Writes bytes at an offset of a file, durably.
pub fn put(path: &Path, offset: u64, byte: u8, count: usize) {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .write(true)
        .mode(0o640)
        .open(path)
        .unwrap();
    file.write_all_at(&vec![byte; count], offset).unwrap();
    file.sync_all().unwrap();
}

fn new_files(root: &Path) {
    for number in 0..12 {
        put(
            &root.join(format!("new{number}")),
            0,
            number,
            700 * usize::from(number),
        );
    }
    let mut file = OpenOptions::new()
        .append(true)
        .open(root.join("old0"))
        .unwrap();
    for number in 0..10 {
        file.write_all(&[number; 3000]).unwrap();
        file.sync_data().unwrap();
    }
}

/// Small files and directories, some of which grow.
pub fn small(root: &Path) {
    for number in 0..20u8 {
        let path = root.join(format!("small{number}"));
        put(&path, 0, number, 9 * usize::from(number));
        if number % 3 == 0 {
            put(&path, 9 * u64::from(number), number, 40);
        }
    }
    fs::create_dir(root.join("few")).unwrap();
    put(&root.join("few/one"), 0, 1, 30);
    for number in 0..12u8 {
        put(&root.join(format!("few/name{number}")), 0, number, 30);
    }
    fs::remove_file(root.join("few/one")).unwrap();
    put(&root.join("few/last"), 0, 7, 3);
}

fn names(root: &Path) {
    fs::rename(root.join("old0"), root.join("renamed")).unwrap();
    sync(&root.join("renamed"));
    fs::hard_link(root.join("old1"), root.join("second")).unwrap();
    fs::hard_link(root.join("old1"), root.join("third")).unwrap();
    sync(&root.join("old1"));
    fs::remove_file(root.join("old1")).unwrap();
    sync(&root.join("third"));
    fs::rename(root.join("old2"), root.join("old3")).unwrap();
    sync(&root.join("old3"));
    fs::remove_file(root.join("old4")).unwrap();
    put(&root.join("old4"), 0, 9, 5000);
    fs::hard_link(root.join("old4"), root.join("base/fourth")).unwrap();
    sync(&root.join("old4"));
    fs::rename(root.join("old5"), root.join("base/old5")).unwrap();
    sync(&root.join("base/old5"));
}

fn directories(root: &Path) {
    fs::create_dir(root.join("a")).unwrap();
    put(&root.join("a/file"), 0, 1, 100);
    fs::create_dir(root.join("a/b")).unwrap();
    fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
    put(&root.join("a/b/file"), 0, 2, 9000);
    fs::create_dir(root.join("a/c")).unwrap();
    sync(&root.join("a/file"));
    fs::remove_dir(root.join("a/c")).unwrap();
    sync(&root.join("a/file"));
    fs::rename(root.join("a/file"), root.join("a/b/moved")).unwrap();
    sync(&root.join("a/b/moved"));
}

fn ranges(root: &Path) {
    let path = root.join("old0");
    put(&path, 400_000, 7, 50_000);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(420_000).unwrap();
    file.sync_all().unwrap();
    file.set_len(600_000).unwrap();
    file.sync_all().unwrap();
    allocate(&path, &["-o", "700000", "-l", "300000"]);
    sync(&path);
    put(&path, 800_000, 8, 30_000);
    allocate(&path, &["-p", "-o", "405000", "-l", "9000"]);
    sync(&path);
    put(&path, 406_000, 6, 2000);
    File::create(root.join("old1")).unwrap().sync_all().unwrap();
    put(&root.join("old1"), 0, 3, 20_000);
}

fn allocate(path: &Path, arguments: &[&str]) {
    let path = path.to_str().unwrap();
    tool::run_well("fallocate", &[arguments, &[path]].concat());
}

fn many_extents(root: &Path) {
    let path = root.join("old0");
    for number in 0..150 {
        put(&path, number * 20_000, number as u8, 500);
    }
    for number in (0..150).step_by(3) {
        let offset = (number * 20_000).to_string();
        allocate(&path, &["-p", "-o", &offset, "-l", "4096"]);
        sync(&path);
    }
}

fn large_directory(root: &Path) {
    for number in 0..200 {
        let name = format!("base/{number:0>100}");
        File::create(root.join(&name)).unwrap();
        if number % 20 == 19 {
            sync(&root.join(&name));
        }
    }
    for number in (0..200).step_by(3) {
        fs::remove_file(root.join(format!("base/{number:0>100}"))).unwrap();
    }
    put(&root.join("old0"), 0, 1, 1);
}

fn reused(root: &Path) {
    for round in 0..5 {
        for number in 0..4 {
            let name = root.join(format!("old{number}"));
            fs::remove_file(&name).unwrap();
            sync(&root.join("old5"));
            if round % 2 == 0 {
                fs::create_dir(root.join(format!("d{number}"))).unwrap();
                sync(&root.join("old5"));
                fs::remove_dir(root.join(format!("d{number}"))).unwrap();
            }
            put(&name, 0, round * 4 + number, 6000);
        }
    }
}

fn inode_fields(root: &Path) {
    let path = root.join("old0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
    sync(&path);
    std::os::unix::fs::chown(&path, Some(70_000), Some(5)).unwrap();
    sync(&path);
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    let file = File::options().write(true).open(root.join("old1")).unwrap();
    file.set_modified(time).unwrap();
    file.sync_all().unwrap();
}

fn removed_while_open(root: &Path) {
    let file = File::options().write(true).open(root.join("old0")).unwrap();
    fs::remove_file(root.join("old0")).unwrap();
    sync(&root.join("old1"));
    file.write_all_at(b"gone", 0).unwrap();
    put(&root.join("new"), 0, 1, 5000);
}

/// Random operations, each made durable.
pub fn random_operations(root: &Path, seed: u64) {
    let mut random = Random::new(seed);
    for step in 0..120u32 {
        let path = |random: &mut Random| {
            let folder = ["", "base/", "one/", "one/two/"][random.below(4) as usize];
            root.join(format!("{folder}r{}", random.below(12)))
        };
        let (a, b) = (path(&mut random), path(&mut random));
        let offset = random.below(200_000);
        match random.below(9) {
            0 => drop(fs::create_dir_all(root.join("one/two"))),
            1 => drop(fs::remove_file(&a)),
            2 => drop(fs::rename(&a, &b)),
            3 => drop(fs::hard_link(&a, &b)),
            4 => {
                if let Ok(file) = File::options().write(true).open(&a) {
                    file.set_len(offset).unwrap();
                }
            }
            5 if a.exists() => {
                let (offset, length) = (offset.to_string(), "30000");
                allocate(&a, &["-p", "-o", &offset, "-l", length]);
            }
            _ if a.parent().is_some_and(Path::exists) => {
                put(&a, offset, step as u8, 1 + random.below(40_000) as usize);
            }
            _ => {}
        }
        let any = if b.exists() { b } else { root.join("first") };
        put(&root.join("step"), 0, step as u8, 1);
        sync(&any);
        if a.exists() {
            sync(&a);
        }
    }
}

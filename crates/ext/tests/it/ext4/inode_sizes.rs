//! Inodes that become larger, on volumes that the kernel or the engine has filled: what both
//! releases of e2fsck, the kernel, tune2fs and this crate make of the result.

mod cut;
mod refused;

use std::os::unix::fs::symlink;
use std::time::Duration;

use ext::mkfs::{self, FeatureEdits, FileSystemType, Options};
use ext::options::DataMode;
use ext::tune::{Changes, apply, free_feature};
use ext::volume::{NewInode, SetMode};
use layout::InodeNr;
use testkit::{privilege, tool};

use super::*;
use crate::image::tree_of;
use crate::oracle;
use crate::rig::{device, quiet};
use crate::tree::{Tree, assert_same};

/// A time that a 32-bit field has no room for, and its nanoseconds.
const LATE: Duration = Duration::new(4_200_000_000, 123_456_789);

fn larger(inode_bytes: u16) -> Changes {
    Changes {
        inode_bytes: Some(inode_bytes),
        ..Changes::default()
    }
}

/// Returns the releases of e2fsck that are there.
fn e2fscks() -> impl Iterator<Item = String> {
    std::iter::once("e2fsck".to_owned()).chain(oracle::newer_e2fsck())
}

/// Asserts that no checker finds anything, and that inodes have this size.
fn assert_whole(image: &Image, inode_bytes: u16, when: &str) {
    oracle::assert_fsck_clean(image, when);
    let journal = image
        .journal_path
        .as_ref()
        .map(|path| path.to_str().unwrap());
    if let Some(e2fsck) = oracle::newer_e2fsck() {
        let mut arguments = vec!["-fn"];
        arguments.extend(journal.iter().flat_map(|path| ["-j", path]));
        arguments.push(image.path.to_str().unwrap());
        tool::run_well(&e2fsck, &arguments);
    }
    assert_eq!(superblock(image).inode_size(), inode_bytes, "{when}");
}

/// Makes files of all kinds, with attributes in blocks and within inodes.
fn fill(root: &Path) {
    let folder = root.join("folder");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..300_usize {
        let path = folder.join(format!("file-{number:03}"));
        std::fs::write(path, vec![number as u8; number * 7]).unwrap();
    }
    for number in (0..300).step_by(3) {
        std::fs::remove_file(folder.join(format!("file-{number:03}"))).unwrap();
    }
    std::fs::write(root.join("old"), b"old").unwrap();
    touch(&root.join("old"), "@-86400");
    std::fs::hard_link(root.join("old"), root.join("link")).unwrap();
    symlink("folder/file-001", root.join("short")).unwrap();
    symlink("x/".repeat(200), root.join("long")).unwrap();
    for (name, bytes) in [("file-001", 30), ("file-002", 400)] {
        let path = folder.join(name).display().to_string();
        tool::run_well(
            "setfattr",
            &["-n", "user.x", "-v", &"v".repeat(bytes), &path],
        );
    }
    for (flag, name) in [("+i", "file-004"), ("+a", "file-005")] {
        let path = folder.join(name).display().to_string();
        tool::run_well("chattr", &[flag, &path]);
    }
}

/// Sets the times of a file, which is made if there is none.
fn touch(path: &Path, time: &str) {
    tool::run_well("touch", &["-d", time, path.to_str().unwrap()]);
}

/// Returns the tree and all attributes as the kernel reads them.
fn seen(image: &Image) -> (Tree, String) {
    let mounted = image
        .mount("ro,noatime")
        .unwrap_or_else(|why| panic!("{why}"));
    let root = mounted.path().to_str().unwrap();
    let attributes = tool::run_well(
        "getfattr",
        &["-R", "-h", "-d", "-m", "-", "--absolute-names", root],
    );
    (crate::tree::of_folder(mounted.path()), attributes)
}

/// Changes a volume whose inodes have become larger through the kernel and through the engine.
fn use_it(image: &Image) {
    let mounted = mount(image);
    for name in ["old", "new"] {
        let late = format!("@{}.{:09}", LATE.as_secs(), LATE.subsec_nanos());
        touch(&mounted.path().join(name), &late);
    }
    let born = std::fs::metadata(mounted.path().join("new"))
        .unwrap()
        .created();
    let age = born.unwrap().elapsed().unwrap_or_default();
    assert!(age < Duration::from_secs(3600), "{age:?}");
    drop(mounted);
    let volume = Volume::open(
        image.device(),
        image.journal_device(),
        MountOptions::default(),
    );
    let volume = volume.unwrap();
    for name in ["/old", "/new"] {
        let nr = volume.resolve(name, false).unwrap();
        let time = volume.attributes(nr).unwrap().mtime;
        let expected = (LATE.as_secs() as i64, LATE.subsec_nanos());
        assert_eq!((time.seconds, time.nanos), expected, "{name}");
    }
    for number in 0..40 {
        volume
            .write_file(&format!("/engine-{number}"), &[1; 3000])
            .unwrap();
    }
    volume.remove_file("/folder/file-002").unwrap();
    volume.close().unwrap();
}

fn check(kind: &'static str, block_bytes: u32, is_external: bool, more: &str, sizes: &[u16]) {
    if !privilege::is_granted() {
        return;
    }
    let words: Vec<&str> = more.split_whitespace().collect();
    let image = Image::over_garbage(kind, block_bytes, 20 * MIB, is_external, &words);
    let mounted = mount(&image);
    fill(mounted.path());
    drop(mounted);
    for size in sizes {
        let (tree, attributes) = seen(&image);
        let tuned = apply(
            &image.device(),
            image.journal_device().as_ref(),
            &larger(*size),
        );
        tuned.unwrap_or_else(|error| panic!("{more}: {error}"));
        let when = format!("{more}: {size}");
        assert_whole(&image, *size, &when);
        let (tree_after, attributes_after) = seen(&image);
        assert_same(&tree, &tree_after, &when);
        assert_eq!(attributes, attributes_after, "{when}");
    }
    use_it(&image);
    assert_whole(&image, *sizes.last().unwrap(), more);
}

macro_rules! formats {
    ($($name:ident: $kind:expr, $block_bytes:expr, $is_external:expr, $more:expr, $sizes:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check($kind, $block_bytes, $is_external, $more, &$sizes);
            }
        )*
    };
}

formats! {
    ext3: "ext3", 1024, false, "-I 128", [256, 1024];
    ext3_with_an_external_journal: "ext3", 1024, true, "-I 128", [256];
    ext4_with_flexible_groups: "ext4", 1024, false, "-I 128", [256];
    ext4_with_blocks_of_4k: "ext4", 4096, false, "-I 128 -O metadata_csum_seed,^flex_bg", [1024];
    ext4_with_uninitialised_groups: "ext4", 1024, false, "-I 128 -O ^metadata_csum,uninit_bg,^64bit", [256];
    ext4_in_meta_groups: "ext4", 1024, false, "-I 128 -O meta_bg,^resize_inode -g 1024", [512];
    ext4_with_attributes_in_inodes: "ext4", 2048, false, "-O inline_data,orphan_file,sparse_super2", [512];
}

/// The lines of the superblock are those that tune2fs leaves, but for the size of the extra part,
/// which all inodes have here, and the overhead, which tune2fs leaves as it was. With `uninit_bg`
/// tune2fs 1.47.0 leaves a volume whose journal e2fsck does not find.
#[test]
fn tune2fs_does_the_same() {
    for (kind, more) in [
        ("ext3", "-I 128 -g 2048"),
        ("ext4", "-I 128 -O ^flex_bg,^metadata_csum"),
    ] {
        let words: Vec<&str> = more.split_whitespace().collect();
        let ours = Image::with_arguments(kind, 1024, 16 * MIB, false, &words);
        let volume = Volume::open(ours.device(), None, MountOptions::default()).unwrap();
        volume.write_file("/file", &[7; 5000]).unwrap();
        volume.close().unwrap();
        let at = |image: &Image| image.path.to_str().unwrap().to_owned();
        // tune2fs requires a check that is no older than the last mount.
        tool::run_well("e2fsck", &["-fy", &at(&ours)]);
        let theirs = ours.copy();
        tool::run_well("tune2fs", &["-I", "256", &at(&theirs)]);
        apply(&ours.device(), None, &larger(256)).unwrap();
        assert_whole(&ours, 256, more);
        let lines = |image: &Image| -> Vec<String> {
            let text = tool::run_well("dumpe2fs", &["-h", &at(image)]);
            let is_same = |line: &&str| {
                let own = [
                    "Last write time",
                    "Lifetime writes",
                    "Checksum",
                    "Journal seq",
                ];
                let more = ["Required extra isize", "Desired extra isize", "Overhead"];
                !own.iter().chain(&more).any(|name| line.starts_with(name))
            };
            text.lines().filter(is_same).map(str::to_owned).collect()
        };
        assert_eq!(lines(&ours), lines(&theirs), "{kind}");
        // The extra part has the upper half of the version, and the project.
        let stat = |image: &Image| {
            let text = tool::run_well("debugfs", &["-R", "stat /file", &at(image)]);
            let text = text.replace("0x00000000:00000000", "0x00000000");
            let text = text.replace("Project:     0   ", "");
            text.lines().take(6).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(stat(&ours), stat(&theirs), "{kind}");
    }
}

/// Makes a volume in memory, with files of several kinds.
fn in_a_volume(size_bytes: u64, inode_bytes: u16, features: &str) -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(size_bytes));
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        inode_bytes: Some(inode_bytes),
        inode_count: Some(1024),
        features: FeatureEdits::parse(features).expect("known features"),
        hash_seed: Some([3; 16]),
        ..Options::default()
    };
    mkfs::format(&device(&memory), &options).expect("the volume is made");
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).unwrap();
    for number in 0..30_u32 {
        let new = NewInode {
            uid: number,
            ..NewInode::default()
        };
        let file = volume.create_file(&format!("/f{number}"), &new).unwrap();
        file.close().unwrap();
        let path = format!("/f{number}");
        volume
            .write_file(&path, &vec![number as u8; 100 * number as usize])
            .unwrap();
        let nr = volume.resolve(&path, false).unwrap();
        let value = vec![b'v'; number as usize * 2];
        volume
            .set_attribute(nr, b"user.x", &value, SetMode::Any)
            .unwrap();
    }
    volume.create_directory("/d").unwrap();
    let nr = volume.resolve("/f1", false).unwrap();
    let parent = volume.resolve("/d", false).unwrap();
    volume.link(nr, parent, b"link").unwrap();
    volume
        .symlink(InodeNr::ROOT, b"l", b"d/link", &NewInode::default())
        .unwrap();
    volume.close().unwrap();
    memory
}

/// Returns the tree and the attributes of files; the volume is opened, and closed again.
fn tree_in(memory: &Arc<MemoryDevice>) -> (Tree, Vec<Vec<u8>>) {
    let volume = Volume::open(device(memory), None, quiet(DataMode::Ordered)).expect("it opens");
    let values = (0..30).map(|number| {
        let nr = volume.resolve(&format!("/f{number}"), false).unwrap();
        volume.get_attribute(nr, b"user.x").unwrap()
    });
    let seen = (tree_of(&volume), values.collect());
    volume.close().expect("close");
    seen
}

/// Returns the size of inodes by the first superblock.
fn size_in(memory: &MemoryDevice) -> u16 {
    let bytes = &memory.to_bytes()[OFFSET as usize..][..SIZE];
    Superblock::read_from_prefix(bytes).unwrap().0.inode_size()
}

/// Writes a volume into an image.
fn image_of(memory: &MemoryDevice) -> Image {
    let image = Image::empty("ext4", 1024, MIB, false);
    memory.write_to_file(&image.path).unwrap();
    image
}

/// Files of the volume's own, protection and counts stay, and what needs larger inodes becomes
/// possible, also by the same command.
#[test]
fn other_features_stay_and_become_possible() {
    let own = "quota,project,orphan_file,mmp,inline_data,ea_inode";
    let memory = in_a_volume(12 * MIB, 256, &own.replace(",ea_inode", ""));
    let before = tree_in(&memory);
    apply(&device(&memory), None, &larger(512)).unwrap();
    assert_whole(&image_of(&memory), 512, own);
    assert_eq!(tree_in(&memory), before);
    let memory = in_a_volume(12 * MIB, 128, "ea_inode");
    let before = tree_in(&memory);
    let mut changes = larger(256);
    changes.features.push(free_feature("inline_data").unwrap());
    changes.label = Some("larger".to_owned());
    apply(&device(&memory), None, &changes).unwrap();
    let image = image_of(&memory);
    assert_whole(&image, 256, "ea_inode");
    assert_eq!(&superblock(&image).label[..6], b"larger");
    assert_eq!(tree_in(&memory), before);
}

//! Independent readers that must agree: `e2fsck -fn`, the kernel through a loop mount, and the
//! crate `ext4-view`.

use std::os::unix::fs::FileExt;

use layout::feature::Incompatible;
use layout::superblock::{OFFSET, SIZE, Superblock};
use testkit::{privilege, tool};
use zerocopy::FromBytes;

use crate::image::Image;
use crate::tree::{Node, Tree, of_folder};

/// Asserts that `e2fsck -fn` finds nothing, and neither does this project's checker, which shares
/// no code with the file system.
pub fn assert_fsck_clean(image: &Image, when: &str) {
    let (device, journal) = (image.device(), image.journal_device());
    let report = fsck::check(&*device, journal.as_deref(), &fsck::Options::default());
    let report = report.unwrap_or_else(|error| panic!("fsck {when}: {error}"));
    assert!(report.is_clean(), "fsck {when}: {:?}", report.problems);
    drop((device, journal));
    let path = image.path.to_str().expect("UTF-8");
    let journal = image
        .journal_path
        .as_ref()
        .map(|path| path.to_str().expect("UTF-8"));
    let mut arguments = vec!["-fn"];
    if let Some(journal) = journal {
        arguments.extend(["-j", journal]);
    }
    arguments.push(path);
    let output = tool::run("e2fsck", &arguments);
    assert!(
        output.status.code() == Some(0),
        "e2fsck -fn {when}:\n{}",
        tool::said(&output)
    );
    tool::assert_log_not_skipped(&output);
}

/// Returns the e2fsck 1.47.2 that `scripts/build-e2fsprogs` builds, if it is there.
pub fn newer_e2fsck() -> Option<String> {
    let built = std::env::var("HOME").map(|home| home + "/.cache/jext/e2fsprogs");
    let folder = std::env::var("JEXT_E2FSPROGS").or(built);
    let newer = folder.unwrap_or_default() + "/trixie/sbin/e2fsck";
    std::path::Path::new(&newer).exists().then_some(newer)
}

/// Returns the tree as the Linux kernel reads it; none if the test runs without root.
pub fn kernel_tree(image: &Image) -> Option<Tree> {
    if !privilege::is_granted() {
        return None;
    }
    let mount = image
        .mount("ro,noatime")
        .unwrap_or_else(|why| panic!("{why}"));
    Some(of_folder(mount.path()))
}

/// Returns true if the crate `ext4-view` knows the features of the image, of which it lacks
/// `meta_bg`, `large_dir` and `ea_inode`.
pub fn has_view(image: &Image) -> bool {
    let unknown = Incompatible::META_BG
        | Incompatible::LARGE_DIR
        | Incompatible::EA_INODE
        | Incompatible::INLINE_DATA;
    !incompatible(image).intersects(unknown)
}

fn incompatible(image: &Image) -> Incompatible {
    let mut bytes = [0; SIZE];
    let file = std::fs::File::open(&image.path).expect("the image is there");
    file.read_exact_at(&mut bytes, OFFSET)
        .expect("a superblock");
    let (raw, _) = Superblock::read_from_prefix(&bytes).expect("as many bytes were read");
    raw.features().incompatible
}

/// Returns the tree as the crate `ext4-view` reads it, without the contents of files with unwritten
/// extents: it takes them for data.
pub fn view_tree(image: &Image) -> Tree {
    let view = ext4_view::Ext4::load_from_path(&image.path).expect("ext4-view loads the image");
    let mut tree = Tree::new();
    walk_view(&view, &[], &mut tree);
    if incompatible(image).contains(Incompatible::EXTENTS) {
        for path in unwritten(image, &tree) {
            tree.get_mut(path.as_bytes())
                .expect("it was named")
                .contents = None;
        }
    }
    tree
}

/// Returns the paths of the files that have unwritten extents, as `debugfs` sees them.
fn unwritten(image: &Image, tree: &Tree) -> Vec<String> {
    let files = tree.iter().filter(|(_, node)| node.kind == '-');
    let paths = files.filter_map(|(path, _)| core::str::from_utf8(path).ok());
    let requests: String = paths.map(|path| format!("ex {path}\n")).collect();
    let file = image.path.with_file_name("requests-of-extents");
    std::fs::write(&file, requests).expect("requests");
    let (file, path) = (file.to_str().unwrap(), image.path.to_str().unwrap());
    let said = tool::run_well("debugfs", &["-f", file, path]);
    let mut found: Vec<String> = Vec::new();
    let mut at = "";
    for line in said.lines() {
        match line.strip_prefix("debugfs: ex ") {
            Some(path) => at = path,
            None if line.ends_with("Uninit") && found.last().is_none_or(|last| last != at) => {
                found.push(at.to_owned());
            }
            None => {}
        }
    }
    found
}

fn walk_view(view: &ext4_view::Ext4, path: &[u8], tree: &mut Tree) {
    let full: Vec<u8> = if path.is_empty() {
        b"/".to_vec()
    } else {
        path.to_vec()
    };
    let at = ext4_view::PathBuf::try_from(full.as_slice()).expect("a path");
    let metadata = view.symlink_metadata(&at).expect("stat through ext4-view");
    let kind = metadata.file_type();
    let (letter, contents) = match kind {
        ext4_view::FileType::Directory => ('d', Some(Vec::new())),
        ext4_view::FileType::Symlink => (
            'l',
            Some(view.read_link(&at).expect("readlink").as_ref().to_vec()),
        ),
        ext4_view::FileType::Regular => ('-', view_contents(view, &at)),
        ext4_view::FileType::BlockDevice => ('b', Some(Vec::new())),
        ext4_view::FileType::CharacterDevice => ('c', Some(Vec::new())),
        ext4_view::FileType::Fifo => ('p', Some(Vec::new())),
        _ => ('s', Some(Vec::new())),
    };
    let node = Node {
        kind: letter,
        permissions: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        links: None,
        mtime: None,
        contents,
        device: None,
    };
    tree.insert(path.to_vec(), node);
    if letter == 'd' {
        for entry in view.read_dir(&at).expect("readdir through ext4-view") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            if name.as_ref() == b"." || name.as_ref() == b".." {
                continue;
            }
            let mut child = path.to_vec();
            child.push(b'/');
            child.extend_from_slice(name.as_ref());
            walk_view(view, &child, tree);
        }
    }
}

/// Returns the contents of a file. The crate takes a missing indirect block for damage (block 0),
/// so that it cannot read files with such large holes: those are not compared.
fn view_contents(view: &ext4_view::Ext4, at: &ext4_view::PathBuf) -> Option<Vec<u8>> {
    match view.read(at) {
        Ok(contents) => Some(contents),
        Err(error) if format!("{error:?}").contains("BlockRead { block_index: 0,") => None,
        Err(error) => panic!("read through ext4-view: {error:?}"),
    }
}

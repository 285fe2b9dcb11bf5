//! Layers on top of each other, with marks and links.

use super::*;

/// An entry, or a mark of a container image.
enum Step {
    Directory(&'static str),
    File(&'static str),
    Link(&'static str, &'static str),
    Whiteout(&'static str),
    Opaque(&'static str),
}

use Step::{Directory, File, Link, Opaque, Whiteout};

/// Returns the paths that are left of two layers of an image.
fn left(lower: &[Step], upper: &[Step]) -> Vec<String> {
    left_of(&[&[lower, upper]])
}

/// Returns the paths that are left of several images on top of each other.
fn left_of(images: &[&[&[Step]]]) -> Vec<String> {
    let mut overlay = Overlay::new().expect("works");
    for image in images {
        overlay.start_image().expect("works");
        for layer in *image {
            overlay.start(true).expect("works");
            for (number, step) in (0..).zip(*layer) {
                take(&mut overlay, step, number);
            }
            overlay.end().expect("works");
        }
        overlay.end_image().expect("works");
    }
    let mut merged = overlay.finish().expect("works");
    let mut paths = Vec::new();
    for at in 1..merged.names.len() {
        if merged.names.get(at).expect("works").is_present() {
            let path = merged.path(at as u32).expect("works");
            paths.push(String::from_utf8_lossy(&path).into_owned());
        }
    }
    paths.sort_unstable();
    paths
}

fn take(overlay: &mut Overlay, step: &Step, number: u32) {
    let (path, kind, link_to) = match step {
        Directory(path) => (path, FileKind::Directory, None),
        File(path) => (path, FileKind::Regular, None),
        Link(path, to) => (path, FileKind::Regular, Some(to.as_bytes().to_vec())),
        Whiteout(path) => return overlay.white_out(path.as_bytes()).expect("works"),
        Opaque(path) => return overlay.make_opaque(path.as_bytes()).expect("works"),
    };
    let entry = Entry {
        path: path.as_bytes().to_vec(),
        kind,
        link_to,
        target: Vec::new(),
        held: 0,
        more: Tally::default(),
    };
    overlay.put(&entry, number).expect("works");
}

#[test]
fn a_layer_hides_nothing_of_its_own() {
    let two = [File("a"), Link("b", "a")];
    assert_eq!(left(&two, &[Link("b", "a"), Whiteout("b")]), ["a", "b"]);
    let inner = [Directory("d"), File("d/a"), Link("b", "d/a")];
    let again = [Link("d/a", "b"), Whiteout("d")];
    assert_eq!(left(&inner, &again), ["b", "d", "d/a"]);
    let other = [
        Directory("e"),
        File("e/x"),
        Directory("d"),
        Link("d/a", "e/x"),
    ];
    let opaque = [Directory("d"), Link("d/a", "e/x"), Opaque("d")];
    assert_eq!(left(&other, &opaque), ["d", "d/a", "e", "e/x"]);
}

#[test]
fn marks_and_targets_of_links_make_nothing() {
    assert_eq!(left(&[File("a")], &[Whiteout("a/c")]), ["a"]);
    assert_eq!(left(&[File("a")], &[Opaque("a")]), ["a"]);
    let lower = [Directory("e"), File("e/x")];
    assert_eq!(left(&lower, &[Link("f", "e/x"), Whiteout("e")]), ["f"]);
    let lower = [Directory("d"), File("d/x"), File("d/y")];
    assert!(left(&lower, &[Whiteout("d/x"), Whiteout("d")]).is_empty());
    assert!(left(&[], &[Whiteout("d/x"), Opaque("e")]).is_empty());
}

/// An image is merged on its own, and then put on the sources before it.
#[test]
fn marks_of_an_image_leave_other_sources_alone() {
    let below = [
        Directory("d"),
        File("d/x"),
        File("d/y"),
        File("a"),
        File("e"),
    ];
    let first = [
        Directory("d"),
        File("d/x"),
        File("a"),
        Directory("e"),
        File("e/z"),
    ];
    let second = [
        Opaque("d"),
        File("d/z"),
        Whiteout("a"),
        Whiteout("e"),
        Whiteout("d/y"),
    ];
    assert_eq!(left(&first, &second), ["d", "d/z"]);
    let all = ["a", "d", "d/x", "d/y", "d/z", "e"];
    assert_eq!(left_of(&[&[&below], &[&first, &second]]), all);
    // What the image has at last replaces what is below it, with all that is in it.
    let flat = [
        File("d"),
        Directory("e"),
        Directory("e/f"),
        Link("e/f/g", "d"),
    ];
    assert_eq!(
        left_of(&[&[&below], &[&flat], &[&[Whiteout("e"), File("e/h")]]]),
        ["a", "d", "e", "e/f", "e/f/g", "e/h"]
    );
}

/// The walks that remove and hide names have no stack.
#[test]
fn deep_and_wide_trees_are_removed() {
    let paths: Vec<String> = (0..200)
        .map(|number| format!("a/{}/b/{}/c", number % 20, number))
        .collect();
    let mut overlay = Overlay::new().expect("works");
    for (layer, paths) in [&paths[..], &paths[..7]].into_iter().enumerate() {
        overlay.start(true).expect("works");
        for path in paths {
            let entry = Entry {
                path: path.as_bytes().to_vec(),
                kind: FileKind::Regular,
                link_to: None,
                target: Vec::new(),
                held: 0,
                more: Tally::default(),
            };
            overlay.put(&entry, 0).expect("works");
        }
        if layer == 1 {
            overlay.make_opaque(b"").expect("works");
        }
    }
    let mut merged = overlay.finish().expect("works");
    let left = (1..merged.names.len())
        .filter(|at| merged.names.get(*at).expect("works").is_present())
        .count();
    assert_eq!(left, 1 + 7 * 4);
}

/// AUFS kept files with several names there, of which an old image still tells.
#[test]
fn a_directory_with_a_reserved_name_is_no_part_of_an_image() {
    let lower = [
        Directory(".wh..wh.plnk"),
        File(".wh..wh.plnk/1.2"),
        Link("a", ".wh..wh.plnk/1.2"),
    ];
    assert_eq!(
        left(&lower, &[File("b"), File(".wh..wh.plnk/1.3")]),
        ["a", "b"]
    );
}

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

/// Returns the paths that are left of two layers.
fn left(lower: &[Step], upper: &[Step]) -> Vec<String> {
    let mut overlay = Overlay::new();
    for (layer, steps) in [(0, lower), (1, upper)] {
        overlay.start(layer, true);
        for (number, step) in (0..).zip(steps) {
            let (path, kind, link_to) = match step {
                Directory(path) => (path, FileKind::Directory, None),
                File(path) => (path, FileKind::Regular, None),
                Link(path, to) => (path, FileKind::Regular, Some(to.as_bytes().to_vec())),
                Whiteout(path) => {
                    overlay.white_out(path.as_bytes()).expect("works");
                    continue;
                }
                Opaque(path) => {
                    overlay.make_opaque(path.as_bytes()).expect("works");
                    continue;
                }
            };
            let entry = Entry {
                path: path.as_bytes().to_vec(),
                kind,
                link_to,
                target: Vec::new(),
                held: 0,
                attributes: Tally::default(),
            };
            overlay.put(&entry, number).expect("works");
        }
    }
    let path_of = |mut at: u32| {
        let mut names = Vec::new();
        while at != ROOT {
            let name = &overlay.names[at as usize];
            names.push(String::from_utf8_lossy(overlay.text_of(name)).into_owned());
            at = name.parent;
        }
        names.reverse();
        names.join("/")
    };
    let names = (1..).zip(&overlay.names[1..]);
    let present = names.filter(|(_, name)| name.is_present);
    let mut paths: Vec<String> = present.map(|(at, _)| path_of(at)).collect();
    paths.sort_unstable();
    paths
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

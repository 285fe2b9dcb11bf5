//! Conversion of lists to bytes and back, invalid lists, and modes.

use super::*;

/// Parses `u:rwx` and so on: the tag's letter, a number for named users and groups, the
/// permissions.
fn list(text: &str) -> List {
    let entry = |word: &str| {
        let (who, permissions) = word.split_once(':').expect("a colon");
        let (letter, id) = who.split_at(1);
        let tag = match (letter, id) {
            ("u", "") => acl::USER_OBJ,
            ("u", _) => acl::USER,
            ("g", "") => acl::GROUP_OBJ,
            ("g", _) => acl::GROUP,
            ("m", "") => acl::MASK,
            ("o", "") => acl::OTHER,
            _ => panic!("{word}"),
        };
        Entry {
            tag,
            permissions: permissions.parse().expect("a number"),
            id: id.parse().unwrap_or(acl::NO_ID),
        }
    };
    List {
        entries: text.split(' ').map(entry).collect(),
    }
}

const LISTS: &[&str] = &[
    "u:6 g:4 o:0",
    "u:7 u1000:5 g:5 m:5 o:1",
    "u:7 u1:0 u2:7 g:0 g5:6 g6:4 m:7 o:0",
    "u:6 g:6 m:4 o:4",
];

#[test]
fn both_forms_are_read_as_they_are_written() {
    for text in LISTS {
        let list = list(text);
        let nr = InodeNr::new(12);
        assert_eq!(List::from_ext(nr, &list.to_ext()).expect("it can be"), list);
        let programs = List::from_programs(&list.to_programs()).expect("it can be");
        assert_eq!(programs, Some(list));
    }
    // The bytes are those of `acl(5)` and the kernel's headers.
    let list = list("u:7 u1000:5 g:5 m:5 o:1");
    assert_eq!(
        list.to_ext(),
        [
            1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 5, 0, 0xE8, 3, 0, 0, 4, 0, 5, 0, 16, 0, 5, 0, 32, 0, 1, 0
        ]
    );
    assert_eq!(list.to_programs().len(), 4 + 5 * 8);
}

#[test]
fn lists_that_cannot_be_are_refused() {
    for text in [
        "u:6 g:4",
        "u:6 o:4",
        "u:6 g:4 o:0 o:0",
        "u:6 u5:6 g:4 o:0",
        "g:4 u:6 o:0",
        "u:8 g:4 o:0",
        "u:6 g:4 m:1 m:1 o:0",
    ] {
        let bytes = list(text).to_programs();
        assert!(List::from_programs(&bytes).is_err(), "{text}");
        assert!(List::from_ext(InodeNr::new(12), &list(text).to_ext()).is_err());
    }
    assert_eq!(List::from_programs(&[]).expect("none"), None);
    assert_eq!(List::from_programs(&[2, 0, 0, 0]).expect("none"), None);
    assert!(List::from_programs(&[1, 0, 0, 0]).is_err());
    assert!(List::from_programs(&[2, 0, 0]).is_err());
    assert!(List::from_programs(&list(LISTS[0]).to_programs()[..11]).is_err());
}

#[test]
fn modes_and_lists_go_together() {
    for (text, permissions, is_minimal) in [
        (LISTS[0], 0o640, true),
        (LISTS[1], 0o751, false),
        (LISTS[2], 0o770, false),
        (LISTS[3], 0o644, false),
    ] {
        let mut list = list(text);
        assert_eq!(
            (list.permissions(), list.is_minimal()),
            (permissions, is_minimal),
            "{text}"
        );
        list.set_permissions(0o421);
        assert_eq!(list.permissions(), 0o421);
    }
    let mut changed = list(LISTS[1]);
    changed.set_permissions(0o4602);
    assert_eq!(changed, list("u:6 u1000:5 g:5 m:0 o:2"));
}

#[test]
fn what_is_inherited_is_what_both_have() {
    for (text, asked, gets, mode) in [
        ("u:7 g:5 o:5", 0o666, "u:6 g:4 o:4", 0o644),
        ("u:7 u9:7 g:5 m:7 o:0", 0o664, "u:6 u9:7 g:5 m:6 o:0", 0o660),
        (
            "u:7 u9:7 g:5 m:5 o:7",
            0o4777,
            "u:7 u9:7 g:5 m:5 o:7",
            0o4757,
        ),
        ("u:0 g:0 o:0", 0o777, "u:0 g:0 o:0", 0),
    ] {
        let mut inherited = list(text);
        assert_eq!(inherited.restrict(asked), mode, "{text}");
        assert_eq!(inherited, list(gets), "{text}");
    }
}

//! Conversion of attributes to bytes and back; invalid bytes.

use super::*;

fn name(whole: &str) -> AttributeName {
    AttributeName::parse(whole.as_bytes()).expect("a name")
}

fn set(attributes: &[(&str, &[u8])]) -> AttributeSet {
    let mut set = AttributeSet::default();
    for (whole, value) in attributes {
        set.put(&name(whole), Value::Bytes(value.to_vec()));
    }
    set
}

const SOME: &[(&str, &[u8])] = &[
    ("user.long", b"0123456789"),
    ("user.a", b""),
    ("security.x", b"12345"),
    ("user.b", b"1"),
    ("system.posix_acl_access", b"abcd"),
];

#[test]
fn what_is_written_is_read_wherever_it_begins() {
    for first in [0, 32] {
        for count in 0..=SOME.len() {
            let set = set(&SOME[..count]);
            let mut place = vec![0x5A; first + set.bytes()];
            set.encode(&mut place, first, first > 0);
            assert_eq!(AttributeSet::decode(&place, first, false), Ok(set.clone()));
            assert!(place[..first].iter().all(|byte| *byte == 0x5A));
        }
    }
}

#[test]
fn the_order_is_that_of_linux_and_does_not_tell_the_history() {
    let one = set(SOME);
    let mut reversed = SOME.to_vec();
    reversed.reverse();
    assert_eq!(one, set(&reversed));
    let names: Vec<String> = one
        .names()
        .map(|name| String::from_utf8(name.whole().expect("seen")).expect("text"))
        .collect();
    let expected = [
        "user.a",
        "user.b",
        "user.long",
        "system.posix_acl_access",
        "security.x",
    ];
    assert_eq!(names, expected);
}

#[test]
fn values_are_replaced_and_taken_away() {
    let mut all = set(SOME);
    let new = Value::Bytes(b"new".to_vec());
    all.put(&name("user.a"), new.clone());
    assert_eq!(all.get(&name("user.a")), Some(&new));
    assert_eq!(all.names().count(), SOME.len());
    assert!(all.remove(&name("user.a")));
    assert!(!all.remove(&name("user.a")));
    assert_eq!(all.get(&name("user.a")), None);
}

/// The entry of a value in an inode of its own takes no room for the value, and keeps its hash.
#[test]
fn values_in_inodes_take_no_room() {
    let reference = Reference {
        inode: InodeNr::new(15),
        size: 65536,
        hash: 0x6610_6946,
    };
    let mut set = set(SOME);
    let before = set.bytes();
    set.put(&name("user.big"), Value::Inode(reference));
    assert_eq!(set.bytes(), before + 20);
    let mut place = vec![0; set.bytes()];
    set.encode(&mut place, 0, false);
    assert_eq!(AttributeSet::decode(&place, 0, true), Ok(set.clone()));
    let found: Vec<Reference> = set.references().map(|(_, found)| *found).collect();
    assert_eq!(found, [reference]);
    let without = AttributeSet::decode(&place, 0, false);
    assert_eq!(without, Err("a value lies in an inode of its own"));
}

/// Returns a place of 64 bytes without a header and with one attribute, whose value is in the last
/// four.
fn sample() -> Vec<u8> {
    let mut place = vec![0; 64];
    set(&[("user.ab", b"v")]).encode(&mut place, 0, false);
    place
}

#[test]
fn bytes_that_cannot_be_are_refused() {
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut place = sample();
        change(&mut place);
        AttributeSet::decode(&place, 0, false).err()
    };
    assert_eq!(error(&|_| {}), None);
    for (change, why) in [
        (
            &(|place: &mut Vec<u8>| place.truncate(2)) as &dyn Fn(&mut Vec<u8>),
            "the entries have no end",
        ),
        (&|place| place.truncate(12), "an entry is cut off"),
        (&|place| place[0] = 60, "a name is cut off"),
        (&|place| place[4] = 1, "a value lies in an inode of its own"),
        (&|place| place[2] = 64, "a value lies outside its place"),
        (&|place| place[11] = 0xFF, "a value lies outside its place"),
        (&|place| place[2] = 20, "a value lies among the entries"),
        (
            &|place| place[20..].fill(1),
            "a value lies in an inode of its own",
        ),
    ] {
        assert_eq!(error(change), Some(why));
    }
}

/// Overlapping values take more room when they are written again.
#[test]
fn values_that_overlap_are_refused() {
    let mut place = vec![0; 80];
    let values: [(&str, &[u8]); 2] = [("user.a", &[1; 16]), ("user.b", &[2; 8])];
    set(&values).encode(&mut place, 0, false);
    assert!(AttributeSet::decode(&place, 0, false).is_ok());
    for (offset, is_refused) in [(64, true), (60, true), (57, true), (56, false), (73, true)] {
        place[20 + 2] = offset;
        let decoded = AttributeSet::decode(&place, 0, false);
        assert_eq!(decoded.is_err(), is_refused, "{offset}");
    }
}

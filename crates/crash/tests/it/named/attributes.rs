//! Extended attributes and access control lists.

use super::check;
use crash::rule::Rule::{F1, U2, U3, U7};

/// generic/066: an attribute that had been removed came back in spite of fsync; and in the second
/// half, where another file is synced after a link was made.
#[test]
fn removed_attribute() {
    check(
        &[F1, U3],
        "create(f); setxattr(f,a,4); setxattr(f,b,4); setxattr(f,c,4); sync |
         removexattr(f,b); fsync(f); append(f,1); fsync(f); removexattr(f,a); link(f,g); create(h); fsync(h)",
    );
}

/// generic/489: attributes were lost after several sync calls with a commit between them.
#[test]
fn attributes_of_a_file_that_is_synced_twice() {
    check(
        &[F1, U3],
        "sync | create(f); setxattr(f,a,6); setxattr(f,b,11); setxattr(f,c,4); fsync(f); sync; write(f,0,20); fsync(f)",
    );
}

/// A block of attributes that two files share, until one of them gets others or goes.
#[test]
fn shared_attributes() {
    check(
        &[U2, U3, U7],
        "create(f); create(g); create(h) |
         setxattr(f,a,200); setxattr(g,a,200); sync; setxattr(h,a,200); setxattr(f,a,60); unlink(g); fsync(f); removexattr(h,a); sync",
    );
}

/// A new node has its directory's list from the instant at which its name is there.
#[test]
fn inherited_list() {
    check(
        &[U3, U7],
        "mkdir(d) | setfacl-default(d,750); create(d/f); mkdir(d/g); fsync(d/f); setfacl(d/f,640); create(d/g/h); sync",
    );
}

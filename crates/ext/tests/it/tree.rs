//! A tree in a form common to all readers: [`testkit::tree`].

pub use testkit::tree::{Node, Tree, difference, of_folder};

/// Compares the tree of one reader with the expected one, except for parts that either cannot read.
pub fn assert_same(expected: &Tree, seen: &Tree, who: &str) {
    if let Some(difference) = difference(expected, seen) {
        panic!("{who}: {difference}");
    }
}

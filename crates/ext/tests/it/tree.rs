//! A tree as everybody can describe it: [`testkit::tree`].

pub use testkit::tree::{Node, Tree, difference, of_folder};

/// Compares what one sees with what is expected; what either cannot tell is not compared.
pub fn assert_same(expected: &Tree, seen: &Tree, who: &str) {
    if let Some(difference) = difference(expected, seen) {
        panic!("{who}: {difference}");
    }
}

//! Small crates with and without circles.

use crate::Report;
use crate::source::Sources;

/// Returns the report on a crate of these files.
fn report(files: &[(&str, &str)]) -> Report {
    let mut sources = Sources::new();
    for (name, text) in files {
        sources.insert((*name).to_owned(), (*text).to_owned());
    }
    Report::of("lib.rs", &sources)
}

/// Returns the circles of a crate, each as the names of its files in order.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let report = report(files);
    let mut found = Vec::new();
    for knot in &report.knots {
        let names = knot
            .files
            .iter()
            .map(|file| report.tree.files[*file].name.clone());
        let mut names: Vec<String> = names.collect();
        names.sort();
        found.push(names);
    }
    found
}

/// Returns the circles of a crate of `lib.rs`, `a.rs` and `b.rs`.
fn two(a: &str, b: &str) -> Vec<Vec<String>> {
    circles(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)])
}

fn assert_circle(a: &str, b: &str) {
    assert_eq!(two(a, b), [["a.rs", "b.rs"]], "{a}\n{b}");
}

fn assert_none(a: &str, b: &str) {
    assert!(two(a, b).is_empty(), "{a}\n{b}");
}

/// The file `b`, which `a` uses in different ways.
const B: &str = "use crate::a::A; pub struct B(A); pub fn f() {}";

#[test]
fn a_use_in_any_place_counts() {
    for a in [
        "use crate::b::B; pub struct A;",
        "use super::b::{self, B as C}; pub struct A;",
        "pub struct A; pub struct X(crate::b::B);",
        "pub struct A; impl From<super::b::B> for A {}",
        "use crate::b; pub struct A; fn g() { b::f() }",
        "pub struct A; fn g() { use crate::b; b::f() }",
        "pub struct A; fn g(x: u8) { match x { crate::b::B => (), _ => () } }",
        "pub struct A; fn g() -> Vec<Option<crate::b::B>> { todo() }",
        "pub struct A; fn g() { assert_eq!(crate::b::f(), (), \"f\") }",
        "pub struct A; fn g(x: u8) { matches!(x, crate::b::B | 1 if true) }",
        "pub struct A; table! { x => crate::b::f }",
        "pub struct A; macro_rules! m { () => { $crate::b::f() } }",
        "use crate::b::*; pub struct A;",
        "pub use crate::b::B as Other; pub struct A;",
        "pub struct A; mod inner { use super::super::b::B; }",
        "pub struct A; #[cfg(feature = \"x\")] use crate::b::B;",
        "pub struct A; #[cfg(any(test, feature = \"x\"))] use crate::b::B;",
    ] {
        assert_circle(a, B);
    }
}

#[test]
fn what_is_no_use_does_not_count() {
    for a in [
        "pub struct A;",
        "pub struct A; use crate::b;",
        "pub struct A; #[cfg(test)] use crate::b::B;",
        "pub struct A; #[cfg(all(test, unix))] fn g() { crate::b::f() }",
        "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        "pub struct A; #[cfg(test)] mod missing;",
        "pub struct A; impl A { #[cfg(test)] fn g() { crate::b::f() } }",
        "pub struct A; /// See [`crate::b::B`].\n fn g() {}",
        "pub struct A; fn g() { let b = 1; let f = b; f }",
        "pub struct A; fn g() { ::b::f(); std::b::f() }",
    ] {
        assert_none(a, B);
    }
}

#[test]
fn a_macro_counts_where_it_is_defined() {
    assert_circle(
        "pub struct A; fn g() { shout!() }",
        "macro_rules! shout { () => {} } use crate::a::A;",
    );
    assert_circle(
        "pub struct A; fn g() { crate::shout!() }",
        "#[macro_export] macro_rules! shout { () => {} } use crate::a::A;",
    );
    assert_circle(
        "use crate::b::Made; pub struct A;",
        "unit! { Made, u64 } use crate::a::A;",
    );
}

#[test]
fn a_method_belongs_to_its_type() {
    let extended = "use crate::a::A; impl A { pub fn more(&self) {} }";
    assert_none(
        "pub struct A; impl A { fn g(&self) { self.more(); A::more(self) } }",
        extended,
    );
    let b = "pub struct B(crate::a::A); impl B { pub const ZERO: u8 = 0; }";
    assert_circle("pub struct A([u8; crate::b::B::ZERO]);", b);
}

#[test]
fn a_re_export_is_followed_to_the_definition() {
    // `hub` re-exports items of `low`. A use of `hub`'s items by `low` closes a circle; a use of
    // `hub` by `a` does not.
    let hub = "pub use crate::low::Low; pub use crate::low::*; pub struct Hub(crate::a::A);";
    let files = |a, low| {
        [
            ("lib.rs", "mod a; mod hub; mod low;"),
            ("a.rs", a),
            ("hub.rs", hub),
            ("low.rs", low),
        ]
    };
    let low = "pub struct Low; pub struct Other; unit! { Made }";
    for a in [
        "use crate::hub::Low; pub struct A;",
        "use crate::hub::Other; pub struct A;",
        "use crate::hub::Made; pub struct A;",
        "use crate::hub; pub struct A(hub::Low);",
    ] {
        assert!(circles(&files(a, low)).is_empty(), "{a}");
    }
    let a = "use crate::hub::Hub; pub struct A;";
    assert_eq!(circles(&files(a, low)), [["a.rs", "hub.rs"]]);
    let a = "use crate::hub::Low; pub struct A;";
    let up = "use crate::a::A; pub struct Low;";
    assert_eq!(circles(&files(a, up)), [["a.rs", "low.rs"]]);
}

#[test]
fn a_function_and_a_module_may_have_one_name() {
    let files = [
        ("lib.rs", "mod a; mod b; mod low; pub use b::low;"),
        ("a.rs", "use crate::low::Low; pub struct A;"),
        ("b.rs", "use crate::a::A; pub fn low() {}"),
        ("low.rs", "pub struct Low;"),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn a_glob_hands_on_public_imports_only() {
    // `a` imports all names of `b`. If the name `Low` is among them, `a` and `low` are a circle
    // without `b`.
    let shortest = |b| {
        let files = [
            ("lib.rs", "mod a; mod b; mod low;"),
            ("a.rs", "use crate::b::*; pub struct A(Low);"),
            ("b.rs", b),
            ("low.rs", "use crate::a::A; pub struct Low;"),
        ];
        report(&files).knots[0].shortest.len()
    };
    assert_eq!(shortest("pub use crate::low::Low;"), 2);
    assert_eq!(shortest("use crate::low::Low;"), 3);
}

#[test]
fn a_parent_and_its_children_are_apart() {
    let parent = "mod b; mod c; pub struct A; pub use b::B; fn g() { b::f(); c::f() }";
    let files = |b, c, other| {
        [
            ("lib.rs", "mod a; mod other; pub struct Root; pub use a::B;"),
            ("a.rs", parent),
            ("a/b.rs", b),
            ("a/c.rs", c),
            ("other.rs", other),
        ]
    };
    let b = "use super::A; use super::c; pub struct B; pub fn f() { c::f() }";
    let c = "use super::A; use crate::Root; pub struct C; pub fn f() {}";
    assert!(circles(&files(b, c, "use crate::B; use crate::Root;")).is_empty());

    // Two children: a circle, from which their parent is removed.
    let back = "use super::{A, B}; pub fn f() {}";
    assert_eq!(circles(&files(b, back, "")), [["a/b.rs", "a/c.rs"]]);

    // From a child to another module and back to the parent or to another child: a circle.
    let out = "use super::A; use crate::other::O; pub fn f() {}";
    let home = "use crate::a::A; pub struct O;";
    assert_eq!(
        circles(&files(b, out, home)),
        [["a.rs", "a/b.rs", "a/c.rs", "other.rs"]]
    );
    let sibling = "use crate::B; pub struct O;";
    assert_eq!(
        circles(&files(b, out, sibling)),
        [["a.rs", "a/b.rs", "a/c.rs", "other.rs"]]
    );
}

#[test]
fn the_shortest_circle_is_shown_with_its_lines() {
    let report = report(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "//! A.\nuse crate::b::B;\npub struct A;"),
        ("b.rs", "use crate::c::C;\n\npub struct B(crate::a::A);"),
        ("c.rs", "use crate::a::A;\npub struct C;"),
    ]);
    assert_eq!(report.largest(), 3);
    let shown = report.shortest(&report.knots[0]);
    let mut lines: Vec<&str> = shown.lines().map(str::trim).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "a.rs:2 uses b.rs: use crate::b::B;",
            "b.rs:3 uses a.rs: pub struct B(crate::a::A);",
        ]
    );
}

#[test]
fn imports_that_name_each_other_end() {
    assert_none(
        "pub use crate::b::x; pub use crate::b::*;",
        "pub use crate::a::x;",
    );
}

//! The header: made of the sources, understood by C and C++, and equal to what the library exports.

use std::collections::BTreeSet;
use std::fs;

use cbindgen::{Builder, Config};
use testkit::tool;

use crate::compiler::{check_syntax, here, library};

/// Environment variable that makes the test write the header.
const UPDATE: &str = "JEXT_UPDATE_HEADER";
/// Sources in the order of the header.
const SOURCES: &[&str] = &[
    "library",
    "callbacks",
    "device",
    "mkfs",
    "check",
    "volume",
    "tree",
    "attributes",
    "extended",
    "file",
    "directory",
];

fn generated() -> String {
    let config = Config::from_file(here("cbindgen.toml")).expect("the settings are valid");
    let mut builder = Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(here(&format!("src/{name}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().expect("C").write(&mut header);
    String::from_utf8(header).expect("UTF-8")
}

#[test]
fn the_header_is_up_to_date() {
    let (path, new) = (here("include/jext.h"), generated());
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &new).expect("the header can be written");
    }
    let old = fs::read_to_string(&path).expect("the header is there");
    assert!(
        old == new,
        "include/jext.h is not what the sources say: {UPDATE}=1 cargo test -p jext-capi header writes it"
    );
}

#[test]
fn compilers_of_c_and_cpp_take_the_header() {
    for (compiler, language, standards) in [
        ("cc", "c", ["-std=c99", "-std=c17"]),
        ("g++", "c++", ["-std=c++11", "-std=c++20"]),
    ] {
        for standard in standards {
            check_syntax(compiler, language, standard);
        }
    }
}

/// Returns the words of a text that begin as functions of the library.
fn functions<'a>(words: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    words.filter(|word| word.starts_with("jext_")).collect()
}

#[test]
fn the_library_exports_the_functions_of_the_header() {
    let header = fs::read_to_string(here("include/jext.h")).expect("the header is there");
    let code = header.lines().filter(|line| !line.starts_with(" *"));
    let calls = code.filter_map(|line| line.split_once('('));
    let names = calls.filter_map(|(before, _)| before.rsplit([' ', '*']).next());
    let declared = functions(names);
    assert!(declared.contains("jext_volume_open"), "{declared:?}");

    let library = library().display().to_string();
    let symbols = tool::run_well("nm", &["-D", "--defined-only", &library]);
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|name| *name != "rust_eh_personality")
        .collect();
    assert_eq!(exported, declared);
}

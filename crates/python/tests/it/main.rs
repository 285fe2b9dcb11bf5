//! The Python package with the module that cargo has built beside this test: its tests, examples
//! and types, by the Python of the machine. `scripts/python-wheel` does the same with a wheel.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the real world: environment, processes, files"
)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version in the description of the package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies in crates/")
        .to_path_buf()
}

/// Runs a command, and fails with its output unless it succeeds.
fn run(command: &mut Command, advice: &str) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {advice}"));
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{advice}\n{out}\n{error}");
    out.into_owned()
}

/// Returns the Python of an environment with what the tests need. It is made once for each list of
/// packages.
fn python() -> PathBuf {
    let list = root().join("python/tests/requirements.txt");
    let wanted = fs::read_to_string(&list).expect("the list is there");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-environment");
    let (python, made) = (folder.join("bin/python"), folder.join("made"));
    if fs::read_to_string(&made).is_ok_and(|text| text == wanted) {
        return python;
    }
    let advice = "python3 with venv is needed: run scripts/install-test-tools";
    let venv = ["-m", "venv", "--clear"];
    run(Command::new("python3").args(venv).arg(&folder), advice);
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ];
    run(
        Command::new(&python).args(install).arg(&list),
        "PyPI is needed",
    );
    fs::write(&made, wanted).expect("there is room");
    python
}

/// Returns the module that cargo has built with this test.
fn module() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let module = test.with_file_name("libjext_python.so");
    assert!(module.exists(), "{}: cargo builds it", module.display());
    module
}

/// Makes a folder as an installation of the package has it: the sources, the module, the entry
/// points.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    let package = folder.path().join("jext");
    fs::create_dir(&package).expect("there is room");
    let sources = root().join("python/src/jext");
    for entry in fs::read_dir(&sources).expect("the sources are there") {
        let entry = entry.expect("readable");
        if entry.file_name() != "__pycache__" {
            symlink(entry.path(), package.join(entry.file_name())).expect("there is room");
        }
    }
    symlink(module(), package.join("_native.abi3.so")).expect("there is room");
    let described = folder.path().join(format!("jext-{VERSION}.dist-info"));
    fs::create_dir(&described).expect("there is room");
    let metadata = format!("Metadata-Version: 2.1\nName: jext\nVersion: {VERSION}\n");
    fs::write(described.join("METADATA"), metadata).expect("there is room");
    fs::write(described.join("entry_points.txt"), entry_points()).expect("there is room");
    folder
}

/// Returns the entry points of pyproject.toml in the form of an installation.
fn entry_points() -> String {
    let text = fs::read_to_string(root().join("python/pyproject.toml")).expect("it is there");
    let start = "[project.entry-points.\"fsspec.specs\"]\n";
    let (_, rest) = text.split_once(start).expect("fsspec finds the package");
    let points = rest.lines().take_while(|line| !line.is_empty());
    let points: Vec<String> = points.map(|line| line.replace('"', "")).collect();
    format!("[fsspec.specs]\n{}\n", points.join("\n"))
}

#[test]
fn the_package_passes_its_tests() {
    let (python, installed) = (python(), installed());
    let out = run(
        Command::new(root().join("scripts/python-tests"))
            .arg(&python)
            .env("PYTHONPATH", installed.path())
            .env_remove("SOURCE_DATE_EPOCH")
            .env_remove("JEXT_LOG"),
        "scripts/python-tests fails",
    );
    let passed = out.lines().filter(|line| line.contains(" passed in "));
    assert_eq!(passed.count(), 2, "tests and examples: {out}");
    assert!(
        !out.contains("skipped") || env::var_os("JEXT_TEST_UNPRIVILEGED").is_some(),
        "{out}"
    );
    assert!(out.contains("Success: no issues found"), "{out}");
}

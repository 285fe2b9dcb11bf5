//! The compilers of C and C++, and programs with the library that cargo has built.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::tool;

/// Warnings, all of which are errors. In C++, `-Wshadow` would warn of structures and functions of
/// one name, such as `jext_stat`.
const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Returns a path within this crate.
pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the library that cargo has built with this test.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let library = test.with_file_name("libjext_capi.so");
    assert!(library.exists(), "{}: cargo builds it", library.display());
    library
}

/// Compiles a program in C99 and links it with the library.
pub(crate) fn compile(source: &Path, program: &Path) {
    let (library, include) = (library(), here("include"));
    let folder = library.parent().expect("it lies in a folder");
    let mut arguments: Vec<String> = vec!["-std=c99".into(), "-D_DEFAULT_SOURCE".into()];
    arguments.extend(WARNINGS.iter().map(|warning| (*warning).to_owned()));
    arguments.extend(["-g", "-O1", "-pthread", "-I"].map(str::to_owned));
    arguments.push(include.display().to_string());
    arguments.extend(["-o".to_owned(), program.display().to_string()]);
    arguments.push(source.display().to_string());
    arguments.push(library.display().to_string());
    arguments.push(format!("-Wl,-rpath,{}", folder.display()));
    tool::run_well("cc", &arguments);
}

/// Compiles a source that only includes the header, in a standard of C or C++.
pub(crate) fn check_syntax(compiler: &str, language: &str, standard: &str) {
    let include = here("include").display().to_string();
    let source = here("tests/c/header.c").display().to_string();
    let mut arguments = vec!["-fsyntax-only", "-x", language, standard, "-I", &include];
    arguments.extend(WARNINGS);
    arguments.push(&source);
    tool::run_well(compiler, &arguments);
}

/// Runs a program under valgrind, which fails on an invalid access and on a leak.
///
/// Threads take turns: otherwise valgrind lets two that never wait run for minutes while a third
/// starves. A forked child that kills itself leaves its memory, which is not reported.
pub(crate) fn run(program: &Path, arguments: &[&str], folder: &Path) -> String {
    let valgrind = ["/usr/bin/valgrind", "/usr/local/bin/valgrind"];
    let found = valgrind.iter().find(|path| Path::new(path).exists());
    let found =
        found.unwrap_or_else(|| panic!("valgrind is needed: run scripts/install-test-tools"));
    let output: Output = Command::new(found)
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .args(["--fair-sched=yes", "--child-silent-after-fork=yes"])
        .arg(format!(
            "--suppressions={}",
            here("tests/valgrind.supp").display()
        ))
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .env_remove("JEXT_LOG")
        .output()
        .expect("valgrind runs");
    let said = tool::said(&output);
    assert!(output.status.success(), "{}: {said}", program.display());
    String::from_utf8(output.stdout).expect("the programs print UTF-8")
}

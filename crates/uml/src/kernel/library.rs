//! The libraries that a kernel is started with, compiled from C.
//!
//! | library | compiled | what it does |
//! |---|---|---|
//! | `seeded.c` | with the kernel | feeds the kernel's random numbers from a seed |
//! | `registers.c` | when a guest starts, once | restores registers on a processor with AMX |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

use super::Kernel;
use crate::GuestError;

const SEEDED_SOURCE: &str = include_str!("seeded.c");
const REGISTERS_SOURCE: &str = include_str!("registers.c");
/// The flag in `/proc/cpuinfo` of a processor with more registers than Linux 6.1 keeps for a guest.
const MANY_REGISTERS: &str = "amx_tile";

/// Compiles the library that feeds random numbers.
pub(super) fn compile_seeded(library: &Path) -> Result<(), GuestError> {
    compile(SEEDED_SOURCE, library)
}

/// Returns the library that restores registers; `None` if this processor does not need it.
pub(super) fn registers() -> Result<Option<PathBuf>, GuestError> {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !has_many_registers(&processors) {
        return Ok(None);
    }
    let folder = Kernel::folder_or_error()?;
    // The name changes with the source.
    let version = layout::checksum::crc32c(0, REGISTERS_SOURCE.as_bytes());
    let library = folder.join(format!("registers-{version:08x}.so"));
    if !library.is_file() {
        fs::create_dir_all(&folder).map_err(GuestError::at(folder.display().to_string()))?;
        // Another process may do the same.
        let new = folder.join(format!("registers-{}.so", id()));
        compile(REGISTERS_SOURCE, &new)?;
        fs::rename(&new, &library).map_err(GuestError::at(library.display().to_string()))?;
    }
    Ok(Some(library))
}

fn has_many_registers(processors: &str) -> bool {
    processors
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == MANY_REGISTERS))
}

fn compile(source: &str, library: &Path) -> Result<(), GuestError> {
    let text = library.with_extension("c");
    fs::write(&text, source).map_err(GuestError::at(text.display().to_string()))?;
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(&text);
    let output = compiler.output();
    let removed = fs::remove_file(&text);
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => GuestError::Missing(
            "gcc is missing, which compiles a library for guests; apt-get install gcc libc6-dev"
                .to_owned(),
        ),
        _ => GuestError::at("gcc")(error),
    })?;
    removed.map_err(GuestError::at(text.display().to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let message = String::from_utf8_lossy(&output.stderr);
            Err(GuestError::Missing(format!(
                "gcc: {}; guests need a library\n{}",
                output.status,
                message.trim_end()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_compiled() {
        let folder = tempfile::tempdir().expect("a folder");
        for (source, name) in [
            (SEEDED_SOURCE, "seeded.so"),
            (REGISTERS_SOURCE, "registers.so"),
        ] {
            let library = folder.path().join(name);
            compile(source, &library).expect("gcc is installed with Rust");
            assert!(library.is_file(), "{name}");
        }
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 2);
    }

    #[test]
    fn an_error_has_what_the_compiler_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = compile("int x = y;\n", &folder.path().join("x.so")).expect_err("no y");
        assert!(error.to_string().contains("'y' undeclared"), "{error}");
    }

    #[test]
    fn a_processor_with_many_registers_is_known_by_its_flag() {
        assert!(has_many_registers(
            "model\t: 1\nflags\t\t: fpu amx_tile avx\n"
        ));
        assert!(!has_many_registers(
            "flags\t\t: fpu amx_tiles\nmodel name: amx_tile\n"
        ));
        assert!(!has_many_registers(""));
    }
}

//! [`Library`]: the libraries that a kernel is started with, which are parts of this program.

use std::fs;

use serde::{Deserialize, Serialize};

/// The flag in `/proc/cpuinfo` of a processor with more registers than Linux 6.1 keeps for a guest.
const MANY_REGISTERS: &str = "amx_tile";

/// A library that is loaded before the kernel's own. Its source is in C, beside this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Library {
    /// Feeds the kernel's random numbers from a seed.
    Seeded,
    /// Restores the registers of a guest's programs on a processor with AMX.
    Registers,
}

impl Library {
    /// Returns [`Library::Registers`] if this processor needs it.
    pub(super) fn registers() -> Option<Self> {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        has_many_registers(&processors).then_some(Self::Registers)
    }

    /// Returns its file name inside a cage.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Seeded => "seeded.so",
            Self::Registers => "registers.so",
        }
    }

    /// Returns the contents of its file.
    pub(crate) fn contents(self) -> &'static [u8] {
        match self {
            Self::Seeded => include_bytes!(concat!(env!("OUT_DIR"), "/seeded.so")),
            Self::Registers => include_bytes!(concat!(env!("OUT_DIR"), "/registers.so")),
        }
    }
}

fn has_many_registers(processors: &str) -> bool {
    processors
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == MANY_REGISTERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_compiled() {
        for library in [Library::Seeded, Library::Registers] {
            assert_eq!(&library.contents()[..4], b"\x7fELF", "{library:?}");
        }
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

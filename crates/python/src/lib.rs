//! The native half of the Python package `jext`: the module `jext._native`.
//!
//! It offers calls of the engine with plain values: bytes, numbers, tuples and dictionaries. The
//! Python half, `python/src/jext`, has the types, file objects and documents that users see.
//!
//! # Locks and the GIL
//!
//! - **Every call of the engine runs with the GIL released** (`Python::detach`): other threads of
//!   the program go on, and a device that is a Python object can be called.
//! - A thread holds no lock of this crate or of the engine while it waits for the GIL, apart from
//!   the read lock that keeps a volume from being closed during a call. Nothing that runs with the
//!   GIL held waits for that lock.
//! - A device that is a Python object is called by a thread of its own, which holds no lock of the
//!   engine (`object_device`).
//!
//! # Interruption
//!
//! Long calls run on a thread of their own while the caller looks for signals (`interruption`).
//! Calls on a volume are not interrupted in the middle, as system calls on a disk are not.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "Python lives in the real world"
)]

mod attributes;
mod build;
mod check;
mod device;
mod errors;
mod file;
mod format;
mod interruption;
mod lab_run;
mod object_device;
mod paths;
mod shared;
mod volume;

use pyo3::prelude::*;

/// The functions and types that the Python half uses; not an interface for others.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::build::{build, publish};
    #[pymodule_export]
    use crate::check::check;
    #[pymodule_export]
    use crate::errors::DamageError;
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::format::{mkfs, mkjournal, size_of};
    #[pymodule_export]
    use crate::lab_run::{plan_names, run_plan};
    #[pymodule_export]
    use crate::volume::Volume;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! Errors of the engine as exceptions: `OSError` and its subclasses by `errno`, `DamageError` for
//! damage, `ValueError` for wrong arguments.

use std::error::Error as StdError;
use std::ffi::OsString;

use jext::fsck;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::paths::VolumePath;

create_exception!(
    jext,
    DamageError,
    PyOSError,
    "The bytes of the file system are invalid. `errno` is EUCLEAN, or EBADMSG for a checksum."
);

/// The reason why a call failed.
pub(crate) enum Failure {
    /// The volume was closed.
    Closed,
    /// The volume belongs to this other process, which has forked.
    OtherProcess(u32),
    /// An argument is wrong.
    Argument(String),
    /// The engine failed.
    Engine(Box<dyn StdError + Send + Sync>),
    /// Several layers failed, the innermost last.
    Context(anyhow::Error),
}

impl Failure {
    /// Returns the exception, which names a path within the volume.
    pub(crate) fn into_exception(self, py: Python<'_>, path: Option<&VolumePath>) -> PyErr {
        self.into_exception_with(path.map(|path| path.given(py)))
    }

    /// Returns the exception, which names a path of the host.
    pub(crate) fn into_exception_at(self, py: Python<'_>, path: OsString) -> PyErr {
        let path = path.into_pyobject(py).map(|path| path.into_any().unbind());
        self.into_exception_with(path.ok())
    }

    fn into_exception_with(self, path: Option<Py<PyAny>>) -> PyErr {
        match self {
            Self::Closed => PyValueError::new_err("the volume is closed"),
            Self::OtherProcess(owner) => PyRuntimeError::new_err(format!(
                "the volume belongs to process {owner}, which forked this one: open it here, when it is closed there"
            )),
            Self::Argument(text) => PyValueError::new_err(text),
            Self::Engine(error) => exception(&*error, &error.to_string(), path),
            Self::Context(error) => exception(error.as_ref(), &format!("{error:#}"), path),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Engine(Box::new(error))
    }
}

/// Returns the exception for an error whose text includes its causes.
fn exception(error: &(dyn StdError + 'static), text: &str, path: Option<Py<PyAny>>) -> PyErr {
    let number = jext::errno::of(error);
    // `OSError` chooses its subclass by the number.
    let arguments = (number, text.to_owned(), path);
    match is_damage(error) {
        true => DamageError::new_err(arguments),
        false => PyOSError::new_err(arguments),
    }
}

/// Returns true if the bytes of a file system or a journal are invalid.
fn is_damage(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<jext::Error>() {
            return matches!(
                error,
                jext::Error::Corrupt(_) | jext::Error::Journal(jext::journal::Error::Corrupt(_))
            );
        }
        if let Some(error) = error.downcast_ref::<fsck::Error>() {
            return matches!(error, fsck::Error::NoSuperblock { .. });
        }
        cause = error.source();
    }
    false
}

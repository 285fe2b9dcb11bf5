//! Paths as Python gives them: `str`, `bytes`, or an object with `__fspath__`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A path within a volume.
///
/// Text is UTF-8, where lone surrogates U+DC80 to U+DCFF stand for bytes that are not
/// (`surrogateescape`).
pub(crate) struct VolumePath {
    bytes: Vec<u8>,
    /// The text or bytes that were given, for the attribute `filename` of errors.
    given: Py<PyAny>,
}

impl VolumePath {
    /// Returns the bytes of the path.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the text or bytes that were given.
    pub(crate) fn given(&self, py: Python<'_>) -> Py<PyAny> {
        self.given.clone_ref(py)
    }
}

impl<'py> FromPyObject<'_, 'py> for VolumePath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = fs_path(&object)?;
        let bytes = encoded(&given)?;
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        Ok(Self {
            bytes,
            given: given.unbind(),
        })
    }
}

/// Returns the text or bytes of a path: those of its `__fspath__`, if it has one.
fn fs_path<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
        return Ok(object.clone());
    }
    let py = object.py();
    py.import("os")?.call_method1("fspath", (object,))
}

fn encoded(text: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let encoded = text.call_method1("encode", ("utf-8", "surrogateescape"))?;
    match encoded.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => Err(PyTypeError::new_err("a path is str, bytes or os.PathLike")),
    }
}

/// An image: a path of the host, or a binary file object.
pub(crate) enum Image {
    /// A path of the host.
    Path(PathBuf),
    /// A seekable binary file object.
    Object(Py<PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Image {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let is_path = object.is_instance_of::<PyString>()
            || object.is_instance_of::<PyBytes>()
            || object.hasattr("__fspath__")?;
        // Temporary files of Python have neither type, and both methods.
        if !is_path && object.hasattr("read")? && object.hasattr("seek")? {
            return Ok(Self::Object(object.to_owned().unbind()));
        }
        if !is_path {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "an image is a path or a seekable binary file object, not {kind}"
            )));
        }
        host_path(&object).map(Self::Path)
    }
}

/// Returns a path of the host.
pub(crate) fn host_path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let encoded = object
        .py()
        .import("os")?
        .call_method1("fsencode", (object,))?;
    let bytes: Vec<u8> = encoded.extract()?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

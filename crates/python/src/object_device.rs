//! A device whose storage is a Python object: a seekable binary file.
//!
//! A thread of its own calls the object, so that
//!
//! - nothing calls Python while it holds a lock of the engine;
//! - signal handlers of Python, which run on the main thread, do not raise in the middle of a
//!   commit.
//!
//! A flush calls the object's `flush`, and `fsync` if the object is a file of the host. The object
//! must not be used by others meanwhile: the position is moved.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use jext::device::{
    Block, Completer, DetachedErrors, Geometry, Outcome, Request, Results, SectorNr, Ticket,
    payload_from_bytes, payload_to_bytes,
};
use jext::{BlockDevice, DeviceError};
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// `SEEK_SET` and `SEEK_END` of Python's `io`.
const SEEK_SET: u8 = 0;
const SEEK_END: u8 = 2;
/// The number of `errno` for a full device.
const NO_SPACE: i32 = 28;

/// The newest exception that the object has raised: the cause of an error of the engine.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A batch for the thread.
struct Job {
    batch: Vec<Request>,
    completer: Completer,
}

/// A device whose storage is a Python object.
pub(crate) struct ObjectDevice {
    name: String,
    geometry: Geometry,
    jobs: Mutex<Sender<Job>>,
    detached: Arc<DetachedErrors>,
    raised: Raised,
}

/// The thread's side of a device.
struct Storage {
    object: Py<PyAny>,
    name: String,
    geometry: Geometry,
    raised: Raised,
}

impl ObjectDevice {
    /// Creates a device on a file object. A missing size is written before, if it is given.
    ///
    /// # Errors
    /// Fails if the object is no seekable binary file, or cannot be written although it has to be.
    pub(crate) fn open(
        object: &Bound<'_, PyAny>,
        is_read_only: bool,
        create_bytes: Option<u64>,
    ) -> PyResult<Self> {
        check(object, is_read_only)?;
        let mut size: u64 = object.call_method1("seek", (0, SEEK_END))?.extract()?;
        if size == 0
            && let Some(bytes) = create_bytes
        {
            object.call_method1("truncate", (bytes,))?;
            size = object.call_method1("seek", (0, SEEK_END))?.extract()?;
            if size == 0 {
                // A `BytesIO` does not grow by `truncate`.
                object.call_method1("seek", (bytes - 1, SEEK_SET))?;
                object.call_method1("write", (PyBytes::new(object.py(), &[0]),))?;
                size = object.call_method1("seek", (0, SEEK_END))?.extract()?;
            }
        }
        if size < SectorNr::SIZE {
            return Err(PyValueError::new_err(format!(
                "the file object has {size} bytes: it holds no file system"
            )));
        }
        let geometry = Geometry {
            is_read_only,
            ..Geometry::new(size)
        };
        let name = name(object)?;
        let (sender, receiver) = channel();
        let raised = Raised::default();
        let storage = Storage {
            object: object.clone().unbind(),
            name: name.clone(),
            geometry: geometry.clone(),
            raised: Arc::clone(&raised),
        };
        thread::Builder::new()
            .name("jext file object".to_owned())
            .spawn(move || storage.serve(&receiver))?;
        Ok(Self {
            name,
            geometry,
            jobs: Mutex::new(sender),
            detached: Arc::default(),
            raised,
        })
    }

    /// Returns the place of the newest exception.
    pub(crate) fn raised(&self) -> Raised {
        Arc::clone(&self.raised)
    }
}

/// Checks that an object is a binary file that can be read, moved in, and written if it has to be.
fn check(object: &Bound<'_, PyAny>, is_read_only: bool) -> PyResult<()> {
    let is_true = |method: &str| -> PyResult<bool> {
        match object.hasattr(method)? {
            true => object.call_method0(method)?.is_truthy(),
            false => Ok(true),
        }
    };
    let refuse = |what: &str| Err(PyValueError::new_err(format!("the file object {what}")));
    if !is_true("seekable")? {
        return refuse("is not seekable");
    }
    if !is_true("readable")? {
        return refuse("is not open for reading");
    }
    if !is_read_only && !is_true("writable")? {
        return refuse("is not open for writing: open it read_only=True");
    }
    if object.hasattr("encoding")? {
        return Err(PyTypeError::new_err(
            "a text file is no image: open it in binary mode",
        ));
    }
    Ok(())
}

/// Returns the name of a file object for messages.
fn name(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = object.getattr("name")
        && let Ok(name) = name.extract()
    {
        return Ok(name);
    }
    Ok(format!("<{}>", object.get_type().name()?))
}

impl BlockDevice for ObjectDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let (ticket, completer) = Ticket::pending_or_detached(Arc::clone(&self.detached));
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(refused) = jobs.send(Job { batch, completer }) {
            // The thread is gone.
            let Job { batch, completer } = refused.0;
            completer.complete(gone(&batch));
        }
        ticket
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.detached.take()
    }
}

/// Returns the results of a batch on a device that is gone.
fn gone(batch: &[Request]) -> Results {
    batch.iter().map(|_| Err(DeviceError::Gone)).collect()
}

impl Storage {
    /// Carries out batches until the device is dropped.
    fn serve(self, jobs: &Receiver<Job>) {
        for Job { batch, completer } in jobs {
            let results = Python::try_attach(|py| {
                let carried_out = batch.iter().map(|request| self.carry_out(py, request));
                carried_out.collect()
            });
            // The interpreter has ended.
            completer.complete(results.unwrap_or_else(|| gone(&batch)));
        }
        Python::try_attach(|py| self.object.drop_ref(py));
    }

    fn carry_out(&self, py: Python<'_>, request: &Request) -> Result<Outcome, DeviceError> {
        self.geometry.check(request)?;
        self.call(py, request)
            .map_err(|raised| self.failed(py, request, raised))
    }

    fn call(&self, py: Python<'_>, request: &Request) -> PyResult<Outcome> {
        let object = self.object.bind(py);
        let (sector, sectors) = request.range();
        let offset = sector.byte_offset();
        match request {
            Request::Read { block_bytes, .. } => {
                let bytes = read(object, offset, (sectors * SectorNr::SIZE) as usize)?;
                let payload = payload_from_bytes(&bytes, *block_bytes as usize);
                return Ok(Outcome::Read(payload));
            }
            Request::Write {
                payload,
                force_unit_access,
                ..
            } => {
                write(object, offset, payload)?;
                if *force_unit_access {
                    flush(object)?;
                }
            }
            Request::Flush => flush(object)?,
            // The contents of a discarded range are undefined.
            Request::Discard { .. } => {}
        }
        Ok(Outcome::Done)
    }

    /// Keeps an exception, and returns the error of the request.
    fn failed(&self, py: Python<'_>, request: &Request, raised: PyErr) -> DeviceError {
        let is_full = raised.is_instance_of::<PyOSError>(py)
            && (raised.value(py).getattr("errno"))
                .and_then(|number| number.extract::<i32>())
                .is_ok_and(|number| number == NO_SPACE);
        let error = match is_full && request.is_write() {
            true => DeviceError::NoSpace {
                device: self.name.clone(),
            },
            false => request.failed(self.name.clone(), raised.to_string()),
        };
        let mut newest = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(raised);
        error
    }
}

fn read(object: &Bound<'_, PyAny>, offset: u64, count: usize) -> PyResult<Vec<u8>> {
    object.call_method1("seek", (offset, SEEK_SET))?;
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        let part = object.call_method1("read", (count - bytes.len(),))?;
        let part = part.cast::<PyBytes>()?.as_bytes();
        if part.is_empty() || part.len() > count - bytes.len() {
            let text = format!("read {} of {count} bytes at {offset}", bytes.len());
            return Err(PyOSError::new_err(text));
        }
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

fn write(object: &Bound<'_, PyAny>, offset: u64, payload: &[Arc<Block>]) -> PyResult<()> {
    object.call_method1("seek", (offset, SEEK_SET))?;
    let bytes = payload_to_bytes(payload);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let written = object.call_method1("write", (PyBytes::new(object.py(), rest),))?;
        // A raw file may write less than it was given.
        let count: usize = written.extract()?;
        if count == 0 || count > rest.len() {
            let text = format!("wrote {count} of {} bytes", rest.len());
            return Err(PyOSError::new_err(text));
        }
        rest = &rest[count..];
    }
    Ok(())
}

fn flush(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.hasattr("flush")? {
        object.call_method0("flush")?;
    }
    // Only files of the host have a descriptor.
    if let Ok(descriptor) = object.call_method0("fileno") {
        let os = object.py().import("os")?;
        os.call_method1("fsync", (descriptor,))?;
    }
    Ok(())
}

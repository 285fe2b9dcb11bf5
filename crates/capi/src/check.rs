//! Checking a file system.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;

use jext::fsck::{self, Report, Severity};
use jext::{BlockDevice, MountOptions};
use rustix::io::Errno;

use crate::call::call;
use crate::device::{self, Device};
use crate::failure::{Failure, Result};
use crate::pointers;
use crate::superblock::needs_recovery;
use crate::versioned::{self, Versioned};
use crate::volume::overlay;

/// Options of a check. All zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CheckOptions {
    /// sizeof(struct jext_check_options).
    pub struct_size: usize,
    /// First byte of the file system in the image or device.
    pub offset: u64,
    /// Length of the file system in bytes; 0 for the rest.
    pub length: u64,
    /// Device of the external journal, for a file system that has one; may be NULL.
    pub journal: *mut Device,
}

// SAFETY: the size comes first, and zeros are null pointers and numbers.
unsafe impl Versioned for CheckOptions {
    const NAME: &'static str = "struct jext_check_options";
    const SIZE_MIN: usize = offset_of!(Self, journal) + size_of::<usize>();
}

/// A problem that a check has found.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Problem {
    /// One line: number, place, fact.
    pub text: *const c_char,
    /// Inode; 0 for none.
    pub inode: u64,
    /// Block; 0 for none.
    pub block: u64,
    /// Number of the kind of problem, which never changes its meaning.
    pub number: u32,
    /// Nonzero if the file system is not clean; 0 for a note.
    pub is_error: u32,
}

/// Receives a problem. The check stops reporting if it does not return 0.
pub type ProblemCallback =
    Option<unsafe extern "C" fn(context: *mut c_void, problem: *const Problem) -> c_int>;

/// Checks a file system in an image file or on a block device of the host. Nothing is written: a
/// journal that has to be replayed is replayed in memory.
///
/// Returns 0 if it is clean, -EUCLEAN if it is not, and another negative errno if it could not be
/// checked. `callback`, which may be NULL, receives all problems, notes included, after the check,
/// in the thread of the caller. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_check(
    path: *const c_char,
    options: *const CheckOptions,
    callback: ProblemCallback,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let path = unsafe { pointers::host_path(path, "path") }?;
        let device = device::open(path, true, None)?;
        // SAFETY: the contract of pointers.
        let checked = unsafe { check(device, options, callback, context) };
        checked.map_err(|failure| failure.about(path.display()))
    })
}

/// Checks the file system on a device, as jext_check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_check_device(
    device: *mut Device,
    options: *const CheckOptions,
    callback: ProblemCallback,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let device = unsafe { pointers::handle(device, "device") }?.get()?;
        let name = device.name();
        // SAFETY: the contract of pointers.
        let checked = unsafe { check(device, options, callback, context) };
        checked.map_err(|failure| failure.about(name))
    })
}

/// # Safety
/// The contract of pointers, and of the callback.
unsafe fn check(
    whole: Arc<dyn BlockDevice>,
    options: *const CheckOptions,
    callback: ProblemCallback,
    context: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller vouches for it.
    let given = unsafe { versioned::read(options) }?;
    let journal = match given.journal.is_null() {
        true => None,
        // SAFETY: the caller vouches for it.
        false => Some(unsafe { pointers::handle(given.journal, "journal") }?.get()?),
    };
    let device = device::slice(whole, given.offset, given.length)?;
    let (report, left) = run(&device, journal.as_ref())?;
    if let Some(callback) = callback {
        // SAFETY: the caller vouches for it.
        unsafe { show(&report, callback, context) };
    }
    let errors = report.problems.iter();
    let errors = errors.filter(|problem| problem.kind.severity() == Severity::Error);
    match (report.is_clean(), left) {
        (true, None) => Ok(()),
        (true, Some(why)) => Err(Failure::new(
            Errno::UCLEAN,
            format!("the journal cannot be replayed: {why}; e2fsck -f repairs it"),
        )),
        (false, _) => Err(Failure::new(
            Errno::UCLEAN,
            format!("{} errors; e2fsck -f repairs them", errors.count()),
        )),
    }
}

/// Returns the result of a check, and the reason if a part of the journal could not be replayed.
fn run(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> Result<(Report, Option<String>)> {
    let options = fsck::Options::default();
    let check = |device: &dyn BlockDevice, journal: Option<&Arc<dyn BlockDevice>>| {
        fsck::check(device, journal.map(|journal| &**journal), &options)
    };
    if !needs_recovery(&**device) {
        return Ok((check(&**device, journal)?, None));
    }
    let (over, journal_over) = (overlay(Arc::clone(device)), journal.cloned().map(overlay));
    match replay(&over, journal_over.as_ref()) {
        Ok(left) => Ok((check(&*over, journal_over.as_ref())?, left)),
        Err(error) => Ok((check(&**device, journal)?, Some(error.to_string()))),
    }
}

/// Replays the journal on devices that nothing else sees. Returns the reason if a transaction was
/// dropped.
fn replay(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> jext::Result<Option<String>> {
    let options = MountOptions {
        read_only: true,
        is_private: true,
        ..MountOptions::default()
    };
    let (device, journal) = (Arc::clone(device), journal.cloned());
    let (volume, report) = jext::Volume::open_with_report(device, journal, options)?;
    volume.close()?;
    Ok(report.lost.map(|lost| lost.to_string()))
}

/// # Safety
/// The contract of the callback.
unsafe fn show(
    report: &Report,
    callback: unsafe extern "C" fn(*mut c_void, *const Problem) -> c_int,
    context: *mut c_void,
) {
    for found in &report.problems {
        let text = CString::new(found.to_string()).unwrap_or_default();
        let problem = Problem {
            text: text.as_ptr(),
            inode: found.place.inode.map_or(0, u64::from),
            block: found.place.block.unwrap_or_default(),
            number: found.kind.number().into(),
            is_error: (found.kind.severity() == Severity::Error).into(),
        };
        // SAFETY: the caller vouches for it; the problem lives during the call.
        if unsafe { callback(context, &raw const problem) } != 0 {
            return;
        }
    }
}

//! The locks that QEMU's programs take on an image: single bytes of the file, one for each
//! permission.
//!
//! | byte | meaning of a shared lock on it |
//! |---|---|
//! | 100 + n | the holder has permission n |
//! | 200 + n | the holder does not share permission n with others |
//!
//! | n | permission |
//! |---|---|
//! | 0 | consistent reads |
//! | 1 | writes |
//! | 2 | writes that change nothing |
//! | 3 | changes of the size |
//!
//! All locks are shared, so that a file that is open for reading can be locked, and belong to the
//! open file (`F_OFD_SETLK`). A program first takes its own locks, then checks for locks of others:
//! on 200 + n for the permissions it needs, on 100 + n for those it does not share. So of two
//! concurrent programs at least one detects the other.
//!
//! A writer of jext takes 0 and 1 and shares nothing: a mounted image is not consistent to others.
//! A reader takes 0, and shares it.
//!
//! Source: QEMU `docs/system/qemu-block-drivers.rst.inc`, "Disk image file locking".

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::error::DeviceError;

/// First byte of the permissions that are held.
const HELD: i64 = 100;
/// First byte of those that are not shared.
const KEPT: i64 = 200;
/// Length of the range from [`HELD`] on that contains all locked bytes.
const SPAN: i64 = 200;

const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const WRITE_UNCHANGED: i64 = 2;
const RESIZE: i64 = 3;

/// Names of the permissions in messages.
const NAMES: [&str; 4] = ["read", "write", "write", "resize"];

/// Returns the permissions that are needed, and those that are not shared.
fn permissions(is_read_only: bool) -> (&'static [i64], &'static [i64]) {
    if is_read_only {
        (&[CONSISTENT_READ], &[WRITE, WRITE_UNCHANGED, RESIZE])
    } else {
        (
            &[CONSISTENT_READ, WRITE],
            &[CONSISTENT_READ, WRITE, WRITE_UNCHANGED, RESIZE],
        )
    }
}

/// Locks the bytes. Does nothing on a file system without such locks.
///
/// # Errors
/// - [`DeviceError::InUse`] if another open file has a conflicting lock. Some bytes are locked
///   then.
pub(super) fn lock(file: &OwnedFd, name: &str, is_read_only: bool) -> Result<(), DeviceError> {
    let (wanted, kept) = permissions(is_read_only);
    let in_use = |cause: String| DeviceError::InUse {
        device: name.to_owned(),
        cause,
    };
    let own = wanted.iter().map(|bit| HELD + bit);
    for byte in own.chain(kept.iter().map(|bit| KEPT + bit)) {
        let lock = range(libc::F_RDLCK, byte, 1);
        match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Err(in_use("another program has all of it locked".to_owned()));
            }
            Err(_) => return Ok(()),
        }
    }
    for bit in wanted {
        if is_locked(file, KEPT + bit) {
            let what = NAMES[*bit as usize];
            return Err(in_use(format!(
                "another program, such as QEMU, does not let others {what} it"
            )));
        }
    }
    for bit in kept {
        if is_locked(file, HELD + bit) {
            let what = NAMES[*bit as usize];
            return Err(in_use(format!(
                "another program, such as QEMU, has it open to {what} it"
            )));
        }
    }
    Ok(())
}

/// Releases all locks.
pub(super) fn unlock(file: &OwnedFd) {
    let all = range(libc::F_UNLCK, HELD, SPAN);
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&all));
}

/// True if another open file has locked a byte.
fn is_locked(file: &OwnedFd, byte: i64) -> bool {
    let mut found = range(libc::F_WRLCK, byte, 1);
    let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut found));
    asked.is_ok() && i32::from(found.l_type) != libc::F_UNLCK
}

fn range(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

//! The names of a host file's extended attributes, read by directory and name.
//!
//! Linux has `listxattrat` since 6.13, and rustix does not have it yet. Without it the way to a
//! file in an open directory is a path below `/proc/self/fd`, whose lookup costs three times as
//! much.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

/// Number of the system call on the architectures below, which share the numbers of new calls.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
const LISTXATTRAT: nix::libc::c_long = 465;

/// Lists the attributes of a file in a directory without following a symbolic link. Returns the
/// number of bytes of `list` that were filled with names, each of which ends with a zero.
///
/// # Errors
/// Fails with `NOSYS` if the system has no such call, otherwise with the host's error.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
pub fn list_at(directory: BorrowedFd<'_>, name: &CStr, list: &mut [u8]) -> Result<usize, Errno> {
    use std::os::fd::AsRawFd;

    // SAFETY: the name ends with a zero, the call writes at most `list.len()` bytes to `list`, and
    // both outlive it.
    let count = unsafe {
        nix::libc::syscall(
            LISTXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            nix::libc::AT_SYMLINK_NOFOLLOW,
            list.as_mut_ptr(),
            list.len(),
        )
    };
    usize::try_from(count).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}

/// As on other architectures, without the call.
///
/// # Errors
/// Fails with `NOSYS`.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
pub fn list_at(_directory: BorrowedFd<'_>, _name: &CStr, _list: &mut [u8]) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn names_are_those_of_the_file_in_the_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"x").expect("there is room");
        std::os::unix::fs::symlink("file", folder.path().join("link")).expect("there is room");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::lsetxattr(&path, "user.a", b"1", flags).expect("it has attributes");
        let directory = File::open(folder.path()).expect("it is there");
        let mut list = [0; 64];
        let mut listed = |name| list_at(directory.as_fd(), name, &mut list);
        match listed(c"file") {
            // The kernel is older.
            Err(Errno::NOSYS) => return,
            other => assert_eq!(other, Ok(b"user.a\0".len())),
        }
        assert_eq!(listed(c"link"), Ok(0));
        assert_eq!(listed(c"absent"), Err(Errno::NOENT));
        assert_eq!(
            list_at(directory.as_fd(), c"file", &mut [0; 3]),
            Err(Errno::RANGE)
        );
    }
}

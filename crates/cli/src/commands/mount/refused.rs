//! Advice for a mount that the system refuses, most often in a container.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Error, anyhow};
use fuse::MountError;

/// Device of all FUSE file systems.
const DEVICE: &str = "/dev/fuse";
/// Options of Docker that let a container mount.
const DOCKER: &str = "`docker run --device /dev/fuse --cap-add SYS_ADMIN`";
/// The kernel's text for EPERM, as fusermount3 passes it on.
const NOT_PERMITTED: &str = "Operation not permitted";
/// Text of a mount for which root lacks the capability, and that no helper makes.
const NO_HELPER: &str = "needs fusermount3";

/// Returns the error of a mount, with advice if the system lacks something.
pub(super) fn advised(error: MountError) -> Error {
    let MountError::Mount { cause, .. } = &error else {
        return error.into();
    };
    let said = cause.to_string();
    if !Path::new(DEVICE).exists() {
        return anyhow!(
            "{error}; there is no {DEVICE}: `modprobe fuse` (root) makes it, and {DOCKER} gives it to a container"
        );
    }
    let is_root = rustix::process::geteuid().is_root();
    let is_forbidden = cause.kind() == ErrorKind::PermissionDenied
        || said.contains(NOT_PERMITTED)
        || is_root && said.contains(NO_HELPER);
    match is_forbidden {
        true => anyhow!(
            "{error}; in a container this needs {DOCKER}, and with AppArmor --security-opt apparmor=unconfined \
             (docs/how-to/platforms.md)"
        ),
        false => error.into(),
    }
}

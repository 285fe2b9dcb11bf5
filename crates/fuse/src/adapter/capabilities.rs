//! What the kernel is asked for when it comes to a mount.

use std::time::Duration;

use fuser::{InitFlags, KernelConfig};

use super::TRANSFER_BYTES_MAX;
use crate::arrivals::BACKGROUND_MAX;

/// From so many on, the kernel puts off write-back that nobody waits for.
const CONGESTED: u16 = 48;
/// What the kernel is asked for. `SETXATTR_EXT`, `SECURITY_CTX`, `ALLOW_IDMAP` and `OVER_IO_URING` never are: fuser says yes to
/// them and does not carry them.
const WANTED: [InitFlags; 11] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_ASYNC_DIO,
    // Access control lists are checked by the kernel; what they hand down is not masked.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
    // The kernel does not ask for a file's capabilities at every write: see `privileges`.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // `.` and `..` are looked up by number, for file handles.
    InitFlags::FUSE_EXPORT_SUPPORT,
    // Files whose writes come at once can be mapped to be shared.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Asks for it.
pub(super) fn ask(config: &mut KernelConfig, is_lazy_open: bool, time_granularity: Duration) {
    let truncates = (!is_lazy_open).then_some(InitFlags::FUSE_ATOMIC_O_TRUNC);
    for flag in WANTED.into_iter().chain(truncates) {
        if config.add_capabilities(flag).is_err() {
            tracing::info!(?flag, "this kernel cannot");
        }
    }
    // The nearest value that is right is taken where these are not.
    let _ = config.set_max_write(TRANSFER_BYTES_MAX);
    let _ = config.set_max_background(BACKGROUND_MAX);
    let _ = config.set_congestion_threshold(CONGESTED);
    let _ = config.set_time_granularity(time_granularity);
}

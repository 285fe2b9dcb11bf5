//! The features requested from the kernel when a mount starts.

use std::time::Duration;

use fuser::{InitFlags, KernelConfig};

use super::TRANSFER_BYTES_MAX;
use crate::arrivals::BACKGROUND_MAX;

/// Number of requests from which on the kernel delays background write-back.
const CONGESTED: u16 = 48;
/// The requested features. `SETXATTR_EXT`, `SECURITY_CTX`, `ALLOW_IDMAP` and `OVER_IO_URING` are
/// never requested: fuser accepts them without implementing them.
const WANTED: [InitFlags; 11] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_ASYNC_DIO,
    // The kernel checks access control lists; permissions inherited from a default ACL are not
    // masked.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
    // The kernel does not query a file's capabilities at every write: see `privileges`.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // `.` and `..` are looked up by number, for file handles.
    InitFlags::FUSE_EXPORT_SUPPORT,
    // Files opened for direct I/O can be mapped shared.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Requests the features. Returns true if files that bypass the kernel's cache can be mapped shared
/// all the same.
pub(super) fn ask(
    config: &mut KernelConfig,
    is_lazy_open: bool,
    time_granularity: Duration,
) -> bool {
    let truncates = (!is_lazy_open).then_some(InitFlags::FUSE_ATOMIC_O_TRUNC);
    for flag in WANTED.into_iter().chain(truncates) {
        if config.add_capabilities(flag).is_err() {
            tracing::info!(?flag, "this kernel cannot");
        }
    }
    // fuser uses the nearest valid value instead of an invalid one.
    let _ = config.set_max_write(TRANSFER_BYTES_MAX);
    let _ = config.set_max_background(BACKGROUND_MAX);
    let _ = config.set_congestion_threshold(CONGESTED);
    let _ = config.set_time_granularity(time_granularity);
    let granted = config.capabilities();
    granted.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP)
}

//! [`Cost`]: kinds of host work.

/// Work of the host that takes virtual time in a simulated world. A host profile assigns
/// nanoseconds to each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cost {
    /// A system call.
    Syscall,
    /// Copying this number of bytes.
    Copy(u64),
    /// Computing a checksum over this number of bytes.
    Checksum(u64),
    /// Looking up a name or a cache entry.
    Lookup,
    /// Starting and stopping a journal handle.
    Handle,
    /// Accessing a metadata block in memory.
    BlockAccess,
    /// Building, queueing and completing a device request, without its transfer.
    Request,
}

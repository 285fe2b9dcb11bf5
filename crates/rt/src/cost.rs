//! [`Cost`]: kinds of host work.

/// Work of the host that takes virtual time in a simulated world. A host profile assigns
/// nanoseconds to each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cost {
    /// A system call.
    Syscall,
    /// Copying this number of bytes between places of which no cache of the processor holds
    /// anything.
    Copy(u64),
    /// Copying this number of bytes between buffers of a program that has just used them.
    CopyNear(u64),
    /// Finding pages of memory, and copying bytes from them into the caller's buffer.
    CopyOut {
        /// The first byte.
        from: Memory,
        /// Number of bytes.
        bytes: u64,
    },
    /// Finding pages of memory, and copying bytes from the caller's buffer into them.
    CopyIn {
        /// The first byte.
        into: Memory,
        /// Number of bytes.
        bytes: u64,
    },
    /// Computing a checksum over this number of bytes.
    Checksum(u64),
    /// Looking up a name or a cache entry.
    Lookup,
    /// Comparing a name with directory entries, or walking over them.
    Search {
        /// Number of look-ups that reach their blocks.
        lookups: u64,
        /// Number of entries.
        entries: u64,
    },
    /// Starting and stopping a journal handle.
    Handle,
    /// Accessing a metadata block in memory.
    BlockAccess,
    /// Building, queueing and completing a device request, without its transfer.
    Request,
}

/// A byte of memory that copies touch, by a name that is the same in equal runs; addresses are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The object that the memory belongs to, such as a file with its cached pages.
    pub owner: u64,
    /// The offset in the object in bytes.
    pub offset: u64,
}

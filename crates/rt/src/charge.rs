//! [`charge`]: how host code tells a simulated world what it did.

use crate::world;

/// Work of the host that takes virtual time in a simulated world. A host profile gives nanoseconds to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cost {
    /// Entering and leaving the kernel once.
    Syscall,
    /// Copying so many bytes.
    Copy(u64),
    /// Computing a checksum over so many bytes.
    Checksum(u64),
    /// Finding one name or one cache entry.
    Lookup,
    /// Starting and finishing one journal handle.
    Handle,
    /// Getting at one metadata block that is in memory.
    BlockAccess,
    /// Building, queueing and completing one request to a device, without its transfer.
    Request,
}

/// Adds host work to the calling task's debt of virtual time. Nothing happens in the real world.
#[inline]
pub fn charge(cost: Cost) {
    if let Some(world) = world::current() {
        world.charge(cost);
    }
}

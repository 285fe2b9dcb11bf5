//! Values of the kernel's requests and of their answers.

use layout::InodeNr;

/// The result of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Handle of the open file.
    pub(crate) handle: Handle,
    /// True if the kernel must not cache writes: each has to be durable when it returns (`chattr
    /// +S`), the file is append-only, or little space is left.
    pub(crate) writes_through: bool,
}

/// A handle of an open file; [`Handle::NONE`] if files are opened without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// No open file: only the node is known.
    pub(crate) const NONE: Self = Self(0);
}

/// A range of one file, to be copied to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Source file.
    pub(crate) source: InodeNr,
    /// Offset in the source.
    pub(crate) source_offset: u64,
    /// Target file.
    pub(crate) target: InodeNr,
    /// Handle of the open target.
    pub(crate) target_handle: Handle,
    /// Offset in the target.
    pub(crate) target_offset: u64,
    /// Length in bytes.
    pub(crate) length: u64,
}

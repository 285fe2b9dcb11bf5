//! The fields of a new inode that a caller chooses.

/// The chosen fields of a new inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInode {
    /// Permission bits.
    pub permissions: u16,
    /// Permission bits to clear, unless the directory has a default ACL; 0 if the caller has
    /// cleared them.
    pub umask: u16,
    /// Owning user.
    pub uid: u32,
    /// Owning group; a set-gid parent overrides it.
    pub gid: u32,
}

impl Default for NewInode {
    fn default() -> Self {
        Self {
            permissions: 0o644,
            umask: 0,
            uid: 0,
            gid: 0,
        }
    }
}

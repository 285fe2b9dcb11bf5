//! The fields of a new inode that a caller chooses.

/// What a new inode shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInode {
    /// Permission bits.
    pub permissions: u16,
    /// Which of them are taken away, unless the directory hands an access control list down; 0 where the caller has done that.
    pub umask: u16,
    /// Owner.
    pub uid: u32,
    /// Group; a set-gid parent overrides it.
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

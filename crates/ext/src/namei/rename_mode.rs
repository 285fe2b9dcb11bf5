//! Modes of a rename for a new name that exists.

/// The action of a rename if the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    /// Replace it.
    #[default]
    Replace,
    /// Fail.
    NoReplace,
    /// Exchange the two; both must exist.
    Exchange,
    /// Replace it, and leave a whiteout at the old name: a character device 0:0, with which overlay
    /// file systems hide an entry of a lower layer.
    Whiteout(WhiteoutOwner),
}

/// The owner of a whiteout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WhiteoutOwner {
    /// Owning user.
    pub uid: u32,
    /// Owning group; a set-gid parent overrides it.
    pub gid: u32,
}

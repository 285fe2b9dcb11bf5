//! The ways in which a rename treats a new name that exists.

/// What a rename does when the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    /// Replaces it.
    #[default]
    Replace,
    /// Refuses.
    NoReplace,
    /// Exchanges the two; both must exist.
    Exchange,
    /// Replaces it, and leaves a whiteout at the old name: a character device 0:0, which overlay file systems take for the absence
    /// of what lies below.
    Whiteout(WhiteoutOwner),
}

/// Who a whiteout belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WhiteoutOwner {
    /// Owner.
    pub uid: u32,
    /// Group; a set-gid parent overrides it.
    pub gid: u32,
}

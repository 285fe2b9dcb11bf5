//! Mount options that the superblock has as bits.

use bitflags::bitflags;

bitflags! {
    /// `s_default_mount_opts`: mount options that apply unless overridden.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DefaultMountOptions: u32 {
        /// `debug`.
        const DEBUG = 0x0001;
        /// `bsdgroups`: new files take the directory's group.
        const BSD_GROUPS = 0x0002;
        /// `user_xattr`.
        const USER_XATTR = 0x0004;
        /// `acl`.
        const ACL = 0x0008;
        /// `uid16`: only the lower halves of owners are stored.
        const UID16 = 0x0010;
        /// `journal_data`: data=journal. With [`Self::JOURNAL_DATA_ORDERED`] it means
        /// data=writeback.
        const JOURNAL_DATA = 0x0020;
        /// `journal_data_ordered`: data=ordered.
        const JOURNAL_DATA_ORDERED = 0x0040;
        /// `journal_data_writeback`: data=writeback; both bits of the mode.
        const JOURNAL_DATA_WRITEBACK = 0x0060;
        /// `nobarrier`.
        const NO_BARRIER = 0x0100;
        /// `block_validity`.
        const BLOCK_VALIDITY = 0x0200;
        /// `discard`.
        const DISCARD = 0x0400;
        /// `nodelalloc`.
        const NO_DELAYED_ALLOCATION = 0x0800;
    }
}

impl DefaultMountOptions {
    /// The options by the names of tune2fs. The data mode is a field of two bits.
    pub const NAMES: &[(&str, Self)] = &[
        ("debug", Self::DEBUG),
        ("bsdgroups", Self::BSD_GROUPS),
        ("user_xattr", Self::USER_XATTR),
        ("acl", Self::ACL),
        ("uid16", Self::UID16),
        ("journal_data", Self::JOURNAL_DATA),
        ("journal_data_ordered", Self::JOURNAL_DATA_ORDERED),
        ("journal_data_writeback", Self::JOURNAL_DATA_WRITEBACK),
        ("nobarrier", Self::NO_BARRIER),
        ("block_validity", Self::BLOCK_VALIDITY),
        ("discard", Self::DISCARD),
        ("nodelalloc", Self::NO_DELAYED_ALLOCATION),
    ];
    /// The field of the data mode.
    pub const DATA_MODE: Self = Self::JOURNAL_DATA_WRITEBACK;

    /// Returns the names of the options that are set: the data mode, then the others.
    pub fn names(self) -> Vec<&'static str> {
        let mode = self & Self::DATA_MODE;
        let is_set = |(_, bits): &&(&str, Self)| match Self::DATA_MODE.contains(*bits) {
            true => *bits == mode,
            false => self.contains(*bits),
        };
        let mut rows: Vec<_> = Self::NAMES.iter().filter(is_set).collect();
        rows.sort_by_key(|(_, bits)| !Self::DATA_MODE.contains(*bits));
        rows.into_iter().map(|(name, _)| *name).collect()
    }
}

//! The mount options of ext4 that have no effect here, and those that are not supported.
//!
//! With the options that [`super::ParsedOptions`] applies, these are all that ext4 of Linux 6.18
//! parses (`Documentation/admin-guide/ext4.rst`, `fs/ext4/super.c`), and those of mount(8) for all
//! file systems that reach a volume. `docs/how-to/mount-options.md` has the same tables.

use layout::superblock::DefaultMountOptions;

/// The treatment of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Applied.
    Honoured,
    /// Accepted; nothing changes.
    NoEffect,
    /// An error.
    Refused,
}

/// Options with one treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The options. A value `N` stands for any number, `TEXT` for any text.
    pub options: &'static [&'static str],
    /// Their treatment.
    pub treatment: Treatment,
    /// The effect, or the reason for the treatment.
    pub note: &'static str,
}

macro_rules! rows {
    ($($treatment:ident [$($option:literal)+] $note:literal;)*) => {
        /// All options of ext4.
        pub const OPTIONS: &[Row] = &[$(Row {
            options: &[$($option),+],
            treatment: Treatment::$treatment,
            note: $note,
        },)*];
    };
}

rows! {
    Honoured ["ro" "rw"] "read-only or not";
    Honoured ["noload" "norecovery"] "with `ro`: the journal is not replayed";
    Honoured ["data=journal" "data=ordered" "data=writeback"] "the order of data and journal";
    Honoured ["data_err=abort" "data_err=ignore"] "after a failed write of ordered data";
    Honoured ["errors=continue" "errors=remount-ro" "errors=panic"] "after an error in metadata";
    Honoured ["delalloc" "nodelalloc"] "on ext4: allocate blocks when data is written back, or when it is written";
    Honoured ["auto_da_alloc" "auto_da_alloc=N" "noauto_da_alloc"] "on ext4: allocate at once for a file that replaces another";
    Honoured ["stripe=N"] "large extents start at multiples of so many blocks";
    Honoured ["commit=N"] "seconds until a transaction is committed; 0 stands for 5";
    Honoured ["journal_async_commit"] "with `data=journal` or `data=writeback`, on volumes without `metadata_csum`: the commit block is written together with the rest of its transaction, and one flush makes both durable";
    Honoured ["barrier" "barrier=N" "nobarrier"] "flush devices around commits";
    Honoured ["sync" "async" "dirsync"] "the changes that are durable when a call returns";
    Honoured ["noatime" "relatime" "strictatime"] "the access times that are kept";
    Honoured ["discard" "nodiscard"] "discard freed blocks";
    Honoured ["grpid" "bsdgroups" "nogrpid" "sysvgroups"] "new files take the group of their directory, or of the caller";
    Honoured ["resuid=N" "resgid=N"] "the user and group with access to the reserved blocks, besides root";
    Honoured ["bsddf" "minixdf"] "df leaves the metadata out of the size (the default), or counts it";
    Honoured ["init_itable" "init_itable=N" "noinit_itable"] "zero unused parts of inode tables while mounted, with pauses of N times what a part takes (10), or not";
    Honoured ["journal_path=TEXT"] "the external journal";
    NoEffect ["defaults"] "the default options";
    NoEffect ["acl" "user_xattr"] "always on";
    NoEffect ["block_validity" "noblock_validity"] "blocks of metadata are always protected";
    NoEffect ["journal_checksum" "nojournal_checksum"] "the log has checksums on volumes with `metadata_csum`, and since the first mount with `journal_async_commit`";
    NoEffect ["min_batch_time=N" "max_batch_time=N"] "threads that sync share a commit without waiting";
    NoEffect ["mb_optimize_scan=N"] "hints for the allocator of Linux";
    NoEffect ["nombcache" "no_mbcache" "no_prefetch_block_bitmaps" "inode_readahead_blks=N" "journal_ioprio=N"] "hints for the caches and queues of Linux";
    NoEffect ["dioread_nolock" "nodioread_nolock" "dioread_lock"] "locks of Linux";
    NoEffect ["debug" "warn_on_error" "nowarn_on_error"] "messages go to standard error, or to `--log`";
    NoEffect ["noquota" "usrjquota=" "grpjquota="] "owners are counted by the feature `quota`, and limits are not enforced";
    NoEffect ["dax=never" "dax=inode"] "there is a page cache";
    NoEffect ["inlinecrypt"] "nothing is encrypted or decrypted";
    NoEffect ["lazytime" "nolazytime" "mand" "nomand" "iversion" "noiversion" "silent" "loud"] "of mount(8)";
    NoEffect ["oldalloc" "orlov" "bh" "nobh" "mblk_io_submit" "nomblk_io_submit" "i_version" "prefetch_block_bitmaps"] "removed from Linux, which ignores them";
    NoEffect ["reservation" "noreservation" "check=TEXT" "nocheck" "journal=N"] "of ext2 and ext3; Linux ignores them";
    Refused ["noacl" "nouser_xattr"] "access control lists and attributes are always on";
    Refused ["nouid32"] "owners have 32 bits";
    Refused ["sb=N"] "the first superblock is used; e2fsck -b N repairs it from another one";
    Refused ["journal_dev=N"] "name the device with journal_path=";
    Refused ["abort"] "nothing simulates an error";
    Refused ["quota" "usrquota" "grpquota" "prjquota" "usrjquota=TEXT" "grpjquota=TEXT" "jqfmt=TEXT"] "limits are not enforced; owners are counted by the feature `quota`";
    Refused ["dax" "dax=always"] "there is a page cache";
    Refused ["max_dir_size_kb=N"] "directories have no limit of their own";
    Refused ["debug_want_extra_isize=N"] "new inodes have 32 bytes of extra fields: all there are";
    Refused ["test_dummy_encryption" "test_dummy_encryption=TEXT"] "encryption is not supported";
    Refused ["fc_debug_force" "fc_debug_max_replay=N"] "fast commits are made wherever tags describe the changes, and replayed as a whole";
}

/// The mount options of the bits of `s_default_mount_opts`, by the names of tune2fs; none for an
/// option that is refused.
pub const DEFAULTS: &[(DefaultMountOptions, Option<&str>)] = &[
    (DefaultMountOptions::DEBUG, Some("debug")),
    (DefaultMountOptions::BSD_GROUPS, Some("bsdgroups")),
    (DefaultMountOptions::USER_XATTR, Some("user_xattr")),
    (DefaultMountOptions::ACL, Some("acl")),
    (DefaultMountOptions::UID16, None),
    (DefaultMountOptions::JOURNAL_DATA, Some("data=journal")),
    (
        DefaultMountOptions::JOURNAL_DATA_ORDERED,
        Some("data=ordered"),
    ),
    (
        DefaultMountOptions::JOURNAL_DATA_WRITEBACK,
        Some("data=writeback"),
    ),
    (DefaultMountOptions::NO_BARRIER, Some("nobarrier")),
    (DefaultMountOptions::BLOCK_VALIDITY, Some("block_validity")),
    (DefaultMountOptions::DISCARD, Some("discard")),
    (
        DefaultMountOptions::NO_DELAYED_ALLOCATION,
        Some("nodelalloc"),
    ),
];

/// Returns the row of an option without effect, or of one that is refused.
///
/// # Errors
/// Fails if its value is no number where one is expected.
pub(super) fn find(name: &str, value: Option<&str>) -> Result<Option<&'static Row>, &'static str> {
    for row in OPTIONS {
        if row.treatment == Treatment::Honoured {
            continue;
        }
        for option in row.options {
            let (known, expected) = match option.split_once('=') {
                Some((known, expected)) => (known, Some(expected)),
                None => (*option, None),
            };
            if known != name {
                continue;
            }
            match (expected, value) {
                (Some("N"), Some(value)) if value.parse::<i64>().is_err() => {
                    return Err("a number");
                }
                (Some("TEXT"), Some("")) => {}
                (Some("N" | "TEXT"), Some(_)) => return Ok(Some(row)),
                (expected, value) if expected == value => return Ok(Some(row)),
                _ => {}
            }
        }
    }
    Ok(None)
}

//! All mutants.

use super::{Mutant, Named, Prey};
use crate::mode::Structures;

macro_rules! structures {
    () => {
        Structures::Ext3
    };
    ($structures:ident) => {
        Structures::$structures
    };
}

macro_rules! mutants {
    ($($prey:ident $(of $structures:ident)? $name:literal: $rule:literal,)*) => {
        /// All mutants, by name.
        pub const MUTANTS: &[Mutant] = &[$(Mutant {
            name: $name,
            rule: $rule,
            prey: Prey::$prey,
            structures: structures!($($structures)?),
        },)*];
    };
}

mutants! {
    Faults "abort/log-error-ignored": "a failed log write stops the commit before its record",
    Reuse of Ext4 "allocation/freed-found-before-commit": "blocks freed by an uncommitted transaction are not found by a search for an extent",
    Races "attributes/change-in-two-steps": "attributes in a block and the inode that names it are one transaction",
    Stress of Ext4 "attributes/references-in-another-step": "a value's inode and the entry that names it are one transaction",
    Stress of Ext4 "attributes/sectors-of-values-not-counted": "an inode counts the blocks of its values",
    Stress "attributes/shared-block-rewritten": "a block of attributes that several inodes share does not change",
    Stress "attributes/user-not-counted": "a block of attributes counts whoever comes to share it",
    Stress of Ext4 "attributes/value-not-deleted": "a value that no entry names any more is deleted",
    Stress of Ext4 "attributes/value-not-journaled": "a value in an inode of its own goes through the journal",
    Faults "checkpoint/error-ignored": "a block whose write home failed is still owed",
    Reuse "checkpoint/freed-block-written": "a freed block's old image does not go home any more once the freeing transaction commits",
    Stress "checkpoint/older-image-kept": "a transaction that commits a block takes over what older ones owed for it",
    Full "checkpoint/refused-block-forgotten": "a block that a full host refused is written home when there is room",
    Laps "checkpoint/uncommitted-image": "what goes home is the committed image, not a later one",
    Crash of Ext4 "checksums/bitmap-not-stored": "a descriptor gets the checksum of a bitmap that changes",
    Crash of Ext4 "checksums/descriptor-not-sealed": "a descriptor that changes is sealed",
    Crash of Ext4 "checksums/inode-not-sealed": "an inode that changes is sealed",
    Crash of Ext4 "checksums/superblock-not-sealed": "the superblock is sealed when a commit freezes it",
    Crash "close/marked-clean-first": "a volume is marked clean after everything was written, not before",
    Races "commit/acknowledged-before-record": "a commit is acknowledged when its record is durable",
    Crash "commit/data-after-record": "ordered data is written before the commit record",
    Crash "commit/home-not-flushed": "with an external journal, the file system's device is flushed before the commit record",
    Races "commit/interval-ignored": "a transaction is committed when the commit interval is over",
    Crash "commit/no-flush-before-record": "the log is flushed before the commit record",
    Crash "commit/record-before-images": "the commit record is written after the images",
    Crash "commit/record-not-forced": "the commit record is forced or flushed",
    Full "commit/refused-write-aborts": "a write that is refused for want of room aborts nothing",
    Races "commit/running-image-logged": "a commit logs the frozen image, not one that a later transaction changed",
    Races "data/cut-off-page-not-written": "a page that a truncation cuts off is still written before the transaction that owes it commits",
    Crash "data/not-ordered": "ordered data belongs to the transaction that needs it",
    Crash of Ext4 "delayed/not-ordered": "the transaction that allocates a block for dirty data waits for the data",
    Crash of Ext4 "delayed/renamed-without-data": "a file that replaces another has its blocks before",
    Crash of Ext4 "delayed/size-before-data": "the size on disk covers no data without a block",
    Crash of Ext4 "delayed/size-on-disk-shrinks": "a page without a block in a hole leaves the size on disk alone",
    Crash of Ext4 "delayed/sync-without-blocks": "a sync call allocates the blocks that the file's data has not got yet",
    Races "delete/inode-freed-in-another-step": "a deleted inode leaves the orphan list in the transaction that frees it",
    Listings "directory/one-block-by-offset": "a directory of one block is read in the order of hashes, as the htree that it becomes",
    Reuse "discard/before-commit": "freed blocks are discarded when the freeing transaction is durable",
    Faults "error/failed-page-marked-clean": "a page whose write failed stays dirty, and the error is remembered",
    Passing "error/ordered-pin-lost": "a page whose write failed still holds up the commit that waits for it",
    Stress "escape/not-undone": "recovery restores the first bytes of an escaped block",
    Laps "escape/skipped": "a logged block that begins like a journal's is escaped",
    Scattered of Ext4 "extents/cut-in-another-step": "a leaf loses an extent in the transaction that frees its blocks",
    Scattered of Ext4 "extents/empty-node-kept": "a node that loses its last entry is freed",
    Scattered of Ext4 "extents/first-block-not-raised": "the first block of an index entry is that of the node below it",
    Scattered of Ext4 "extents/node-not-revoked": "a node that is freed is revoked",
    Scattered of Ext4 "extents/nodes-not-counted": "the blocks of an inode include the nodes of its tree",
    Scattered of Ext4 "extents/rest-not-zeroed": "what is converted without a write is zeroed",
    Scattered of Ext4 "extents/root-node-kept": "a tree that becomes less deep frees the node whose entries the root takes",
    Crash "fdatasync/size-not-committed": "fdatasync commits what is needed to read the data back",
    Reuse "free/metadata-not-forgotten": "freed metadata is forgotten, and revoked",
    Reuse "free/released-before-record": "freed blocks may be used again when the freeing transaction is durable",
    Reuse "free/reused-while-uncommitted": "blocks freed by an uncommitted transaction are not used again",
    Crash "fsync/data-not-written": "fsync writes the file's data",
    Crash "fsync/device-not-flushed": "fsync flushes the device that holds the data",
    Faults "fsync/error-not-reported": "fsync tells of data that could not be written",
    Crash "fsync/transaction-not-committed": "fsync commits the file's last transaction",
    Crash of Ext4 "groups/bitmap-read-before-use": "a block bitmap that was never used is not read",
    Crash of Ext4 "groups/inodes-stay-unused": "the count of unused inodes ends before an inode in use",
    Crash of Ext4 "groups/stays-uninitialised": "a group whose bitmap is in use is not marked as without one",
    Numbers "inode/changed-when-dead": "a change by number finds nothing when the inode was deleted meanwhile",
    Reuse "journaled/switched-without-checkpoint": "leaving data journaling for a file empties the log first",
    Crash "log-start/not-noted": "the journal's superblock says durably where the log begins before the first commit is acknowledged",
    Names "names/children-locked-by-number": "a directory is locked before another inode that may have a name in it",
    Races "names/create-in-two-steps": "a new inode and its name are one transaction",
    Crash "names/link-count-not-stored": "an unlinked inode's link count is stored",
    Races "names/link-in-two-steps": "a new name and the link count are one transaction",
    Names "names/link-locks-directory": "a directory that shall be linked is refused without being locked",
    Crash "names/parent-not-changed": "a directory that moves changes its `..` and its parents' link counts",
    Races "names/rename-in-two-steps": "a rename is one transaction",
    Races "names/unlink-in-two-steps": "a name that goes and the link count are one transaction",
    Crash "needs-recovery/not-set": "an open volume needs recovery",
    Laps "needs-recovery/not-set-after-replay": "a volume that was replayed needs recovery again while it is open",
    Crash "orphan/deleted-file-not-listed": "a file without names is on the orphan list until it is deleted",
    Crash "orphan/not-finished-at-open": "recovery finishes what the orphan list names",
    Crash of Ext4 "orphan/slot-not-cleared": "an inode that is deleted leaves its slot of the orphan file",
    Races "orphan/truncated-file-not-listed": "a file that is being truncated is on the orphan list",
    Numbers "path/inode-not-held": "a path holds what it leads to until the call ends",
    Stress "ranges/pages-not-dropped": "pages of blocks that are punched leave the cache",
    Stress "ranges/part-of-block-not-zeroed": "a punch makes zeroes of the parts of blocks that it reaches into",
    Races "ranges/punch-in-two-steps": "blocks that are punched leave the map in the transaction that frees them",
    Laps "recovery/checksums-ignored": "recovery drops a last transaction whose checksums do not fit",
    Crash "recovery/home-not-flushed": "recovery flushes the replayed blocks before it empties the log",
    Crash "recovery/log-emptied-first": "recovery empties the log after the replay",
    Crash "recovery/oldest-image-wins": "recovery writes the newest image of a block",
    Reuse "revoke/dropped": "a freed journaled block is revoked",
    Reuse "revoke/hides-later-images": "a revoke hides images up to its own transaction only",
    Reuse "revoke/ignored-by-recovery": "recovery replays no revoked image",
    Crash "sequence/number-of-dropped-reused": "the number of a dropped transaction is never used again",
    Crash "sequence/starts-again-when-empty": "transaction numbers go on when the log is empty",
    Crash of Ext4 "superblock/marked-with-times": "a write of a mark of the superblock changes nothing else",
    Tight "sync/mount-option-ignored": "operations on synchronous volumes return when they are durable",
    Crash "sync/running-transaction-left-out": "sync commits the running transaction",
    Laps "tail/home-not-flushed": "blocks that went home are flushed before the tail passes their transaction",
    Laps "tail/past-unwritten-blocks": "the tail does not pass a transaction whose blocks are not home",
    Laps "tail/space-reused-before-superblock": "log space is used again when the new tail is durable",
    Laps "tail/superblock-not-forced": "the superblock with the new tail is forced or flushed",
    Reuse "tid/compared-without-wrapping": "transaction numbers are compared modulo 2^32",
    Restarts "truncate/kept-revoke-used": "the revoke for an attribute block is kept while a file is freed, restarts included",
    Crash "truncate/tail-not-zeroed": "a truncation clears the rest of the last block",
    Scattered of Ext4 "unwritten/joined-with-data": "extents are joined only if both have data or neither has",
    Scattered of Ext4 "unwritten/not-converted": "a write to an unwritten extent marks its part as data",
    Scattered of Ext4 "unwritten/not-ordered": "an unwritten extent becomes data after its data was written, in writeback mode too",
    Scattered of Ext4 "unwritten/read-as-data": "unwritten extents read as zeroes",
}

macro_rules! named {
    ($($name:literal: $rule:literal, by $test:literal,)*) => {
        /// The mutants that the explorer cannot detect, by name. A test of the engine names and
        /// detects each.
        pub const NAMED: &[Named] = &[$(Named {
            name: $name,
            rule: $rule,
            test: $test,
        },)*];
    };
}

named! {
    "allocation/bound-not-raised": "the bound of a group's free extents holds for blocks that were freed", by "ext/src/alloc/tests/multi_block.rs",
    "allocation/windows-kept": "windows are given up before a volume is full", by "ext/src/alloc/tests/multi_block.rs",
    "attributes/reference-not-dropped": "an entry that goes drops its reference to the value's inode", by "ext/tests/it/attributes/large.rs",
    "attributes/value-not-counted": "a copy of a shared attribute block counts its references to the inodes of values", by "ext/tests/it/attributes/large.rs",
    "checksums/orphan-block-not-sealed": "a block of the orphan file is sealed when a commit freezes it", by "ext/tests/it/ext4/orphan_file.rs",
    "damage/not-stored": "damage that was found is noted in the superblock before the volume is closed", by "ext/tests/it/damage/noted.rs",
    "delayed/closed-without-blocks": "a file that was truncated to nothing has its blocks when it is closed", by "ext/src/file/tests/delayed.rs",
    "delayed/converted-before-others": "no block is allocated behind a page that lacks its own", by "ext/src/file/tests/delayed.rs",
    "delayed/size-on-disk-not-cut": "the size on disk is that of the file once no page lacks a block", by "ext/src/file/tests/delayed.rs",
    "delete/freed-blocks-not-stored": "what a deletion freed before it failed is stored in the inode", by "ext/tests/it/claims.rs",
    "directory/level-not-counted": "a root that becomes a node leaves one level more", by "ext/tests/it/ext4/large_directories.rs",
    "directory/new-node-from-leaf": "a new node begins at the hash of its first pair, on every level", by "ext/tests/it/ext4/large_directories.rs",
    "directory/scattered-leaf-split": "a full leaf whose names fit one block is compacted, not split", by "ext/tests/it/damage/changes.rs",
    "discard/block-in-use": "no block is discarded that may be allocated", by "ext/tests/it/discard.rs",
    "error/failed-pages-taken-again": "a call writes each dirty page once, and ends when all writes fail", by "ext/tests/it/failures/transient.rs",
    "error/writer-not-stopped": "a writer learns that nothing can be written before memory is used up", by "ext/tests/it/failures/no_room.rs",
    "free/forgotten-before-freed": "a block of metadata that cannot be freed keeps its contents", by "ext/tests/it/damage/kept.rs",
    "free/map-block-forgotten-late": "without a journal, a map block is forgotten before it can be somebody else's", by "ext/tests/it/locking.rs",
    "groups/copies-not-counted": "the bitmap of an uninitialised group has the copy of its meta block group's descriptors", by "ext/tests/it/ext4/meta_groups.rs",
    "groups/descriptors-in-first-group": "the descriptors of a meta block group are changed in its first group", by "ext/tests/it/ext4/meta_groups.rs",
    "inherit/while-being-made": "a volume that is being made restores a tree, and nothing is inherited", by "ext/tests/it/made.rs",
    "map/parent-not-held": "a map block that gets a pointer is in memory when blocks are allocated for it", by "ext/src/file/tests/evicted.rs",
    "names/damaged-links-reach-zero": "a directory that has a name keeps its links, whatever its count was", by "ext/tests/it/damage/changes.rs",
    "names/not-deleted-unless-durable": "what has no name is deleted, also if the removal could not be made durable", by "ext/tests/it/failures/no_room.rs",
    "names/pin-of-undurable-kept": "a new inode that could not be made durable is not held for a caller that does not get it", by "ext/tests/it/failures/no_room.rs",
    "names/undone-number-freed-first": "the number of a new inode that is taken back is free when nothing is left of it", by "ext/tests/it/locking.rs",
    "orphan/left-until-close": "a deletion that found no room is done when there is room", by "ext/tests/it/failures/no_room.rs",
    "orphan/mark-not-set": "an open volume is marked as one whose orphan file may have orphans", by "ext/tests/it/ext4/orphan_file.rs",
    "orphan/slots-not-finished-at-open": "recovery finishes what the slots of the orphan file name", by "ext/tests/it/ext4/orphan_file.rs",
    "read/waits-for-access-time": "a read waits for no commit because of an access time", by "ext/src/file/tests/access_time.rs",
    "recovery/loss-not-noted": "a committed transaction that recovery drops is noted as an error", by "ext/tests/it/crossing/lost_images.rs",
    "space/directories-below-zero": "a group that counts no directories frees none", by "ext/tests/it/damage/changes.rs",
    "sync/follows-writers": "a sync writes what is dirty when it begins, and ends while others write", by "ext/tests/it/write_behind.rs",
    "sync/nothing-written-after-damage": "without a journal, what was changed before a volume became read-only is written by the next sync", by "ext/tests/it/damage/changes.rs",
    "tail/refused-move-forgotten": "a tail that could not move for want of room is moved when a caller needs the space", by "jbd2/tests/it/abort.rs",
    "truncate/evicted-tail-not-zeroed": "what lies behind the end is zeroed before a file grows, also if its page was evicted meanwhile", by "ext/src/file/tests/sparse.rs",
    "truncate/map-block-not-held": "a map block whose pointers are taken away is in memory when their blocks are freed", by "ext/src/file/tests/evicted.rs",
}

//! Every kind of problem: its number, its name and a sentence. `docs/fsck.md` lists the same table.
//!
//! Numbers never change their meaning. Hundreds: 1 superblock, 2 groups, 3 inodes, 4 maps, 5
//! directories, 6 hash trees, 7 connections and links, 8 bitmaps and counts, 9 journal and orphan
//! list.

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The file system is not clean.
    Error,
    /// The file system counts as clean; nothing in use is affected.
    Note,
}

macro_rules! problem_kinds {
    ($($number:literal $name:ident $severity:ident $sentence:literal)*) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum ProblemKind {
            $(#[doc = concat!("The ", $sentence, ".")] $name = $number,)*
        }

        impl ProblemKind {
            /// All kinds, by ascending number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name in code and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// Returns a sentence about the problem, without an article and a full stop.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }

            /// Returns the severity of the problem.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),* }
            }
        }
    };
}

impl ProblemKind {
    /// Returns the number, which never changes its meaning.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the kind with a name in code.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied()
    }
}

problem_kinds! {
    102 DeviceTooSmall Error "file system has more blocks than its device"
    103 InodeCountWrong Error "number of inodes is not that of all groups"
    104 MountTimeInFuture Note "time of the last mount lies in the future"
    105 WriteTimeInFuture Note "time of the last write lies in the future"
    106 ReservedDescriptorsWithoutInode Error "superblock reserves blocks for descriptors without the feature resize_inode"
    107 LargeFileFeatureMissing Error "files of 2 GiB and more need the feature large_file, which is not set"
    108 BackupSuperblockDiffers Note "copy of the superblock says something else about sizes or features"
    109 BackupDescriptorsDiffer Note "copy of the group descriptors says something else about places"
    110 CopyChecked Note "superblock or its descriptors cannot be right, and the copies in another group were checked"
    111 LinksFeatureMissing Error "directories with more links than can be counted need the feature dir_nlink, which is not set"
    112 SuperblockChecksum Note "checksum of the superblock is wrong"
    113 ChecksumFeaturesTwice Note "features metadata_csum and uninit_bg are both set, and the former replaces the latter"
    114 ChecksumSeedWithoutChecksums Note "feature metadata_csum_seed is set without metadata_csum"
    115 ExtentsFeatureMissing Note "feature 64bit needs the feature extent, which is not set"
    116 MinimumExtraSizeInvalid Error "minimum size of the extra part of inodes cannot be right"
    117 WantedExtraSizeInvalid Error "wanted size of the extra part of inodes cannot be right"
    118 ResizeInodeWithMetaGroups Error "features meta_bg and resize_inode are both set, and exclude each other"
    119 MultiMountBlockInvalid Error "block of multiple mount protection cannot be where the superblock says"
    120 MultiMountMagic Error "block of multiple mount protection does not begin as one"
    121 MultiMountChecksum Error "checksum of multiple mount protection is wrong"
    122 MultiMountInUse Note "file system is in use by a node, or was not released by it"

    201 BlockBitmapMisplaced Error "block bitmap lies outside its group"
    202 InodeBitmapMisplaced Error "inode bitmap lies outside its group"
    203 InodeTableMisplaced Error "inode table lies outside its group"
    204 GroupMetadataOverlaps Error "group's bitmap or table lies on other metadata"
    205 GroupUninitialized Error "group has inodes in use and is marked as one without"
    206 DescriptorChecksum Error "checksum of the group descriptor is wrong"
    207 GroupFlagsWithoutFeature Note "group is marked as uninitialized, and no feature allows that"
    208 LastGroupUninitialized Error "last group is marked as one without a block bitmap"
    209 UnusedInodesWrong Error "group's count of unused inodes cannot be right"
    210 GroupBlocksUninitialized Error "group has blocks in use and is marked as one without a block bitmap"

    301 RootNotDirectory Error "root inode is not a directory"
    302 ReservedInodeMode Error "reserved inode has a mode that it must not have"
    303 JournalInodeMode Error "journal's inode is not a regular file"
    304 JournalInodeNotClear Error "journal's inode is in use, but there is no internal journal"
    305 ResizeInodeInvalid Note "resize inode does not map the reserved blocks"
    306 ResizeInodeNotClear Note "resize inode is in use, but the feature resize_inode is not set"
    307 BadBlocksInodeInvalid Error "inode of bad blocks has attributes that it must not have"
    308 InodeInUseHasDeletionTime Error "inode is in use and has a time of deletion"
    309 DeletedInodeWithoutTime Error "inode without links has no time of deletion"
    310 DeletionTimeIsInode Error "time of deletion is an inode's number, as on an orphan list"
    311 InodeMode Error "inode's mode is of no type of file"
    312 FragmentAddressNotZero Error "inode has a fragment address, which nothing uses"
    313 BlocksHighNotZero Error "upper half of the held blocks is not zero without the feature huge_file"
    314 AttributeBlockHighNotZero Error "upper half of the attribute block is not zero without the feature 64bit"
    315 DirectorySizeHighNotZero Error "upper half of a directory's size is not zero"
    316 FlagOfMissingFeature Error "inode has a flag of a feature that the file system does not have"
    317 SpecialFileFlags Note "special file has a flag that forbids changes"
    318 SpecialFileSize Error "special file has a size"
    319 SpecialFileInvalid Error "special file's inode cannot be right"
    320 SymlinkInvalid Error "symbolic link's target does not fit its size or place"
    321 ExtraSizeInvalid Error "size of the inode's extra part cannot be right"
    322 InodeAttributesInvalid Error "attributes in the inode cannot be right"
    323 AttributeBlockOutOfRange Error "attribute block is no block of the file system, or attributes are not enabled"
    324 AttributeBlockInvalid Error "attribute block does not begin as one"
    325 AttributesInvalid Error "entries of an attribute block cannot be right"
    326 AttributeReferencesWrong Error "attribute block's count of references is not the number of inodes that have it"
    327 IndexFlagNotDirectory Error "inode has the flag of a hash tree and is no directory"
    328 QuotaInodeNotClear Error "quota's inode is in use, but the feature quota is not set"
    329 ExtentsFlagMissing Error "inode has an extent tree and not the flag for it"
    330 SymlinkExtents Error "symbolic link without a block has the flag of extents"
    331 InodeChecksum Error "checksum of the inode is wrong"
    332 AttributeBlockChecksum Error "checksum of the attribute block is wrong"
    333 ValueInodeWrong Error "attribute names an inode that does not hold its value"
    334 ValueHashWrong Error "attribute's hash does not match the inode of its value"
    335 ValueInodeFlagMissing Error "inode of an attribute's value has not the flag for it"
    336 ValueReferencesWrong Error "value's count of references is not the number of attributes that name its inode"
    337 ValueInodeNamed Error "inode has the flag of an attribute's value and entries lead to it"
    338 InlineDataMissing Error "inode holds its contents itself and lacks the attribute for them"
    339 InlineDataAndExtents Error "inode has the flags of contents within it and of extents"
    340 SpecialFileInline Note "special file has the flag of contents within its inode"
    341 QuotaInodeInvalid Error "inode of a quota file cannot be one"
    342 FoldedNotDirectory Error "inode has the flag of names that ignore case and is no directory"
    343 EncryptionContextMissing Error "encrypted inode lacks the attribute with its context"
    344 EncryptionContextInvalid Error "context of an encrypted inode cannot be right"
    345 ClustersWithoutExtents Error "inode maps single blocks, which bigalloc excludes"
    346 TimesBefore1970 Note "times beyond the year 2310 are likely times before 1970 in an old form"

    401 BlockOutOfRange Error "map names a block that no file can have"
    402 BlockClaimedTwice Error "block belongs to more than one file, or twice to one"
    403 BlockInMetadata Error "map names a block of the file system's metadata"
    404 DirectorySizeWrong Error "directory's size is not that of its blocks"
    405 FileSizeTooSmall Error "file has blocks behind its end"
    406 FileSizeTooLarge Error "file's size is more than its map can hold"
    407 BlockCountWrong Error "inode's count of held blocks is wrong"
    408 DirectoryWithoutBlocks Error "directory has no blocks"
    409 TooManyBadBlocks Error "map has so many bad blocks that the rest was not looked at"
    410 BlockBeyondSymlink Error "symbolic link has more blocks than the one for its target"
    411 ExtentRoot Error "root of the extent tree cannot be right"
    412 ExtentNode Error "node of the extent tree cannot be right"
    413 ExtentDepth Error "node of the extent tree has a wrong depth"
    414 ExtentNodeEmpty Error "node of the extent tree has no entries"
    415 ExtentCycle Error "extent tree contains a cycle"
    416 ExtentStart Error "extent or node lies in a block that does not exist"
    417 ExtentEnd Error "extent ends beyond the file system"
    418 ExtentLength Error "extent has no length"
    419 ExtentOrder Error "extents are not in ascending order"
    420 ExtentOverlap Error "extent maps blocks of the file that another one maps"
    421 ExtentOutsideNode Error "extent reaches beyond what its index entry covers"
    422 ExtentIndexStart Error "index entry does not start where the node below it does"
    423 ExtentChecksum Error "checksum of the extent block is wrong"
    424 UnwrittenDirectory Error "directory has an unwritten extent"
    425 DirectoryTooLarge Error "directory has blocks beyond its maximum size"
    426 ClusterMisaligned Error "extent does not have its place in the cluster of its part of the file"

    501 DirectoryCorrupt Error "entry's length cannot be right, and what follows it in the block is lost"
    502 DirectoryHole Error "directory has a hole"
    503 DotMissing Error "first entry is not \".\""
    504 DotDotMissing Error "second entry is not \"..\""
    505 DotWrong Error "entry \".\" leads to another inode"
    506 DotTooLong Error "entry \".\" takes more room than it needs"
    507 SecondDot Error "entry is named \".\" or \"..\" and is not one of the first two"
    508 EntryOfDirectoryItself Error "entry leads to the directory that holds it"
    509 EntryOfRoot Error "entry leads to the root directory"
    510 EntryInodeOutOfRange Error "entry's inode does not exist or is reserved"
    511 EntryOfFreeInode Error "entry leads to an inode that is free"
    512 EntryWithoutName Error "entry has no name"
    513 EntryName Error "entry's name holds a slash or a zero byte"
    514 EntryFileType Error "entry's type is not that of its inode"
    515 NameTwice Error "name occurs twice in a block"
    516 SecondParent Error "entry leads to a directory that another entry leads to"
    517 EntryFileTypeMissing Note "entry does not say its inode's type"
    518 EntryOfLostInode Error "entry leads to an inode that lies in a bad block"
    519 EntryOfUnusedInode Error "entry leads to an inode that its group marks as never used"
    520 DirectoryChecksumMissing Error "directory block has no checksum"
    521 DirectoryChecksum Error "checksum of the directory block is wrong"
    522 InlineDirectoryLength Error "attribute with entries of a directory has a length that no entries have"
    523 EncryptedNameTooShort Error "entry of an encrypted directory has a name that is too short"
    524 EntryOfPlainInode Error "entry of an encrypted directory leads to an inode that is not encrypted"
    525 EntryOfOtherPolicy Error "entry of an encrypted directory leads to an inode with another policy"
    526 DotNotTerminated Error "name of entry \".\" or \"..\" is not followed by a zero byte"
    527 NameNotUtf8 Error "name in a directory that ignores case is not UTF-8"

    601 HtreeRoot Error "root of the hash tree cannot be right"
    602 HtreeHashVersion Error "hash tree has an unknown hash"
    603 HtreeFlags Error "hash tree has an unknown flag"
    604 HtreeDepth Error "hash tree has too many levels"
    605 HtreeLimit Error "index block's limit is not the number of entries that fit"
    606 HtreeCount Error "index block has more entries than fit"
    607 HtreeBlockOutOfRange Error "index entry leads to a block that the directory does not have"
    608 HtreeHashOrder Error "index entries are not in the order of their hashes"
    609 HtreeBlockNotReferenced Error "no index entry leads to the block"
    610 HtreeBlockReferencedTwice Error "more than one index entry leads to the block"
    611 HtreeMinHash Error "block holds a name whose hash belongs in a block before it"
    612 HtreeMaxHash Error "block holds a name whose hash belongs in a block behind it"
    613 HtreeLeafDepth Error "leaf of the hash tree is not as deep as the root says"
    614 HtreeRootChecksum Error "checksum of the hash tree's root is wrong"
    615 HtreeNodeChecksum Error "checksum of the index block is wrong"
    616 HtreeHashesUnchecked Note "names ignore case, and whether they are in the order of their hashes was not checked"

    701 RootMissing Error "root directory is not in use"
    702 DirectoryUnconnected Error "directory has no entry that leads to it"
    703 DirectoryInCircle Error "directory's parents lead in a circle"
    704 DotDotWrong Error "entry \"..\" does not lead to the parent"
    705 InodeUnattached Error "inode is in use and no entry leads to it"
    706 LinkCountWrong Error "inode's count of links is not the number of its entries"

    801 BlockBitmapWrong Error "block bitmap differs from what is in use"
    802 FreeBlocksOfGroupWrong Error "group's count of free blocks is wrong"
    803 FreeBlocksWrong Note "superblock's count of free blocks is wrong"
    804 InodeBitmapWrong Error "inode bitmap differs from what is in use"
    805 FreeInodesOfGroupWrong Error "group's count of free inodes is wrong"
    806 DirectoriesOfGroupWrong Error "group's count of directories is wrong"
    807 FreeInodesWrong Note "superblock's count of free inodes is wrong"
    808 BlockBitmapPadding Error "block bitmap's bits behind the last block are not set"
    809 InodeBitmapPadding Error "inode bitmap's bits behind the last inode are not set"
    810 BlockBitmapChecksum Error "checksum of the block bitmap is wrong"
    811 InodeBitmapChecksum Error "checksum of the inode bitmap is wrong"
    812 QuotaFileInvalid Error "quota file cannot be right"
    813 QuotaUsageWrong Error "quota file's count of an owner's space or inodes is wrong"

    901 JournalInvalid Error "journal is not where the superblock says"
    902 JournalSuperblockInvalid Error "journal's superblock cannot be right"
    903 JournalFeatures Error "journal has features that are not known"
    904 LogWithoutRecovery Note "journal has something to replay, but the superblock does not say so"
    905 RecoveryWithoutJournal Error "superblock wants the journal replayed, but there is none"
    906 JournalWithoutFeature Note "superblock names a journal, but the feature has_journal is not set"
    907 LogStartOutOfRange Error "log begins outside the journal"
    908 JournalError Error "journal was aborted with an error"
    909 JournalFieldsOfVersion2 Note "journal's superblock has fields that its version does not have"
    910 JournalUsers Error "journal has more than one user"
    911 LogHomeOutOfRange Error "committed transaction writes a block that does not exist"
    912 LogRevokeInvalid Error "committed transaction's revoke block cannot be right"
    913 JournalDeviceInvalid Error "device that was given is no journal of this block size"
    914 JournalUuidWrong Error "device that was given is another journal"
    915 JournalOfOther Error "journal does not name this file system as its user"
    916 OrphanOutOfRange Error "orphan list names an inode that does not exist or is reserved"
    917 OrphanFree Error "orphan list names an inode that is free"
    918 OrphansInCircle Error "orphan list leads in a circle"
    919 JournalTwice Error "superblock names both an inode and a device as the journal"
    920 OrphanFileMissing Error "superblock names an inode as the orphan file that does not exist, is reserved or is free"
    921 OrphanFileMode Error "orphan file's inode is not a regular file"
    922 OrphanFileNotClear Error "orphan file's inode is in use, but the feature orphan_file is not set"
    923 OrphanFileSize Error "orphan file's size is not that of its blocks, or above 8 MiB"
    924 OrphanFileHole Error "orphan file has a hole"
    925 OrphanBlockInvalid Error "block of the orphan file does not end as one"
    926 OrphanBlockChecksum Error "checksum of the orphan file's block is wrong"
    927 OrphanSlotUsed Error "block of the orphan file has inodes in its slots"
    928 OrphanFileWithoutJournal Error "file system has an orphan file and no journal"
    929 OrphansPresentWithoutFile Error "orphans are marked as present, but the feature orphan_file is not set"
    930 OrphansPresentWithoutSlots Note "orphans are marked as present, but no slot of the orphan file is in use"
    931 OrphanTwice Error "inode is an orphan twice"
    932 JournalDeviceChecksum Error "checksum of the journal device's superblock is wrong"
}

//! Every kind of problem: its number, its name and a sentence. `docs/fsck.md` lists the same table.
//!
//! Numbers never change their meaning. Hundreds: 1 superblock, 2 groups, 3 inodes, 4 maps, 5 directories, 6 hash trees,
//! 7 connections and links, 8 bitmaps and counts, 9 journal and orphan list.

/// Whether a problem makes a file system unclean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// It does.
    Error,
    /// It does not; nothing in use is wrong.
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
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in code and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// What is wrong: a sentence without an article and a full stop.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }

            /// Whether the file system is unclean because of it.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),* }
            }
        }
    };
}

impl ProblemKind {
    /// The number, which never changes its meaning.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

problem_kinds! {
    101 SuperblockInvalid Error "first superblock cannot be right, and a copy was used"
    102 DeviceTooSmall Error "file system has more blocks than its device"
    103 InodeCountWrong Error "number of inodes is not that of all groups"
    104 MountTimeInFuture Error "time of the last mount lies in the future"
    105 WriteTimeInFuture Error "time of the last write lies in the future"
    106 ReservedDescriptorsWithoutInode Error "superblock reserves blocks for descriptors without the feature resize_inode"
    107 FeaturesInRevision0 Error "superblock has features, but is of the revision that has none"
    108 BackupSuperblockDiffers Note "copy of the superblock says something else about sizes or features"
    109 BackupDescriptorsDiffer Note "copy of the group descriptors says something else about places"

    201 BlockBitmapMisplaced Error "block bitmap lies outside its group"
    202 InodeBitmapMisplaced Error "inode bitmap lies outside its group"
    203 InodeTableMisplaced Error "inode table lies outside its group"
    204 GroupMetadataOverlaps Error "group's bitmap or table lies on other metadata"

    301 RootNotDirectory Error "root inode is not a directory"
    302 ReservedInodeMode Error "reserved inode has a mode that it must not have"
    303 JournalInodeMode Error "journal's inode is not a regular file"
    304 JournalInodeNotClear Error "journal's inode is in use, but there is no internal journal"
    305 ResizeInodeInvalid Error "resize inode does not map the reserved blocks"
    306 ResizeInodeNotClear Error "resize inode is in use, but the feature resize_inode is not set"
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
    317 SpecialFileFlags Error "special file has a flag that forbids changes"
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

    401 BlockOutOfRange Error "map names a block that no file can have"
    402 BlockClaimedTwice Error "block belongs to more than one file, or twice to one"
    403 BlockInMetadata Error "map names a block of the file system's metadata"
    404 DirectorySizeWrong Error "directory's size is not that of its blocks"
    405 FileSizeTooSmall Error "file has blocks behind its end"
    406 FileSizeTooLarge Error "file's size is more than its map can hold"
    407 BlockCountWrong Error "inode's count of held blocks is wrong"
    408 DirectoryWithoutBlocks Error "directory has no blocks"
    409 TooManyBadBlocks Error "map has so many bad blocks that the rest was not looked at"

    801 BlockBitmapWrong Error "block bitmap differs from what is in use"
    802 FreeBlocksOfGroupWrong Error "group's count of free blocks is wrong"
    803 FreeBlocksWrong Error "superblock's count of free blocks is wrong"
    804 InodeBitmapWrong Error "inode bitmap differs from what is in use"
    805 FreeInodesOfGroupWrong Error "group's count of free inodes is wrong"
    806 DirectoriesOfGroupWrong Error "group's count of directories is wrong"
    807 FreeInodesWrong Error "superblock's count of free inodes is wrong"
    808 BlockBitmapPadding Error "block bitmap's bits behind the last block are not set"
    809 InodeBitmapPadding Error "inode bitmap's bits behind the last inode are not set"
}

//! The file around an image: the places of its parts, and what is written when the image is made.

use std::fs::File;

use uuid::Uuid;

use crate::error::Error;
use crate::identity;
use crate::partition::{self, Identity};
use crate::verity::{self, DIGEST_BYTES, IsStopped, Options, Part};

/// Size of the blocks of dm-verity in bytes, `veritysetup`'s default.
const VERITY_BLOCK: u32 = 4096;

/// The place of a hash tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// Behind the image, within its partition if there is one.
    Appended,
    /// In a file of its own.
    Separate,
}

/// The surroundings of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrapping {
    /// A dm-verity hash tree.
    pub verity: Option<Tree>,
    /// A partition table with one partition (GPT).
    pub is_partitioned: bool,
}

/// A description of what was written around an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// The hash tree, if there is one.
    pub verity: Option<Verified>,
    /// The partition, if there is one.
    pub partition: Option<Partitioned>,
}

/// The parameters of a hash tree that `veritysetup` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The root hash.
    pub root_hash: [u8; DIGEST_BYTES],
    /// The salt.
    pub salt: Vec<u8>,
    /// UUID in the superblock of the tree.
    pub uuid: Uuid,
    /// Offset of the tree in bytes from the start of the image, or of its own file.
    pub hash_offset: u64,
    /// Number of data blocks, of 4096 bytes.
    pub data_block_count: u64,
}

/// The place and the names of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitioned {
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// UUID of the partition (`PARTUUID`).
    pub uuid: Uuid,
    /// UUID of the disk.
    pub disk_uuid: Uuid,
}

impl Wrapping {
    /// Returns true if the image is the whole file.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns the offset of the image in its file, in bytes.
    #[must_use]
    pub fn image_offset(self) -> u64 {
        match self.is_partitioned {
            true => partition::START,
            false => 0,
        }
    }

    /// Returns the size of the file around an image of this size, in bytes.
    ///
    /// # Errors
    /// Fails if the image is empty.
    pub fn file_bytes(self, image_bytes: u64) -> Result<u64, Error> {
        let bytes = self.partition_bytes(image_bytes)?;
        Ok(match self.is_partitioned {
            true => partition::disk_bytes(bytes),
            false => bytes,
        })
    }

    /// Returns the number of bytes of the image and what follows it.
    fn partition_bytes(self, image_bytes: u64) -> Result<u64, Error> {
        Ok(match self.verity {
            None => image_bytes,
            Some(Tree::Separate) => data_bytes(image_bytes),
            Some(Tree::Appended) => {
                let data = data_bytes(image_bytes);
                data + options([0; 16]).hash_bytes(data)?
            }
        })
    }

    /// Writes the hash tree and the partition table around a finished image. `hashes` is the file
    /// of a separate tree. The hashes of a large image take long: they end if `is_stopped`.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written, or if `is_stopped` returns true.
    pub fn finish(
        self,
        file: &File,
        hashes: Option<&File>,
        image_bytes: u64,
        image_uuid: [u8; 16],
        is_stopped: IsStopped<'_>,
    ) -> Result<Wrapped, Error> {
        if self.is_none() {
            return Ok(Wrapped {
                verity: None,
                partition: None,
            });
        }
        let size = self.file_bytes(image_bytes)?;
        file.set_len(size).map_err(Error::io("its size"))?;
        let verity = match (self.verity, hashes) {
            (None, _) => None,
            (Some(Tree::Appended), _) => {
                Some(self.append(file, image_bytes, image_uuid, is_stopped)?)
            }
            (Some(Tree::Separate), Some(hashes)) => {
                let hashes = Part {
                    file: hashes,
                    offset: 0,
                };
                Some(self.verify((file, hashes), image_bytes, image_uuid, is_stopped)?)
            }
            (Some(Tree::Separate), None) => {
                return Err(Error::Invalid("the separate hash tree has no file"));
            }
        };
        let partition = match self.is_partitioned {
            true => Some(self.partition(file, image_bytes, image_uuid)?),
            false => None,
        };
        Ok(Wrapped { verity, partition })
    }

    fn append(
        self,
        file: &File,
        image_bytes: u64,
        image: [u8; 16],
        is_stopped: IsStopped<'_>,
    ) -> Result<Verified, Error> {
        let data = data_bytes(image_bytes);
        let hashes = Part {
            file,
            offset: self.image_offset() + data,
        };
        let verified = self.verify((file, hashes), image_bytes, image, is_stopped)?;
        Ok(Verified {
            hash_offset: data,
            ..verified
        })
    }

    fn verify(
        self,
        (file, hashes): (&File, Part<'_>),
        image_bytes: u64,
        image: [u8; 16],
        is_stopped: IsStopped<'_>,
    ) -> Result<Verified, Error> {
        let options = options(image);
        let bytes = data_bytes(image_bytes);
        let data = Part {
            file,
            offset: self.image_offset(),
        };
        let root_hash = verity::format_until(data, bytes, hashes, &options, is_stopped)?;
        Ok(Verified {
            root_hash,
            salt: options.salt,
            uuid: verity_uuid(image),
            hash_offset: 0,
            data_block_count: bytes / u64::from(VERITY_BLOCK),
        })
    }

    fn partition(
        self,
        file: &File,
        image_bytes: u64,
        image: [u8; 16],
    ) -> Result<Partitioned, Error> {
        let bytes = self.partition_bytes(image_bytes)?;
        let identity = Identity {
            disk: identity::uuid(image, "jext gpt disk"),
            partition: identity::uuid(image, "jext gpt partition 1"),
        };
        partition::write(file, bytes, identity)?;
        Ok(Partitioned {
            offset: partition::START,
            bytes: bytes.next_multiple_of(partition::UNIT),
            uuid: identity.partition,
            disk_uuid: identity.disk,
        })
    }
}

/// Returns the number of bytes that a hash tree covers: those of the image, in whole blocks.
fn data_bytes(image_bytes: u64) -> u64 {
    image_bytes.next_multiple_of(VERITY_BLOCK.into())
}

fn verity_uuid(image: [u8; 16]) -> Uuid {
    identity::uuid(image, "jext verity")
}

fn options(image: [u8; 16]) -> Options {
    Options {
        data_block_bytes: VERITY_BLOCK,
        hash_block_bytes: VERITY_BLOCK,
        salt: identity::digest(image, "jext verity salt").to_vec(),
        superblock: Some(*verity_uuid(image).as_bytes()),
    }
}

//! The shape of a built image: its exact size, and what surrounds it in its file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::BlockDevice;
use clap::{Args, ValueEnum};
use envelope::{Tree, Wrapped, Wrapping};
use ext::mkfs::Options;
use serde_json::{Value, json};
use transfer::new_image::device_in;
use transfer::new_image::fit::Free;

use crate::new_file::NewFile;

/// The size of the image, and what surrounds it.
#[derive(Debug, Args)]
pub(crate) struct ShapeArguments {
    /// Make the smallest image: no free block or inode but those that the format forces. The blocks
    /// of the tree are counted before. Nothing is reserved without -m.
    #[arg(long, conflicts_with_all = ["size", "slack", "free"])]
    fit: bool,
    /// Exact free space to leave besides reserved blocks: 20% of the image, or 100M.
    #[arg(long, value_name = "SPACE", conflicts_with_all = ["size", "slack"])]
    free: Option<String>,
    /// Add a dm-verity hash tree behind the image, or in FILE, and print its root hash.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    verity: Option<Option<PathBuf>>,
    /// Put the image into the only partition of a disk.
    #[arg(long, value_name = "TABLE")]
    partition: Option<Table>,
}

/// A kind of partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Table {
    Gpt,
}

/// The file around an image that is being made.
pub(super) struct Envelope {
    wrapping: Wrapping,
    /// The file of a separate hash tree.
    pub(super) hashes: Option<NewFile>,
}

impl ShapeArguments {
    /// Returns the free space of an image of exact size.
    pub(super) fn free(&self) -> Result<Option<Free>> {
        let Some(text) = &self.free else {
            return Ok(self.fit.then_some(Free::NONE));
        };
        let free = Free::parse(text);
        free.map(Some)
            .map_err(|expected| anyhow!("--free {text}: expected {expected}"))
    }

    /// Returns the options of mkfs, with this percentage of reserved blocks if it is given.
    pub(super) fn options(&self, options: Options, reserved_percent: Option<f64>) -> Options {
        let is_given = reserved_percent.is_some() || !self.fit;
        Options {
            reserved_percent: match is_given {
                true => options.reserved_percent,
                false => 0.0,
            },
            ..options
        }
    }

    /// Returns the file of a separate hash tree.
    pub(super) fn hashes(&self) -> Option<&Path> {
        self.verity.as_ref()?.as_deref()
    }

    /// Prepares what surrounds the image.
    pub(super) fn envelope(&self) -> Result<Envelope> {
        Ok(Envelope {
            wrapping: self.wrapping(),
            hashes: self.hashes().map(NewFile::create).transpose()?,
        })
    }

    /// Returns the offset of the image in its file, in bytes.
    pub(super) fn image_offset(&self) -> u64 {
        self.wrapping().image_offset()
    }

    fn wrapping(&self) -> Wrapping {
        let tree = match self.hashes() {
            Some(_) => Tree::Separate,
            None => Tree::Appended,
        };
        Wrapping {
            verity: self.verity.as_ref().map(|_| tree),
            is_partitioned: self.partition.is_some(),
        }
    }
}

impl Envelope {
    /// Returns the device of an image of this size in its empty file.
    pub(super) fn device(
        &self,
        file: &File,
        name: &str,
        bytes: u64,
    ) -> Result<Arc<dyn BlockDevice>> {
        device_in(file, name, self.wrapping.image_offset(), bytes)
    }

    /// Writes what surrounds a finished image, and syncs it.
    pub(super) fn wrap(&self, file: &File, bytes: u64, uuid: [u8; 16]) -> Result<Wrapped> {
        let hashes = self.hashes.as_ref().map(NewFile::file);
        let wrapped = self.wrapping.finish(file, hashes, bytes, uuid, &|| false)?;
        // The image itself is synced already.
        if !self.wrapping.is_none() {
            file.sync_data()?;
        }
        hashes.map_or(Ok(()), File::sync_data).context("--verity")?;
        Ok(wrapped)
    }
}

/// Returns lines about what surrounds an image.
pub(super) fn text(wrapped: &Wrapped) -> String {
    let mut text = String::new();
    if let Some(verity) = &wrapped.verity {
        let (root, salt) = (hex(&verity.root_hash), hex(&verity.salt));
        text += &format!("root hash:   {root}\nsalt:        {salt}\n");
        text += &format!("hash offset: {} bytes\n", verity.hash_offset);
    }
    if let Some(partition) = &wrapped.partition {
        text += &format!("partition:   PARTUUID={}\n", partition.uuid);
    }
    text
}

/// Adds what surrounds an image to a summary.
pub(super) fn add_json(summary: &mut Value, wrapped: &Wrapped) {
    if let Some(verity) = &wrapped.verity {
        summary["verity"] = json!({
            "root_hash": hex(&verity.root_hash),
            "salt": hex(&verity.salt),
            "uuid": verity.uuid.to_string(),
            "hash_offset": verity.hash_offset,
            "data_blocks": verity.data_block_count,
        });
    }
    if let Some(partition) = &wrapped.partition {
        summary["partition"] = json!({
            "offset": partition.offset,
            "bytes": partition.bytes,
            "uuid": partition.uuid.to_string(),
            "disk_uuid": partition.disk_uuid.to_string(),
        });
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

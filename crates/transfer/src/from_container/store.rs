//! The files of an image, in a directory or in an archive, and their digests.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context, Error, Result, bail, ensure};
use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::json::{Descriptor, hex_of};
use super::members::Members;
use crate::Stop;
use crate::decompressed::Decompressed;
use crate::section::Section;

/// Maximum bytes of a document; registries allow 4 MiB for a manifest.
const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// Bytes that are hashed at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The files of an image.
#[derive(Debug)]
pub(super) enum Store {
    /// An image layout in this directory.
    Directory(PathBuf),
    /// An archive.
    Archive(Members),
}

/// Facts about a file that are known before it is read: a digest in hexadecimal digits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Digest and size of the file.
    Bytes { digest: String, size: u64 },
    /// Digest of the file's contents after decompression.
    Contents(String),
}

impl Store {
    /// Returns the name of the store, for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Archive(members) => members.name().to_owned(),
        }
    }

    /// Returns the full name and the bytes of a file.
    pub(super) fn open(&self, path: &str) -> Result<(String, Section)> {
        match self {
            Self::Directory(root) => {
                let path = root.join(path);
                let name = path.display().to_string();
                // A FIFO would be waited for.
                let mut options = File::options();
                let options = options
                    .read(true)
                    .custom_flags(OFlags::NONBLOCK.bits() as i32);
                let file = options.open(path).with_context(|| name.clone())?;
                let is_file = file.metadata().is_ok_and(|found| found.is_file());
                ensure!(is_file, "{name}: is not a regular file");
                Ok((name, Section::of(file)))
            }
            Self::Archive(members) => {
                let name = format!("{}: {path}", members.name());
                let section = members.open(path).with_context(|| name.clone())?;
                Ok((name, section))
            }
        }
    }

    /// Returns the full name, the bytes and the digest of the blob of a descriptor.
    pub(super) fn blob(&self, descriptor: &Descriptor) -> Result<(String, Section, Expected)> {
        let digest = hex_of(&descriptor.digest).with_context(|| self.name())?;
        let (name, section) = self.open(&format!("blobs/sha256/{digest}"))?;
        let expected = Expected::Bytes {
            digest: digest.to_owned(),
            size: descriptor.size,
        };
        Ok((name, section, expected))
    }

    /// Reads the verified document of a descriptor.
    pub(super) fn document<D: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<D> {
        let (name, section, expected) = self.blob(descriptor)?;
        expected.verify(&name, &section, &Stop::default())?;
        read_json(&name, &section)
    }
}

/// Reads a document.
pub(super) fn read_json<D: DeserializeOwned>(name: &str, section: &Section) -> Result<D> {
    let mut bytes = Vec::new();
    let mut limited = section.reader().take(DOCUMENT_BYTES_MAX + 1);
    let read = limited.read_to_end(&mut bytes);
    read.with_context(|| name.to_owned())?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        bail!("{name}: a document of more than {DOCUMENT_BYTES_MAX} bytes");
    }
    serde_json::from_slice(&bytes).with_context(|| name.to_owned())
}

impl Expected {
    /// Verifies a file, until `stop`; `name` is for messages.
    pub(super) fn verify(&self, name: &str, section: &Section, stop: &Stop) -> Result<()> {
        let (found, wanted) = match self {
            Self::Bytes { digest, size } => {
                let (found, bytes) =
                    hash(section.reader(), stop).with_context(|| name.to_owned())?;
                if bytes != *size {
                    bail!("{name}: has {bytes} bytes, not {size} as its descriptor says");
                }
                (found, digest)
            }
            Self::Contents(digest) => {
                let contents = Decompressed::of(section.reader());
                let found = contents.map_err(Error::from);
                let found = found.and_then(|contents| hash(contents.reader, stop));
                (found.with_context(|| name.to_owned())?.0, digest)
            }
        };
        if found != *wanted {
            bail!("{name}: its digest is sha256:{found}, not sha256:{wanted}: it is damaged");
        }
        Ok(())
    }
}

/// Returns the digest and the number of the bytes of a stream.
fn hash(mut from: impl Read, stop: &Stop) -> Result<(String, u64)> {
    let (mut hasher, mut total) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        stop.check()?;
        match from.read(&mut piece)? {
            0 => break,
            count => {
                hasher.update(&piece[..count]);
                total += count as u64;
            }
        }
    }
    let digest = hasher.finalize();
    Ok((
        digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        total,
    ))
}

//! The external journal of a built image. A new image is announced to the journal before it
//! appears, and becomes the user right after: a build that fails changes nothing of the journal,
//! and one that is killed leaves an image that the journal knows.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::{BlockDevice, FileDevice, OpenOptions};
use ext::mkfs::{self, JournalDevice};
use ext::superblock::Superblock;
use jbd2::format::{self, Users};
use layout::superblock;

use crate::image::{Access, open_device};

/// The device of an external journal.
pub(super) struct Journal {
    text: String,
    device: Arc<dyn BlockDevice>,
    pub(super) found: JournalDevice,
    users: Users,
}

impl Journal {
    pub(super) fn open(text: &str) -> Result<Self> {
        let context = || format!("-J device={text}");
        let device = open_device(text, Access::Write).with_context(context)?;
        let found = mkfs::journal_device(&device).with_context(context)?;
        let users = format::users_of_empty(&device, found.block_bytes).with_context(context)?;
        Ok(Self {
            text: text.to_owned(),
            device,
            found,
            users,
        })
    }

    /// Fails if the journal is used by another image than the new one and the one at `out`, which
    /// the new one replaces. `offset` is that of the images in their files.
    pub(super) fn check(&self, image: [u8; 16], out: &Path, offset: u64) -> Result<()> {
        let Users { present, announced } = self.users;
        match present {
            Some(user) if user != image => match replaced(out, offset) {
                Some(old) if old == user || announced == Some(old) => Ok(()),
                _ => Err(jbd2::Error::Taken { user }).with_context(|| self.context()),
            },
            _ => Ok(()),
        }
    }

    /// Announces the image. It becomes the user at once if there is none: no other may take the
    /// journal.
    pub(super) fn announce(&self, image: [u8; 16]) -> Result<()> {
        let announced = match self.users.present {
            Some(_) => self.set_announced(Some(image)),
            None => self.rename(image, image),
        };
        announced.with_context(|| self.context())
    }

    /// Takes the announcement back. The error that led to this is reported, not one of this.
    pub(super) fn take_back(&self, image: [u8; 16]) {
        let JournalDevice {
            uuid, block_bytes, ..
        } = self.found;
        let _ = match self.users.present {
            Some(_) => self.set_announced(None),
            None => format::remove_user(&self.device, block_bytes, uuid, image),
        };
    }

    /// Makes the image, which has appeared, the user.
    pub(super) fn give_to(&self, image: [u8; 16]) -> Result<()> {
        let user = self.users.present.unwrap_or(image);
        self.rename(user, image).with_context(|| self.context())
    }

    fn set_announced(&self, image: Option<[u8; 16]>) -> Result<(), jbd2::Error> {
        let JournalDevice {
            uuid, block_bytes, ..
        } = self.found;
        format::announce_user(&self.device, block_bytes, uuid, image)
    }

    fn rename(&self, from: [u8; 16], to: [u8; 16]) -> Result<(), jbd2::Error> {
        let JournalDevice {
            uuid, block_bytes, ..
        } = self.found;
        format::rename_user(&self.device, block_bytes, uuid, [from, to])
    }

    fn context(&self) -> String {
        format!("-J device={}", self.text)
    }
}

/// Returns the UUID of an image that is gone when its file is replaced: a file with one name.
fn replaced(out: &Path, offset: u64) -> Option<[u8; 16]> {
    let is_only_name = std::fs::symlink_metadata(out).ok()?.nlink() == 1;
    let device = FileDevice::open(out, &OpenOptions::read_only());
    let device: Arc<dyn BlockDevice> = Arc::new(device.ok()?);
    let size = device.geometry().size_bytes.checked_sub(offset)?;
    let bytes = device.read_block(offset + superblock::OFFSET, superblock::SIZE as u32);
    let found = Superblock::decode(&bytes.ok()?, size).ok()?;
    is_only_name.then_some(found.raw.uuid)
}

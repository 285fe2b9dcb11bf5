//! The 15 words of an inode (`i_block`).
//!
//! | inode | its words |
//! |---|---|
//! | regular file, directory, long symbolic link | the root of a block map |
//! | the same, with `inline_data` and its flag | the first 60 bytes of the contents |
//! | short symbolic link | the target |
//! | character or block device | the device number |

use layout::device::DeviceNumber;
use layout::extent::{Header, MAGIC, ROOT_ENTRIES_MAX};
use layout::inode::MAP_WORDS;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

/// The words, which have a meaning only together with the inode's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Words {
    words: [u32; MAP_WORDS],
}

impl Words {
    /// Creates the words from their form in the inode.
    pub(crate) const fn from_raw(words: [u32; MAP_WORDS]) -> Self {
        Self { words }
    }

    /// Returns the words in their form in the inode.
    pub(crate) const fn to_raw(self) -> [u32; MAP_WORDS] {
        self.words
    }

    /// Returns the direct pointers, then the roots of the three indirect trees.
    pub(crate) fn pointers(&self) -> &[u32; MAP_WORDS] {
        &self.words
    }

    /// Returns the pointers of [`pointers`](Self::pointers) for changes.
    pub(crate) fn pointers_mut(&mut self) -> &mut [u32; MAP_WORDS] {
        &mut self.words
    }

    /// Returns the bytes of the words: the root of an extent tree, or the target of a short
    /// symbolic link.
    pub(crate) fn to_bytes(self) -> [u8; MAP_WORDS * 4] {
        let mut bytes = [0; MAP_WORDS * 4];
        for (raw, word) in bytes.chunks_exact_mut(4).zip(self.words) {
            raw.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Creates the words from their bytes, of which the root of an extent tree has as many.
    pub(crate) fn from_bytes(bytes: &[u8; MAP_WORDS * 4]) -> Self {
        let mut words = [0; MAP_WORDS];
        for (word, raw) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        }
        Self { words }
    }

    /// Creates the root of an extent tree without extents.
    pub(crate) fn empty_tree() -> Self {
        let header = Header {
            magic: U16::new(MAGIC),
            entry_max: U16::new(ROOT_ENTRIES_MAX),
            ..Header::default()
        };
        let mut bytes = [0; MAP_WORDS * 4];
        bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        Self::from_bytes(&bytes)
    }

    /// Returns the number of a device.
    pub(crate) fn device(&self) -> DeviceNumber {
        DeviceNumber::decode(self.words[0], self.words[1])
    }

    /// Sets the number of a device, encoded by [`DeviceNumber::encode`].
    pub(crate) fn set_device(&mut self, encoded: [u32; 2]) {
        self.words[..2].copy_from_slice(&encoded);
    }

    /// Returns the target of a short symbolic link; none if the words have fewer bytes.
    pub(crate) fn target(&self, length: usize) -> Option<Vec<u8>> {
        self.to_bytes().get(..length).map(<[u8]>::to_vec)
    }

    /// Sets the target of a short symbolic link.
    pub(crate) fn set_target(&mut self, target: &[u8]) {
        for (word, bytes) in self.words.iter_mut().zip(target.chunks(4)) {
            let mut raw = [0; 4];
            raw[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(raw);
        }
    }
}

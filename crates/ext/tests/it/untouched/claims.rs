//! The claims of each inode of an image: read from its bytes alone, without help from the engine
//! under test.
//!
//! An inode claims its indirect blocks, its data blocks, and its attribute block, wherever damage
//! makes the pointers lead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::memory::MemoryDevice;

use crate::rig::device;

pub const INODE_JOURNAL: u32 = 8;
/// Indices of the indirect pointers among the 15 words of a block map, with their depths.
const INDIRECT: [(usize, u32); 3] = [(12, 1), (13, 2), (14, 3)];
/// `EXT4_EXTENTS_FL` and `EXT4_INLINE_DATA_FL`: the words are no block map.
const NO_MAP: u32 = 0x8_0000 | 0x1000_0000;

/// An inode as stored in its table.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    /// Indirect blocks and the attribute block.
    pub metadata: BTreeSet<u64>,
    /// The data blocks.
    pub data: BTreeSet<u64>,
    /// Offset of the inode in bytes.
    pub at: u64,
    /// The file type bits of its mode.
    pub kind: u16,
    /// True if the inode bitmap shows it as free.
    pub is_free: bool,
}

/// All claims of an image.
#[derive(Debug, Default)]
pub struct Claims {
    pub block_bytes: u64,
    /// Bitmaps and inode tables.
    pub system: BTreeMap<u64, &'static str>,
    pub owners: BTreeMap<u32, Owner>,
    /// Blocks that the bitmaps show as free.
    pub free: BTreeSet<u64>,
}

struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn u16(&self, at: u64) -> u32 {
        let bytes = self.bytes.get(at as usize..at as usize + 2);
        bytes.map_or(0, |bytes| {
            u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
        })
    }

    fn u32(&self, at: u64) -> u64 {
        u64::from(self.u16(at)) | u64::from(self.u16(at.saturating_add(2))) << 16
    }

    fn is_set(&self, bitmap_at: u64, bit: u64) -> bool {
        let byte = self.bytes.get((bitmap_at + bit / 8) as usize);
        byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }
}

impl Owner {
    fn has(&self, block: u64) -> bool {
        self.metadata.contains(&block) || self.data.contains(&block)
    }

    /// Returns every block that the inode claims.
    pub fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.metadata.iter().chain(&self.data).copied()
    }
}

impl Claims {
    /// Reads an image; returns no claims if its superblock is invalid.
    pub fn of(home: &Arc<MemoryDevice>) -> Self {
        let size = device(home).geometry().size_bytes;
        let image = Image {
            bytes: home.to_bytes(),
        };
        let field = |offset: u64| image.u32(1024 + offset);
        let (inodes, blocks, first) = (field(0), field(4), field(0x14));
        let (per_group, inodes_per_group) = (field(0x20), field(0x28));
        let log = field(0x18);
        let mut claims = Self::default();
        if log > 2 || per_group == 0 || inodes_per_group == 0 || blocks > size / 1024 {
            return claims;
        }
        claims.block_bytes = 1024 << log;
        let inode_bytes = match field(0x4C) {
            0 => 128,
            _ => u64::from(image.u16(1024 + 0x58)),
        };
        let groups = (blocks.saturating_sub(first)).div_ceil(per_group);
        for group in 0..groups.min(64) {
            let at = (first + 1) * claims.block_bytes + group * 32;
            let [bitmap, inode_bitmap, table] = [0, 4, 8].map(|offset| image.u32(at + offset));
            claims.system.insert(bitmap, "block bitmap");
            claims.system.insert(inode_bitmap, "inode bitmap");
            let table_blocks = (inodes_per_group * inode_bytes).div_ceil(claims.block_bytes);
            for block in table..table + table_blocks.min(4096) {
                claims.system.insert(block, "inode table");
            }
            for bit in 0..per_group {
                let block = first + group * per_group + bit;
                if block < blocks && !image.is_set(bitmap * claims.block_bytes, bit) {
                    claims.free.insert(block);
                }
            }
            for index in 0..inodes_per_group {
                let nr = group * inodes_per_group + index + 1;
                let at = table * claims.block_bytes + index * inode_bytes;
                if nr > inodes || at + inode_bytes > size {
                    break;
                }
                let is_free = !image.is_set(inode_bitmap * claims.block_bytes, index);
                claims.add(&image, blocks, nr as u32, at, is_free);
            }
        }
        claims
    }

    fn add(&mut self, image: &Image, blocks: u64, nr: u32, at: u64, is_free: bool) {
        let mode = image.u16(at) as u16;
        let is_deleted = image.u16(at + 26) == 0 && image.u32(at + 20) != 0;
        if mode == 0 || is_deleted {
            return;
        }
        let mut owner = Owner {
            at,
            kind: mode & 0xF000,
            is_free,
            ..Owner::default()
        };
        let attributes = image.u32(at + 0x68);
        if attributes != 0 && attributes < blocks {
            owner.metadata.insert(attributes);
        }
        let has_blocks = image.u32(at + 28) > u64::from(attributes != 0) * self.block_bytes / 512;
        let has_map = match owner.kind {
            0x8000 | 0x4000 => true,
            0xA000 => has_blocks,
            _ => false,
        };
        if has_map && image.u32(at + 32) & u64::from(NO_MAP) == 0 {
            for word in 0..12 {
                self.follow(image, blocks, &mut owner, image.u32(at + 40 + 4 * word), 0);
            }
            for (word, depth) in INDIRECT {
                let pointer = image.u32(at + 40 + 4 * word as u64);
                self.follow(image, blocks, &mut owner, pointer, depth);
            }
        }
        self.owners.insert(nr, owner);
    }

    fn follow(&self, image: &Image, blocks: u64, owner: &mut Owner, pointer: u64, depth: u32) {
        if pointer == 0 || pointer >= blocks {
            return;
        }
        if depth == 0 {
            owner.data.insert(pointer);
            return;
        }
        // A block visited twice leads to nothing new at this depth or below.
        if !owner.metadata.insert(pointer) {
            return;
        }
        for index in 0..self.block_bytes / 4 {
            let next = image.u32(pointer * self.block_bytes + 4 * index);
            self.follow(image, blocks, owner, next, depth - 1);
        }
    }

    /// Returns the reason for which a change of one inode may affect another one, if there is one.
    ///
    /// Blocks that two inodes share in the undamaged image are no reason, unless the damage is in
    /// the block.
    pub fn sharing(
        &self,
        changed: u32,
        named: &BTreeSet<u32>,
        sound: &Self,
        damaged_block: u64,
    ) -> Option<&'static str> {
        let Some(owner) = self.owners.get(&changed) else {
            return Some("its inode is not in use");
        };
        if owner.is_free {
            return Some("the inode bitmap has it as free");
        }
        let home = owner.at / self.block_bytes;
        let named = named.iter().chain(&[INODE_JOURNAL]);
        for nr in named.filter(|nr| **nr != changed) {
            let Some(other) = self.owners.get(nr) else {
                continue;
            };
            if other.blocks().any(|block| block == home) {
                return Some("its inode lies in a block that a named file claims");
            }
            let is_sound = |block: u64| {
                let claims = |nr| sound.owners.get(&nr).is_some_and(|owner| owner.has(block));
                block != damaged_block && claims(changed) && claims(*nr)
            };
            if owner
                .blocks()
                .any(|block| other.has(block) && !is_sound(block))
            {
                return Some("a named file claims one of its blocks");
            }
        }
        if owner.blocks().any(|block| self.free.contains(&block)) {
            return Some("the block bitmap has one of its blocks as free");
        }
        if owner.blocks().any(|block| self.system.contains_key(&block)) {
            return Some("it claims blocks of the volume's metadata");
        }
        None
    }

    /// Returns the reason for which a new file may lose its contents, if there is one.
    pub fn free_claim(&self) -> Option<&'static str> {
        let mut owners = self.owners.values();
        let is_claimed = owners
            .any(|owner| owner.is_free || owner.blocks().any(|block| self.free.contains(&block)));
        is_claimed.then_some("a file claims what the bitmaps have as free, and a new file got it")
    }
}

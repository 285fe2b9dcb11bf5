//! Locations in an image, and bytes written to them: `poke super 56 u16 0`. The decoding is the
//! test's own.
//!
//! ```text
//! super | group G | inode N | block B | file N F (block F of inode N) | entry N NAME (directory N)
//!       | attributes N | node N I/J/... (in the extent tree of inode N: below entry J of the
//!         node below entry I of the root) | mmp (the block of multiple mount protection)
//! then an offset, and u8 | u16 | u32 | be32 VALUE, hex BYTES, or fill BYTE COUNT
//! ```
//! `seal` and one of the places above computes the checksums of what lies there; `seal bitmaps G`
//! those of a group's bitmaps, and of its descriptor; `seal orphans N F` that of block F of the
//! orphan file, inode N.

use layout::checksum::{START, crc16, crc32c};

/// Maximum number of directory blocks that are searched.
const DIRECTORY_BLOCKS: usize = 64;

/// An image in memory.
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    block_bytes: usize,
    inode_bytes: usize,
    inodes_per_group: usize,
    descriptors: usize,
    descriptor_bytes: usize,
}

/// Flag of an inode with an extent tree.
const EXTENTS: usize = 0x8_0000;
/// Feature `64bit`.
const IS_64BIT: usize = 0x80;
/// Feature `meta_bg`, with its first meta block group at the start.
const META_BG: usize = 0x10;

fn number(text: &str) -> usize {
    match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

impl Bytes {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let mut image = Self {
            bytes,
            block_bytes: 0,
            inode_bytes: 128,
            inodes_per_group: 0,
            descriptors: 0,
            descriptor_bytes: 32,
        };
        image.block_bytes = 1024 << image.word(1024 + 24);
        image.descriptors = (image.word(1024 + 20) + 1) * image.block_bytes;
        image.inodes_per_group = image.word(1024 + 40);
        if image.word(1024 + 76) != 0 {
            image.inode_bytes = image.word(1024 + 88) & 0xFFFF;
        }
        if image.word(1024 + 96) & IS_64BIT != 0 {
            image.descriptor_bytes = image.half(1024 + 254);
        }
        image
    }

    fn half(&self, at: usize) -> usize {
        self.word(at) & 0xFFFF
    }

    fn word(&self, at: usize) -> usize {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn group(&self, group: usize) -> usize {
        let per_block = self.block_bytes / self.descriptor_bytes;
        if self.word(1024 + 96) & META_BG == 0 || group < per_block {
            return self.descriptors + self.descriptor_bytes * group;
        }
        // Copies of the superblock lie in groups of odd numbers only.
        let first = self.word(1024 + 20) + group / per_block * per_block * self.word(1024 + 32);
        first * self.block_bytes + self.descriptor_bytes * (group % per_block)
    }

    fn inode(&self, inode: usize) -> usize {
        let (group, index) = (
            (inode - 1) / self.inodes_per_group,
            (inode - 1) % self.inodes_per_group,
        );
        let table = self.word(self.group(group) + 8);
        table * self.block_bytes + index * self.inode_bytes
    }

    /// Returns the offset of block `file_block` of an inode; 0 for a hole.
    fn file_block(&self, inode: usize, file_block: usize) -> usize {
        let (map, pointers) = (self.inode(inode) + 40, self.block_bytes / 4);
        if self.word(self.inode(inode) + 32) & EXTENTS != 0 {
            return self.mapped_block(map, file_block);
        }
        let block = if file_block < 12 {
            self.word(map + 4 * file_block)
        } else {
            let index = file_block - 12;
            assert!(index < pointers, "the places of recipes are not that far");
            self.word(self.word(map + 48) * self.block_bytes + 4 * index)
        };
        block * self.block_bytes
    }

    /// Returns the offset of a block that is mapped below the node at an offset; 0 for a hole.
    fn mapped_block(&self, node: usize, file_block: usize) -> usize {
        let (count, depth) = (self.half(node + 2), self.half(node + 6));
        let mut entries = (1..=count).rev().map(|index| node + 12 * index);
        let found = entries.find(|at| self.word(*at) <= file_block);
        match found {
            None => 0,
            Some(at) if depth > 0 => {
                self.mapped_block(self.word(at + 4) * self.block_bytes, file_block)
            }
            Some(at) => {
                let index = file_block - self.word(at);
                if index < self.half(at + 4) {
                    (self.word(at + 8) + index) * self.block_bytes
                } else {
                    0
                }
            }
        }
    }

    /// Returns the offset of a node below the root of an inode's tree.
    fn node(&self, inode: usize, path: &str) -> usize {
        let root = self.inode(inode) + 40;
        path.split('/').map(number).fold(root, |node, index| {
            assert!(self.half(node + 6) > 0 && index < self.half(node + 2));
            self.word(node + 12 * (index + 1) + 4) * self.block_bytes
        })
    }

    fn attributes(&self, inode: usize) -> usize {
        self.word(self.inode(inode) + 104) * self.block_bytes
    }

    /// Returns the place that words name, and the words after it.
    fn place<'w, 'x>(&self, words: &'w [&'x str]) -> (usize, &'w [&'x str]) {
        match words[0] {
            "super" => (1024, &words[1..]),
            "group" => (self.group(number(words[1])), &words[2..]),
            "inode" => (self.inode(number(words[1])), &words[2..]),
            "block" => (number(words[1]) * self.block_bytes, &words[2..]),
            "file" => (
                self.file_block(number(words[1]), number(words[2])),
                &words[3..],
            ),
            "entry" => (self.entry(number(words[1]), words[2]), &words[3..]),
            "node" => (self.node(number(words[1]), words[2]), &words[3..]),
            "attributes" => (self.attributes(number(words[1])), &words[2..]),
            "mmp" => (self.word(1024 + 0x168) * self.block_bytes, &words[1..]),
            other => panic!("no such place: {other}"),
        }
    }

    /// Returns the offset of the entry with a name.
    fn entry(&self, directory: usize, name: &str) -> usize {
        let starts = (0..DIRECTORY_BLOCKS).map(|block| self.file_block(directory, block));
        for start in starts.filter(|start| *start != 0) {
            let mut at = start;
            while at + 8 <= start + self.block_bytes {
                let length = usize::from(self.bytes[at + 6]);
                if self.bytes.get(at + 8..at + 8 + length) == Some(name.as_bytes()) {
                    return at;
                }
                let record = self.word(at + 4) & 0xFFFF;
                if record < 8 {
                    break;
                }
                at += record;
            }
        }
        panic!("directory {directory} has no entry {name}");
    }

    /// Writes bytes to a location; see the module.
    pub(crate) fn poke(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (start, rest) = self.place(&words);
        let value = || number(rest[2]) as u32;
        let bytes = match rest[1] {
            "u8" => vec![value() as u8],
            "u16" => (value() as u16).to_le_bytes().to_vec(),
            "u32" => value().to_le_bytes().to_vec(),
            "be32" => value().to_be_bytes().to_vec(),
            "fill" => vec![value() as u8; number(rest[3])],
            "hex" => rest[2]
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect(),
            other => panic!("no such type: {other}"),
        };
        let at = start + number(rest[0]);
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    /// Computes the checksums of a place; see the module.
    pub(crate) fn seal(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let seed = self.seed();
        if words[0] == "bitmaps" {
            self.seal_bitmaps(seed, number(words[1]));
            return;
        }
        if words[0] == "orphans" {
            let inode = number(words[1]);
            let start = self.file_block(inode, number(words[2]));
            let nr = (start / self.block_bytes) as u64;
            let tail = start + self.block_bytes - 8;
            let crc = crc32c(self.owner(seed, inode), &nr.to_le_bytes());
            let crc = crc32c(crc, &self.bytes[start..tail]);
            self.put(tail + 4, crc, 4);
            return;
        }
        let (start, _) = self.place(&words);
        let block = start..start + self.block_bytes;
        match words[0] {
            "super" => {
                let crc = crc32c(START, &self.bytes[1024..2044]);
                self.put(1024 + 1020, crc, 4);
            }
            "group" => self.seal_group(seed, number(words[1])),
            "inode" => {
                let inode = number(words[1]);
                let range = start..start + self.inode_bytes;
                let has_high = self.inode_bytes > 128 && self.half(start + 128) >= 4;
                self.put(start + 124, 0, 2);
                if has_high {
                    self.put(start + 130, 0, 2);
                }
                let crc = crc32c(self.owner(seed, inode), &self.bytes[range]);
                self.put(start + 124, crc, 2);
                if has_high {
                    self.put(start + 130, crc >> 16, 2);
                }
            }
            "node" => {
                let at = start + 12 * (1 + self.half(start + 4));
                let crc = crc32c(self.owner(seed, number(words[1])), &self.bytes[start..at]);
                self.put(at, crc, 4);
            }
            "file" => self.seal_directory(self.owner(seed, number(words[1])), start),
            "mmp" => {
                let crc = crc32c(seed, &self.bytes[start..start + 1020]);
                self.put(start + 1020, crc, 4);
            }
            "attributes" => {
                self.put(start + 16, 0, 4);
                let nr = (start / self.block_bytes) as u64;
                let crc = crc32c(crc32c(seed, &nr.to_le_bytes()), &self.bytes[block]);
                self.put(start + 16, crc, 4);
            }
            other => panic!("{other} has no checksum"),
        }
    }

    fn put(&mut self, at: usize, value: u32, length: usize) {
        self.bytes[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
    }

    /// Returns the seed of the image's checksums.
    fn seed(&self) -> u32 {
        const WITH_SEED: usize = 0x2000;
        if self.word(1024 + 96) & WITH_SEED != 0 {
            self.word(1024 + 0x270) as u32
        } else {
            crc32c(START, &self.bytes[1024 + 104..1024 + 120])
        }
    }

    fn owner(&self, seed: u32, inode: usize) -> u32 {
        let generation = self.inode(inode) + 100;
        let crc = crc32c(seed, &(inode as u32).to_le_bytes());
        crc32c(crc, &self.bytes[generation..generation + 4])
    }

    /// Seals a descriptor with the kind of checksum that the image has.
    fn seal_group(&mut self, seed: u32, group: usize) {
        const METADATA_CSUM: usize = 0x400;
        let (at, number) = (self.group(group), (group as u32).to_le_bytes());
        let raw = self.bytes[at..at + self.descriptor_bytes].to_vec();
        let crc = if self.word(1024 + 100) & METADATA_CSUM != 0 {
            let crc = crc32c(crc32c(crc32c(seed, &number), &raw[..30]), &[0; 2]);
            crc32c(crc, &raw[32..])
        } else {
            let crc = crc16(crc16(0xFFFF, &self.bytes[1024 + 104..1024 + 120]), &number);
            crc16(crc16(crc, &raw[..30]), &raw[32..]).into()
        };
        self.put(at + 30, crc, 2);
    }

    fn seal_bitmaps(&mut self, seed: u32, group: usize) {
        let at = self.group(group);
        for (field, low, high, bits) in [(0, 24, 56, 1024 + 36), (4, 26, 58, 1024 + 40)] {
            let start = self.word(at + field) * self.block_bytes;
            let crc = crc32c(seed, &self.bytes[start..start + self.word(bits) / 8]);
            self.put(at + low, crc, 2);
            if self.descriptor_bytes > 32 {
                self.put(at + high, crc >> 16, 2);
            }
        }
        self.seal_group(seed, group);
    }

    /// Seals a block of a directory: an index block, or a leaf.
    fn seal_directory(&mut self, owner: u32, start: usize) {
        let end = start + self.block_bytes;
        if self.bytes[end - 5] == 0xDE {
            let crc = crc32c(owner, &self.bytes[start..end - 12]);
            self.put(end - 4, crc, 4);
            return;
        }
        let offset = if self.half(start + 4) == self.block_bytes {
            8
        } else {
            32
        };
        let entries = start + offset;
        let (limit, count) = (self.half(entries), self.half(entries + 2));
        let tail = entries + 8 * limit;
        let crc = crc32c(owner, &self.bytes[start..entries + 8 * count]);
        let crc = crc32c(crc32c(crc, &self.bytes[tail..tail + 4]), &[0; 4]);
        self.put(tail + 4, crc, 4);
    }
}

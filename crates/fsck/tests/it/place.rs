//! Locations in an image, and bytes written to them: `poke super 56 u16 0`. The decoding is the
//! test's own.
//!
//! ```text
//! super | group G | inode N | block B | file N F (block F of inode N) | entry N NAME (directory N)
//! then an offset, and u8 | u16 | u32 | be32 VALUE, hex BYTES, or fill BYTE COUNT
//! ```

/// Maximum number of directory blocks that are searched.
const DIRECTORY_BLOCKS: usize = 64;

/// An image in memory.
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    block_bytes: usize,
    inode_bytes: usize,
    inodes_per_group: usize,
    descriptors: usize,
}

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
        };
        image.block_bytes = 1024 << image.word(1024 + 24);
        image.descriptors = (image.word(1024 + 20) + 1) * image.block_bytes;
        image.inodes_per_group = image.word(1024 + 40);
        if image.word(1024 + 76) != 0 {
            image.inode_bytes = image.word(1024 + 88) & 0xFFFF;
        }
        image
    }

    fn word(&self, at: usize) -> usize {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn inode(&self, inode: usize) -> usize {
        let (group, index) = (
            (inode - 1) / self.inodes_per_group,
            (inode - 1) % self.inodes_per_group,
        );
        let table = self.word(self.descriptors + 32 * group + 8);
        table * self.block_bytes + index * self.inode_bytes
    }

    /// Returns the offset of block `file_block` of an inode; 0 for a hole.
    fn file_block(&self, inode: usize, file_block: usize) -> usize {
        let (map, pointers) = (self.inode(inode) + 40, self.block_bytes / 4);
        let block = if file_block < 12 {
            self.word(map + 4 * file_block)
        } else {
            let index = file_block - 12;
            assert!(index < pointers, "the places of recipes are not that far");
            self.word(self.word(map + 48) * self.block_bytes + 4 * index)
        };
        block * self.block_bytes
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
        let (start, rest) = match words[0] {
            "super" => (1024, &words[1..]),
            "group" => (self.descriptors + 32 * number(words[1]), &words[2..]),
            "inode" => (self.inode(number(words[1])), &words[2..]),
            "block" => (number(words[1]) * self.block_bytes, &words[2..]),
            "file" => (
                self.file_block(number(words[1]), number(words[2])),
                &words[3..],
            ),
            "entry" => (self.entry(number(words[1]), words[2]), &words[3..]),
            other => panic!("no such place: {other}"),
        };
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
}

//! A quota file in memory: its tree, decoded and changed.
//!
//! An entry is never removed: with no use and no limits it stays, as zeroes beside its id.

use std::collections::{BTreeMap, BTreeSet};

use layout::quota::{
    BLOCK_SIZE, DEPTH, DataHeader, ENTRIES_PER_BLOCK, Entry, GRACE_SECONDS, Header, QuotaKind,
    ROOT_BLOCK, VERSION,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Size of a block number in a node of the tree in bytes.
const POINTER: usize = 4;
/// Largest number of blocks that a new entry changes: the header, a path of the tree, a data block,
/// and the next one with room.
pub(crate) const ENTRY_BLOCKS_MAX: u32 = DEPTH + 3;

/// A quota file.
#[derive(Debug, Clone)]
pub(crate) struct QuotaTree {
    bytes: Vec<u8>,
    /// Offsets of the entries.
    places: BTreeMap<u32, usize>,
    /// Blocks that differ from those on the device.
    changed: BTreeSet<u32>,
}

/// Space and inodes in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Change {
    pub(crate) space: i64,
    pub(crate) inodes: i64,
}

impl QuotaTree {
    /// Creates a file without entries.
    pub(crate) fn new(kind: QuotaKind) -> Self {
        let mut header = Header::new_zeroed();
        header.magic.set(kind.magic());
        header.version.set(VERSION);
        header.space_grace.set(GRACE_SECONDS);
        header.inode_grace.set(GRACE_SECONDS);
        header.blocks.set(ROOT_BLOCK + 1);
        let mut bytes = vec![0; (ROOT_BLOCK as usize + 1) * BLOCK_SIZE];
        bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        Self {
            bytes,
            places: BTreeMap::new(),
            changed: (0..=ROOT_BLOCK).collect(),
        }
    }

    /// Decodes a file.
    ///
    /// # Errors
    /// Names the first fault.
    pub(crate) fn decode(kind: QuotaKind, mut bytes: Vec<u8>) -> Result<Self, &'static str> {
        let Ok((header, _)) = Header::read_from_prefix(&bytes) else {
            return Err("it is too short");
        };
        if header.magic.get() != kind.magic() {
            return Err("the magic number is wrong");
        }
        if header.version.get() != VERSION {
            return Err("its version is unknown");
        }
        let blocks = header.blocks.get() as usize;
        if blocks <= ROOT_BLOCK as usize || blocks * BLOCK_SIZE > bytes.len() {
            return Err("it has fewer blocks than it counts");
        }
        let lists = [header.free_block.get(), header.block_with_room.get()];
        if lists.iter().any(|first| *first as usize >= blocks) {
            return Err("a list of its blocks leads outside");
        }
        bytes.truncate(blocks * BLOCK_SIZE);
        let mut tree = Self {
            bytes,
            places: BTreeMap::new(),
            changed: BTreeSet::new(),
        };
        let mut seen = BTreeSet::new();
        tree.collect(ROOT_BLOCK, 0, 0, &mut seen)?;
        Ok(tree)
    }

    /// Finds the entries below a node of a level.
    fn collect(
        &mut self,
        node: u32,
        level: u32,
        prefix: u32,
        seen: &mut BTreeSet<u32>,
    ) -> Result<(), &'static str> {
        if node < ROOT_BLOCK || node >= self.header().blocks.get() {
            return Err("a node lies outside the file");
        }
        if !seen.insert(node) {
            return Err("two pointers lead to one node");
        }
        for index in 0..(BLOCK_SIZE / POINTER) as u32 {
            let below = self.pointer(node, index);
            if below == 0 {
                continue;
            }
            let prefix = prefix << 8 | index;
            if level + 1 < DEPTH {
                self.collect(below, level + 1, prefix, seen)?;
                continue;
            }
            if below >= self.header().blocks.get() || seen.contains(&below) {
                return Err("a data block lies outside the file, or is a node");
            }
            let place = self.slots(below).find(|at| {
                let entry = self.entry_at(*at);
                entry.id.get() == prefix && entry != Entry::default()
            });
            let place = place.ok_or("a pointer leads to no entry")?;
            self.places.insert(prefix, place);
        }
        Ok(())
    }

    /// Returns all entries, by id.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.places.values().map(|at| self.entry_at(*at))
    }

    /// Returns true if an id has an entry.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.places.contains_key(&id)
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns a range of bytes, with zeroes behind the end.
    pub(crate) fn padded(&self, from: usize, count: usize) -> Vec<u8> {
        let end = (from + count).min(self.bytes.len());
        let mut bytes = self.bytes.get(from..end).unwrap_or_default().to_vec();
        bytes.resize(count, 0);
        bytes
    }

    /// Takes the byte offsets of the blocks that were changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<usize> {
        let changed = core::mem::take(&mut self.changed);
        let offsets = changed.into_iter();
        offsets.map(|block| block as usize * BLOCK_SIZE).collect()
    }

    /// Changes the use of an id; returns false if it has no entry. A count does not go below zero.
    pub(crate) fn change(&mut self, id: u32, change: Change) -> bool {
        self.edit(id, |entry| {
            let add = |count: u64, change: i64| count.saturating_add_signed(change);
            entry.space.set(add(entry.space.get(), change.space));
            entry.inodes.set(add(entry.inodes.get(), change.inodes));
        })
    }

    /// Changes an entry; returns false if the id has none.
    pub(crate) fn edit(&mut self, id: u32, edit: impl FnOnce(&mut Entry)) -> bool {
        let Some(at) = self.places.get(&id).copied() else {
            return false;
        };
        let mut entry = self.entry_at(at);
        edit(&mut entry);
        entry.id.set(id);
        self.put_entry(at, entry);
        true
    }

    /// Adds an entry without use and limits.
    pub(crate) fn insert(&mut self, id: u32) {
        if self.contains(id) {
            return;
        }
        let block = self.block_with_room();
        let mut slots = self.slots(block);
        let free = slots.find(|at| self.entry_at(*at) == Entry::default());
        let Some(at) = free else {
            // The list names a block that is full: it is damaged, and left as it is.
            self.edit_header(|header| header.block_with_room.set(0));
            return self.insert(id);
        };
        drop(slots);
        let mut entry = Entry::default();
        entry.id.set(id);
        self.put_entry(at, entry);
        self.count_entry(block);
        self.point(id, block);
        self.places.insert(id, at);
    }

    /// Returns a data block with a free entry.
    fn block_with_room(&mut self) -> u32 {
        match self.header().block_with_room.get() {
            block if block > ROOT_BLOCK && block < self.header().blocks.get() => block,
            _ => {
                let block = self.new_block();
                self.edit_header(|header| header.block_with_room.set(block));
                block
            }
        }
    }

    /// Counts a new entry of the first block with room; a block that is full leaves the list.
    fn count_entry(&mut self, block: u32) {
        let mut header = self.data_header(block);
        let count = header.entries.get().saturating_add(1);
        header.entries.set(count);
        if usize::from(count) >= ENTRIES_PER_BLOCK {
            let next = header.next.get();
            header.next.set(0);
            header.previous.set(0);
            self.edit_header(|header| header.block_with_room.set(next));
            if next != 0 && next < self.header().blocks.get() {
                let mut following = self.data_header(next);
                following.previous.set(0);
                self.put_data_header(next, following);
            }
        }
        self.put_data_header(block, header);
    }

    /// Makes the tree lead from an id to a data block.
    fn point(&mut self, id: u32, block: u32) {
        let mut node = ROOT_BLOCK;
        for level in 0..DEPTH {
            let index = id >> (8 * (DEPTH - 1 - level)) & 0xFF;
            let below = match self.pointer(node, index) {
                _ if level + 1 == DEPTH => block,
                0 => self.new_block(),
                below => below,
            };
            self.set_pointer(node, index, below);
            node = below;
        }
    }

    /// Returns a block of zeroes: a free one, or one more.
    fn new_block(&mut self) -> u32 {
        let header = self.header();
        let free = header.free_block.get();
        if free > ROOT_BLOCK && free < header.blocks.get() {
            let next = self.data_header(free).next.get();
            self.edit_header(|header| header.free_block.set(next));
            let at = free as usize * BLOCK_SIZE;
            self.bytes[at..at + BLOCK_SIZE].fill(0);
            self.changed.insert(free);
            return free;
        }
        let block = header.blocks.get();
        self.edit_header(|header| header.blocks.set(block + 1));
        self.bytes.resize((block as usize + 1) * BLOCK_SIZE, 0);
        self.changed.insert(block);
        block
    }

    fn header(&self) -> Header {
        let (header, _) = Header::read_from_prefix(&self.bytes).expect("the file has block 0");
        header
    }

    fn edit_header(&mut self, edit: impl FnOnce(&mut Header)) {
        let mut header = self.header();
        edit(&mut header);
        self.put(0, header.as_bytes());
    }

    fn data_header(&self, block: u32) -> DataHeader {
        let at = block as usize * BLOCK_SIZE;
        let (header, _) =
            DataHeader::read_from_prefix(&self.bytes[at..]).expect("the file has the block");
        header
    }

    fn put_data_header(&mut self, block: u32, header: DataHeader) {
        self.put(block as usize * BLOCK_SIZE, header.as_bytes());
    }

    /// Returns the offsets of the entries of a data block.
    fn slots(&self, block: u32) -> impl Iterator<Item = usize> + use<> {
        let first = block as usize * BLOCK_SIZE + size_of::<DataHeader>();
        (0..ENTRIES_PER_BLOCK).map(move |index| first + index * size_of::<Entry>())
    }

    fn entry_at(&self, at: usize) -> Entry {
        let (entry, _) =
            Entry::read_from_prefix(&self.bytes[at..]).expect("the file has the block");
        entry
    }

    /// Stores an entry. One that would be zero, that of id 0, gets a time that marks it.
    fn put_entry(&mut self, at: usize, mut entry: Entry) {
        if entry == Entry::default() {
            entry.inode_time.set(1);
        }
        self.put(at, entry.as_bytes());
    }

    fn pointer(&self, node: u32, index: u32) -> u32 {
        let at = node as usize * BLOCK_SIZE + index as usize * POINTER;
        let word = self.bytes[at..at + POINTER].try_into().expect("4 bytes");
        u32::from_le_bytes(word)
    }

    fn set_pointer(&mut self, node: u32, index: u32, block: u32) {
        let at = node as usize * BLOCK_SIZE + index as usize * POINTER;
        self.put(at, &block.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let old = &mut self.bytes[at..at + bytes.len()];
        if old != bytes {
            old.copy_from_slice(bytes);
            self.changed.insert((at / BLOCK_SIZE) as u32);
        }
    }
}

//! A quota file in memory: its tree, decoded and changed. Its free blocks and its data blocks with
//! room are in [`lists`].

mod lists;
#[cfg(test)]
mod tests;

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
/// The same of an entry that is removed: the header, a path of the tree, a data block, and its two
/// neighbours in the list.
pub(crate) const REMOVAL_BLOCKS_MAX: u32 = DEPTH + 4;

/// A quota file.
#[derive(Debug, Clone)]
pub(crate) struct QuotaTree {
    bytes: Vec<u8>,
    /// Offsets of the entries.
    places: BTreeMap<u32, usize>,
    /// Ids of the entries without use and limits.
    unused: BTreeSet<u32>,
    /// The list of data blocks with a free entry.
    with_room: BTreeSet<u32>,
    /// The fault of a list that was given up.
    list_fault: Option<&'static str>,
    /// Blocks that differ from those on the device.
    changed: BTreeSet<u32>,
}

/// The blocks that the tree of a file leads to.
#[derive(Debug, Default)]
struct Used {
    nodes: BTreeSet<u32>,
    data: BTreeSet<u32>,
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
            unused: BTreeSet::new(),
            with_room: BTreeSet::new(),
            list_fault: None,
            changed: (0..=ROOT_BLOCK).collect(),
        }
    }

    /// Decodes a file. A list of its blocks that is not right is given up:
    /// [`list_fault`](Self::list_fault).
    ///
    /// # Errors
    /// Names the first fault of the header or the tree.
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
        bytes.truncate(blocks * BLOCK_SIZE);
        let mut tree = Self {
            bytes,
            places: BTreeMap::new(),
            unused: BTreeSet::new(),
            with_room: BTreeSet::new(),
            list_fault: None,
            changed: BTreeSet::new(),
        };
        let mut used = Used::default();
        tree.collect(ROOT_BLOCK, 0, 0, &mut used)?;
        if !used.nodes.is_disjoint(&used.data) {
            return Err("a data block is a node");
        }
        tree.check_lists(&used);
        let entries = tree.entries().filter(is_unused);
        tree.unused = entries.map(|entry| entry.id.get()).collect();
        Ok(tree)
    }

    /// Returns the fault of a list of blocks that was given up when the file was decoded.
    pub(crate) fn list_fault(&self) -> Option<&'static str> {
        self.list_fault
    }

    /// Finds the entries below a node of a level.
    fn collect(
        &mut self,
        node: u32,
        level: u32,
        prefix: u32,
        used: &mut Used,
    ) -> Result<(), &'static str> {
        if node < ROOT_BLOCK || node >= self.header().blocks.get() {
            return Err("a node lies outside the file");
        }
        if !used.nodes.insert(node) {
            return Err("two pointers lead to one node");
        }
        for index in 0..(BLOCK_SIZE / POINTER) as u32 {
            let below = self.pointer(node, index);
            if below == 0 {
                continue;
            }
            let prefix = prefix << 8 | index;
            if level + 1 < DEPTH {
                self.collect(below, level + 1, prefix, used)?;
                continue;
            }
            if below <= ROOT_BLOCK || below >= self.header().blocks.get() {
                return Err("a data block lies outside the file");
            }
            used.data.insert(below);
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

    /// Changes the use of an id. A count does not go below zero.
    ///
    /// # Errors
    /// Names the fault of the file: the id has no entry, or its counts are too small.
    pub(crate) fn change(&mut self, id: u32, change: Change) -> Result<(), &'static str> {
        let mut is_large_enough = true;
        let is_known = self.edit(id, |entry| {
            let mut add = |count: u64, change: i64| {
                is_large_enough &= count.checked_add_signed(change).is_some();
                count.saturating_add_signed(change)
            };
            entry.space.set(add(entry.space.get(), change.space));
            entry.inodes.set(add(entry.inodes.get(), change.inodes));
        });
        match (is_known, is_large_enough) {
            (false, _) => Err("the owner of an inode has no entry"),
            (true, false) => Err("the counts of an owner are less than those of its inodes"),
            (true, true) => Ok(()),
        }
    }

    /// Returns the ids of the entries without use and limits.
    pub(crate) fn unused(&self) -> impl Iterator<Item = u32> {
        self.unused.iter().copied()
    }

    /// Changes an entry; returns false if the id has none.
    pub(crate) fn edit(&mut self, id: u32, edit: impl FnOnce(&mut Entry)) -> bool {
        let Some(at) = self.places.get(&id).copied() else {
            return false;
        };
        let mut entry = self.entry_at(at);
        let was_unused = is_unused(&entry);
        edit(&mut entry);
        entry.id.set(id);
        self.put_entry(at, entry);
        match (was_unused, is_unused(&entry)) {
            (true, false) => _ = self.unused.remove(&id),
            (false, true) => _ = self.unused.insert(id),
            _ => {}
        }
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
        let at = free.expect("a block of the list has a free entry");
        let mut entry = Entry::default();
        entry.id.set(id);
        self.put_entry(at, entry);
        self.count_entry(block);
        self.point(id, block);
        self.places.insert(id, at);
        self.unused.insert(id);
    }

    /// Returns the number of bytes that the file has with an entry for an id.
    pub(crate) fn len_with(&self, id: u32) -> usize {
        if self.contains(id) {
            return self.len();
        }
        let mut missing = u32::from(self.header().block_with_room.get() == 0);
        let mut node = ROOT_BLOCK;
        for level in 0..DEPTH - 1 {
            node = self.pointer(node, index_of(id, level));
            if node == 0 {
                missing += DEPTH - 1 - level;
                break;
            }
        }
        let added = missing as usize - self.free_blocks(missing as usize);
        self.len() + added * BLOCK_SIZE
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(at) = self.places.remove(&id) else {
            return;
        };
        self.unused.remove(&id);
        let block = (at / BLOCK_SIZE) as u32;
        self.put(at, Entry::default().as_bytes());
        self.discount_entry(block);
        self.unpoint(id);
    }

    /// Makes the tree lead from an id to a data block.
    fn point(&mut self, id: u32, block: u32) {
        let mut node = ROOT_BLOCK;
        for level in 0..DEPTH {
            let index = index_of(id, level);
            let below = match self.pointer(node, index) {
                _ if level + 1 == DEPTH => block,
                0 => self.new_block(),
                below => below,
            };
            self.set_pointer(node, index, below);
            node = below;
        }
    }

    /// Removes the pointer of an id, and the nodes that it leaves empty.
    fn unpoint(&mut self, id: u32) {
        let mut path = vec![ROOT_BLOCK];
        for level in 0..DEPTH - 1 {
            path.push(self.pointer(path[level as usize], index_of(id, level)));
        }
        for (level, node) in (0..DEPTH).zip(path).rev() {
            self.set_pointer(node, index_of(id, level), 0);
            let is_empty = self.block(node).iter().all(|byte| *byte == 0);
            if node == ROOT_BLOCK || !is_empty {
                break;
            }
            self.free_block(node);
        }
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

    fn block(&self, block: u32) -> &[u8] {
        let at = block as usize * BLOCK_SIZE;
        &self.bytes[at..at + BLOCK_SIZE]
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

/// Returns the index of an id's pointer in its node of a level.
fn index_of(id: u32, level: u32) -> u32 {
    id >> (8 * (DEPTH - 1 - level)) & 0xFF
}

/// Returns true if an entry says nothing.
fn is_unused(entry: &Entry) -> bool {
    let limits = [
        entry.space_soft,
        entry.space_hard,
        entry.inode_soft,
        entry.inode_hard,
    ];
    let counts = [entry.space, entry.inodes];
    limits
        .into_iter()
        .chain(counts)
        .all(|count| count.get() == 0)
}

//! The attributes of one place, as values and as bytes.
//!
//! ```text
//! | header | entry, name | entry, name | ... | 0 0 0 0 |   free   | value | value |
//!          ^ first                                                              ^ end of the place
//! ```
//!
//! Offsets of values count from the start of a block, but from the first entry within an inode. So
//! a *place* here is the whole block, or the part after the magic within an inode, and `first` is
//! the offset of its entries.
//!
//! # Rules
//!
//! - Attributes are written in the order in which Linux searches blocks: by prefix, length of the
//!   name, name. Values are packed from the end, in the same order. So equal attributes have equal
//!   bytes.
//! - Attributes are read in any order and with gaps, but nothing may overlap or lie outside.

use layout::attribute::{ALIGNMENT, Entry, entry_hash};
use zerocopy::{FromBytes, IntoBytes};

use super::name::AttributeName;

/// Size in bytes of the word that ends the entries.
const END_BYTES: usize = 4;
/// Size of an entry in bytes, without its name.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: AttributeName,
    pub(crate) value: Vec<u8>,
}

/// Attributes in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AttributeSet {
    attributes: Vec<Attribute>,
}

impl Attribute {
    fn order(&self) -> (u8, usize, &[u8]) {
        order(&self.name)
    }

    fn hash(&self) -> u32 {
        entry_hash(&self.name.suffix, &self.value)
    }

    fn bytes(&self) -> usize {
        entry_bytes(self.name.suffix.len()) + self.value.len().next_multiple_of(ALIGNMENT)
    }
}

fn order(name: &AttributeName) -> (u8, usize, &[u8]) {
    (name.index, name.suffix.len(), &name.suffix)
}

fn entry_bytes(name_bytes: usize) -> usize {
    (ENTRY_BYTES + name_bytes).next_multiple_of(ALIGNMENT)
}

impl AttributeSet {
    /// Reads the attributes of a place.
    ///
    /// # Errors
    /// Returns a description of the damage.
    pub(crate) fn decode(place: &[u8], first: usize) -> Result<Self, &'static str> {
        let mut attributes = Vec::new();
        let mut at = first;
        // The end of the entries is known only after the last: values must not start before it.
        let mut values_begin = place.len();
        loop {
            let rest = place.get(at..).unwrap_or_default();
            let word = rest.get(..END_BYTES).ok_or("the entries have no end")?;
            if word == [0; END_BYTES] {
                break;
            }
            let (entry, rest) = Entry::ref_from_prefix(rest).map_err(|_| "an entry is cut off")?;
            let length = usize::from(entry.name_length);
            let suffix = rest.get(..length).ok_or("a name is cut off")?.to_vec();
            if entry.value_inode.get() != 0 {
                return Err("a value lies in an inode of its own");
            }
            let value = value_of(place, entry)?;
            if !value.is_empty() {
                values_begin = values_begin.min(usize::from(entry.value_offset.get()));
            }
            let name = AttributeName {
                index: entry.name_index,
                suffix,
            };
            let value = value.to_vec();
            attributes.push(Attribute { name, value });
            at += entry_bytes(length);
        }
        if values_begin < at + END_BYTES {
            return Err("a value lies among the entries");
        }
        attributes.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(Self { attributes })
    }

    /// Writes the attributes over all of a place from `first` on. They must fit. Entries of blocks
    /// have hashes.
    pub(crate) fn encode(&self, place: &mut [u8], first: usize, with_hashes: bool) {
        place[first..].fill(0);
        let (mut at, mut values) = (first, place.len());
        for attribute in &self.attributes {
            let (suffix, value) = (&attribute.name.suffix, &attribute.value);
            values -= value.len().next_multiple_of(ALIGNMENT);
            let mut entry = Entry {
                name_length: suffix.len() as u8,
                name_index: attribute.name.index,
                ..Entry::default()
            };
            if !value.is_empty() {
                entry.value_offset.set(values as u16);
                entry.value_size.set(value.len() as u32);
            }
            if with_hashes {
                entry.hash.set(attribute.hash());
            }
            place[at..at + ENTRY_BYTES].copy_from_slice(entry.as_bytes());
            place[at + ENTRY_BYTES..][..suffix.len()].copy_from_slice(suffix);
            place[values..values + value.len()].copy_from_slice(value);
            at += entry_bytes(suffix.len());
        }
        assert!(at + END_BYTES <= values, "the attributes fit their place");
    }

    /// Returns the number of bytes that the attributes take after the header.
    pub(crate) fn bytes(&self) -> usize {
        self.attributes.iter().map(Attribute::bytes).sum::<usize>() + END_BYTES
    }

    /// Returns the hash of a block with these attributes.
    pub(crate) fn hash(&self) -> u32 {
        layout::attribute::block_hash(self.attributes.iter().map(Attribute::hash))
    }

    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &AttributeName) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|known| known.name == *name);
        found.map(|attribute| attribute.value.as_slice())
    }

    /// Adds an attribute, or replaces its value.
    pub(crate) fn put(&mut self, name: &AttributeName, value: &[u8]) {
        self.remove(name);
        let place = |known: &Attribute| known.order() < order(name);
        let at = self.attributes.partition_point(place);
        let attribute = Attribute {
            name: name.clone(),
            value: value.to_vec(),
        };
        self.attributes.insert(at, attribute);
    }

    /// Removes an attribute; returns true if there was one.
    pub(crate) fn remove(&mut self, name: &AttributeName) -> bool {
        let before = self.attributes.len();
        self.attributes.retain(|known| known.name != *name);
        self.attributes.len() < before
    }

    /// Returns true if there are no attributes.
    pub(crate) fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    /// Returns the names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &AttributeName> {
        self.attributes.iter().map(|attribute| &attribute.name)
    }
}

fn value_of<'p>(place: &'p [u8], entry: &Entry) -> Result<&'p [u8], &'static str> {
    let size = entry.value_size.get() as usize;
    if size == 0 {
        return Ok(&[]);
    }
    let start = usize::from(entry.value_offset.get());
    let behind = place.get(start..).unwrap_or_default();
    behind.get(..size).ok_or("a value lies outside its place")
}

#[cfg(test)]
mod tests;

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
//! - Attributes are read in any order and with gaps, but nothing may overlap or lie outside, with
//!   values rounded up to their alignment. So what was read has room when it is written again.
//! - A value in an inode of its own takes no room here. Its entry has a hash within an inode, too,
//!   and keeps the one that it was read with.

use core::ops::Range;

use layout::InodeNr;
use layout::attribute::{ALIGNMENT, Entry, entry_hash};
use zerocopy::{FromBytes, IntoBytes};

use super::name::AttributeName;

/// Size in bytes of the word that ends the entries.
const END_BYTES: usize = 4;
/// Size of an entry in bytes, without its name.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// The damage of a value that ends behind its place.
const OUTSIDE: &str = "a value lies outside its place";

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: AttributeName,
    pub(crate) value: Value,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// It lies beside the entries.
    Bytes(Vec<u8>),
    /// It lies in an inode of its own.
    Inode(Reference),
    /// It is to be stored in an inode of its own.
    New(Vec<u8>),
}

/// The part of an entry that names the inode of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Number of the inode; not checked.
    pub(crate) inode: InodeNr,
    /// Size of the value in bytes.
    pub(crate) size: u32,
    /// The entry's hash.
    pub(crate) hash: u32,
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
        match &self.value {
            Value::Inode(reference) => reference.hash,
            value => entry_hash(&self.name.suffix, value.beside()),
        }
    }

    fn bytes(&self) -> usize {
        let value = self.value.beside().len();
        entry_bytes(self.name.suffix.len()) + value.next_multiple_of(ALIGNMENT)
    }
}

impl Value {
    /// Returns the bytes beside the entries.
    fn beside(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Inode(_) | Self::New(_) => &[],
        }
    }

    /// Returns the inode of the value, if it has one.
    pub(crate) fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Inode(reference) => Some(reference),
            Self::Bytes(_) | Self::New(_) => None,
        }
    }
}

fn order(name: &AttributeName) -> (u8, usize, &[u8]) {
    (name.index, name.suffix.len(), &name.suffix)
}

fn entry_bytes(name_bytes: usize) -> usize {
    (ENTRY_BYTES + name_bytes).next_multiple_of(ALIGNMENT)
}

impl AttributeSet {
    /// Reads the attributes of a place. `has_ea_inode` is true on a volume with that feature.
    ///
    /// # Errors
    /// Returns a description of the damage.
    pub(crate) fn decode(
        place: &[u8],
        first: usize,
        has_ea_inode: bool,
    ) -> Result<Self, &'static str> {
        let mut attributes = Vec::new();
        let mut at = first;
        // The end of the entries is known only after the last: values must not start before it.
        let mut values: Vec<Range<usize>> = Vec::new();
        loop {
            let rest = place.get(at..).unwrap_or_default();
            let word = rest.get(..END_BYTES).ok_or("the entries have no end")?;
            if word == [0; END_BYTES] {
                break;
            }
            let (entry, rest) = Entry::ref_from_prefix(rest).map_err(|_| "an entry is cut off")?;
            let length = usize::from(entry.name_length);
            let suffix = rest.get(..length).ok_or("a name is cut off")?.to_vec();
            if entry.value_inode.get() != 0 && !has_ea_inode {
                return Err("a value lies in an inode of its own");
            }
            let value = value_of(place, entry)?;
            if !value.beside().is_empty() {
                let start = usize::from(entry.value_offset.get());
                let end = start + value.beside().len().next_multiple_of(ALIGNMENT);
                if end > place.len() {
                    return Err(OUTSIDE);
                }
                values.push(start..end);
            }
            let name = AttributeName {
                index: entry.name_index,
                suffix,
            };
            attributes.push(Attribute { name, value });
            at += entry_bytes(length);
        }
        values.sort_by_key(|value| value.start);
        let begin = values.first().map_or(place.len(), |value| value.start);
        if begin < at + END_BYTES {
            return Err("a value lies among the entries");
        }
        if values.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err("two values overlap");
        }
        attributes.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(Self { attributes })
    }

    /// Writes the attributes over all of a place from `first` on. They must fit, and new values
    /// must be stored. Entries of blocks have hashes.
    pub(crate) fn encode(&self, place: &mut [u8], first: usize, with_hashes: bool) {
        place[first..].fill(0);
        let (mut at, mut values) = (first, place.len());
        for attribute in &self.attributes {
            let (suffix, value) = (&attribute.name.suffix, attribute.value.beside());
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
            if let Some(reference) = attribute.value.reference() {
                entry.value_inode.set(reference.inode.get());
                entry.value_size.set(reference.size);
            }
            if with_hashes || attribute.value.reference().is_some() {
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

    /// Returns the number of bytes that the values beside the entries take.
    pub(crate) fn value_bytes(&self) -> usize {
        let values = self.attributes.iter().map(|known| known.value.beside());
        values
            .map(|value| value.len().next_multiple_of(ALIGNMENT))
            .sum()
    }

    /// Returns the hash of a block with these attributes.
    pub(crate) fn hash(&self) -> u32 {
        layout::attribute::block_hash(self.attributes.iter().map(Attribute::hash))
    }

    /// Returns the value of a name.
    pub(crate) fn get(&self, name: &AttributeName) -> Option<&Value> {
        let found = self.attributes.iter().find(|known| known.name == *name);
        found.map(|attribute| &attribute.value)
    }

    /// Returns the attributes with values in inodes of their own.
    pub(crate) fn references(&self) -> impl Iterator<Item = (&AttributeName, &Reference)> {
        let attributes = self.attributes.iter();
        attributes.filter_map(|attribute| Some((&attribute.name, attribute.value.reference()?)))
    }

    /// Returns the sizes of the values in inodes of their own, or to be stored in one.
    pub(crate) fn sizes_of_values(&self) -> impl Iterator<Item = u32> {
        self.attributes
            .iter()
            .filter_map(|known| match &known.value {
                Value::Inode(reference) => Some(reference.size),
                Value::New(bytes) => Some(bytes.len() as u32),
                Value::Bytes(_) => None,
            })
    }

    /// Returns the attributes, to change their values.
    pub(crate) fn attributes_mut(&mut self) -> impl Iterator<Item = &mut Attribute> {
        self.attributes.iter_mut()
    }

    /// Adds an attribute, or replaces its value.
    pub(crate) fn put(&mut self, name: &AttributeName, value: Value) {
        self.remove(name);
        let place = |known: &Attribute| known.order() < order(name);
        let at = self.attributes.partition_point(place);
        let attribute = Attribute {
            name: name.clone(),
            value,
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

fn value_of(place: &[u8], entry: &Entry) -> Result<Value, &'static str> {
    if entry.value_inode.get() != 0 {
        return Ok(Value::Inode(Reference {
            inode: InodeNr::new(entry.value_inode.get()),
            size: entry.value_size.get(),
            hash: entry.hash.get(),
        }));
    }
    let size = entry.value_size.get() as usize;
    if size == 0 {
        return Ok(Value::Bytes(Vec::new()));
    }
    let start = usize::from(entry.value_offset.get());
    let behind = place.get(start..).unwrap_or_default();
    let value = behind.get(..size).ok_or(OUTSIDE)?;
    Ok(Value::Bytes(value.to_vec()))
}

#[cfg(test)]
mod tests;

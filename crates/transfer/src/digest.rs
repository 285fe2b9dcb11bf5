//! A UUID derived from the contents of an image: paths, attributes and data of the tree, and the
//! options. It is an identifier: it does not resist deliberate collisions.

use anyhow::Result;
use ext::mkfs::Options;
use ext::volume::FileKind;

use super::edits::Edits;
use super::origin::Origin;
use super::{Item, Node, Stop, Times};

/// An odd 128-bit multiplier with evenly spread bits, from the generator PCG-XSL-RR.
const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
const START: u128 = 0x5851_F42D_4C95_7F2D_1405_7B7E_F767_814F;
/// Number of bytes that are mixed in one step.
const WORD: usize = 16;

/// A 128-bit digest that does not depend on how the input is split.
struct Digest {
    state: u128,
    length: u64,
    rest: Vec<u8>,
}

impl Digest {
    fn new() -> Self {
        Self {
            state: START,
            length: 0,
            rest: Vec::with_capacity(WORD),
        }
    }

    fn mix(&mut self, word: [u8; WORD]) {
        let mixed = (self.state ^ u128::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
        // Multiplication moves entropy to the upper half; the shift brings it back down.
        self.state = mixed ^ (mixed >> 67);
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let taken = (WORD - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            let Ok(word) = <[u8; WORD]>::try_from(&self.rest[..]) else {
                return;
            };
            self.mix(word);
            self.rest.clear();
        }
        let (words, rest) = bytes.as_chunks::<WORD>();
        words.iter().for_each(|word| self.mix(*word));
        self.rest.extend_from_slice(rest);
    }

    /// Adds bytes preceded by their length, so that adjacent fields cannot be confused.
    fn field(&mut self, bytes: &[u8]) {
        self.add(&(bytes.len() as u64).to_le_bytes());
        self.add(bytes);
    }

    fn end(mut self) -> u128 {
        let mut last = [0; WORD];
        last[..self.rest.len()].copy_from_slice(&self.rest);
        self.mix(last);
        let length = u128::from(self.length).to_le_bytes();
        self.mix(length);
        self.mix([0; WORD]);
        self.state
    }
}

/// A digest of a tree: its nodes and their data, in order.
pub(crate) struct TreeDigest {
    digest: Digest,
    times: Times,
    /// End of the last data.
    reached: u64,
}

impl TreeDigest {
    pub(crate) fn new(times: Times) -> Self {
        Self {
            digest: Digest::new(),
            times,
            reached: 0,
        }
    }

    /// Adds a node.
    pub(crate) fn node(&mut self, node: &Node) {
        self.reached = 0;
        add_node(&mut self.digest, node, self.times);
    }

    /// Adds data of the last node.
    pub(crate) fn data(&mut self, offset: u64, bytes: &[u8]) {
        // The end of a hole, or the start of a file's data.
        if offset != self.reached || offset == 0 {
            self.digest.field(&offset.to_le_bytes());
        }
        self.digest.add(bytes);
        self.reached = offset + bytes.len() as u64;
    }

    /// Returns the digest.
    pub(crate) fn end(self) -> u128 {
        self.digest.end()
    }
}

/// Returns the digest of a plain tree.
pub(crate) fn of(origin: &Origin, times: Times, stop: &Stop) -> Result<u128> {
    let mut digest = TreeDigest::new(times);
    origin.read(&mut |item| {
        stop.check()?;
        match item {
            Item::Node(node) => digest.node(&node),
            Item::Data { offset, bytes } => digest.data(offset, &bytes),
        }
        Ok(())
    })?;
    Ok(digest.end())
}

/// Returns the UUID of an image of trees with these digests.
pub(crate) fn uuid(trees: &[u128], options: &Options, edits: &Edits) -> [u8; 16] {
    let mut digest = Digest::new();
    digest.field(format!("{options:?}").as_bytes());
    digest.field(format!("{edits:?}").as_bytes());
    for tree in trees {
        digest.add(&tree.to_le_bytes());
    }
    let builder = uuid::Builder::from_random_bytes(digest.end().to_le_bytes());
    *builder.as_uuid().as_bytes()
}

/// Adds the attributes of a node that an image keeps.
fn add_node(digest: &mut Digest, node: &Node, times: Times) {
    let mtime = times.of(node.mtime);
    let numbers = [
        u64::from(node.kind.mode() | node.permissions),
        u64::from(node.uid),
        u64::from(node.gid),
        mtime.seconds as u64,
        u64::from(mtime.nanos),
        // The size of a directory depends on the host.
        if node.kind == FileKind::Regular {
            node.size
        } else {
            0
        },
        u64::from(node.device.major),
        u64::from(node.device.minor),
    ];
    digest.field(&node.path);
    numbers
        .iter()
        .for_each(|number| digest.add(&number.to_le_bytes()));
    digest.field(&node.target);
    digest.field(node.link_to.as_deref().unwrap_or_default());
    for (name, value) in &node.attributes {
        digest.field(name);
        digest.field(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&[u8]]) -> u128 {
        let mut digest = Digest::new();
        pieces.iter().for_each(|piece| digest.add(piece));
        digest.end()
    }

    #[test]
    fn pieces_do_not_count_and_bits_do() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = of(&[&bytes]);
        for at in 0..=100 {
            assert_eq!(of(&[&bytes[..at], &bytes[at..]]), whole);
        }
        assert_eq!(of(&[&bytes[..3], &bytes[3..5], &bytes[5..]]), whole);
        let mut seen = std::collections::BTreeSet::from([whole, of(&[&bytes[..99]])]);
        for bit in 0..800 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            seen.insert(of(&[&other]));
        }
        assert_eq!(seen.len(), 802);
    }
}

//! One change of one structure.

use core::fmt;
use std::sync::Arc;

use testkit::Random;

use super::base::Base;
use crate::rig::{Rig, device};

/// A change of an image.
#[derive(Debug, Clone)]
pub struct Mutation {
    pub kind: &'static str,
    /// Byte offset on the device, and the old and the new bytes.
    pub at: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

impl fmt::Display for Mutation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, at) = (self.kind, self.at);
        if self.new.len() > 8 {
            return write!(formatter, "{kind}, byte {at}");
        }
        write!(
            formatter,
            "{kind}, byte {at}: {:02x?} is {:02x?}",
            self.old, self.new
        )
    }
}

/// A field: its offset and its length in bytes.
type Field = (u64, usize);

const KINDS: u64 = 13;

struct Places<'b> {
    base: &'b Base,
    bytes: Vec<u8>,
    block: u64,
}

impl Places<'_> {
    fn word(&self, at: u64, bytes: usize) -> u64 {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&self.bytes[at as usize..at as usize + bytes]);
        u64::from_le_bytes(value)
    }

    fn inode(&self, random: &mut Random, is_wanted: impl Fn(u32, u64) -> bool) -> u64 {
        let owners = self.base.claims.owners.iter();
        let all: Vec<u64> = owners
            .filter(|(nr, owner)| is_wanted(**nr, owner.at))
            .map(|(_, owner)| owner.at)
            .collect();
        *random.pick(&all)
    }

    fn system(&self, random: &mut Random, kind: &str) -> u64 {
        let system = self.base.claims.system.iter();
        let all: Vec<u64> = system
            .filter(|(_, of)| **of == kind)
            .map(|(block, _)| *block)
            .collect();
        random.pick(&all) * self.block
    }

    /// Returns a block of a directory.
    fn directory(&self, random: &mut Random, is_indexed: bool) -> u64 {
        let owners = self.base.claims.owners.values();
        let flag = |at: u64| self.word(at + 32, 4) & 0x1000 != 0;
        let of = owners.filter(|owner| owner.kind == 0x4000 && (!is_indexed || flag(owner.at)));
        let first = |at: u64| self.word(at + 40, 4);
        let all: Vec<u64> = of
            .flat_map(|owner| {
                let at = owner.at;
                owner
                    .data
                    .iter()
                    .filter(move |block| !is_indexed || **block == first(at))
            })
            .copied()
            .collect();
        if all.is_empty() {
            return self.directory(random, false);
        }
        random.pick(&all) * self.block
    }

    /// Returns a field of an entry in a directory block.
    fn entry(&self, random: &mut Random) -> Field {
        let block = self.directory(random, false);
        let mut entries = Vec::new();
        let mut at = 0;
        while at + 8 <= self.block {
            entries.push(at);
            at += self.word(block + at + 4, 2).max(8);
        }
        let entry = block + random.pick(&entries);
        let (offset, width) = *random.pick(&[(0, 4), (4, 2), (6, 1), (7, 1), (8, 1), (9, 1)]);
        (entry + offset, width)
    }

    /// Returns an indirect block, except of the journal, or an attribute block.
    fn metadata(&self, random: &mut Random, wants_attributes: bool) -> u64 {
        let owners = self.base.claims.owners.iter().filter(|(nr, _)| **nr >= 11);
        let all: Vec<u64> = owners
            .flat_map(|(_, owner)| {
                let attributes = self.word(owner.at + 0x68, 4);
                let is_wanted = move |block: &u64| (*block == attributes) == wants_attributes;
                owner.metadata.iter().copied().filter(is_wanted)
            })
            .collect();
        random.pick(&all) * self.block
    }

    fn field(&self, random: &mut Random) -> (&'static str, Field) {
        let word = |random: &mut Random, from: u64, bytes: u64| {
            let width = *random.pick(&[1, 2, 4, 4]);
            let offset = random.below(bytes) / width * width;
            (from + offset, width as usize)
        };
        match random.below(KINDS - 1) {
            0 => ("superblock", word(random, 1024, 0x168)),
            1 => {
                let groups = self.base.claims.system.values();
                let groups = groups.filter(|kind| **kind == "block bitmap").count() as u64;
                let first = self.word(1024 + 0x14, 4) + 1;
                let group = random.below(groups);
                let field = word(random, first * self.block + group * 32, 20);
                ("descriptor", field)
            }
            2 => {
                let bitmap = self.system(random, "block bitmap");
                let bits = self.word(1024 + 0x20, 4).min(2048);
                ("block bitmap", (bitmap + random.below(bits / 8), 1))
            }
            3 => {
                let bitmap = self.system(random, "inode bitmap");
                ("inode bitmap", (bitmap + random.below(12), 1))
            }
            4 => {
                let inode = self.inode(random, |nr, _| nr == 2 || nr >= 11);
                ("inode", word(random, inode, 128))
            }
            5 => {
                let inode = self.inode(random, |nr, _| nr == 2 || nr >= 11);
                ("map in an inode", (inode + 40 + 4 * random.below(15), 4))
            }
            6 => {
                let inode = self.inode(random, |nr, _| nr < 11);
                ("reserved inode", word(random, inode, 128))
            }
            7 => {
                let map = self.metadata(random, false);
                ("indirect block", (map + 4 * random.below(40), 4))
            }
            8 => ("directory entry", self.entry(random)),
            9 => {
                let root = self.directory(random, true);
                ("htree root", word(random, root + 24, 40))
            }
            10 => {
                let attributes = self.metadata(random, true);
                ("attribute block", word(random, attributes, 64))
            }
            _ => {
                let inode = self.inode(random, |_, at| self.word(at, 2) & 0xF000 != 0x4000);
                let extra = self.word(1024 + 0x58, 2) - 128;
                let (from, bytes) = if extra == 0 { (0, 128) } else { (128, extra) };
                ("inode's second part", word(random, inode + from, bytes))
            }
        }
    }
}

impl Places<'_> {
    /// Returns the change of a directory block to unused entries only.
    fn emptied(&self, random: &mut Random) -> Mutation {
        let mut at = self.directory(random, false);
        while self.is_first(at) {
            at = self.directory(random, false);
        }
        let old = self.bytes[at as usize..][..self.block as usize].to_vec();
        let mut new = old.clone();
        let mut entry = 0;
        while entry + 8 <= new.len() {
            new[entry..entry + 4].fill(0);
            entry += usize::from(u16::from_le_bytes([new[entry + 4], new[entry + 5]])).max(8);
        }
        Mutation {
            kind: "block of unused entries",
            at,
            old,
            new,
        }
    }

    /// Returns true if a directory's block is its first, with `.` and `..`.
    fn is_first(&self, at: u64) -> bool {
        self.word(at + 8, 1) == u64::from(b'.') && self.word(at + 6, 1) == 1
    }
}

/// Changes one field of the copy of a base, or all entries of a directory block.
pub fn apply(base: &Base, rig: &Rig, random: &mut Random) -> Mutation {
    let places = Places {
        base,
        bytes: rig.home.to_bytes(),
        block: u64::from(rig.block_bytes),
    };
    let mutation = if random.below(KINDS) == 0 {
        places.emptied(random)
    } else {
        one_field(&places, random)
    };
    let block = mutation.at / places.block * places.block;
    let target = device(&rig.home);
    let mut bytes = target
        .read_block(block, rig.block_bytes)
        .expect("memory does not fail");
    let from = (mutation.at - block) as usize;
    let changed = &mut Arc::make_mut(&mut bytes)[from..from + mutation.new.len()];
    changed.copy_from_slice(&mutation.new);
    target
        .write_blocks(block, vec![bytes])
        .expect("memory does not fail");
    mutation
}

fn one_field(places: &Places<'_>, random: &mut Random) -> Mutation {
    let base = places.base;
    let (kind, (at, width)) = places.field(random);
    let old = places.word(at, width);
    let owned = |random: &mut Random| {
        let all: Vec<u64> = base
            .claims
            .owners
            .values()
            .flat_map(|owner| owner.blocks())
            .collect();
        *random.pick(&all)
    };
    let new = loop {
        let new = match random.below(12) {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            4 | 5 => owned(random),
            6 => *random.pick(&base.claims.owners.keys().copied().collect::<Vec<_>>()) as u64,
            7 => random.next() & 0xFFFF,
            _ => old ^ 1 << random.below(8 * width as u64),
        };
        let new = new & (u64::MAX >> (64 - 8 * width));
        if new != old {
            break new;
        }
    };
    let [old, new] = [old, new].map(|value| value.to_le_bytes()[..width].to_vec());
    Mutation { kind, at, old, new }
}

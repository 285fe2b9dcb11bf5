//! Duplicate names. As in e2fsck, names are compared within one block.

use super::entries::Block;
use crate::entry::entry_at;
use crate::kind::ProblemKind;
use crate::state::State;

/// Digests of names with the offsets of their entries. Equal names have equal digests.
#[derive(Default)]
pub(super) struct Names {
    seen: Vec<(u32, u32)>,
}

impl Names {
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    pub(super) fn add(&mut self, name: &[u8], offset: usize) {
        self.seen.push((digest(name), offset as u32));
    }

    /// Reports the second and every further entry of each name.
    pub(super) fn report(&mut self, state: &mut State<'_>, block: &Block<'_>) {
        self.seen.sort_unstable();
        for (index, (number, offset)) in self.seen.iter().enumerate() {
            let Some(entry) = entry_at(block.bytes, *offset as usize) else {
                continue;
            };
            let others = self.seen[..index].iter().rev();
            let is_second = others
                .take_while(|(other, _)| other == number)
                .filter_map(|(_, other)| entry_at(block.bytes, *other as usize))
                .any(|other| other.name == entry.name);
            if is_second {
                let place = block.place().at_entry(entry.offset, entry.name);
                state.problem(ProblemKind::NameTwice, place);
            }
        }
    }
}

/// Returns the FNV-1a hash of a name, 32 bits.
fn digest(name: &[u8]) -> u32 {
    name.iter().fold(0x811C_9DC5, |digest, byte| {
        (digest ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

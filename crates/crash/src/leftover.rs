//! The contents of a volume's blocks before files get them.
//!
//! In data=writeback a block allocated after a file's last sync call may show its older contents.
//! That is limited: they must be the contents that the cut left in that very block (recovery has
//! not changed it), and must have been there, durably or in a cache, before the operation that
//! allocated the block returned: data written later belongs to another file.

use std::collections::BTreeMap;

use block::Request;
use block::trace::Event;
use layout::InodeNr;

use crate::image::{BLOCK_SECTORS, Image, SECTOR_BYTES, hash_sector};
use crate::observe::{Contents, Observation};
use crate::recording::{Mark, Recording};

/// Earlier contents of a sector of the file-system device that a file shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leftover {
    sector: u64,
    hash: u64,
}

/// The sectors of files that show what the cut left in them, by inode and index in the file.
pub type Leftovers = BTreeMap<(InodeNr, usize), Leftover>;

/// Compares the contents of files with what the cut left in their blocks.
pub fn leftovers(observation: &Observation, home: &Image) -> Leftovers {
    let mut found = Leftovers::new();
    for seen in &observation.nodes {
        let Contents::File(bytes) = &seen.contents else {
            continue;
        };
        for (index, piece) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let Some(block) = seen.blocks.get(&((index / BLOCK_SECTORS) as u64)) else {
                continue;
            };
            let within = index % BLOCK_SECTORS;
            let there = &home.block(*block)[within * SECTOR_BYTES..(within + 1) * SECTOR_BYTES];
            if there.starts_with(piece) {
                let sector = block * BLOCK_SECTORS as u64 + within as u64;
                let leftover = Leftover {
                    sector,
                    hash: home.sector_hash(sector),
                };
                found.insert((seen.inode, index), leftover);
            }
        }
    }
    found
}

/// All contents of the sectors of the file-system device in a run, with the time of each.
pub struct Held {
    initial: Image,
    /// For each sector, the events that wrote it, and the hashes of the written contents.
    written: BTreeMap<u64, Vec<(usize, u64)>>,
    /// For each lane and number, the event at which the operation returned.
    returned: BTreeMap<(usize, usize), usize>,
}

impl Held {
    /// Collects the contents of a recording.
    pub fn of(recording: &Recording) -> Self {
        let mut held = Self {
            initial: recording.initial.home.clone(),
            written: BTreeMap::new(),
            returned: BTreeMap::new(),
        };
        for (number, event) in recording.events.iter().enumerate() {
            match event {
                Event::Submitted {
                    device: 0,
                    requests,
                    ..
                } => requests
                    .iter()
                    .for_each(|request| held.note(number, request)),
                Event::Mark(mark) => {
                    let mark = Mark::decode(*mark);
                    if mark.is_end {
                        held.returned.insert((mark.lane, mark.number), number);
                    }
                }
                _ => {}
            }
        }
        held
    }

    fn note(&mut self, event: usize, request: &Request) {
        let (sector, payload) = match request {
            Request::Write {
                sector, payload, ..
            } => (sector, payload),
            Request::Discard { sector, sectors } => {
                for sector in sector.get()..sector.get() + sectors {
                    let hash = hash_sector(sector, &[0; SECTOR_BYTES]);
                    self.written.entry(sector).or_default().push((event, hash));
                }
                return;
            }
            _ => return,
        };
        let pieces = payload
            .iter()
            .flat_map(|block| block.chunks_exact(SECTOR_BYTES));
        for (sector, piece) in (sector.get()..).zip(pieces) {
            let hash = hash_sector(sector, piece);
            self.written.entry(sector).or_default().push((event, hash));
        }
    }

    /// Returns true if the contents were in their sector before an operation of a lane had
    /// returned.
    pub(crate) fn is_older(&self, leftover: Leftover, lane: usize, number: usize) -> bool {
        let end = self.returned.get(&(lane, number)).copied();
        let written = self.written.get(&leftover.sector).into_iter().flatten();
        let mut before = written.filter(|(event, _)| end.is_none_or(|end| *event < end));
        self.initial.sector_hash(leftover.sector) == leftover.hash
            || before.any(|(_, hash)| *hash == leftover.hash)
    }
}

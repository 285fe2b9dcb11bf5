//! The third pass: writing the newest image of each block to its final location.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, Outcome, Payload, Request};
use layout::journal::MAGIC_BYTES;
use layout::{Block, BlockNr, SectorNr, Tid};

use super::revoke::Revokes;
use super::scan::{Image, Scan};
use crate::error::{Corrupt, Result};
use crate::location::Location;

/// Number of blocks in a batch.
const BATCH_BLOCKS: usize = 1024;

/// The blocks to be written.
pub(super) struct Replay {
    /// The newest image of each block that is not revoked, in the order of final locations.
    images: Vec<(Image, Tid)>,
    /// Number of images that revokes hide.
    pub(super) revoked: u64,
}

impl Replay {
    /// Selects the images to be written.
    pub(super) fn plan(scan: &Scan) -> Self {
        let revokes = Revokes::of(&scan.transactions);
        let mut newest: BTreeMap<BlockNr, (Image, Tid)> = BTreeMap::new();
        let mut revoked = 0;
        for found in &scan.transactions {
            for image in &found.images {
                if revokes.hide(image.home, found.tid) {
                    revoked += 1;
                } else if rt::mutant!("recovery/oldest-image-wins") {
                    newest.entry(image.home).or_insert((*image, found.tid));
                } else {
                    newest.insert(image.home, (*image, found.tid));
                }
            }
        }
        Self {
            images: newest.into_values().collect(),
            revoked,
        }
    }

    /// Returns the number of blocks to be written.
    pub(super) fn block_count(&self) -> u64 {
        self.images.len() as u64
    }

    /// Returns the images to be written, in the order of final locations.
    pub(super) fn into_images(self) -> impl Iterator<Item = Image> {
        self.images.into_iter().map(|(image, _)| image)
    }

    /// Checks that all final locations are on the device.
    pub(super) fn check(&self, home: &Arc<dyn BlockDevice>, block_bytes: u32) -> Result<()> {
        let blocks = home.geometry().size_bytes / u64::from(block_bytes);
        match self.images.last() {
            Some((image, tid)) if image.home.get() >= blocks => Err(Corrupt::OutsideDevice {
                tid: *tid,
                block: image.home,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Writes the images to their final locations, in batches.
    pub(super) fn run(&self, log: &Location, home: &Arc<dyn BlockDevice>) -> Result<()> {
        for batch in self.images.chunks(BATCH_BLOCKS) {
            let blocks = read(log, batch)?;
            home.request(writes(batch, blocks, log.block_bytes))
                .wait_all()?;
        }
        Ok(())
    }
}

/// Reads the images of a batch, with neighbours in the log in one request.
fn read(log: &Location, batch: &[(Image, Tid)]) -> Result<Payload> {
    let mut order: Vec<usize> = (0..batch.len()).collect();
    order.sort_unstable_by_key(|index| batch[*index].0.log_block);
    let mut requests = Vec::new();
    for part in order.chunk_by(|a, b| batch[*a].0.log_block + 1 == batch[*b].0.log_block) {
        let count = u32::try_from(part.len()).expect("at most a batch");
        requests.extend(
            log.pieces(batch[part[0]].0.log_block, count)
                .map(|piece| Request::Read {
                    sector: piece.sector,
                    blocks: piece.count,
                    block_bytes: log.block_bytes,
                }),
        );
    }
    let mut blocks: Vec<Option<Arc<Block>>> = vec![None; batch.len()];
    let mut order = order.into_iter();
    for outcome in log.device.request(requests).wait() {
        if let Outcome::Read(payload) = outcome? {
            for block in payload {
                let Some(index) = order.next() else { break };
                blocks[index] = Some(unescape(block, &batch[index].0));
            }
        }
    }
    let blocks: Option<Payload> = blocks.into_iter().collect();
    Ok(blocks.ok_or(block::DeviceError::Gone)?)
}

/// Restores the magic number of an escaped image.
pub(super) fn unescape(mut block: Arc<Block>, image: &Image) -> Arc<Block> {
    if image.is_escaped && !rt::mutant!("escape/not-undone") {
        let bytes: &mut Block = Arc::make_mut(&mut block);
        bytes[..MAGIC_BYTES.len()].copy_from_slice(&MAGIC_BYTES);
    }
    block
}

/// Returns the requests that write a batch, with neighbours in one request.
fn writes(batch: &[(Image, Tid)], blocks: Payload, block_bytes: u32) -> Vec<Request> {
    let mut blocks = blocks.into_iter();
    batch
        .chunk_by(|(a, _), (b, _)| a.home + 1 == b.home)
        .map(|run| Request::Write {
            sector: SectorNr::from_byte_offset(run[0].0.home.get() * u64::from(block_bytes)),
            payload: blocks.by_ref().take(run.len()).collect(),
            force_unit_access: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::decide::Decision;
    use super::super::scan::Found;
    use super::*;

    fn found(tid: u32, homes: &[u64], revokes: &[u64]) -> Found {
        let image = |home: &u64| Image {
            log_block: tid.wrapping_mul(10).wrapping_add(*home as u32),
            home: BlockNr::new(*home),
            is_escaped: false,
        };
        Found {
            tid: Tid::new(tid),
            start: 0,
            images: homes.iter().map(image).collect(),
            revokes: revokes.iter().map(|nr| BlockNr::new(*nr)).collect(),
            commit_block: 0,
            committed_at: 0,
        }
    }

    #[test]
    fn the_newest_image_wins_unless_it_is_revoked() {
        let scan = Scan {
            transactions: vec![
                found(0xFFFF_FFFF, &[1, 2, 3], &[]),
                found(0, &[1, 2], &[3]),
                found(1, &[], &[2]),
                found(2, &[3], &[]),
            ],
            expected: Tid::new(3),
            end: (0, Decision::End),
            wrong: None,
            is_lost: false,
        };
        let replay = Replay::plan(&scan);
        let images: Vec<(u64, u32)> = replay
            .images
            .iter()
            .map(|(image, tid)| (image.home.get(), tid.get()))
            .collect();
        assert_eq!(images, [(1, 0), (3, 2)]);
        assert_eq!(replay.revoked, 3);
    }
}

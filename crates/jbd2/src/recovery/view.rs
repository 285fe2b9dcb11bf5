//! A read-only view of a file system as it will be after its log has been replayed.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, DeviceError, Outcome, Payload, Request, Ticket};
use layout::{Block, BlockNr, SectorNr};

use super::replay::{Replay, unescape};
use super::scan::{Image, Scan};
use crate::error::Result;
use crate::location::Location;
use crate::superblock::Superblock;

/// The file-system device with the newest image in the log in place of each block that has one. It
/// cannot be written.
struct View {
    home: Arc<dyn BlockDevice>,
    log: Location,
    images: BTreeMap<BlockNr, Image>,
}

/// Returns a view of the file-system device after [`recover`](super::recover), without the changes
/// of fast commits. For a damaged log,
/// which recovery refuses, the view has the complete transactions before the damage.
///
/// # Errors
/// - Errors of reading the superblock.
pub fn view(log: &Location, home: &Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>> {
    let superblock = Superblock::load(log)?;
    let images = match superblock.start() {
        None => BTreeMap::new(),
        Some(start) => {
            let scan = Scan::of(log, &superblock, start)?;
            let images = Replay::plan(&scan).into_images();
            images.map(|image| (image.home, image)).collect()
        }
    };
    Ok(Arc::new(View {
        home: Arc::clone(home),
        log: log.clone(),
        images,
    }))
}

impl View {
    fn read(
        &self,
        sector: SectorNr,
        blocks: u32,
        block_bytes: u32,
    ) -> Result<Payload, DeviceError> {
        let mut offset = sector.byte_offset();
        let mut payload = self.home.read_blocks(offset, blocks, block_bytes)?;
        for block in &mut payload {
            self.renew(offset, block)?;
            offset += u64::from(block_bytes);
        }
        Ok(payload)
    }

    /// Replaces bytes at an offset of the file-system device by those in the log.
    fn renew(&self, offset: u64, bytes: &mut Arc<Block>) -> Result<(), DeviceError> {
        let unit = u64::from(self.log.block_bytes);
        let end = offset + bytes.len() as u64;
        let homes = BlockNr::new(offset / unit)..BlockNr::new(end.div_ceil(unit));
        for (home, image) in self.images.range(homes) {
            let newer = self.image(image)?;
            let start = home.get() * unit;
            let (from, to) = (offset.max(start), end.min(start + unit));
            let within = |of: u64| (from - of) as usize..(to - of) as usize;
            let target: &mut Block = Arc::make_mut(bytes);
            target[within(offset)].copy_from_slice(&newer[within(start)]);
        }
        Ok(())
    }

    /// Returns an image in its final form.
    fn image(&self, image: &Image) -> Result<Arc<Block>, DeviceError> {
        let place = self.log.pieces(image.log_block, 1).next();
        let place = place.ok_or(DeviceError::Gone)?.sector.byte_offset();
        let block = self.log.device.read_block(place, self.log.block_bytes)?;
        Ok(unescape(block, image))
    }
}

impl BlockDevice for View {
    fn geometry(&self) -> block::Geometry {
        block::Geometry {
            is_read_only: true,
            ..self.home.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let answers = batch.into_iter().map(|request| match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => self.read(sector, blocks, block_bytes).map(Outcome::Read),
            Request::Flush => Ok(Outcome::Done),
            Request::Write { .. } | Request::Discard { .. } => Err(DeviceError::ReadOnly),
        });
        Ticket::ready(answers.collect())
    }

    fn name(&self) -> String {
        self.home.name()
    }
}

//! The work of a file system's device by the use of the blocks: log, inode tables, data and so on.
//!
//! Requests are listed while the workload runs. What their blocks are is found afterwards, on the
//! closed volume, by the census of the engine: a block that is free by then was one of a file or
//! directory that the workload has removed, and counts as data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use block::{BlockDevice, DeviceError, Geometry, Request, Ticket};
use ext::census::{BlockUse, census};
use layout::superblock as disk;
use layout::{BlockNr, InodeNr};

use crate::record::Measured;

/// Sectors of 512 bytes in a kibibyte.
const SECTORS_PER_KIB: u64 = 2;
/// Position of the block size in the superblock: the number of doublings of 1024.
const LOG_BLOCK_SIZE: usize = 24;

/// A request.
#[derive(Debug, Clone, Copy)]
struct Listed {
    sector: u64,
    sectors: u64,
    is_write: bool,
}

/// The requests to a device while they are listed.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    is_on: AtomicBool,
    list: Mutex<Vec<Listed>>,
}

/// A device that lists the requests to the device below.
pub(crate) struct ListingDevice {
    inner: Arc<dyn BlockDevice>,
    requests: Arc<Requests>,
}

impl Requests {
    /// Starts or stops listing.
    pub(crate) fn list(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    fn add(&self, batch: &[Request]) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        for request in batch {
            let is_write = matches!(request, Request::Write { .. });
            if is_write || matches!(request, Request::Read { .. }) {
                let (sector, sectors) = request.range();
                list.push(Listed {
                    sector: sector.get(),
                    sectors,
                    is_write,
                });
            }
        }
    }

    /// Adds counters of the listed requests by use to the results. The device holds a closed ext
    /// volume.
    pub(crate) fn measure(
        &self,
        device: &Arc<dyn BlockDevice>,
        measured: &mut Measured,
    ) -> Result<()> {
        let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32);
        let bytes = bytes.context("superblock")?;
        let shift = bytes.get(LOG_BLOCK_SIZE).copied().unwrap_or_default();
        let per_block = SECTORS_PER_KIB << shift;
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks =
            |own: &Listed| own.sector / per_block..(own.sector + own.sectors).div_ceil(per_block);
        let touched: BTreeSet<u64> = list.iter().flat_map(blocks).collect();
        let found = census(device, touched.into_iter().map(BlockNr::new)).context("census")?;
        let mut counters: BTreeMap<String, u64> = BTreeMap::new();
        for own in list.iter() {
            let kind = if own.is_write { "written" } else { "read" };
            let mut add = |name: String, by: u64| *counters.entry(name).or_default() += by;
            for (index, block) in blocks(own).enumerate() {
                let word = found.get(&BlockNr::new(block)).map_or(DATA, name);
                add(format!("{word}_kib_{kind}"), per_block / SECTORS_PER_KIB);
                if index == 0 {
                    add(format!("{word}_requests_{kind}"), 1);
                }
            }
        }
        measured.counters.insert("uses".to_owned(), counters);
        Ok(())
    }
}

const DATA: &str = "data";

fn name(own: &BlockUse) -> &'static str {
    match own {
        BlockUse::Superblock { .. }
        | BlockUse::Descriptors { .. }
        | BlockUse::DescriptorRoom { .. } => "descriptors",
        BlockUse::BlockBitmap { .. } | BlockUse::InodeBitmap { .. } => "bitmaps",
        BlockUse::InodeTable { .. } => "inode_tables",
        BlockUse::Directory { .. } => "directories",
        BlockUse::Map { inode, .. } | BlockUse::Data { inode, .. }
            if *inode == InodeNr::JOURNAL =>
        {
            "log"
        }
        BlockUse::Map { .. } => "block_maps",
        _ => DATA,
    }
}

impl ListingDevice {
    pub(crate) fn new(inner: Arc<dyn BlockDevice>, requests: Arc<Requests>) -> Self {
        Self { inner, requests }
    }
}

impl BlockDevice for ListingDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        self.requests.add(&batch);
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.inner.next_data(range)
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.inner.take_detached_error()
    }
}

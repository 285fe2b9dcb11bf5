//! Damaged logs: with checksums, a torn last transaction is dropped as a whole, and damage before
//! it stops recovery before anything is written. The same for blocks that cannot be read, with or
//! without checksums.

use std::sync::Arc;

use block::{BlockDevice, FaultDevice, FaultPlan, MemoryDevice};
use jbd2::format::Checksums;
use jbd2::recovery::{TransactionInfo, inspect, recover};
use jbd2::{Corrupt, Error, Location};
use layout::{SectorNr, Tid, checksum};
use testkit::Random;

use crate::harness::{Kind, Model, Small, check};

/// A log with a few transactions, none of them home, after a power cut.
struct Dirty {
    kind: Kind,
    device: MemoryDevice,
    transactions: Vec<TransactionInfo>,
    after: std::collections::BTreeMap<u32, Model>,
}

fn dirty(checksums: Checksums) -> Dirty {
    let kind = Kind {
        log_blocks: 100,
        ..Kind::with_checksums(checksums)
    };
    let (home, _) = kind.devices();
    let log = kind.format(Arc::<MemoryDevice>::clone(&home));
    let mut small = Small::open(kind, Arc::<MemoryDevice>::clone(&home), log.clone());
    let mut random = Random::new(7);
    for _ in 0..5 {
        small.step(&mut random);
        small.step(&mut random);
        small.commit();
    }
    let transactions = inspect(&log).expect("the log is good").transactions;
    assert_eq!(transactions.len(), 5);
    Dirty {
        kind,
        device: home.snapshot(),
        transactions,
        after: small.after,
    }
}

impl Dirty {
    /// Every log block of every transaction: which transaction, which block, whether it is the
    /// commit block.
    fn blocks(&self) -> Vec<(usize, u32)> {
        let of = |(index, info): (usize, &TransactionInfo)| {
            let (first, last) = (info.first, info.commit_block);
            (first..=last)
                .map(move |block| (index, block))
                .collect::<Vec<_>>()
        };
        self.transactions.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the place of a log block on the device.
    fn offset(&self, log_block: u32) -> u64 {
        let location = self.kind.location(Arc::new(MemoryDevice::new(512)));
        let mut left = u64::from(log_block);
        for extent in &location.extents {
            if left < u64::from(extent.count) {
                return (extent.first.get() + left) * u64::from(self.kind.block_bytes);
            }
            left -= u64::from(extent.count);
        }
        unreachable!("the log is mapped")
    }

    /// Recovers a copy with damage that must be refused.
    fn check_refused(&self, copy: &Arc<MemoryDevice>, log: &Location, hit: usize, context: &str) {
        let before = copy.snapshot();
        let home = Arc::clone(&log.device);
        let result = recover(log, &home);
        let tid = self.transactions[hit].tid;
        let expected = matches!(
            &result,
            Err(Error::Corrupt(Corrupt::Log { tid: found, .. })) if *found == tid
        );
        assert!(expected, "{context}: {result:?}");
        assert_eq!(
            copy.first_difference(&before),
            None,
            "nothing was written: {context}"
        );
        let end = inspect(log)
            .expect("it can be looked at")
            .end
            .expect("it is not empty");
        assert!(end.is_damaged && end.wrong.is_some());
    }

    /// Recovers a damaged copy; what must come of it depends only on whether the last transaction
    /// was hit.
    fn check(&self, copy: &Arc<MemoryDevice>, log: &Location, hit: usize, context: &str) {
        let last = self.transactions.len() - 1;
        if hit < last {
            return self.check_refused(copy, log, hit, context);
        }
        let home = Arc::clone(&log.device);
        let result = recover(log, &home);
        let recovered = result.unwrap_or_else(|error| panic!("{context}: {error}"));
        let kept: Tid = self.transactions[last - 1].tid;
        assert_eq!(recovered.last, Some(kept), "{context}");
        assert_eq!(recovered.next, kept.advance(2), "{context}");
        // What had a valid commit block was acknowledged: its loss is noted where a crash cannot
        // take it away.
        assert_eq!(recovered.noted_error.is_some(), recovered.lost.is_some());
        let again = recover(log, &home).expect("the log is empty");
        assert_eq!(again.noted_error, recovered.noted_error, "{context}");
        check(self.kind, copy, &self.after[&kept.get()], context);
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for checksums in [Checksums::V1, Checksums::V2, Checksums::V3] {
        let dirty = dirty(checksums);
        for (hit, log_block) in dirty.blocks() {
            let is_commit = dirty.transactions[hit].commit_block == log_block;
            // Version 1 covers neither revoke blocks nor the rest of the commit block.
            let copy = Arc::new(dirty.device.snapshot());
            let offset = dirty.offset(log_block);
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
            let block = device.read_block(offset, dirty.kind.block_bytes).unwrap();
            let is_revoke = block[..8] == [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 5];
            if checksums == Checksums::V1 && is_revoke {
                continue;
            }
            let mut bytes = layout::Block::copy_from(&block);
            bytes[if is_commit { 17 } else { 700 }] ^= 4;
            device.write_blocks(offset, vec![bytes.into_arc()]).unwrap();
            let log = dirty.kind.location(device);
            let context = format!("{checksums:?}, log block {log_block} of transaction {hit}");
            // The checksum of version 1 lies in a commit block that is not covered itself.
            let is_valid = !is_commit || checksums == Checksums::V1;
            let is_lost = hit == dirty.transactions.len() - 1 && is_valid;
            let end = inspect(&log).expect("it can be looked at").end;
            assert_eq!(end.expect("it is not empty").is_lost, is_lost, "{context}");
            dirty.check(&copy, &log, hit, &context);
        }
    }
}

/// Bit of `s_feature_incompat`: the log has asynchronous commits.
const ASYNC_COMMIT: u8 = 4;

impl Dirty {
    /// Marks the log as one with asynchronous commits.
    fn make_asynchronous(&mut self) {
        let offset = self.offset(0);
        let copy = Arc::new(self.device.snapshot());
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
        let block = device.read_block(offset, self.kind.block_bytes);
        let mut bytes = layout::Block::copy_from(&block.unwrap());
        bytes[0x2B] |= ASYNC_COMMIT;
        if matches!(self.kind.features.checksums, Checksums::V2 | Checksums::V3) {
            bytes[0xFC..0x100].fill(0);
            let sum = checksum::crc32c(checksum::START, &bytes[..1024]);
            bytes[0xFC..0x100].copy_from_slice(&sum.to_be_bytes());
        }
        let bytes = bytes.into_arc();
        device.write_blocks(offset, vec![bytes]).unwrap();
        self.device = copy.snapshot();
    }
}

/// An asynchronous commit block may be on the device before the blocks that it commits: a damaged
/// or unreadable block of the last transaction is a torn end, and nothing acknowledged is lost.
#[test]
fn an_asynchronous_commit_block_proves_nothing() {
    for checksums in [Checksums::V1, Checksums::V2, Checksums::V3] {
        let mut dirty = dirty(checksums);
        dirty.make_asynchronous();
        let last = dirty.transactions.len() - 1;
        for (hit, log_block) in dirty.blocks() {
            if dirty.transactions[hit].commit_block == log_block {
                continue;
            }
            let context = format!("{checksums:?}, log block {log_block} of transaction {hit}");
            let (copy, log) = dirty.with_unreadable(&[log_block]);
            dirty.check(&copy, &log, hit, &context);
            if hit < last {
                continue;
            }
            let (copy, log) = dirty.with_unreadable(&[log_block]);
            let recovered = recover(&log, &(Arc::clone(&copy) as Arc<dyn BlockDevice>));
            let recovered = recovered.unwrap_or_else(|error| panic!("{context}: {error}"));
            let is_noted = recovered.lost.is_some() || recovered.noted_error.is_some();
            assert!(!is_noted, "{context}: nothing acknowledged is lost");
        }
    }
}

#[test]
fn a_torn_commit_block_with_a_good_first_sector_is_dropped_with_checksums() {
    for checksums in [Checksums::V2, Checksums::V3] {
        let dirty = dirty(checksums);
        let last = dirty.transactions.len() - 1;
        let copy = Arc::new(dirty.device.snapshot());
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
        let offset = dirty.offset(dirty.transactions[last].commit_block) + 512;
        device
            .write_blocks(offset, vec![layout::Block::copy_from(&[7; 512]).into_arc()])
            .unwrap();
        let log = dirty.kind.location(device);
        dirty.check(&copy, &log, last, &format!("{checksums:?}"));
    }
}

impl Dirty {
    /// A copy of which some blocks of the log cannot be read.
    fn with_unreadable(&self, log_blocks: &[u32]) -> (Arc<MemoryDevice>, Location) {
        let copy = Arc::new(self.device.snapshot());
        let faults = FaultDevice::new(Arc::<MemoryDevice>::clone(&copy), FaultPlan::default());
        for log_block in log_blocks {
            let sector = SectorNr::from_byte_offset(self.offset(*log_block));
            faults.add_bad_sectors(sector, sector + 1);
        }
        let log = self.kind.location(Arc::new(faults));
        (copy, log)
    }
}

#[test]
fn an_unreadable_block_is_damage_or_a_torn_end() {
    for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
        let dirty = dirty(checksums);
        let last_record = dirty.transactions.last().map(|info| info.commit_block);
        for (hit, log_block) in dirty.blocks() {
            let (copy, log) = dirty.with_unreadable(&[log_block]);
            let context = format!("{checksums:?}, log block {log_block} unreadable");
            if Some(log_block) == last_record {
                // Nothing tells it from a commit block that the power cut has torn.
                dirty.check(&copy, &log, hit, &context);
            } else {
                dirty.check_refused(&copy, &log, hit, &context);
            }
        }
    }
}

#[test]
fn what_no_torn_sector_explains_is_refused() {
    let dirty = dirty(Checksums::V3);
    let last = dirty.transactions.len() - 1;
    let info = &dirty.transactions[last];
    // The last transaction is unreadable, and so is a block in another physical sector, wherever
    // that lies.
    let far = info.commit_block + 8;
    let (copy, log) = dirty.with_unreadable(&[info.commit_block, far]);
    dirty.check_refused(&copy, &log, last, "a second block behind the log's end");
    let all: Vec<u32> = dirty.blocks().into_iter().map(|(_, block)| block).collect();
    let (copy, log) = dirty.with_unreadable(&all);
    dirty.check_refused(&copy, &log, 0, "the whole log");
}

#[test]
fn an_unreadable_block_of_an_interrupted_transaction_is_a_torn_end() {
    for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
        let mut dirty = dirty(checksums);
        let last = dirty.transactions.len() - 1;
        // The power cut came before the commit block.
        let offset = dirty.offset(dirty.transactions[last].commit_block);
        let empty = layout::Block::zeroed(dirty.kind.block_bytes as usize).into_arc();
        let cut = Arc::new(dirty.device.snapshot());
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&cut);
        device.write_blocks(offset, vec![empty]).unwrap();
        dirty.device = cut.snapshot();
        let info = &dirty.transactions[last];
        for log_block in info.first..info.commit_block {
            let (copy, log) = dirty.with_unreadable(&[log_block]);
            let context =
                format!("{checksums:?}, log block {log_block} unreadable, no commit block");
            dirty.check(&copy, &log, last, &context);
        }
    }
}

#[test]
fn a_home_beyond_the_device_is_refused() {
    let dirty = dirty(Checksums::None);
    let copy = Arc::new(dirty.device.snapshot());
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
    let offset = dirty.offset(dirty.transactions[0].first);
    let block = device.read_block(offset, 1024).unwrap();
    let mut bytes = layout::Block::copy_from(&block);
    bytes[12] = 0x40;
    device.write_blocks(offset, vec![bytes.into_arc()]).unwrap();
    let before = copy.snapshot();
    let log = dirty.kind.location(Arc::clone(&device));
    let result = recover(&log, &device);
    assert!(
        matches!(result, Err(Error::Corrupt(Corrupt::OutsideDevice { .. }))),
        "{result:?}"
    );
    assert_eq!(copy.first_difference(&before), None);
}

#[test]
fn any_bytes_are_looked_at_without_a_panic() {
    let dirty = dirty(Checksums::V3);
    let mut random = Random::new(11);
    for round in 0..3000 {
        let copy = Arc::new(dirty.device.snapshot());
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
        for _ in 0..1 + random.below(4) {
            let offset = dirty.offset(random.below(60) as u32);
            let block = device.read_block(offset, 1024).unwrap();
            let mut bytes = layout::Block::copy_from(&block);
            let limit = if random.below(2) == 0 { 64 } else { 1024 };
            bytes[random.below(limit) as usize] = random.next() as u8;
            device.write_blocks(offset, vec![bytes.into_arc()]).unwrap();
        }
        let log = dirty.kind.location(Arc::clone(&device));
        let first = recover(&log, &device);
        if first.is_ok() {
            let again = recover(&log, &device).expect("an empty log");
            assert!(again.was_clean, "round {round}");
        }
    }
}

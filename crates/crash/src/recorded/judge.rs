//! The judge of an image that a power cut leaves: it is recovered and checked.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use layout::feature::{Compatible, ReadOnlyCompatible};
use layout::superblock::{MAGIC, Superblock};
use layout::{Block, checksum};
use zerocopy::FromBytes;

use super::error::RecordedError;
use super::sparse::{ReadDevice, Reads, Sparse, read};
use crate::cut::Moment;
use crate::e2fsck::{Failure, Files, not_read};
use crate::engine::Engine;
use crate::mode::DataMode;
use crate::recover::{check, check_ended};
use crate::rule::{Broken, Rule};
use crate::setting::Schedule;
use crate::tested::Tested;
use crate::timetable::RECOVERED_AT;
use crate::world::world;

/// Place and size of the superblock in bytes.
pub(crate) const SUPERBLOCK: (u64, u32) = (1024, 1024);
/// The same in sectors of 512 bytes.
pub(crate) const SUPERBLOCK_SECTORS: [u64; 2] = [2, 3];

/// The file system of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge {
    has_journal: bool,
    has_log_device: bool,
    /// True if e2fsck is trusted to recover images: releases 1.47.0 and 1.47.2 leave a wrong
    /// checksum of the superblock, and an unsound volume, where they replay fast commits of Linux.
    has_preen: bool,
}

/// A judged image.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The violation, if there is one.
    pub(crate) broken: Option<Broken>,
    /// True if half of the superblock was written, and the image was refused for that.
    pub(crate) is_torn: bool,
    /// True if e2fsck has repaired, or checked, the image.
    pub(crate) has_e2fsck: bool,
    /// Parts of the devices that recovery and the check have read.
    pub(crate) reads: Vec<Reads>,
}

/// The end of a recovery, of the file system's device and the journal's.
struct Recovered {
    result: Result<(), Broken>,
    home: (MemoryDevice, Reads),
    log: Option<(MemoryDevice, Reads)>,
}

impl Judge {
    /// Returns the judge if the devices hold a sound file system.
    ///
    /// # Errors
    /// Fails if its journal was not recorded, or if it cannot be opened.
    pub(crate) fn of(images: &[Sparse]) -> Result<Option<Self>, RecordedError> {
        let home = images[0].memory();
        let block = read(home, SUPERBLOCK.0, SUPERBLOCK.1);
        let superblock = superblock(&block);
        if superblock.magic.get() != MAGIC {
            return Ok(None);
        }
        let compatible = superblock.features().compatible;
        let has_journal = compatible.contains(Compatible::HAS_JOURNAL);
        let has_log_device = has_journal && superblock.journal_inode.get() == 0;
        let judge = Self {
            has_journal,
            has_log_device,
            has_preen: !compatible.contains(Compatible::FAST_COMMIT),
        };
        if has_log_device && images.len() < 2 {
            // While mkfs runs, there may be neither of them yet.
            return match superblock.journal_uuid == [0; 16] {
                true => Ok(None),
                false => Err(RecordedError::NoJournal),
            };
        }
        if check(home, judge.log(images).map(|log| log as _)).is_err() {
            return Ok(None);
        }
        if has_journal && let Err(broken) = judge.recover(images).result {
            return Err(RecordedError::Unopened(broken.what));
        }
        Ok(Some(judge))
    }

    /// Returns true if power cuts leave sound volumes only after e2fsck has repaired them.
    pub(crate) fn repairs(&self) -> bool {
        !self.has_journal
    }

    fn log<'i>(&self, images: &'i [Sparse]) -> Option<&'i MemoryDevice> {
        let log = images.get(1).filter(|_| self.has_log_device)?;
        Some(log.memory())
    }

    /// Judges an image, with e2fsck if asked to. `is_halved` is true if half of a write of the
    /// superblock is in it.
    ///
    /// # Errors
    /// Fails if e2fsck cannot be asked.
    pub(crate) fn judge(
        &self,
        images: &[Sparse],
        with_e2fsck: bool,
        is_halved: bool,
    ) -> Result<Verdict, RecordedError> {
        if self.repairs() {
            return Ok(Verdict {
                broken: broken(self.repair(images))?,
                has_e2fsck: true,
                ..Verdict::default()
            });
        }
        let Recovered { result, home, log } = self.recover(images);
        let is_torn = is_halved && has_wrong_checksum(images[0].memory());
        let mut verdict = Verdict {
            is_torn: is_torn && result.is_err(),
            ..Verdict::default()
        };
        verdict.broken = result.err().filter(|_| !verdict.is_torn);
        if with_e2fsck && !is_torn && verdict.broken.is_none() {
            verdict.has_e2fsck = true;
            let recovered = (&home.0, log.as_ref().map(|(memory, _)| memory));
            verdict.broken = broken(self.e2fsck(images, recovered))?;
        }
        let log = log.map(|(_, reads)| reads);
        verdict.reads = [Some(home.1), log].into_iter().flatten().collect();
        Ok(verdict)
    }

    /// Recovers an image with the engine, closes it and checks it, in a world of its own.
    fn recover(&self, images: &[Sparse]) -> Recovered {
        let home = ReadDevice::new(images[0].memory().snapshot());
        let log = self.log(images).map(|log| ReadDevice::new(log.snapshot()));
        let (inner_home, inner_log) = (Arc::clone(&home), log.clone());
        let config = world(Schedule::Fair, RECOVERED_AT, None);
        let run = sim::run(config, move || open_and_check(inner_home, inner_log));
        let result = run.map_or_else(
            |error| {
                let what = format!("recovery did not end well: {error}");
                Err(Broken::new(Rule::U1, what))
            },
            |report| report.value,
        );
        Recovered {
            result,
            home: home.result(),
            log: log.map(|log| log.result()),
        }
    }

    /// Lets e2fsck check the recovered volume; then lets it recover the image by itself.
    fn e2fsck(
        &self,
        images: &[Sparse],
        (home, log): (&MemoryDevice, Option<&MemoryDevice>),
    ) -> Result<(), Failure> {
        Files::of_devices(home, log)?.expect_clean()?;
        if !self.has_preen {
            return Ok(());
        }
        let files = Files::of_devices(images[0].memory(), self.log(images))?;
        files.preen()?;
        files.expect_clean()
    }

    /// Lets e2fsck repair a volume without a journal; then nothing may be wrong with it.
    fn repair(&self, images: &[Sparse]) -> Result<(), Failure> {
        let files = Files::of_devices(images[0].memory(), None)?;
        files.repair()?;
        let repaired =
            MemoryDevice::load_from_file(&files.image).map_err(|error| not_read(&error))?;
        Ok(check(&repaired, None)?)
    }
}

/// Returns the violation, if there is one.
///
/// # Errors
/// Fails if it is this machine that failed.
fn broken(result: Result<(), Failure>) -> Result<Option<Broken>, RecordedError> {
    match result {
        Ok(()) => Ok(None),
        Err(Failure::Verdict(broken)) => Ok(Some(broken)),
        Err(Failure::Machine(broken)) => Err(RecordedError::Machine(broken.what)),
    }
}

fn open_and_check(home: Arc<ReadDevice>, log: Option<Arc<ReadDevice>>) -> Result<(), Broken> {
    let failed = |error| Broken::new(Rule::U1, format!("recovery failed: {error}"));
    let (home, log): (Arc<dyn BlockDevice>, Option<Arc<dyn BlockDevice>>) =
        (home, log.map(|log| log as _));
    let opened = Tested::recover(Arc::clone(&home), log.clone(), DataMode::Ordered);
    let (volume, recovery) = opened.map_err(failed)?;
    let closed = Engine::close(volume);
    let what = match &recovery.read_only_because {
        Some(why) => Some(format!("it is read-only: {why}")),
        None if recovery.has_lost => Some("a committed transaction is damaged".to_owned()),
        None => None,
    };
    if let Some(what) = what {
        return Err(Broken::new(Rule::U1, what));
    }
    closed.map_err(failed)?;
    check_ended(&*home, log.as_deref(), false)
}

fn superblock(block: &Block) -> &Superblock {
    let (superblock, _) = Superblock::ref_from_prefix(block).expect("a block holds the superblock");
    superblock
}

/// Returns true if the superblock has a checksum that does not match.
fn has_wrong_checksum(home: &MemoryDevice) -> bool {
    let block = read(home, SUPERBLOCK.0, SUPERBLOCK.1);
    let own = superblock(&block);
    let words = own.features().read_only_compatible;
    words.contains(ReadOnlyCompatible::METADATA_CSUM)
        && own.checksum.get() != checksum::superblock(own)
}

/// Returns true if a selection takes only one half of the superblock from a write of both.
pub(crate) fn is_halved(moment: &Moment<'_, Sparse>, selection: &[u32]) -> bool {
    let [first, second] = SUPERBLOCK_SECTORS.map(|sector| {
        let units = moment.units.iter().zip(selection);
        let mut own = units.filter(|(unit, _)| unit.device == 0 && unit.sector == sector);
        own.next().map(|(unit, version)| {
            let number = version.checked_sub(1);
            (unit, number.map(|number| unit.writes[number as usize]))
        })
    });
    let (Some((first, one)), Some((second, other))) = (first, second) else {
        return false;
    };
    let is_of_both = |write: u64| first.writes.contains(&write) && second.writes.contains(&write);
    one != other && one.max(other).is_some_and(is_of_both)
}

#[cfg(test)]
mod tests {
    use block::trace::Event;
    use block::{Geometry, Replay, Request};
    use layout::SectorNr;
    use layout::feature::Incompatible;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::disks::Disks;
    use crate::setting::{Cell, JournalPlace, Setting};

    /// A volume that was closed has nothing to recover, even if it is sound.
    #[test]
    fn a_closed_volume_needs_no_recovery() {
        let cell = Cell::new(DataMode::Ordered, JournalPlace::Internal);
        let mut disks = Disks::make(&Setting::new(cell)).expect("a volume");
        let home = disks.devices().home_device();
        check_ended(&*home, None, false).expect("it was closed");
        let block = disks.home.block(1);
        let mut own = Superblock::read_from_bytes(&block[..]).expect("a block has its size");
        let bits = own.incompatible_bits.get() | Incompatible::NEEDS_RECOVERY.bits();
        own.incompatible_bits.set(bits);
        let block = Block::copy_from(own.as_bytes()).into_arc();
        disks.home.set_block(1, block);
        let home = disks.devices().home_device();
        check(&*home, None).expect("it is sound");
        let broken = check_ended(&*home, None, false).expect_err("it was not closed");
        assert!(broken.what.contains("needs recovery"), "{broken}");
    }

    /// Sectors 2 and 3 of writes 1 to both, 2 to the second only, and 3 to both.
    #[test]
    fn only_half_of_a_write_of_the_superblock_is_half_a_superblock() {
        let geometry = Geometry {
            has_volatile_cache: true,
            ..Geometry::new(1 << 20)
        };
        let memory = MemoryDevice::new(1 << 20);
        let mut replays = [Replay::on(0, geometry, &Sparse::new(memory))];
        for (batch, (first, sectors)) in [(0, 8), (3, 1), (2, 2)].into_iter().enumerate() {
            let block = Block::zeroed(sectors * 512).into_arc();
            let write = Request::Write {
                sector: SectorNr::new(first),
                payload: vec![block],
                force_unit_access: false,
            };
            replays[0].apply(&Event::Submitted {
                device: 0,
                batch: batch as u64,
                requests: Arc::new(vec![write]),
            });
        }
        let moment = Moment::new(&replays);
        let of = |version: [u32; 2]| {
            let mut selection = moment.whole(&[false]);
            selection[2..4].copy_from_slice(&version);
            is_halved(&moment, &selection)
        };
        // Versions of sector 2: writes 1 and 3; of sector 3: writes 1, 2 and 3.
        for whole in [[0, 0], [1, 1], [2, 3], [1, 2], [0, 2]] {
            assert!(!of(whole), "{whole:?}");
        }
        for half in [[1, 0], [0, 1], [2, 0], [2, 1], [2, 2], [0, 3], [1, 3]] {
            assert!(of(half), "{half:?}");
        }
    }
}

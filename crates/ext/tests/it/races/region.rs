//! Common files that all tasks overwrite, truncate and sync: each sector identifies its writer.
//! Operations overlap in time, so that the allowed contents follow from the operations that had
//! ended before others started.

use ext::options::DataMode;
use ext::volume::{OpenFlags, SetAttributes};
use ext::{Error, Volume};

use super::{Run, Span, Step, private, with_open};
use crate::history::Found;
use testkit::Random;

pub(super) const FILES: usize = 2;
pub(super) const PATHS: [&str; FILES] = ["/common/region0", "/common/region1"];
const SECTOR_BYTES: usize = 512;
/// Number of sectors that writes and truncations cover.
const SECTORS: u64 = 72;
/// Largest number of sectors of one write.
const WRITE_SECTORS: u64 = 24;
pub(super) const BYTES_AT_FIRST: usize = 40 * SECTOR_BYTES;
/// A magic number in each written sector.
const MAGIC: u64 = 0x6a65_7874_7261_6365;
/// The span of a state that existed before everything.
const ALWAYS: Span = Span { begun: 0, ended: 0 };

/// An operation on a common file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegionOp {
    file: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// From a sector up to another.
    Write {
        from: u64,
        to: u64,
        how: How,
    },
    /// To this number of sectors.
    Truncate(u64),
    Sync {
        data_only: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Synchronous,
    Direct,
}

impl RegionOp {
    pub(super) fn new(random: &mut Random) -> Self {
        let file = random.below(FILES as u64) as usize;
        let kind = match random.below(10) {
            0..=5 => {
                // Direct writes consist of whole blocks of two sectors.
                let from = random.below(SECTORS / 2) * 2;
                let to = from + 2 + random.below(WRITE_SECTORS / 2) * 2;
                let how = *random.pick(&[How::Plain, How::Plain, How::Synchronous, How::Direct]);
                Kind::Write { from, to, how }
            }
            6 => Kind::Truncate(random.below(SECTORS)),
            other => Kind::Sync {
                data_only: other == 7,
            },
        };
        Self { file, kind }
    }

    pub(super) fn run(self, volume: &Volume, task: usize, number: usize) -> Result<(), Error> {
        let path = PATHS[self.file];
        let flags = OpenFlags::READ_WRITE;
        match self.kind {
            Kind::Write { from, to, how } => {
                let flags = OpenFlags {
                    data_sync: how == How::Synchronous,
                    direct: how == How::Direct,
                    ..flags
                };
                let bytes: Vec<u8> = (from..to)
                    .flat_map(|sector| sector_of(self.file, task, number, sector))
                    .collect();
                with_open(volume, path, flags, |file| {
                    file.write_at(from * SECTOR_BYTES as u64, &bytes)
                })
            }
            Kind::Truncate(sectors) => {
                let change = SetAttributes {
                    size: Some(sectors * SECTOR_BYTES as u64),
                    ..Default::default()
                };
                volume.set_attributes(volume.resolve(path, true)?, &change)
            }
            Kind::Sync { data_only } => with_open(volume, path, flags, |file| {
                volume.sync_file(file.id(), data_only)
            }),
        }
    }
}

/// Returns the contents that a write gives a sector.
fn sector_of(file: usize, task: usize, number: usize, sector: u64) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    let words = [MAGIC, file as u64, task as u64, number as u64, sector];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words.iter().cycle()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// A change of a file, as far as the check needs it.
struct Change {
    kind: Kind,
    writer: (usize, usize),
    span: Span,
    is_bound: bool,
}

impl Change {
    /// Returns the new contents of a sector: the writer's, zeroes, or unchanged.
    fn covers(&self, at: u64) -> Option<Source> {
        match self.kind {
            Kind::Write { from, to, .. } if (from..to).contains(&at) => Some(Source::Writer),
            Kind::Truncate(sectors) if sectors <= at => Some(Source::Zero),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Writer,
    Zero,
}

/// Returns the changes of a file that had started before a cut, with marks for those that a sync
/// call covers.
fn changes(run: &Run, file: usize, cut: usize) -> Vec<Change> {
    let on_file = |step: Step| match step {
        Step::Region(op) if op.file == file => Some(op.kind),
        _ => None,
    };
    let mut syncs = private::syncs(run, cut);
    for (_, _, step, span) in run.steps() {
        if let Some(Kind::Sync { .. }) = on_file(step)
            && span.ended < cut
        {
            syncs.push(span);
        }
    }
    let covered = |span: Span| syncs.iter().any(|sync| span.ended < sync.begun);
    let change = |(task, number, step, span): (usize, usize, Step, Span)| {
        let kind = on_file(step).filter(|kind| !matches!(kind, Kind::Sync { .. }))?;
        let how = match kind {
            Kind::Write { how, .. } => how,
            _ => How::Plain,
        };
        let is_own_sync = how == How::Synchronous && span.ended < cut;
        Some(Change {
            kind,
            writer: (task, number),
            span,
            is_bound: is_own_sync || covered(span),
        })
    };
    run.steps()
        .filter(|(.., span)| span.begun < cut)
        .filter_map(change)
        .collect()
}

/// Checks that the contents of a common file are possible.
pub(super) fn check(
    run: &Run,
    file: usize,
    found: &Found,
    cut: usize,
    data: DataMode,
) -> Result<(), String> {
    let Some(Some(bytes)) = found.get(PATHS[file]) else {
        return Err("it is not there".to_owned());
    };
    let changes = changes(run, file, cut);
    check_size(&changes, bytes.len() as u64)?;
    for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        let at = at as u64;
        if data == DataMode::Writeback && !is_settled(&changes, at) {
            continue;
        }
        check_sector(&changes, file, at, sector)?;
    }
    Ok(())
}

/// Returns true if a bound write covers the sector and no truncation since can have freed its
/// block.
fn is_settled(changes: &[Change], at: u64) -> bool {
    let is_before = |cut: &Change, write: &Change| {
        cut.covers(at) != Some(Source::Zero) || cut.span.ended < write.span.begun
    };
    changes.iter().any(|write| {
        write.is_bound
            && write.covers(at) == Some(Source::Writer)
            && changes.iter().all(|cut| is_before(cut, write))
    })
}

/// Returns true if no bound change of the sector started after `source` had ended.
fn is_newest(changes: &[Change], source: Span, at: u64) -> bool {
    !changes.iter().any(|change| {
        change.is_bound && change.covers(at).is_some() && source.ended < change.span.begun
    })
}

fn check_sector(changes: &[Change], file: usize, at: u64, sector: &[u8]) -> Result<(), String> {
    if sector.iter().all(|byte| *byte == 0) {
        let cuts = changes
            .iter()
            .filter(|change| change.covers(at) == Some(Source::Zero));
        let mut zeroes = cuts.map(|change| change.span).chain([ALWAYS]);
        return match zeroes.any(|span| is_newest(changes, span, at)) {
            true => Ok(()),
            false => Err(format!(
                "sector {at} is zero, but what was written is bound"
            )),
        };
    }
    let is_of = |change: &&Change| {
        let (task, number) = change.writer;
        change.covers(at) == Some(Source::Writer) && sector == sector_of(file, task, number, at)
    };
    match changes.iter().find(is_of) {
        None => Err(format!(
            "sector {at} holds what nobody has written there: {:x?}",
            &sector[..40]
        )),
        Some(change) if is_newest(changes, change.span, at) => Ok(()),
        Some(change) => Err(format!(
            "sector {at} is of {:?}, but something newer is bound",
            change.writer
        )),
    }
}

/// Checks that changes may have caused the size, and that it is not smaller than bound writes nor
/// larger than bound truncations allow.
fn check_size(changes: &[Change], size: u64) -> Result<(), String> {
    let end_of = |change: &Change| match change.kind {
        Kind::Write { to, .. } => to * SECTOR_BYTES as u64,
        Kind::Truncate(sectors) => sectors * SECTOR_BYTES as u64,
        Kind::Sync { .. } => 0,
    };
    let is_cut = |change: &Change| matches!(change.kind, Kind::Truncate(_));
    for change in changes.iter().filter(|change| change.is_bound) {
        let end = end_of(change);
        let after = |other: &&Change| other.span.ended >= change.span.begun;
        let mut later = changes.iter().filter(after);
        if size < end {
            let is_cut_down = later.any(|other| is_cut(other) && end_of(other) < end);
            if !is_cut_down {
                return Err(format!("{size} bytes, but {:?} is bound", change.kind));
            }
        } else if is_cut(change) && size > end {
            let is_grown = later.any(|other| end_of(other) >= size);
            if !is_grown {
                return Err(format!("{size} bytes, but {:?} is bound", change.kind));
            }
        }
    }
    Ok(())
}

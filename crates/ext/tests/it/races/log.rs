//! Common files to which all tasks append records, as to a log: whole records, in each writer's
//! order, none lost that a sync call covers.

use ext::options::DataMode;
use ext::volume::OpenFlags;
use ext::{Error, Volume};

use super::{Run, Span, Step, private, with_open};
use crate::history::Found;
use testkit::Random;

pub(super) const FILES: usize = 2;
pub(super) const PATHS: [&str; FILES] = ["/common/log0", "/common/log1"];
/// Size of a record in bytes, which does not divide a block.
const RECORD_BYTES: usize = 700;
const RECORDS_MAX: u64 = 4;

/// An operation on a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogOp {
    file: usize,
    /// Number of records to append.
    records: usize,
    sync: Sync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    No,
    /// By opening the file with O_DSYNC.
    Open,
    Fsync,
    Fdatasync,
}

impl LogOp {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            file: random.below(FILES as u64) as usize,
            records: 1 + random.below(RECORDS_MAX) as usize,
            sync: *random.pick(&[
                Sync::No,
                Sync::No,
                Sync::No,
                Sync::Open,
                Sync::Fsync,
                Sync::Fdatasync,
            ]),
        }
    }

    /// Appends records one by one, then syncs.
    pub(super) fn run(self, volume: &Volume, task: usize, number: usize) -> Result<(), Error> {
        let flags = OpenFlags {
            append: true,
            data_sync: self.sync == Sync::Open,
            ..OpenFlags::READ_WRITE
        };
        with_open(volume, PATHS[self.file], flags, |file| {
            for index in 0..self.records {
                file.write_at(0, &record(self.file, task, number, index))?;
            }
            match self.sync {
                Sync::Fsync => file.sync_all(),
                Sync::Fdatasync => file.sync_data(),
                Sync::No | Sync::Open => Ok(()),
            }
        })
    }
}

fn record(file: usize, task: usize, number: usize, index: usize) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let words = [file + 1, task + 1, number + 1, index + 1];
    for (place, word) in bytes.chunks_mut(4).zip(words.iter().cycle()) {
        let word = u32::try_from(*word).expect("a small number");
        place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
    }
    bytes
}

/// Returns the appends of one task to one log that had started: step, records, span.
fn appends(run: &Run, file: usize, task: usize, cut: usize) -> Vec<(usize, LogOp, Span)> {
    run.steps()
        .filter_map(|(other, number, step, span)| match step {
            Step::Log(op) if op.file == file && other == task && span.begun < cut => {
                Some((number, op, span))
            }
            _ => None,
        })
        .collect()
}

/// Checks that the contents of a log are possible.
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
    let mut syncs = private::syncs(run, cut);
    for (_, _, step, span) in run.steps() {
        if let Step::Log(op) = step
            && op.file == file
            && matches!(op.sync, Sync::Fsync | Sync::Fdatasync)
            && span.ended < cut
        {
            // It starts with appends, so that only its end is known to cover others.
            syncs.push(span);
        }
    }
    let mut seen = 0;
    for task in 0..run.scripts.len() {
        let mut at = 0;
        for (number, op, span) in appends(run, file, task, cut) {
            let is_bound = syncs.iter().any(|sync| span.ended < sync.begun)
                || op.sync != Sync::No && span.ended < cut;
            for index in 0..op.records {
                let wanted = record(file, task, number, index);
                let rest = bytes.get(at..).unwrap_or_default();
                let mut places = (at..bytes.len()).step_by(RECORD_BYTES);
                let place = places.find(|place| bytes[*place..].starts_with(&wanted));
                match place {
                    Some(place) => {
                        at = place + RECORD_BYTES;
                        seen += RECORD_BYTES;
                    }
                    None if is_bound => {
                        return Err(format!(
                            "record {index} of step {number} of task {task} is bound and not among the last {} of {} bytes",
                            rest.len(),
                            bytes.len()
                        ));
                    }
                    None => {}
                }
            }
        }
    }
    // A part of an append may be there.
    if data != DataMode::Writeback && bytes.len() - seen >= RECORD_BYTES {
        return Err(format!(
            "{} of {} bytes are no records",
            bytes.len() - seen,
            bytes.len()
        ));
    }
    Ok(())
}

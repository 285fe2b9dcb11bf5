//! Suspects: data whose contents are undefined because its write failed.

use crate::mode::DataMode;
use block::Request;

use crate::fault::{Fault, Strike};
use crate::history::{Bounds, History};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::op::{How, Op};
use crate::protocol::LogMap;
use crate::tag::{NOBODY, Tag, number_of, place_of};
use crate::workload::Workload;

/// Data of a file with undefined contents because its write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspect {
    /// Number of the file in tags; zeroes belong to no file.
    pub(crate) file: u32,
    /// The block of the file.
    pub(crate) block: usize,
    /// The lane that wrote it.
    pub(crate) lane: usize,
    /// Number of the state created by the write.
    pub(crate) state: usize,
}

/// Zeroes that could not be written.
pub(crate) const ZEROES: Suspect = Suspect {
    file: NOBODY,
    block: 0,
    lane: 0,
    state: 0,
};

/// Returns the data of files with undefined contents after a failed command. The bounds are those
/// of that time.
pub(crate) fn suspects(
    strike: &Strike,
    map: &LogMap,
    (histories, bounds): (&[History], &Bounds),
    workload: &Workload,
) -> Vec<Suspect> {
    let mut suspects = signed(strike, map);
    suspects.retain(|suspect| !is_written_again(suspect, workload));
    for suspect in &mut suspects {
        if let Some(state) = newest_change(suspect, histories, bounds) {
            suspect.state = suspect.state.max(state);
        }
    }
    suspects
}

/// True if a write that failed once is repeated before a commit that needs it: data in ordered
/// mode, except direct writes.
fn is_written_again(suspect: &Suspect, workload: &Workload) -> bool {
    let passes = workload.setting.fault.is_some_and(Fault::is_passing_write);
    let is_direct = |op: &Op| matches!(op, Op::WriteAs(How::Direct, ..));
    let is_of_direct = || {
        let ops = workload.lanes.get(suspect.lane);
        let op = ops.and_then(|ops| ops.get(suspect.state.checked_sub(1)?));
        op.is_some_and(is_direct)
    };
    passes && workload.setting.cell.data == DataMode::Ordered && !is_of_direct()
}

/// Returns the last change of a file's data that may be in the failed write: a truncated sector
/// carries its writer, and not the truncation.
fn newest_change(suspect: &Suspect, histories: &[History], bounds: &Bounds) -> Option<usize> {
    let history = histories.get(suspect.lane)?;
    let begun = bounds.lanes.get(suspect.lane)?.begun;
    let write = number_of(suspect.lane, suspect.state.checked_sub(1)?);
    let id = history.states.get(suspect.state)?.holder(write)?;
    Some(history.states.get(begun)?.get(id)?.data_in)
}

/// Returns the data of files in a failed command, as far as tags name the file.
pub(crate) fn signed(strike: &Strike, map: &LogMap) -> Vec<Suspect> {
    let Request::Write {
        sector, payload, ..
    } = &strike.request
    else {
        return Vec::new();
    };
    let mut suspects: Vec<Suspect> = Vec::new();
    let first = sector.get() / BLOCK_SECTORS as u64;
    for (nr, block) in (first..).zip(payload) {
        if strike.device != 0 || map.log_block(0, nr).is_some() {
            continue;
        }
        let tags = || block.chunks(SECTOR_BYTES).filter_map(Tag::read);
        for tag in tags() {
            if let Some((lane, number)) = place_of(tag.write) {
                suspects.push(Suspect {
                    file: tag.file,
                    block: tag.sector as usize / BLOCK_SECTORS,
                    lane,
                    state: number + 1,
                });
            }
        }
        let is_zero = |sector: &&[u8]| sector.iter().all(|byte| *byte == 0);
        let zeroes = block.chunks(SECTOR_BYTES).filter(is_zero).count();
        // Metadata has other bytes.
        if zeroes > 0 && zeroes + tags().count() == block.chunks(SECTOR_BYTES).count() {
            suspects.push(ZEROES);
        }
    }
    suspects
}

//! Volumes without a journal, which promise little.
//!
//! | end | requirement |
//! |---|---|
//! | closed | the tree of all operations; a check finds nothing; all can be deleted |
//! | cut off | `e2fsck -fy` repairs it, and then finds nothing more; see below |
//!
//! On a volume that was cut off, the contents of every file that was synced and not changed since
//! are there, under some name or in `lost+found`.
//!
//! The explorer checks closed volumes of all generators; the comparison with other programs also
//! checks some that were cut off.

use std::rc::Rc;

use crate::mode::DataMode;
use block::trace::Event;
use ext::{Error, MountOptions, Volume};

use crate::disks::{Disks, quiet};
use crate::e2fsck::{self, Files};
use crate::epilogue;
use crate::findings::{Found, Tally};
use crate::history::{Bounds, History};
use crate::image::SECTOR_BYTES;
use crate::leftover::{Held, Leftovers};
use crate::model::{Kind, Sector};
use crate::observe::{Contents, LOST_AND_FOUND, Seen, observe, observe_from};
use crate::oracle::{Oracle, Recovered};
use crate::recording::{Mark, Recording};
use crate::recover::{self, check_closed};
use crate::rule::{Broken, Rule, RuleCounts};
use crate::run::EVERYTHING;
use crate::setting::Schedule;
use crate::tag::Tag;
use crate::timetable::RECOVERED_AT;
use crate::world::world;

fn unreadable(error: &dyn core::fmt::Display) -> Broken {
    Broken::new(Rule::U1, format!("it cannot be opened or read: {error}"))
}

/// Runs a function in a separate world, long after everything else.
fn apart<T: 'static>(look: impl FnOnce() -> Result<T, Broken> + 'static) -> Result<T, Broken> {
    let run = sim::run(world(Schedule::Fair, RECOVERED_AT, None), look);
    run.map_err(|error| unreadable(&error))?.value
}

/// Checks the volume that its workload closed. Returns the counts, and the first violation.
pub(crate) fn explore(recording: Rc<Recording>) -> (Tally, Option<Found>) {
    let mut tally = Tally {
        workloads: 1,
        ..Tally::default()
    };
    tally.rules += &recording.ended.crowd;
    if let Err(broken) = apart(move || check_end(&recording)) {
        let cuts = Vec::new();
        return (tally, Some(Found { broken, cuts }));
    }
    (tally.recovered, tally.compared, tally.used) = (1, 1, 1);
    for rule in [Rule::U1, Rule::U2, Rule::U4, Rule::U7, Rule::F4] {
        tally.rules.note(rule);
    }
    (tally, None)
}

fn check_end(recording: &Recording) -> Result<(), Broken> {
    let lanes = 0..recording.workload.lanes.len();
    let histories: Option<Vec<History>> = lanes.map(|lane| History::of(recording, lane)).collect();
    let histories = histories
        .ok_or_else(|| Broken::new(Rule::U3, "an operation succeeded that the model refuses"))?;
    let mut bounds = Bounds::new(&histories, recording);
    for event in &recording.events {
        if let Event::Mark(mark) = event {
            bounds.note(&histories, Mark::decode(*mark));
        }
    }
    bounds.note_closed(&histories);
    check_closed(&recording.last, false)?;
    let devices = recording.last.devices();
    let opened = Volume::open(devices.home_device(), None, quiet(DataMode::Ordered));
    let volume = opened.map_err(|error| unreadable(&error))?;
    let recovered = Recovered {
        last: EVERYTHING,
        has_truncated: false,
        has_lost: false,
        has_error: false,
        observation: observe(&volume, false).map_err(|error| unreadable(&error))?,
    };
    let mut counts = RuleCounts::default();
    let mut oracle = Oracle {
        histories: &histories,
        bounds: &bounds,
        // The contents of a closed volume are exactly those written.
        data: DataMode::Journal,
        recovered: &recovered,
        leftovers: &Leftovers::new(),
        held: &Held::of(recording),
        suspects: &[],
        counts: &mut counts,
    };
    oracle.check()?;
    epilogue::run(&volume)?;
    volume.close().map_err(|error| unreadable(&error))?;
    recover::check(&*devices.home_device(), None)
}

/// Lets e2fsck repair a volume that was cut off, and checks the synced files. Returns their number.
///
/// # Errors
/// - U1, U2 if it is not repaired.
/// - F1 if a file is missing.
pub(crate) fn check_repaired(
    histories: &[History],
    bounds: &Bounds,
    disks: &Disks,
) -> Result<u64, Broken> {
    let files = Files::write(disks)?;
    files.repair()?;
    let repaired = files.read(disks)?;
    e2fsck::check(&repaired)?;
    recover::check(&*repaired.devices().home_device(), None)?;
    let seen = apart(move || all_files(&repaired).map_err(|error| unreadable(&error)))?;
    let mut count = 0;
    for (history, bounds) in histories.iter().zip(&bounds.lanes) {
        let tree = &history.states[bounds.begun];
        for (id, synced) in &bounds.files {
            let Some(node) = tree.get(*id).filter(|node| node.data_in == *synced) else {
                continue;
            };
            let Kind::File { size, sectors } = &node.kind else {
                continue;
            };
            count += 1;
            if !seen.iter().any(|seen| holds(seen, *size, sectors)) {
                let what = format!(
                    "a file of lane {} that was synced after state {synced} is not on the repaired volume: {size} bytes",
                    history.lane
                );
                return Err(Broken::new(Rule::F1, what));
            }
        }
    }
    Ok(count)
}

/// Returns all inodes of a repaired volume, with those in `lost+found`.
fn all_files(disks: &Disks) -> Result<Vec<Seen>, Error> {
    let options = MountOptions {
        read_only: true,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(disks.devices().home_device(), None, options)?;
    let mut seen = observe(&volume, false)?.nodes;
    let name = core::str::from_utf8(LOST_AND_FOUND).expect("its name is ASCII");
    let lost = volume.resolve(name, false)?;
    seen.extend(observe_from(&volume, lost, false)?.nodes);
    volume.close()?;
    Ok(seen)
}

/// Returns true if an inode is a file with these contents, each sector as written.
fn holds(seen: &Seen, size: u64, sectors: &[Sector]) -> bool {
    let Contents::File(bytes) = &seen.contents else {
        return false;
    };
    let mut pieces = bytes.chunks(SECTOR_BYTES).zip(sectors);
    bytes.len() as u64 == size
        && pieces.all(|(piece, sector)| {
            let tag = Tag {
                file: seen.inode.get(),
                write: sector.write,
                sector: sector.written_at,
            };
            match sector.write {
                0 => piece.iter().all(|byte| *byte == 0),
                _ => tag.matches(piece, sector.cut.into()),
            }
        })
}

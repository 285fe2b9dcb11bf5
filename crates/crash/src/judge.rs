//! Errors without a crash: the errors that clients get on failing devices, compared with the
//! failures.
//!
//! | rule | checked when |
//! |---|---|
//! | E1 | a handle looks: it reports each failed write of its file's data once, and nothing else |
//! | E2 | a write of the log has failed: only reads succeed, and the log has the cause |
//! | E4 | a flush has failed: the same |
//! | E5 | only reads have failed: the volume continues, operations are done fully or not at all |
//! | E8 | something did not fit: sync calls do not report it |
//! | E9 | an error was transient: the tree is that of a run without it |
//! | E10 | writes were refused for lack of room only: the volume continues |
//!
//! The explorer also checks E0, E2, E3 and E4, in the order of requests and at every power cut.

use crate::mode::{DataMode, Structures};
use fsck::ProblemKind;
use layout::Tid;

use block::Request;

use crate::fault::Strike;
use crate::history::{Bounds, History};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::leftover::{Held, Leftovers};
use crate::op::{How, Op};
use crate::oracle::{Oracle, Recovered};
use crate::protocol::LogMap;
use crate::recording::{Hold, Outcome, Recording, Told};
use crate::rule::{Broken, Rule, RuleCounts};
use crate::suspect::{ZEROES, signed};
use crate::tag::Tag;

/// Data of a file whose write failed.
struct Failed {
    /// Number of the file; none if the block does not name it.
    file: Option<u32>,
    /// Number of the event.
    event: usize,
    /// True if no report is required: the writer waited for the write and got the error, or the
    /// journaled data is still in the log.
    is_optional: bool,
}

type Check = Result<(), Broken>;

/// A completed recording.
struct Judge<'r> {
    recording: &'r Recording,
    histories: &'r [History],
    map: LogMap,
    counts: &'r mut RuleCounts,
}

/// Checks the errors that clients got in a recording on failing devices.
///
/// # Errors
/// - E1, E2, E4, E5, E8, E9.
pub(crate) fn check(
    recording: &Recording,
    histories: &[History],
    counts: &mut RuleCounts,
) -> Check {
    let Some(fault) = recording.workload.setting.fault else {
        return Ok(());
    };
    let mut judge = Judge {
        recording,
        histories,
        map: LogMap::new(&recording.initial),
        counts,
    };
    judge.check_space()?;
    if recording.strikes.is_empty() {
        return Ok(());
    }
    if recording.ended.is_read_only {
        return judge.check_aborted(fault.count().is_some());
    }
    judge.check_alive()?;
    judge.check_told()?;
    judge.check_tree(fault.count().is_some())
}

impl Judge<'_> {
    /// Returns the failed commands before the volume was closed.
    fn strikes(&self) -> impl Iterator<Item = &Strike> {
        let until = self.recording.ended.at;
        let strikes = self.recording.strikes.iter();
        strikes.filter(move |strike| strike.event < until)
    }

    /// Returns true if a command on the block of multiple mount protection failed. If that goes on,
    /// the volume becomes read-only when its lease ends.
    fn has_lost_protection(&self) -> bool {
        let protection = self.recording.initial.protection_block();
        protection > 0
            && self.strikes().any(|strike| {
                let (sector, _) = strike.request.range();
                strike.device == 0 && sector.get() / BLOCK_SECTORS as u64 == protection
            })
    }

    fn is_of_log(&self, strike: &Strike) -> bool {
        let (sector, _) = strike.request.range();
        let block = sector.get() / BLOCK_SECTORS as u64;
        strike.request.is_write() && self.map.log_block(strike.device, block).is_some()
    }

    /// Returns true if a command was to write a block without the tag of its owner: for example a
    /// block of which a truncation has left too little.
    fn writes_unsigned(&self, strike: &Strike) -> bool {
        let Request::Write {
            sector, payload, ..
        } = &strike.request
        else {
            return false;
        };
        let first = sector.get() / BLOCK_SECTORS as u64;
        let mut blocks = (first..).zip(payload);
        strike.device == 0
            && blocks.any(|(nr, block)| {
                self.map.log_block(0, nr).is_none()
                    && block
                        .chunks(SECTOR_BYTES)
                        .all(|sector| Tag::read(sector).is_none())
            })
    }

    fn check_space(&mut self) -> Check {
        for history in self.histories {
            for (done, op) in history.done.iter().zip(&history.ops[history.base..]) {
                match done.outcome {
                    Outcome::NoSpace if op.is_sync() => {
                        return Err(Broken::new(Rule::E8, format!("{op} found no space")));
                    }
                    Outcome::NoSpace | Outcome::Short(_) => self.counts.note(Rule::E8),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Checks a volume that has become read-only: only reads succeed.
    fn check_aborted(&mut self, passes: bool) -> Check {
        let is_flush = |strike: &Strike| matches!(strike.request, Request::Flush);
        let has_flush = self.strikes().any(is_flush);
        let rule = if has_flush { Rule::E4 } else { Rule::E2 };
        self.counts.note(rule);
        let ended = &self.recording.ended;
        let is_read = |strike: &Strike| matches!(strike.request, Request::Read { .. });
        if self.recording.strikes.iter().all(is_read) && !self.has_lost_protection() {
            let what = "reads have failed, and the volume has become read-only";
            return Err(Broken::new(Rule::E5, what));
        }
        if self
            .recording
            .strikes
            .iter()
            .all(|strike| strike.is_refused)
        {
            let what = "a device had no room, and the volume has become read-only";
            return Err(Broken::new(Rule::E10, what));
        }
        if let Some(accepted) = ended.accepted.first() {
            let what = format!("{accepted} says yes on a volume that has failed");
            return Err(Broken::new(rule, what));
        }
        // A device whose reads still fail shows what is cached, and no more.
        let reads_fail = !passes && self.recording.strikes.iter().all(is_read);
        if ended.observation.is_none() && !reads_fail {
            return Err(Broken::new(rule, "a volume that has failed cannot be read"));
        }
        for history in self.histories {
            let done = history.done.iter().zip(&history.ops[history.base..]);
            for (index, (done, op)) in done.enumerate() {
                let number = history.base + index;
                let is_nothing = history.states[number] == history.states[number + 1];
                let says_yes = matches!(done.outcome, Outcome::Done | Outcome::Short(_));
                if done.was_read_only && says_yes && (op.is_sync() || !is_nothing) {
                    let what = format!("{op} says yes on a volume that has failed");
                    return Err(Broken::new(rule, what));
                }
            }
        }
        if passes {
            self.check_noted(rule)?;
        }
        Ok(())
    }

    /// Checks that the journal's superblock records the error, if it could be written.
    fn check_noted(&self, rule: Rule) -> Check {
        let (device, block) = self.map.superblock();
        let touches = |strike: &&Strike| {
            let (sector, _) = strike.request.range();
            let is_flush = matches!(strike.request, Request::Flush);
            is_flush || strike.device == device && sector.get() / BLOCK_SECTORS as u64 == block
        };
        // If the flush that makes it durable has failed, the record may be missing.
        if self.recording.strikes.iter().any(|strike| touches(&strike)) {
            return Ok(());
        }
        let last = &self.recording.last;
        if !last.has_error() {
            let what = "the journal's superblock does not say that there was an error";
            return Err(Broken::new(rule, what));
        }
        let devices = last.devices();
        let (home, log) = (devices.home_device(), devices.log_device());
        let report = fsck::check(&*home, log.as_deref(), &fsck::Options::default());
        let is_told = |report: fsck::Report| report.kinds().contains(&ProblemKind::JournalError);
        if !report.is_ok_and(is_told) {
            let what = "a check does not say that the journal has noted an error";
            return Err(Broken::new(rule, what));
        }
        Ok(())
    }

    /// Checks that no failure has required the volume to turn read-only.
    fn check_alive(&self) -> Check {
        for strike in self.strikes().filter(|strike| !strike.is_refused) {
            let (rule, what) = match &strike.request {
                Request::Flush => (Rule::E4, "a flush"),
                _ if self.is_of_log(strike) => (Rule::E2, "a write of the log"),
                _ => continue,
            };
            let what = format!("{what} has failed, and the volume goes on");
            return Err(Broken::new(rule, what));
        }
        Ok(())
    }

    /// Checks that every open handle reports a failed write of its file once.
    fn check_told(&mut self) -> Check {
        if self.recording.workload.setting.cell.data == DataMode::Journal {
            return Ok(());
        }
        let lanes = &self.recording.workload.lanes;
        let is_journaled = |op: &Op| matches!(op, Op::Journaled(..));
        let is_journaling = lanes.iter().flatten().any(is_journaled);
        // Contents that leave their inode are written before. The call has that error, and the
        // contents stay.
        let leaves_inodes = self.recording.workload.setting.cell.structures == Structures::Inline;
        let mut failed: Vec<Failed> = Vec::new();
        for strike in self.strikes() {
            let suspects = signed(strike, &self.map);
            let signed = suspects.iter().filter(|suspect| **suspect != ZEROES);
            failed.extend(signed.map(|suspect| {
                let op = &lanes[suspect.lane][suspect.state - 1];
                Failed {
                    file: Some(suspect.file),
                    event: strike.event,
                    is_optional: matches!(op, Op::WriteAs(How::Direct, ..))
                        || strike.is_refused && is_journaling
                        || leaves_inodes && suspect.block == 0,
                }
            }));
            if self.writes_unsigned(strike) {
                failed.push(Failed {
                    file: None,
                    event: strike.event,
                    is_optional: true,
                });
            }
        }
        for hold in &self.recording.ended.holds {
            if check_hold(hold, &failed)? {
                self.counts.note(Rule::E1);
            }
        }
        Ok(())
    }

    /// Checks that the readable tree is that of the completed operations.
    fn check_tree(&mut self, passes: bool) -> Check {
        let is_read = |strike: &Strike| matches!(strike.request, Request::Read { .. });
        let rule = match (passes, self.strikes().any(is_read)) {
            (true, _) => Rule::E9,
            (false, true) => Rule::E5,
            (false, false) => Rule::E1,
        };
        if self.strikes().any(is_read) {
            self.counts.note(Rule::E5);
        }
        self.counts.note(rule);
        if self.strikes().any(|strike| strike.is_refused) {
            self.counts.note(Rule::E10);
        }
        let all = self.histories.iter().flat_map(|history| &history.done);
        if passes && all.clone().any(|done| done.outcome == Outcome::Failed) {
            let what =
                "an operation fails though it was tried again after an error that has passed";
            return Err(Broken::new(rule, what));
        }
        let Some(observation) = &self.recording.ended.observation else {
            if passes {
                return Err(Broken::new(rule, "the volume cannot be read"));
            }
            return Ok(());
        };
        let newer = |one: Tid, other: Tid| if other.is_after(one) { other } else { one };
        let Some(last) = all.map(|done| done.last).reduce(newer) else {
            return Ok(());
        };
        let bounds = Bounds::new(self.histories, self.recording);
        let recovered = Recovered {
            last,
            has_truncated: false,
            has_lost: false,
            has_error: false,
            observation: observation.clone(),
        };
        let mut ignored = RuleCounts::default();
        let mut oracle = Oracle {
            histories: self.histories,
            bounds: &bounds,
            // Clients never read older data than they wrote, in any mode.
            data: DataMode::Journal,
            recovered: &recovered,
            leftovers: &Leftovers::new(),
            held: &Held::of(self.recording),
            suspects: &[],
            counts: &mut ignored,
        };
        let read = oracle.check();
        read.map(drop)
            .map_err(|broken| Broken::new(rule, format!("before any crash: {}", broken.what)))
    }
}

/// Returns true if a handle had an error to report.
fn check_hold(hold: &Hold, failed: &[Failed]) -> Result<bool, Broken> {
    let own = |from: usize, to: usize| {
        let inode = hold.inode.get();
        let own = failed.iter();
        let own = own.filter(move |one| one.file.is_none_or(|file| file == inode));
        own.filter(move |one| (from..to).contains(&one.event))
    };
    let (mut from, mut has_learned) = (hold.opened, false);
    for look in &hold.looks {
        let is_due = own(from, look.began).any(|one| !one.is_optional);
        let can_be = own(from, look.ended).next().is_some();
        has_learned |= can_be;
        let what = match look.told {
            Told::Other => return Ok(has_learned),
            Told::Nothing if is_due => "is not told of a write that has failed",
            Told::DataLost if !can_be => "is told of an error again, or of another file's",
            Told::Nothing | Told::DataLost => "",
        };
        if !what.is_empty() {
            let what = format!("a handle of inode {} {what}", hold.inode);
            return Err(Broken::new(Rule::E1, what));
        }
        from = look.ended;
    }
    Ok(has_learned)
}

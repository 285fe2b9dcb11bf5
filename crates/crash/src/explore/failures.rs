//! Failing commands: in the explored run, and in recoveries.

use std::sync::Arc;

use block::trace::Trace;
use block::{BlockDevice, FaultDevice, Request};
use ext::Volume;
use rt::split_mix::{SplitMix, mix_pair};

use super::damage::Log;
use super::{Explorer, Step, found};
use crate::disks::{Disks, quiet};
use crate::fault::{Fault, FaultKind, Strike, Which, each, strikes};
use crate::image::BLOCK_SECTORS;
use crate::judge;
use crate::oracle::Recovered;
use crate::protocol::LogMap;
use crate::recording::Recording;
use crate::recover::{Examination, recover_failed, recover_on};
use crate::rule::{Broken, Rule};
use crate::suspect::{Suspect, suspects};

/// Number of commands of a recovery that fail, each in a separate recovery.
const RECOVERIES: usize = 4;

/// The failures so far in a run.
pub(super) struct Failures {
    /// All failures of the run that are still to come, the next one first.
    coming: std::iter::Peekable<std::vec::IntoIter<Strike>>,
    seen: Vec<Strike>,
    suspects: Vec<Suspect>,
    map: LogMap,
}

impl Failures {
    pub(super) fn new(recording: &Recording) -> Self {
        Self {
            coming: strikes(&recording.events).into_iter().peekable(),
            seen: Vec::new(),
            suspects: Vec::new(),
            map: LogMap::new(&recording.initial),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns data whose contents are undefined.
    pub(super) fn suspects(&self) -> &[Suspect] {
        &self.suspects
    }

    /// Renames a broken rule to that for failures, if a failure has led to it.
    pub(super) fn named(&self, broken: Broken) -> Broken {
        let has_flush = || {
            let mut requests = self.seen.iter().map(|strike| &strike.request);
            requests.any(|request| matches!(request, Request::Flush))
        };
        let rule = match broken.rule {
            _ if self.is_empty() => return broken,
            Rule::F1 | Rule::F2 | Rule::F4 => Rule::E0,
            Rule::T1 | Rule::T3 | Rule::T5 if has_flush() => Rule::E4,
            Rule::T1 => Rule::E2,
            Rule::T3 => Rule::E3,
            _ => return broken,
        };
        let what = format!("{} ({}): {}", broken.rule, broken.rule.text(), broken.what);
        Broken::new(rule, what)
    }
}

impl Explorer<'_> {
    /// Returns true if the power is cut here.
    pub(super) fn is_shown(&self) -> bool {
        self.recording.workload.setting.fault.is_none() || !self.failures.is_empty()
    }

    /// Notes the commands that failed with an event. Returns true if these are the first failures.
    pub(super) fn note_failures(&mut self, event: usize) -> bool {
        let was_empty = self.failures.is_empty();
        while let Some(strike) = self.failures.coming.next_if(|one| one.event == event) {
            self.watcher.failed(&strike, &mut self.tally.rules);
            let suspects = suspects(
                &strike,
                &self.failures.map,
                (&self.histories, &self.bounds),
                &self.recording.workload,
            );
            self.failures.suspects.extend(suspects);
            self.failures.seen.push(strike);
        }
        was_empty && !self.failures.is_empty()
    }

    /// Checks at the end of the run the results that clients got.
    pub(super) fn end(&mut self) -> Step {
        judge::check(self.recording, &self.histories, &mut self.tally.rules)
            .map_err(|broken| found(broken, Vec::new()))?;
        self.tally.failed += u64::from(!self.failures.is_empty());
        Ok(())
    }

    /// Recovers failing disks: either nothing is changed or recovery succeeds, and a repetition
    /// without the failure has the same result.
    pub(super) fn fail(
        &mut self,
        disks: &Disks,
        wanted: &Recovered,
        seed: u64,
    ) -> Result<(), Broken> {
        let mut random = SplitMix::new(mix_pair(seed, 1));
        let faults = self.faults_of_recovery(disks)?;
        for _ in 0..RECOVERIES.min(faults.len()) {
            let fault = faults[random.below(faults.len() as u64) as usize];
            self.tally.failed += 1;
            self.tally.rules.note(Rule::E6);
            self.recover_failing(disks, wanted, fault)
                .map_err(|broken| {
                    let what = format!("{fault} fails in recovery: {}", broken.what);
                    Broken::new(Rule::E6, what)
                })?;
        }
        Ok(())
    }

    /// Returns the faults of a recovery's commands.
    fn faults_of_recovery(&self, disks: &Disks) -> Result<Vec<Fault>, Broken> {
        let devices = disks.devices();
        let trace = Trace::new();
        let attach = |device| -> Arc<dyn BlockDevice> { Arc::new(trace.attach(device)) };
        let home = attach(devices.home_device());
        let log = devices.log_device().map(attach);
        let data = self.recording.workload.setting.cell.data;
        recover_on(home, log, &devices, data, Examination::Read)?;
        Ok(each(&trace.events()))
    }

    fn recover_failing(
        &mut self,
        disks: &Disks,
        wanted: &Recovered,
        fault: Fault,
    ) -> Result<(), Broken> {
        let data = self.recording.workload.setting.cell.data;
        let devices = disks.devices();
        let trace = Trace::new();
        let behind = |number: usize, device: Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
            if fault.device != number {
                return Arc::new(trace.attach(device));
            }
            let failing: Arc<dyn BlockDevice> = Arc::new(FaultDevice::new(device, fault.plan()));
            Arc::new(trace.attach(failing))
        };
        let home = behind(0, devices.home_device());
        let log = devices.log_device().map(|log| behind(1, log));
        let opened = Volume::open_with_report(home, log, quiet(data));
        let left = devices.disks(disks);
        let mut last = None;
        match opened {
            Ok((volume, report)) => {
                last = report.last_committed;
                drop(volume.close());
            }
            Err(error) if self.is_read_of_log(fault) && !left.are_as(disks) => {
                let what = format!("the log cannot be read ({error}), and something was written");
                return Err(Broken::new(Rule::E6, what));
            }
            Err(_) => {}
        }
        let hides_record = hides_last(disks, &strikes(&trace.events()));
        // The transaction of a hidden block is dropped, and blocks that it has checkpointed
        // could not be restored.
        if hides_record && self.watcher.has_gone_on() {
            return Ok(());
        }
        let mut again = recover_failed(
            &devices.disks(disks),
            data,
            Examination::Read,
            &mut self.sound,
        )?;
        // Transactions committed while a volume is opened come after the recovered ones.
        again.recovered.last = last.unwrap_or(again.recovered.last);
        if hides_record && again.recovered.last.next() == wanted.last {
            return self.oracle(&again).check_names();
        }
        super::nested::same(wanted, &again.recovered)
    }

    /// Returns true if the failure is an unreadable place of the log.
    fn is_read_of_log(&self, fault: Fault) -> bool {
        let Which::Sectors(first, last) = fault.which else {
            return false;
        };
        let mut blocks = first / BLOCK_SECTORS as u64..=last / BLOCK_SECTORS as u64;
        fault.kind == FaultKind::Read
            && blocks.all(|block| self.failures.map.log_block(fault.device, block).is_some())
    }
}

/// Returns true if a block of the last transaction that a power cut may tear was among the
/// unreadable ones: the transaction then cannot be distinguished from a torn one.
fn hides_last(disks: &Disks, strikes: &[Strike]) -> bool {
    let torn = Log::of(disks).last_torn();
    strikes.iter().any(|strike| {
        let (first, count) = strike.request.range();
        let end = (first.get() + count).div_ceil(BLOCK_SECTORS as u64);
        let blocks = first.get() / BLOCK_SECTORS as u64..end;
        let is_read = matches!(strike.request, Request::Read { .. });
        let is_hit =
            |(device, block): &(usize, u64)| *device == strike.device && blocks.contains(block);
        is_read && torn.iter().any(is_hit)
    })
}

//! Prepared volumes, which workloads with the same beginning share.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::disks::Disks;
use crate::explore::{Familiar, Limits, explore_with};
use crate::findings::{Found, Tally};
use crate::op::Op;
use crate::recording::Recording;
use crate::run::{prepare, record};
use crate::run_error::RunError;
use crate::setting::Setting;
use crate::workload::Workload;

/// Maximum number of prepared volumes that a thread keeps.
const PREPARED_MAX: usize = 128;

/// The volumes of one thread: made once for each setting, prepared once for each beginning.
#[derive(Default)]
pub(crate) struct Volumes {
    empty: BTreeMap<String, Disks>,
    prepared: BTreeMap<(String, Vec<Vec<Op>>), Disks>,
    familiar: Familiar,
}

impl Volumes {
    /// Begins workloads whose counts do not depend on those before.
    pub(crate) fn begin_family(&mut self) {
        self.familiar = Familiar::of_family();
    }

    pub(crate) fn explore(
        &mut self,
        workload: &Workload,
        limits: Limits,
    ) -> (Tally, Option<Found>) {
        match self.record(workload) {
            Ok(recording) => explore_with(Rc::new(recording), limits, &self.familiar),
            Err(error) => (Tally::default(), Some(Found::run(&error))),
        }
    }

    pub(crate) fn record(&mut self, workload: &Workload) -> Result<Recording, RunError> {
        let disks = self.prepared(workload)?;
        record(workload, &disks)
    }

    /// Returns the volume on which a workload starts.
    pub(crate) fn prepared(&mut self, workload: &Workload) -> Result<Disks, RunError> {
        let setting = workload.setting;
        let name = Setting {
            log_blocks: setting.log_blocks,
            tid: setting.tid,
            free_blocks: setting.free_blocks,
            checksums: setting.checksums,
            is_wide: setting.is_wide,
            is_dirty: setting.is_dirty,
            lanes: setting.lanes,
            ..Setting::new(setting.cell)
        };
        let name = name.to_string();
        let begin = |lane: usize| workload.lanes[lane][..workload.prepared[lane]].to_vec();
        let key = (name.clone(), (0..workload.lanes.len()).map(begin).collect());
        if let Some(disks) = self.prepared.get(&key) {
            return Ok(disks.clone());
        }
        if self.prepared.len() >= PREPARED_MAX {
            self.prepared.clear();
            self.empty.clear();
        }
        let empty = match self.empty.get(&name) {
            Some(disks) => disks.clone(),
            None => {
                let made =
                    Disks::make(&setting).map_err(|error| RunError::Volume(error.to_string()))?;
                self.empty.insert(name, made.clone());
                made
            }
        };
        let disks = prepare(workload, &empty)?;
        self.prepared.insert(key, disks.clone());
        Ok(disks)
    }
}

//! One user of OBLload: its requests become due independently of earlier responses.

use rt::Nanos;

use super::{FILE, Parameters};
use crate::client::{Client, Opened};
use crate::latency::Latencies;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Key of the file's contents. They are constant, because a write puts back the same bytes.
pub(super) const FILE_KEY: u64 = 1;

/// A user.
pub(super) struct User {
    pub(super) client: Client,
    /// Response times of requests that were due in the measured time.
    pub(super) responses: Latencies,
    /// Number of requests that were answered in the measured time.
    pub(super) completed: u64,
    parameters: Parameters,
    counted_from: Nanos,
    end: Nanos,
}

impl User {
    pub(super) fn new(
        parameters: &Parameters,
        client: Client,
        counted_from: Nanos,
        end: Nanos,
    ) -> Self {
        Self {
            client,
            responses: Latencies::new(Call::LABELS),
            completed: 0,
            parameters: parameters.clone(),
            counted_from,
            end,
        }
    }

    /// Makes requests until the level ends.
    pub(super) fn work(&mut self) -> Result<(), RunError> {
        let flags = OpenFlags {
            data_sync: self.parameters.data_sync,
            ..OpenFlags::READ_WRITE.direct(self.parameters.direct)
        };
        let mut file = self.client.open(FILE, flags, FILE_KEY)?;
        let worked = self.requests(&mut file);
        let closed = self.client.close(file);
        worked.and(closed)
    }

    fn requests(&mut self, file: &mut Opened) -> Result<(), RunError> {
        let rate = f64::from(self.parameters.rate);
        let mut due = rt::monotonic() + self.client.random.gap(rate);
        while due < self.end && self.client.goes_on()? {
            if rt::monotonic() < self.end {
                rt::sleep_until(due);
                self.request(file)?;
                let now = rt::monotonic();
                self.count(due, now);
            } else {
                // The request was due but never started; it counts with the time that it has waited
                // so far.
                self.count(due, self.end);
            }
            due += self.client.random.gap(rate);
        }
        Ok(())
    }

    fn count(&mut self, due: Nanos, answered: Nanos) {
        if due < self.counted_from {
            return;
        }
        let response = answered.saturating_sub(due);
        self.responses.record(Call::Response as usize, response);
        self.client.meter.record(Call::Response, response);
        if answered < self.end {
            self.completed += 1;
        }
    }

    fn request(&mut self, file: &Opened) -> Result<(), RunError> {
        let bytes = self.parameters.request as u64;
        let all = self.parameters.size / bytes;
        let random = &mut self.client.random;
        let hot = (all * u64::from(self.parameters.hot_space) / 100).max(1);
        let block = if random.percent(self.parameters.hot_accesses) || hot == all {
            random.below(hot)
        } else {
            hot + random.below(all - hot)
        };
        let (offset, length) = (block * bytes, self.parameters.request);
        if self.client.random.percent(self.parameters.reads) {
            self.client.pread(file, offset, length)
        } else {
            self.client.pwrite(file, offset, length)
        }
    }
}

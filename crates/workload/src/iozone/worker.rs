//! One thread of IOzone, with its file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rt::Nanos;
use rt::atomic::AtomicBool;

use super::matrix::Cell;
use super::test::{Api, Deed, Order, Test};
use super::{FOLDER, Parameters};
use crate::client::{Client, Opened};
use crate::contents;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Flag that the first thread to finish a test sets.
#[derive(Clone, Default)]
pub(super) struct Wall(Arc<AtomicBool>);

/// A thread.
pub(super) struct Worker {
    pub(super) client: Client,
    /// Start of the transfers of the last test.
    pub(super) began: Option<Nanos>,
    /// End of those transfers.
    pub(super) ended: Option<Nanos>,
    /// Bytes that count for the figure.
    pub(super) bytes: u64,
    parameters: Parameters,
    cell: Cell,
    index: u32,
    path: String,
    wall: Wall,
    // Number of the pass that wrote the current contents.
    pass: u64,
}

impl Worker {
    pub(super) fn new(parameters: &Parameters, cell: Cell, index: u32, client: Client) -> Self {
        Self {
            client,
            began: None,
            ended: None,
            bytes: 0,
            parameters: parameters.clone(),
            cell,
            index,
            path: format!("{FOLDER}/{index}"),
            wall: Wall::default(),
            pass: 0,
        }
    }

    /// Prepares for a test.
    pub(super) fn prepare(&mut self, test: &Test, wall: &Wall) {
        self.wall = wall.clone();
        (self.began, self.ended, self.bytes) = (None, None, 0);
        // If the first thread to finish stops the others, a file may be half written. Then every
        // pass must write the same contents.
        let is_whole = self.parameters.threads == 1 || !self.parameters.stonewall;
        if is_whole && self.deed(test) == Deed::Write && test.order != Order::Same {
            self.pass += 1;
        }
    }

    pub(super) fn work(&mut self, test: &'static Test) -> Result<(), RunError> {
        let deed = self.deed(test);
        let plain = match deed {
            Deed::Make => OpenFlags::READ_WRITE.create().truncate(),
            Deed::Write => OpenFlags::READ_WRITE,
            Deed::Read | Deed::Mix => OpenFlags::READ,
        };
        let flags = OpenFlags {
            direct: self.parameters.direct,
            sync: self.parameters.sync,
            ..plain
        };
        let key = contents::key(self.pass << 32 | u64::from(self.index));
        let mut file = self.client.open(self.path.as_str(), flags, key)?;
        self.began = Some(rt::monotonic());
        let worked = self.transfers(test, deed, &mut file);
        self.wall.0.store(true, Ordering::SeqCst);
        let synced = match &worked {
            Ok(()) if self.parameters.with_fsync && deed != Deed::Read => self.client.fsync(&file),
            _ => Ok(()),
        };
        let before_close = rt::monotonic();
        let closed = self.client.close(file);
        self.ended = Some(if self.parameters.with_close {
            rt::monotonic()
        } else {
            before_close
        });
        self.client.advance(1);
        worked.and(synced).and(closed)
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), RunError> {
        Ok(self.client.meter.target().unlink(&self.path)?)
    }

    fn deed(&self, test: &Test) -> Deed {
        match (test.deed, self.index % 2) {
            (Deed::Mix, 0) => Deed::Read,
            (Deed::Mix, _) => Deed::Write,
            (deed, _) => deed,
        }
    }

    fn transfers(&mut self, test: &Test, deed: Deed, file: &mut Opened) -> Result<(), RunError> {
        let vector = match test.api {
            Api::Vector => self.cell.vector() as u64,
            Api::Plain | Api::Stdio | Api::Positional => 1,
        };
        let requests = self.order(test.order, self.cell.records().div_ceil(vector));
        for request in requests {
            if !self.client.goes_on()? {
                return Ok(());
            }
            let is_over = self.parameters.stonewall && self.wall.0.load(Ordering::SeqCst);
            if is_over && deed != Deed::Make {
                return Ok(());
            }
            let record = self.cell.record as u64;
            let offset = request * vector * record;
            let length = (vector * record).min(self.cell.size - offset) as usize;
            self.transfer(test.api, deed, file, offset, length)?;
            if !is_over {
                self.bytes += length as u64;
            }
        }
        Ok(())
    }

    /// Makes one request. A stream with a buffer of one record, as in the original, makes the same
    /// calls as `read` and `write`.
    fn transfer(
        &mut self,
        api: Api,
        deed: Deed,
        file: &mut Opened,
        offset: u64,
        length: usize,
    ) -> Result<(), RunError> {
        match (api, deed) {
            (Api::Plain | Api::Stdio, Deed::Read) => {
                self.client.seek(file, offset)?;
                self.client.read(file, length)
            }
            (Api::Plain | Api::Stdio, _) => {
                self.client.seek(file, offset)?;
                self.client.write(Call::Write, file, length)
            }
            (Api::Positional | Api::Vector, Deed::Read) => self.client.pread(file, offset, length),
            (Api::Positional | Api::Vector, _) => self.client.pwrite(file, offset, length),
        }
    }

    /// Returns the numbers of a test's requests in order.
    fn order(&mut self, order: Order, count: u64) -> Vec<u64> {
        let forward = 0..count;
        match order {
            Order::Forward => forward.collect(),
            Order::Backward => forward.rev().collect(),
            Order::Same => forward.map(|_| 0).collect(),
            Order::Random => {
                let mut all: Vec<u64> = forward.collect();
                self.client.random.shuffle(&mut all);
                all
            }
            Order::Stride => strides(count, u64::from(self.parameters.stride)),
        }
    }
}

/// Returns every `stride`-th record. At the end of the file the walk restarts one record further.
fn strides(count: u64, stride: u64) -> Vec<u64> {
    let (mut at, mut wraps) = (0, 0);
    let step = |_| {
        let here = at;
        at += stride;
        if at >= count {
            wraps += 1;
            at = wraps % count;
        }
        here
    };
    (0..count).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_wrap_one_record_further() {
        assert_eq!(strides(7, 3), [0, 3, 6, 1, 4, 2, 5]);
        assert_eq!(strides(3, 17), [0, 1, 2]);
    }
}

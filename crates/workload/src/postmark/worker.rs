//! One thread of a run: its share of the files and transactions, and its own random stream.

use std::sync::Arc;

use super::client::Client;
use super::console::Observer;
use super::counts::Counts;
use super::names::Names;
use super::options::Options;
use super::parameters::{BIAS_SCALE, Parameters};
use super::pool::{Pool, Slot};
use super::random::Mt19937;
use crate::control::Control;
use crate::crew::{Failed, share};
use crate::meter::{Call, Meter};
use crate::run_error::RunError;

/// Written bytes are printable: a space and the 94 characters after it.
const FIRST_CHARACTER: u8 = b' ';
const CHARACTERS: u32 = 95;
/// Number of dots that are printed during the transactions.
const DOTS: u32 = 10;

/// State that all threads of a run share.
pub(super) struct Shared {
    pub(super) parameters: Parameters,
    pub(super) options: Options,
    pub(super) control: Arc<Control>,
    // Set by a thread that failed, so that the others can stop early.
    pub(super) failed: Failed,
}

/// One thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    random: Mt19937,
    names: Names,
    pool: Pool,
    source: Vec<u8>,
    path: String,
    files: u32,
    transactions: u32,
    pub(super) client: Client,
    pub(super) counts: Counts,
    pub(super) out_of_files: bool,
}

impl Worker {
    /// Returns the thread `index` of a run. Draws the bytes that it will write.
    pub(super) fn new(shared: &Arc<Shared>, index: u32, meter: Meter) -> Result<Self, RunError> {
        let (parameters, threads) = (&shared.parameters, shared.options.threads);
        let mut random = Mt19937::split(parameters.seed, index);
        let source = draw_source(&mut random, parameters.size_high)?;
        let part = |total| share(u64::from(total), u64::from(threads), u64::from(index)) as u32;
        let files = part(parameters.number);
        Ok(Self {
            random,
            names: Names::new(parameters, (threads > 1).then_some(index)),
            pool: Pool::new(files),
            source,
            path: String::new(),
            files,
            transactions: part(parameters.transactions),
            client: Client::new(parameters, &shared.options, meter),
            counts: Counts::default(),
            out_of_files: false,
            shared: Arc::clone(shared),
        })
    }

    pub(super) fn live(&self) -> u64 {
        self.pool.live()
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Creates the pool (first phase).
    pub(super) fn create_all(&mut self, _: &mut dyn Observer) -> Result<(), RunError> {
        for _ in 0..self.files {
            if !self.goes_on()? {
                break;
            }
            self.create()?;
            self.shared.control.advance(1);
        }
        self.counts.created_alone = self.counts.created;
        Ok(())
    }

    /// Runs the transactions (second phase).
    pub(super) fn transact_all(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let dot_every = (self.transactions / DOTS).max(1);
        for index in 0..self.transactions {
            if !self.goes_on()? {
                break;
            }
            if self.pool.live() == 0 {
                self.out_of_files = true;
                break;
            }
            let began = self.client.meter.start();
            self.transact()?;
            self.client.meter.stop(Call::Transaction, began);
            self.counts.transactions += 1;
            self.shared.control.advance(1);
            if index % dot_every == 0 {
                observer.dot();
            }
        }
        Ok(())
    }

    /// Removes the remaining files in the order of the slots (last phase).
    pub(super) fn delete_all(&mut self, _: &mut dyn Observer) -> Result<(), RunError> {
        let mut from = 0;
        while let Some(index) = self.pool.first_from(from) {
            if !self.goes_on()? {
                break;
            }
            self.delete(index)?;
            self.counts.deleted_alone += 1;
            self.shared.control.advance(1);
            from = index + 1;
        }
        Ok(())
    }

    /// Cleans up after a failure: removes every file that may exist, and ignores errors.
    pub(super) fn abandon(&mut self) {
        let mut from = 0;
        while let Some(index) = self.pool.first_from(from) {
            // The run has already failed. This error would repeat the first, or report a file that
            // was never created.
            let _ = self.delete(index);
            from = index + 1;
        }
    }

    fn goes_on(&self) -> Result<bool, RunError> {
        if self.shared.control.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        Ok(!self.shared.failed.is_set())
    }

    fn transact(&mut self) -> Result<(), RunError> {
        let parameters = &self.shared.parameters;
        let (read_bias, create_bias) = (parameters.read_bias, parameters.create_bias);
        if let Some(tenths) = read_bias.tenths() {
            if self.random.below(BIAS_SCALE) < tenths {
                self.read()?
            } else {
                self.append()?
            }
        }
        if let Some(tenths) = create_bias.tenths() {
            if self.random.below(BIAS_SCALE) < tenths {
                self.create()?;
            } else if let Some(index) = self.pool.draw(&mut self.random) {
                self.delete(index)?;
            }
        }
        Ok(())
    }

    fn create(&mut self) -> Result<(), RunError> {
        let Some(index) = self.pool.vacant() else {
            return Ok(());
        };
        let (low, high) = (
            self.shared.parameters.size_low,
            self.shared.parameters.size_high,
        );
        let (location, subdirectory) = self.names.draw(&mut self.random);
        self.counts.created += 1;
        let size = low + self.random.below(high - low);
        let slot = Slot {
            number: self.counts.created,
            location,
            subdirectory,
            size,
        };
        self.pool.fill(index, slot);
        self.names.path_of(&slot, &mut self.path);
        self.client
            .create(&self.path, &self.source[..size as usize])?;
        self.counts.bytes_written += u64::from(size);
        Ok(())
    }

    fn read(&mut self) -> Result<(), RunError> {
        let Some(index) = self.pool.draw(&mut self.random) else {
            return Ok(());
        };
        let slot = *self.pool.get(index);
        self.names.path_of(&slot, &mut self.path);
        self.client.read(&self.path, slot.size)?;
        self.counts.read += 1;
        self.counts.bytes_read += u64::from(slot.size);
        Ok(())
    }

    fn append(&mut self) -> Result<(), RunError> {
        let Some(index) = self.pool.draw(&mut self.random) else {
            return Ok(());
        };
        let slot = *self.pool.get(index);
        let room = self.shared.parameters.size_high.saturating_sub(slot.size);
        if room == 0 {
            self.counts.appends_skipped += 1;
            return Ok(());
        }
        let amount = 1 + self.random.below(room);
        self.names.path_of(&slot, &mut self.path);
        self.client
            .append(&self.path, &self.source[..amount as usize])?;
        self.pool.grow(index, amount);
        self.counts.appended += 1;
        self.counts.bytes_written += u64::from(amount);
        Ok(())
    }

    fn delete(&mut self, index: usize) -> Result<(), RunError> {
        let slot = *self.pool.get(index);
        self.names.path_of(&slot, &mut self.path);
        self.client.delete(&self.path)?;
        self.pool.clear(index);
        self.counts.deleted += 1;
        Ok(())
    }
}

/// Draws the bytes from which files are written.
fn draw_source(random: &mut Mt19937, size_high: u32) -> Result<Vec<u8>, RunError> {
    let bytes = u64::from(size_high) * 2;
    let failed = || RunError::NoMemory { bytes };
    let length = usize::try_from(bytes).map_err(|_| failed())?;
    let mut source = Vec::new();
    source.try_reserve_exact(length).map_err(|_| failed())?;
    let mut character = || FIRST_CHARACTER + random.below(CHARACTERS) as u8;
    source.extend((0..length).map(|_| character()));
    Ok(source)
}

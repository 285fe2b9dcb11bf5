//! The phases of Bonnie++ on one large file.

use std::sync::Arc;

use rt::Mutex;

use super::phase::{Kind, Results, name_of};
use super::{FOLDER, Parameters, Version};
use crate::client::{Client, Opened};
use crate::contents;
use crate::latency::Latencies;
use crate::meter::Call;
use crate::run::Run;
use crate::run_error::RunError;
use crate::stdio::BUFFER_BYTES;
use crate::target::OpenFlags;

/// Keys of the contents that the phases write.
const BYTES_KEY: u64 = contents::key(1);
const BLOCKS_KEY: u64 = contents::key(2);
const REWRITTEN_KEY: u64 = contents::key(3);
/// Number of seeks per write.
const WRITE_EVERY: u64 = 10;

/// Runs all phases on the file, and then removes it.
pub(super) fn phases(
    parameters: &Parameters,
    run: &mut Run,
    results: &mut Results,
) -> Result<(), RunError> {
    let (size, singles) = (parameters.size, parameters.single_bytes());
    let file = BigFile {
        parameters: parameters.clone(),
        path: format!("{FOLDER}/Bonnie"),
    };
    let fresh = OpenFlags::READ_WRITE.create().truncate();
    let is_direct = parameters.direct;
    if parameters.bytes {
        results.phase(run, Kind::WriteBytes, singles, |client| {
            file.with(client, fresh, BYTES_KEY, |client, opened| {
                file.write_singles(client, opened)
            })
        })?;
    }
    results.phase(run, Kind::WriteBlocks, size, |client| {
        file.with(
            client,
            fresh.direct(is_direct),
            BLOCKS_KEY,
            |client, opened| {
                file.each_chunk(client, |client, chunk| {
                    client.write(Call::Write, opened, chunk)
                })
            },
        )
    })?;
    results.phase(run, Kind::Rewrite, size, |client| {
        file.with(
            client,
            OpenFlags::READ_WRITE.direct(is_direct),
            BLOCKS_KEY,
            |client, opened| {
                let mut offset = 0;
                file.each_chunk(client, |client, chunk| {
                    opened.key = BLOCKS_KEY;
                    client.read(opened, chunk)?;
                    client.seek(opened, offset)?;
                    opened.key = REWRITTEN_KEY;
                    client.write(Call::Write, opened, chunk)?;
                    offset += chunk as u64;
                    Ok(())
                })
            },
        )
    })?;
    if parameters.bytes {
        results.phase(run, Kind::ReadBytes, singles, |client| {
            file.with(client, OpenFlags::READ, REWRITTEN_KEY, |client, opened| {
                file.read_singles(client, opened)
            })
        })?;
    }
    results.phase(run, Kind::ReadBlocks, size, |client| {
        let flags = OpenFlags::READ.direct(is_direct);
        file.with(client, flags, REWRITTEN_KEY, |client, opened| {
            file.each_chunk(client, |client, chunk| client.read(opened, chunk))
        })
    })?;
    seeks(&file, run, results)?;
    Ok(run.stage().target().unlink(&file.path)?)
}

/// The large file.
#[derive(Clone)]
struct BigFile {
    parameters: Parameters,
    path: String,
}

impl BigFile {
    /// Opens the file for a phase, and finishes the phase as the version does.
    fn with(
        &self,
        client: &mut Client,
        flags: OpenFlags,
        key: u64,
        work: impl FnOnce(&mut Client, &mut Opened) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        client.with_file(self.path.as_str(), flags, key, |client, opened| {
            work(client, opened)?;
            match self.parameters.version {
                Version::V1_03 => Ok(()),
                Version::V2_00 => client.fsync(opened),
            }
        })
    }

    fn each_chunk(
        &self,
        client: &mut Client,
        mut work: impl FnMut(&mut Client, usize) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let chunk = self.parameters.chunk;
        for _ in 0..self.parameters.size / chunk as u64 {
            if !client.goes_on()? {
                break;
            }
            work(client, chunk)?;
        }
        Ok(())
    }

    /// Bytes per call. With 1.03 it is a whole buffer, because `putc` fills a buffer byte by byte.
    fn single_block(&self) -> usize {
        match self.parameters.version {
            Version::V1_03 => BUFFER_BYTES,
            Version::V2_00 => 1,
        }
    }

    fn write_singles(&self, client: &mut Client, opened: &mut Opened) -> Result<(), RunError> {
        let mut left = self.parameters.single_bytes();
        while left > 0 && client.goes_on()? {
            let length = left.min(self.single_block() as u64);
            self.charge_copy(length);
            client.write(Call::Write, opened, length as usize)?;
            left -= length;
        }
        Ok(())
    }

    fn read_singles(&self, client: &mut Client, opened: &mut Opened) -> Result<(), RunError> {
        let mut left = self.parameters.single_bytes();
        while left > 0 && client.goes_on()? {
            let length = left.min(self.single_block() as u64);
            client.read(opened, length as usize)?;
            self.charge_copy(length);
            left -= length;
        }
        Ok(())
    }

    /// Charges for copying bytes through a stream's buffer.
    fn charge_copy(&self, bytes: u64) {
        if self.parameters.version == Version::V1_03 {
            rt::charge(rt::Cost::CopyNear(bytes));
        }
    }
}

/// A task that seeks.
struct Seeker {
    client: Client,
    file: BigFile,
    // Remaining seeks, shared by all seekers.
    tickets: Arc<Mutex<Vec<u64>>>,
}

fn seeks(file: &BigFile, run: &mut Run, results: &mut Results) -> Result<(), RunError> {
    let mut parent = run.quiet_client(u64::MAX);
    let seeks = file.parameters.seeks;
    let tickets = (0..seeks).map(|_| parent.random.next_u64() >> 33).collect();
    let tickets = Arc::new(Mutex::new(tickets));
    let seekers = (0..file.parameters.seekers)
        .map(|index| Seeker {
            client: run.client(u64::from(index) + 100),
            file: file.clone(),
            tickets: Arc::clone(&tickets),
        })
        .collect();
    let seekers = run.crew(name_of(Kind::Seeks), seekers, Seeker::work)?;
    let mut all: Option<Latencies> = None;
    for mut seeker in seekers {
        Latencies::merge_into(&mut all, seeker.client.meter.take_latencies());
    }
    results.ended(run, Kind::Seeks, u64::from(seeks), all);
    Ok(())
}

impl Seeker {
    fn work(&mut self) -> Result<(), RunError> {
        let file = self.file.clone();
        let flags = OpenFlags::READ_WRITE.direct(file.parameters.direct);
        let mut opened = self.client.open(file.path.as_str(), flags, REWRITTEN_KEY)?;
        let worked = self.seeks(&mut opened);
        let closed = self.client.close(opened);
        worked.and(closed)
    }

    fn seeks(&mut self, opened: &mut Opened) -> Result<(), RunError> {
        let (chunk, size) = (self.file.parameters.chunk, self.file.parameters.size);
        loop {
            let ticket = self.tickets.lock().pop();
            let Some(ticket) = ticket else { return Ok(()) };
            if !self.client.goes_on()? {
                return Ok(());
            }
            let offset = ticket % (size / chunk as u64) * chunk as u64;
            self.client.seek(opened, offset)?;
            self.client.read(opened, chunk)?;
            if ticket.is_multiple_of(WRITE_EVERY) {
                self.client.seek(opened, offset)?;
                self.client.write(Call::Write, opened, chunk)?;
                if self.file.parameters.sync_each {
                    self.client.fsync(opened)?;
                }
            }
        }
    }
}

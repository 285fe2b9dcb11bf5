//! File operations of the program: the calls of each whole-file operation, with timing.
//!
//! | operation | buffered, as stdio | unbuffered |
//! |---|---|---|
//! | create | open write, create, truncate; write; close | open read-write, create; write; close |
//! | append | open write, create, append; write; close | open read-write, append; write; close |
//! | read | open read; read; close | open read; read; close |
//!
//! A file is transferred in whole blocks and a remainder. Buffered calls transfer a buffer each,
//! unbuffered ones a block each. Without buffering the remainder is a call even if it is empty,
//! because the original makes that call.

use super::options::{Fsync, Options};
use super::parameters::Parameters;
use crate::meter::{Call, Meter};
use crate::run_error::RunError;
use crate::stdio;
use crate::target::{OpenFile, OpenFlags};

/// Settings for writing a file.
#[derive(Clone, Copy)]
struct Transfer<'a> {
    path: &'a str,
    call: Call,
    fsync: Fsync,
}

/// File operations of one thread.
pub(super) struct Client {
    pub(super) meter: Meter,
    buffered: bool,
    fsync: Fsync,
    write_block: usize,
    stream: Vec<u8>,
    block: Vec<u8>,
}

impl Client {
    pub(super) fn new(parameters: &Parameters, options: &Options, meter: Meter) -> Self {
        Self {
            meter,
            buffered: parameters.buffered,
            fsync: options.fsync,
            write_block: parameters.write_block as usize,
            stream: vec![0; options.stdio_buffer],
            block: vec![0; parameters.read_block as usize],
        }
    }

    /// Creates a file with these bytes.
    pub(super) fn create(&mut self, path: &str, data: &[u8]) -> Result<(), RunError> {
        let flags = if self.buffered {
            OpenFlags::WRITE.create().truncate()
        } else {
            OpenFlags::READ_WRITE.create()
        };
        let file = self
            .meter
            .time(Call::Create, |target| target.open(path, flags))?;
        self.write_and_close(
            file,
            Transfer {
                path,
                call: Call::Write,
                fsync: self.fsync,
            },
            data,
        )
    }

    /// Appends these bytes to a file.
    pub(super) fn append(&mut self, path: &str, data: &[u8]) -> Result<(), RunError> {
        let flags = if self.buffered {
            OpenFlags::WRITE.create().append()
        } else {
            OpenFlags::READ_WRITE.append()
        };
        let file = self
            .meter
            .time(Call::Open, |target| target.open(path, flags))?;
        self.write_and_close(
            file,
            Transfer {
                path,
                call: Call::Append,
                fsync: self.fsync,
            },
            data,
        )
    }

    /// Reads a file of `size` bytes.
    pub(super) fn read(&mut self, path: &str, size: u32) -> Result<(), RunError> {
        let file = self
            .meter
            .time(Call::Open, |target| target.open(path, OpenFlags::READ))?;
        self.finish(file, |client, file| client.read_blocks(file, path, size))
    }

    /// Removes a file.
    pub(super) fn delete(&mut self, path: &str) -> Result<(), RunError> {
        Ok(self
            .meter
            .time(Call::Delete, |target| target.unlink(path))?)
    }

    fn write_and_close(
        &mut self,
        file: OpenFile,
        how: Transfer<'_>,
        data: &[u8],
    ) -> Result<(), RunError> {
        self.finish(file, |client, file| {
            client.write_blocks(how, file, data)?;
            if how.fsync == Fsync::Close {
                client
                    .meter
                    .time(Call::Fsync, |target| target.fsync(file))?;
            }
            Ok(())
        })
    }

    /// Runs `work` on an open file and always closes the file. Returns the first error.
    fn finish(
        &mut self,
        mut file: OpenFile,
        work: impl FnOnce(&mut Self, &mut OpenFile) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let worked = work(self, &mut file);
        let closed = self.meter.time(Call::Close, |target| target.close(file));
        worked.and(closed.map_err(RunError::from))
    }

    fn write_blocks(
        &mut self,
        how: Transfer<'_>,
        file: &mut OpenFile,
        data: &[u8],
    ) -> Result<(), RunError> {
        let meter = &mut self.meter;
        let mut sink = |piece: &[u8]| {
            meter.write_all(how.call, file, how.path, piece, |meter, file| {
                if how.fsync == Fsync::EveryWrite {
                    meter.time(Call::Fsync, |target| target.fsync(file))?;
                }
                Ok(())
            })
        };
        let blocks = data.chunks_exact(self.write_block);
        let rest = blocks.remainder();
        if !self.buffered {
            for block in blocks {
                sink(block)?;
            }
            return sink(rest);
        }
        let mut stream = stdio::Writer::new(&mut self.stream);
        for block in blocks {
            stream.write(block, &mut sink)?;
        }
        stream.write(rest, &mut sink)?;
        stream.flush(&mut sink)
    }

    fn read_blocks(&mut self, file: &mut OpenFile, path: &str, size: u32) -> Result<(), RunError> {
        let meter = &mut self.meter;
        let mut stream = stdio::Reader::new(&mut self.stream);
        let mut left = size as usize;
        loop {
            let wanted = left.min(self.block.len());
            let block = &mut self.block[..wanted];
            let got = if self.buffered {
                stream.read(block, &mut |out| {
                    meter.time(Call::Read, |t| t.read(file, out))
                })?
            } else {
                meter.read_full(file, block)?
            };
            left -= got;
            if got < wanted {
                let expected = u64::from(size);
                let got = expected - left as u64;
                let path = path.to_owned();
                return Err(RunError::ShortFile {
                    path,
                    expected,
                    got,
                });
            }
            if wanted < self.block.len() {
                return Ok(());
            }
        }
    }
}

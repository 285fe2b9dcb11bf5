//! [`Copier`]: copies a tree within a target as `cp -r` does, with every call timed.

use crate::client::Client;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::{FileKind, OpenFlags};

/// An equivalent of `cp -r`.
pub(crate) struct Copier {
    pub(crate) client: Client,
    buffer: Vec<u8>,
    /// Number of files copied so far.
    pub(crate) files: u64,
    /// Number of bytes copied so far.
    pub(crate) bytes: u64,
}

impl Copier {
    /// Returns a copier with a buffer of `buffer` bytes.
    pub(crate) fn new(client: Client, buffer: usize) -> Self {
        Self {
            client,
            buffer: vec![0; buffer],
            files: 0,
            bytes: 0,
        }
    }

    /// Copies a directory tree, in the file system's order.
    pub(crate) fn copy_directory(&mut self, from: &str, to: &str) -> Result<(), RunError> {
        self.client.make_directory(to)?;
        for entry in self.client.list(from)? {
            let (source, copy) = (
                format!("{from}/{}", entry.name),
                format!("{to}/{}", entry.name),
            );
            self.client.stat(&source)?;
            if entry.kind == FileKind::Directory {
                self.copy_directory(&source, &copy)?;
            } else {
                self.copy_file(&source, &copy)?;
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &str, to: &str) -> Result<(), RunError> {
        if !self.client.goes_on()? {
            return Ok(());
        }
        let meter = &mut self.client.meter;
        let mut source = meter.time(Call::Open, |target| target.open(from, OpenFlags::READ))?;
        let flags = OpenFlags::WRITE.create_new();
        let mut copy = match meter.time(Call::Create, |target| target.open(to, flags)) {
            Ok(copy) => copy,
            Err(error) => {
                meter.time(Call::Close, |target| target.close(source))?;
                return Err(error.into());
            }
        };
        let copied: Result<u64, RunError> = (|| {
            let mut bytes = 0;
            loop {
                let count = meter.read_full(&mut source, &mut self.buffer)?;
                if count == 0 {
                    return Ok(bytes);
                }
                let data = &self.buffer[..count];
                meter.write_all::<RunError>(Call::Write, &mut copy, to, data, |_, _| Ok(()))?;
                bytes += count as u64;
            }
        })();
        let closed = meter
            .time(Call::Close, |target| target.close(source))
            .and(meter.time(Call::Close, |target| target.close(copy)));
        self.bytes += copied?;
        closed?;
        self.files += 1;
        self.client.advance(1);
        Ok(())
    }
}

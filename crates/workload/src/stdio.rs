//! Splits `fread` and `fwrite` into system calls as the C library does.
//!
//! Old benchmarks use stdio, so the file system sees other requests than the program makes. The
//! rules here are those of the GNU library with a fully buffered stream, observed with `strace`:
//!
//! - A write fills the buffer. If the data does not fit, the full buffer is written first. Of the
//!   rest, whole multiples of the buffer go directly to the file in one call, and the remainder
//!   stays in the buffer. A buffer that is exactly full is written only when more data arrives, or
//!   at the end. The first write of a stream has no buffer yet and fills none: its whole multiples
//!   go directly to the file.
//! - A read takes data from the buffer first. A request for at least a buffer's size reads whole
//!   multiples of the buffer directly into the caller's memory in one call; a smaller one fills the
//!   buffer.
//! - A close writes the remaining data.
//!
//! Bytes that go through the buffer cost a copy in user space, which is charged to the world
//! (`rt::Cost::CopyNear`).

/// Buffer size of a stream on a file with `st_blksize` 4096, the usual value.
pub const BUFFER_BYTES: usize = 4096;

/// A stream open for writing.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    filled: usize,
    fresh: bool,
}

impl<'a> Writer<'a> {
    /// Returns a stream with this buffer.
    ///
    /// # Panics
    /// Panics if the buffer is empty.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        assert!(!buffer.is_empty(), "a stream needs a buffer");
        Self {
            buffer,
            filled: 0,
            fresh: true,
        }
    }

    /// Writes like `fwrite`. Calls `sink` for each system call; it must write all of its data.
    ///
    /// # Errors
    /// Fails with the first error of `sink`.
    pub fn write<E>(
        &mut self,
        data: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if data.is_empty() {
            return Ok(());
        }
        let room = if self.fresh {
            0
        } else {
            self.buffer.len() - self.filled
        };
        self.fresh = false;
        let fits = data.len().min(room);
        self.keep(&data[..fits]);
        let rest = &data[fits..];
        if rest.is_empty() {
            return Ok(());
        }
        self.flush(sink)?;
        let direct = rest.len() - rest.len() % self.buffer.len();
        if direct > 0 {
            sink(&rest[..direct])?;
        }
        self.keep(&rest[direct..]);
        Ok(())
    }

    /// Writes the buffer like `fflush`, or like `fclose` before it closes the file.
    ///
    /// # Errors
    /// Fails with the error of `sink`.
    pub fn flush<E>(&mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let filled = std::mem::take(&mut self.filled);
        if filled > 0 {
            sink(&self.buffer[..filled])
        } else {
            Ok(())
        }
    }

    fn keep(&mut self, data: &[u8]) {
        self.buffer[self.filled..self.filled + data.len()].copy_from_slice(data);
        self.filled += data.len();
        charge_copy(data.len());
    }
}

/// A stream open for reading.
#[derive(Debug)]
pub struct Reader<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// Returns a stream with this buffer.
    ///
    /// # Panics
    /// Panics if the buffer is empty.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        assert!(!buffer.is_empty(), "a stream needs a buffer");
        Self {
            buffer,
            start: 0,
            end: 0,
        }
    }

    /// Reads like `fread`. Calls `source` for each system call; it returns 0 at the end of the
    /// file. Returns the number of bytes, which is short only at the end of the file.
    ///
    /// # Errors
    /// Fails with the first error of `source`.
    pub fn read<E>(
        &mut self,
        out: &mut [u8],
        source: &mut impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut done = 0;
        while done < out.len() {
            if self.start < self.end {
                let count = (out.len() - done).min(self.end - self.start);
                out[done..done + count]
                    .copy_from_slice(&self.buffer[self.start..self.start + count]);
                charge_copy(count);
                self.start += count;
                done += count;
                continue;
            }
            let wanted = out.len() - done;
            let got = if wanted >= self.buffer.len() {
                let direct = wanted - wanted % self.buffer.len();
                let got = source(&mut out[done..done + direct])?;
                done += got;
                got
            } else {
                self.end = source(self.buffer)?;
                self.start = 0;
                self.end
            };
            if got == 0 {
                break;
            }
        }
        Ok(done)
    }
}

fn charge_copy(bytes: usize) {
    if bytes > 0 {
        rt::charge(rt::Cost::CopyNear(bytes as u64));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Returns the sizes of the calls that result from writing pieces of these sizes and closing.
    fn writes(pieces: &[usize]) -> Vec<usize> {
        let mut buffer = [0; 16];
        let mut writer = Writer::new(&mut buffer);
        let data: Vec<u8> = (0..=255).collect();
        let (mut calls, mut written, mut at) = (Vec::new(), Vec::new(), 0);
        let mut sink = |piece: &[u8]| {
            calls.push(piece.len());
            written.extend_from_slice(piece);
            Ok::<(), Infallible>(())
        };
        for size in pieces {
            writer
                .write(&data[at..at + size], &mut sink)
                .expect("infallible");
            at += size;
        }
        writer.flush(&mut sink).expect("infallible");
        assert_eq!(written, data[..at], "what arrives is what was written");
        calls
    }

    #[test]
    fn writes_reach_the_file_in_whole_buffers() {
        for (pieces, calls) in [
            (&[][..], &[][..]),
            (&[0], &[]),
            (&[5], &[5]),
            (&[16], &[16]),
            (&[10, 10], &[16, 4]),
            (&[8, 8, 8], &[16, 8]),
            (&[20], &[16, 4]),
            (&[40], &[32, 8]),
            (&[32, 32], &[32, 16, 16]),
            (&[0, 40], &[32, 8]),
            (&[4, 40], &[16, 16, 12]),
            (&[4, 60, 1], &[16, 48, 1]),
        ] {
            assert_eq!(writes(pieces), calls, "{pieces:?}");
        }
    }

    /// Returns the calls, as (requested, got), of reading pieces of these sizes from a file of
    /// `size` bytes.
    fn reads(size: usize, pieces: &[usize]) -> Vec<(usize, usize)> {
        let file: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let mut buffer = [0; 16];
        let mut reader = Reader::new(&mut buffer);
        let (mut calls, mut at, mut seen) = (Vec::new(), 0, Vec::new());
        let mut source = |out: &mut [u8]| {
            let count = out.len().min(file.len() - at);
            out[..count].copy_from_slice(&file[at..at + count]);
            at += count;
            calls.push((out.len(), count));
            Ok::<usize, Infallible>(count)
        };
        for piece in pieces {
            let mut out = vec![0; *piece];
            let count = reader.read(&mut out, &mut source).expect("infallible");
            seen.extend_from_slice(&out[..count]);
        }
        assert!(
            file.starts_with(&seen),
            "what is read is what the file holds"
        );
        calls
    }

    #[test]
    fn reads_fetch_whole_buffers() {
        for (size, pieces, calls) in [
            (10, &[4, 4, 2][..], &[(16, 10)][..]),
            (20, &[8, 8, 4], &[(16, 16), (16, 4)]),
            (20, &[0], &[]),
            (40, &[20, 20], &[(16, 16), (16, 16), (16, 8)]),
            (40, &[40], &[(32, 32), (16, 8)]),
            (64, &[1, 63], &[(16, 16), (48, 48)]),
            (10, &[20], &[(16, 10), (16, 0)]),
            (0, &[5], &[(16, 0)]),
        ] {
            assert_eq!(reads(size, pieces), calls, "{size} bytes by {pieces:?}");
        }
    }
}

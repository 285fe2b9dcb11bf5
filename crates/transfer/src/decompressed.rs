//! Decompresses a stream: gzip or zstd, detected by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::GzDecoder;

use super::CHUNK_BYTES;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The contents of a file, decompressed.
pub(crate) struct Decompressed {
    pub(crate) reader: Box<dyn Read + Send>,
    /// False if the file is plain.
    pub(crate) is_packed: bool,
}

impl Decompressed {
    /// Returns the decompressed contents of a stream.
    pub(crate) fn of(stream: impl Read + Send + 'static) -> io::Result<Self> {
        let mut stream = BufReader::with_capacity(CHUNK_BYTES, stream);
        let first = stream.fill_buf()?;
        let (reader, is_packed): (Box<dyn Read + Send>, bool) = if first.starts_with(&GZIP_MAGIC) {
            (Box::new(GzipReader(Some(GzDecoder::new(stream)))), true)
        } else if first.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
            (Box::new(decoder), true)
        } else {
            (Box::new(stream), false)
        };
        Ok(Self { reader, is_packed })
    }
}

/// Returns true if the first bytes of a file are those of gzip or zstd.
pub(crate) fn is_packed(file: &File) -> bool {
    let mut first = [0; 4];
    let found = file.read_at(&mut first, 0);
    found.is_ok() && (first.starts_with(&GZIP_MAGIC) || first == ZSTD_MAGIC)
}

/// Decompressed contents of a gzip file, member after member. Trailing bytes after the last member,
/// such as the zeroes on a tape, are ignored, as by gzip.
struct GzipReader<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let has_more = member.get_mut().fill_buf()?.first() == Some(&GZIP_MAGIC[0]);
            let rest = self.0.take().map(GzDecoder::into_inner);
            self.0 = rest.filter(|_| has_more).map(GzDecoder::new);
        }
        Ok(0)
    }
}

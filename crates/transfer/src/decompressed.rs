//! Decompresses a stream: gzip or zstd, detected by its first bytes. Other formats are only named.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::GzDecoder;

use super::CHUNK_BYTES;
use super::section::Section;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Formats that are not read: their first bytes, and the program that decompresses them.
const OTHERS: [(&[u8], &str); 5] = [
    (b"\xFD7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4D\x18", "lz4"),
    (b"\x02\x21\x4C\x18", "lz4"),
    (b"LZIP", "lzip"),
];
/// Range of the level in the header of bzip2, and the bytes behind it.
const BZIP2_LEVELS: core::ops::RangeInclusive<u8> = b'1'..=b'9';
const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"];
/// Number of bytes at the start of a file that say what it is.
const FIRST_BYTES: usize = 18;

/// Binary logarithm of the largest window of zstd, in bytes. The decoder keeps it in memory;
/// level 19 has 8 MiB, level 21 with `--ultra` 64 MiB.
const WINDOW_LOG_MAX: u32 = 26;
/// Binary logarithm of the window that a decoder may have in any case.
const WINDOW_LOG_SMALL: u32 = 23;
/// The error of zstd for a window that is larger than it may be.
const WINDOW_ERROR: &str = "Frame requires too much memory for decoding";

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
            let window = window_bytes(first).unwrap_or_default();
            if window > 1 << WINDOW_LOG_MAX {
                return Err(window_error(Some(window)));
            }
            // A later frame must not need more memory than the first one said.
            let log = window.max(1 << WINDOW_LOG_SMALL).next_power_of_two();
            let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
            decoder.window_log_max(log.ilog2())?;
            (Box::new(ZstdReader(decoder)), true)
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

/// Returns the program that decompresses a file, if it is in a format that is not read.
pub(crate) fn other_program(section: &Section) -> Option<&'static str> {
    let first = first_bytes(section)?;
    let found = OTHERS.iter().find(|(magic, _)| first.starts_with(magic));
    let (magic, program) = found?;
    let is_bzip2 = || {
        let (level, rest) = first[magic.len()..].split_first()?;
        let has_block = BZIP2_BLOCKS.iter().any(|block| rest.starts_with(block));
        (BZIP2_LEVELS.contains(level) && has_block).then_some(())
    };
    (*program != "bzip2" || is_bzip2().is_some()).then_some(program)
}

/// Returns the bytes of memory that the window of a file's decoder takes.
pub(crate) fn decoder_bytes(section: &Section) -> u64 {
    let first = first_bytes(section);
    let window = first.and_then(|first| window_bytes(&first));
    window.unwrap_or_default().max(1 << WINDOW_LOG_SMALL)
}

fn first_bytes(section: &Section) -> Option<[u8; FIRST_BYTES]> {
    let mut first = [0; FIRST_BYTES];
    let count = section.reader().read(&mut first).ok()?;
    (count > 0).then_some(first)
}

/// Returns the size of the window of a frame of zstd (RFC 8878, section 3.1.1.1).
fn window_bytes(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = frame.strip_prefix(&ZSTD_MAGIC)?.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let window = u64::from(*rest.first()?);
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    // The window is the contents, whose length follows the number of the dictionary.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length_bytes = 1 << (descriptor >> 6);
    let length = rest.get(dictionary..dictionary + length_bytes)?;
    let number = length
        .iter()
        .rev()
        .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    Some(if length_bytes == 2 {
        number + 256
    } else {
        number
    })
}

fn window_error(bytes: Option<u64>) -> io::Error {
    let has = match bytes {
        Some(bytes) => format!("{} MiB", bytes >> 20),
        None => "more".to_owned(),
    };
    let most = 1 << (WINDOW_LOG_MAX - 20);
    io::Error::other(format!(
        "its window of zstd has {has}, and {most} MiB are read at most: decompress it with \
         zstd -dc --long=31, or compress it without --long and --ultra"
    ))
}

/// Decompressed contents of a zstd file.
struct ZstdReader<'z, R>(zstd::stream::read::Decoder<'z, R>);

impl<R: BufRead> Read for ZstdReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(into);
        read.map_err(|error| match error.to_string() == WINDOW_ERROR {
            true => window_error(None),
            false => error,
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_frame_has_its_window() {
        for (rest, window) in [
            (&[0x00, 0x00][..], Some(1 << 10)),
            (&[0x00, 0x8F], Some((1 << 27) + (1 << 27) / 8 * 7)),
            (&[0x04, 0xA8], Some(1 << 31)),
            (&[0x20, 200], Some(200)),
            (&[0x61, 9, 0x00, 0x01], Some(512)),
            (&[0xA0, 0, 0, 0, 1], Some(1 << 24)),
            (&[0xE0, 0, 0, 0, 0, 1, 0, 0, 0], Some(1 << 32)),
            (&[0xE0, 0], None),
            (&[], None),
        ] {
            let frame = [&ZSTD_MAGIC[..], rest].concat();
            assert_eq!(window_bytes(&frame), window, "{rest:?}");
        }
        assert_eq!(window_bytes(b"plain"), None);
    }
}

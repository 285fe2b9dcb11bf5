//! Writes compressed archives.

use std::io::{BufWriter, Write};

use anyhow::Result;

use super::{ArchiveSink, CHUNK_BYTES, Source, Warn, run};

/// The compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// A plain archive.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// Writes a tree as a tar archive.
///
/// # Errors
/// Fails with the first error of the source or of `out`.
pub fn write_archive(
    source: &(dyn Source + Sync),
    out: &mut dyn Write,
    compression: Compression,
    warn: Warn<'_>,
) -> Result<()> {
    let mut plain = BufWriter::with_capacity(CHUNK_BYTES, out);
    match compression {
        Compression::None => run(source, &mut ArchiveSink::new(&mut plain, warn))?,
        Compression::Gzip => {
            let mut gzip =
                flate2::write::GzEncoder::new(&mut plain, flate2::Compression::default());
            run(source, &mut ArchiveSink::new(&mut gzip, warn))?;
            gzip.finish()?;
        }
        Compression::Zstd => {
            let mut zstd = zstd::stream::write::Encoder::new(&mut plain, 0)?;
            run(source, &mut ArchiveSink::new(&mut zstd, warn))?;
            zstd.finish()?;
        }
    }
    Ok(plain.flush()?)
}

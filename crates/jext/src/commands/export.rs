//! `jext export`: an image's whole tree to an archive or a directory. The image is only read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ext::Volume;

use crate::image::{Access, MountArguments, with_volume};
use crate::transfer::{self, ArchiveSink, CHUNK_BYTES, DirectorySink, ImageSource};

/// Standard output.
const STDOUT: &str = "-";

/// Export an image to a tar archive or a directory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// OUT.tar, OUT.tar.gz, OUT.tar.zst, - for an archive on standard output, or a directory.
    #[arg(value_name = "OUT")]
    out: String,
    #[command(flatten)]
    mount: MountArguments,
}

/// How an archive is compressed, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let out = &arguments.out;
    let compression = compression(out);
    let is_there = out != STDOUT && std::fs::symlink_metadata(out).is_ok();
    if compression.is_some() && is_there {
        bail!("{out}: is there already");
    }
    with_volume(&arguments.image, Access::Read, &arguments.mount, |volume| {
        let exported = match compression {
            Some(compression) => to_archive(volume, out, compression).inspect_err(|_| {
                if out != STDOUT {
                    // What is there of it is of no use; the error is told.
                    let _ = std::fs::remove_file(out);
                }
            }),
            None => {
                let mut sink = DirectorySink::new(Path::new(out))?;
                transfer::run(&ImageSource::new(volume), &mut sink)
            }
        };
        exported.with_context(|| out.clone())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// How an archive of this name is compressed; none for what is a directory.
fn compression(out: &str) -> Option<Compression> {
    let endings = [
        (".tar", Compression::None),
        (".tar.gz", Compression::Gzip),
        (".tgz", Compression::Gzip),
        (".tar.zst", Compression::Zstd),
    ];
    if out == STDOUT {
        return Some(Compression::None);
    }
    let found = endings.iter().find(|(ending, _)| out.ends_with(ending));
    found.map(|(_, compression)| *compression)
}

fn to_archive(volume: &Volume, out: &str, compression: Compression) -> Result<()> {
    let plain: Box<dyn Write> = if out == STDOUT {
        Box::new(io::stdout().lock())
    } else {
        Box::new(File::create_new(out)?)
    };
    let mut plain = BufWriter::with_capacity(CHUNK_BYTES, plain);
    let source = ImageSource::new(volume);
    match compression {
        Compression::None => transfer::run(&source, &mut ArchiveSink::new(&mut plain))?,
        Compression::Gzip => {
            let mut gzip =
                flate2::write::GzEncoder::new(&mut plain, flate2::Compression::default());
            transfer::run(&source, &mut ArchiveSink::new(&mut gzip))?;
            gzip.finish()?;
        }
        Compression::Zstd => {
            let mut zstd = zstd::stream::write::Encoder::new(&mut plain, 0)?;
            transfer::run(&source, &mut ArchiveSink::new(&mut zstd))?;
            zstd.finish()?;
        }
    }
    Ok(plain.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_written() {
        for (name, expected) in [
            ("a.tar", Some(Compression::None)),
            ("a.tar.gz", Some(Compression::Gzip)),
            ("a.tgz", Some(Compression::Gzip)),
            ("a.tar.zst", Some(Compression::Zstd)),
            ("-", Some(Compression::None)),
            ("folder", None),
        ] {
            assert_eq!(compression(name), expected, "{name}");
        }
    }
}

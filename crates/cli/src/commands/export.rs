//! `jext export`: writes the whole tree of an image to an archive or a directory. The image is only
//! read.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use ext::Volume;
use transfer::{Compression, DirectorySink, ImageSource, Item, Sink, write_archive};

use crate::image::{Access, MountArguments, with_volume};
use crate::interrupt;
use crate::new_file::{NewFile, hidden_name};
use crate::output;
use crate::progress;

/// The name of standard output.
const STDOUT: &str = "-";

/// Export an image to a tar archive or a directory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The image.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// OUT.tar, OUT.tar.gz, OUT.tar.zst, - for an archive on standard output, or a directory. It
    /// appears only when it is complete.
    #[arg(value_name = "OUT")]
    out: String,
    #[command(flatten)]
    mount: MountArguments,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Archive(Compression),
    Directory,
}

/// File name extensions of archives.
const FORMS: [(&str, Compression); 5] = [
    (".tar", Compression::None),
    (".tar.gz", Compression::Gzip),
    (".tgz", Compression::Gzip),
    (".tar.zst", Compression::Zstd),
    (".tzst", Compression::Zstd),
];

/// Extensions of unsupported archives and images, which are surely not meant as directory names. An
/// extension precedes its own suffixes.
const OTHER_ENDINGS: &[&str] = &[
    ".tar.xz",
    ".tar.bz2",
    ".tar.lz4",
    ".tar.lzma",
    ".tar.lz",
    ".tar.br",
    ".tar.z",
    ".txz",
    ".tbz2",
    ".tbz",
    ".tlz",
    ".taz",
    ".gz",
    ".xz",
    ".bz2",
    ".zst",
    ".lz4",
    ".lzma",
    ".lz",
    ".zip",
    ".7z",
    ".rar",
    ".cpio",
    ".ar",
    ".jar",
    ".iso",
    ".img",
    ".squashfs",
    ".sqfs",
    ".erofs",
    ".qcow2",
    ".vmdk",
];

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let out = &arguments.out;
    interrupt::watch()?;
    let form = form(out)?;
    let is_there = std::fs::symlink_metadata(out).is_ok();
    if matches!(form, Form::Archive(_)) && out != STDOUT && is_there {
        bail!("{out}: is there already");
    }
    with_volume(&arguments.image, Access::Read, &arguments.mount, |volume| {
        let bar = progress::bytes(data_bytes(volume));
        bar.set_message(out.clone());
        let count = |bytes| bar.inc(bytes);
        let source = ImageSource::new(volume, &count);
        let exported = match form {
            Form::Archive(compression) => to_archive(&source, out, compression),
            Form::Directory => to_directory(&source, Path::new(out)),
        };
        bar.finish_and_clear();
        exported.with_context(|| arguments.image.clone())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the bytes used by files, directories and the journal: approximately the amount to read.
fn data_bytes(volume: &Volume) -> u64 {
    let usage = volume.usage();
    usage.blocks.saturating_sub(usage.blocks_free) * u64::from(usage.block_bytes)
}

/// Returns the form of the output for a path.
fn form(out: &str) -> Result<Form> {
    if out == STDOUT {
        return Ok(Form::Archive(Compression::None));
    }
    if out.ends_with('/') || Path::new(out).is_dir() {
        return Ok(Form::Directory);
    }
    let name = out.to_ascii_lowercase();
    let found = FORMS.iter().find(|(ending, _)| name.ends_with(ending));
    if let Some((_, compression)) = found {
        return Ok(Form::Archive(*compression));
    }
    if let Some(ending) = OTHER_ENDINGS.iter().find(|ending| name.ends_with(**ending)) {
        bail!(
            "{out}: archives of the form {ending} are not written; name it OUT.tar, OUT.tar.gz or OUT.tar.zst, or {out}/ for a \
             directory"
        );
    }
    Ok(Form::Directory)
}

fn to_archive(source: &ImageSource<'_>, out: &str, compression: Compression) -> Result<()> {
    if out == STDOUT {
        let mut out = io::stdout().lock();
        return write_archive(source, &mut out, compression, &output::warn)
            .context("standard output");
    }
    let new = NewFile::create(Path::new(out))?;
    write_archive(source, &mut new.file(), compression, &output::warn)
        .with_context(|| out.to_owned())?;
    new.finish(false)
}

/// Exports the tree to a directory. A new directory has a hidden name until it is complete; an
/// existing one is filled in place.
fn to_directory(source: &ImageSource<'_>, out: &Path) -> Result<()> {
    // Files are removed when no more are made, so the command ends itself after a signal. Only if
    // that takes too long does the signal remove them.
    interrupt::ends_itself();
    let out = without_slashes(out);
    let is_there = out.exists();
    let (place, mut sink) = if is_there {
        (out.clone(), DirectorySink::fill(&out, &output::warn)?)
    } else {
        let hidden = hidden_name(&out);
        // The hidden name is an internal detail, so errors show the name asked for. If the hidden
        // name exists already, its owner is unknown, so it is not removed.
        let made = DirectorySink::create(&hidden, &output::warn);
        (hidden, made.with_context(|| out.display().to_string())?)
    };
    let at_signal = place.clone();
    let _on_signal = interrupt::on_signal(out.display().to_string(), move || {
        remove_made(&at_signal, is_there);
    });
    let mut sink = Interruptible(&mut sink);
    let made = transfer::run(source, &mut sink).with_context(|| out.display().to_string());
    let made = made.and_then(|()| match is_there {
        true => Ok(()),
        false => std::fs::rename(&place, &out).with_context(|| out.display().to_string()),
    });
    made.inspect_err(|_| remove_made(&place, is_there))
}

/// A sink that fails after a signal.
struct Interruptible<'s>(&'s mut dyn Sink);

impl Sink for Interruptible<'_> {
    fn take(&mut self, item: Item) -> Result<()> {
        interrupt::check()?;
        self.0.take(item)
    }

    fn end(&mut self) -> Result<()> {
        interrupt::check()?;
        self.0.end()
    }
}

fn without_slashes(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Removes an incomplete directory, or only its contents if it stays. It was empty before.
fn remove_made(place: &Path, stays: bool) {
    if !stays {
        let _ = std::fs::remove_dir_all(place);
        return;
    }
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(path),
            _ => std::fs::remove_file(path),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_written() {
        for (name, expected) in [
            ("a.tar", Form::Archive(Compression::None)),
            ("a.tar.gz", Form::Archive(Compression::Gzip)),
            ("a.tgz", Form::Archive(Compression::Gzip)),
            ("a.TAR.zst", Form::Archive(Compression::Zstd)),
            ("-", Form::Archive(Compression::None)),
            ("folder", Form::Directory),
            ("release-1.2", Form::Directory),
            ("a.zip/", Form::Directory),
        ] {
            assert_eq!(form(name).expect(name), expected, "{name}");
        }
        for (name, ending) in [
            ("out.zip", ".zip"),
            ("out.tar.xz", ".tar.xz"),
            ("OUT.7Z", ".7z"),
        ] {
            let refused = form(name).expect_err(name).to_string();
            let expected = format!("{name}: archives of the form {ending} are not written");
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }
}

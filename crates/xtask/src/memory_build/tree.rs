//! A tree of very many files or directories, as a directory and as an archive.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

/// One file of so many has contents.
const WITH_CONTENTS: u32 = 20;
const CONTENTS: &[u8] = b"contents of a file\n";
/// Number of bytes that are written to the archive at a time.
const ARCHIVE_BYTES: usize = 1 << 20;

/// Numbers of files, or of directories instead of files, and their number in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Numbers of the first one, and of that behind the last one.
    first: u32,
    end: u32,
    per_directory: u32,
    has_directories: bool,
}

impl Shape {
    pub(super) fn of_files(count: u32, per_directory: u32) -> Self {
        Self {
            first: 0,
            end: count,
            per_directory,
            has_directories: false,
        }
    }

    /// Returns the same shape with directories instead of files.
    pub(super) fn of_directories(self) -> Self {
        Self {
            has_directories: true,
            ..self
        }
    }

    /// Returns two layers, each with half of the files; a quarter is in both.
    pub(super) fn layers(self) -> (Self, Self) {
        let (half, quarter) = (self.end / 2, self.end / 4);
        let lower = Self { end: half, ..self };
        let upper = Self {
            first: quarter,
            end: quarter + half,
            ..self
        };
        (lower, upper)
    }

    /// Returns the name of a file's directory.
    fn directory(self, file: u32) -> String {
        format!("directory-{:05}", file / self.per_directory)
    }

    fn is_first_in_directory(self, file: u32) -> bool {
        file == self.first || file.is_multiple_of(self.per_directory)
    }
}

fn name(file: u32) -> String {
    format!("file-{file:07}.txt")
}

fn contents(file: u32) -> &'static [u8] {
    match file.is_multiple_of(WITH_CONTENTS) {
        true => CONTENTS,
        false => b"",
    }
}

/// Makes the tree.
pub(super) fn make(root: &Path, shape: Shape) -> Result<()> {
    let context = || root.display().to_string();
    fs::create_dir(root).with_context(context)?;
    for file in shape.first..shape.end {
        let directory = root.join(shape.directory(file));
        if shape.is_first_in_directory(file) {
            fs::create_dir(&directory).with_context(context)?;
        }
        let path = directory.join(name(file));
        match shape.has_directories {
            true => fs::create_dir(&path),
            false => fs::write(&path, contents(file)),
        }
        .with_context(context)?;
    }
    Ok(())
}

/// Writes the tree as an archive.
pub(super) fn archive(path: &Path, shape: Shape) -> Result<()> {
    let context = || path.display().to_string();
    let file = File::create_new(path).with_context(context)?;
    let mut builder = Builder::new(BufWriter::with_capacity(ARCHIVE_BYTES, file));
    for file in shape.first..shape.end {
        let directory = shape.directory(file);
        if shape.is_first_in_directory(file) {
            let mut header = header(EntryType::Directory, 0o755, b"");
            builder
                .append_data(&mut header, format!("{directory}/"), &b""[..])
                .with_context(context)?;
        }
        let (mut header, contents) = match shape.has_directories {
            true => (header(EntryType::Directory, 0o755, b""), &b""[..]),
            false => {
                let contents = contents(file);
                (header(EntryType::Regular, 0o644, contents), contents)
            }
        };
        builder
            .append_data(&mut header, format!("{directory}/{}", name(file)), contents)
            .with_context(context)?;
    }
    let mut writer = builder.into_inner().with_context(context)?;
    writer.flush().with_context(context)
}

fn header(kind: EntryType, mode: u32, contents: &[u8]) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(contents.len() as u64);
    header.set_mtime(1_700_000_000);
    header
}

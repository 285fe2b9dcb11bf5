//! The sources of an image, and the changes of their files on the way into it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use transfer::edits::{AttributeFilter, Edits, FileContexts, Owners};
use transfer::{Origin, Platform};

use super::origin;

/// The sources of an image.
#[derive(Debug, Args)]
pub(super) struct SourceArguments {
    /// Directories, tar archives (plain, gzip or zstd) and container images: image layouts of OCI,
    /// as directories or archives, and archives of docker save. `-` reads an archive from standard
    /// input. A colon and a name behind a container image choose one of several: layout:latest.
    /// Later sources replace files of earlier ones.
    #[arg(value_name = "FROM", required_unless_present = "dumpfile")]
    from: Vec<PathBuf>,
    /// Dump file of composefs, the last source.
    #[arg(long, value_name = "FILE")]
    dumpfile: Option<PathBuf>,
    /// Directory of the files that hold contents for the dump file.
    #[arg(long, value_name = "DIR", requires = "dumpfile")]
    basedir: Option<PathBuf>,
    /// Platform of container images that are made for several: linux/amd64, linux/arm/v7.
    #[arg(long, value_name = "OS/ARCHITECTURE")]
    platform: Option<Platform>,
    /// Owners of files: u:FROM:TO:COUNT for users, g: for groups, b: or nothing for both. The
    /// owners FROM, FROM+1, ... of the sources become TO, TO+1, ...; an owner in no range is an
    /// error.
    #[arg(long, value_name = "RANGES", conflicts_with = "owner")]
    owner_map: Vec<String>,
    /// Owner of all files.
    #[arg(long, value_name = "UID:GID")]
    owner: Option<String>,
    /// SELinux labels, in the syntax of file_contexts; several files are read as one.
    #[arg(long, value_name = "FILE")]
    file_contexts: Vec<PathBuf>,
    /// Extended attributes to keep, all by default: patterns with *, separated by commas; ^ removes
    /// what a pattern matches, and the last pattern that matches decides.
    #[arg(long, value_name = "PATTERNS")]
    xattrs: Vec<String>,
}

impl SourceArguments {
    /// Opens the sources, in order.
    pub(super) fn origins(&self) -> Result<Vec<Origin>> {
        let platform = self.platform.as_ref();
        let from = self.from.iter().map(|path| origin::open(path, platform));
        let dump = self.dumpfile.iter();
        let dump = dump.map(|path| Origin::open_dump(path, self.basedir.as_deref()));
        from.chain(dump).collect()
    }

    /// Returns the changes of files.
    pub(super) fn edits(&self) -> Result<Edits> {
        let owners = match &self.owner {
            Some(owner) => Owners::parse_all(owner).context("--owner")?,
            None if self.owner_map.is_empty() => Owners::Kept,
            None => {
                let maps = self.owner_map.iter().map(String::as_str);
                Owners::parse_ranges(maps).context("--owner-map")?
            }
        };
        let patterns = self.xattrs.iter().map(String::as_str);
        Ok(Edits {
            owners,
            attributes: AttributeFilter::parse(patterns).context("--xattrs")?,
            contexts: self.contexts()?,
        })
    }

    fn contexts(&self) -> Result<Option<FileContexts>> {
        let mut contexts = FileContexts::default();
        for path in &self.file_contexts {
            let context = || path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(context)?;
            contexts.add(&text).with_context(context)?;
        }
        Ok((!self.file_contexts.is_empty()).then_some(contexts))
    }
}

//! Writing to a damaged volume: everything is written to, files are created everywhere, and
//! everything is deleted. Errors are expected; those that report damage are noted.

use std::collections::BTreeSet;

use ext::volume::{FileKind, NewInode, OpenFlags, SetMode};
use ext::{Error, Volume};
use layout::InodeNr;

use super::look::{Contents, Sight};
use crate::observe::LOST_AND_FOUND;

/// Size of written files in bytes: more than a block.
const FILE_BYTES: usize = 1500;
/// Offset at which files are also written, which needs an indirect block.
const FAR: u64 = 20 << 10;
/// The name of the new files.
const NAME: &[u8] = b"afterwards";
/// The name of a new attribute.
const MARK: &[u8] = b"user.afterwards";

/// Returns true if an error reports a fault of the volume, and not of the request.
pub(super) fn tells(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt(_)
            | Error::Device(_)
            | Error::Journal(_)
            | Error::DataLost { .. }
            | Error::ReadOnly
    )
}

/// Uses a volume as far as possible. Returns true if an error has reported damage.
pub(super) fn run(volume: &Volume) -> bool {
    let mut usage = Usage {
        volume,
        has_told: false,
    };
    let sight = Sight::of(volume, [InodeNr::ROOT]);
    usage.has_told |= sight.errors().any(tells);
    let mut directories = BTreeSet::new();
    for (nr, object) in &sight.objects {
        if let Ok(Contents::Directory(_)) = &object.contents {
            directories.insert(*nr);
        }
    }
    for nr in sight.objects.keys() {
        let written = usage.change(*nr);
        usage.note(written);
    }
    for directory in &directories {
        let made = usage.make(*directory);
        usage.note(made);
    }
    usage.note(volume.sync());
    for directory in directories.iter().rev() {
        usage.empty(*directory);
    }
    usage.note(volume.sync());
    usage.has_told
}

struct Usage<'v> {
    volume: &'v Volume,
    has_told: bool,
}

impl Usage<'_> {
    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        self.has_told |= result.as_ref().err().is_some_and(tells);
        result.ok()
    }

    fn change(&self, nr: InodeNr) -> Result<(), Error> {
        let attributes = self.volume.attributes(nr)?;
        if attributes.kind == FileKind::Regular {
            self.write(nr, 0)?;
            self.write(nr, FAR)?;
        }
        let is_marked = matches!(attributes.kind, FileKind::Regular | FileKind::Directory);
        if is_marked && nr != InodeNr::ROOT {
            let value = b"a value";
            self.volume.set_attribute(nr, MARK, value, SetMode::Any)?;
        }
        Ok(())
    }

    fn write(&self, nr: InodeNr, offset: u64) -> Result<(), Error> {
        let file = self.volume.open_inode(nr, OpenFlags::READ_WRITE)?;
        let written = self
            .volume
            .write_all(file, offset, &[0xAF; FILE_BYTES])
            .and_then(|()| self.volume.sync_file(file, false));
        self.volume.release(file)?;
        written
    }

    fn make(&self, directory: InodeNr) -> Result<(), Error> {
        let made = self.volume.create(directory, NAME, &NewInode::default())?;
        self.write(made, 0)
    }

    fn empty(&mut self, directory: InodeNr) {
        let mut names = Vec::new();
        let listed = self.volume.read_directory(directory, 0, &mut |_, entry| {
            names.push((entry.name, entry.inode));
            true
        });
        self.note(listed);
        for (name, inode) in names {
            let is_kept = name == b"." || name == b".." || name == LOST_AND_FOUND;
            if is_kept {
                continue;
            }
            let attributes = self.volume.attributes(inode);
            let is_directory = self
                .note(attributes)
                .is_some_and(|attributes| attributes.kind == FileKind::Directory);
            let removed = match is_directory {
                true => self.volume.remove_directory(directory, &name),
                false => self.volume.unlink(directory, &name),
            };
            self.note(removed);
        }
    }
}

//! Files that clients keep open while devices fail, so that errors are reported to a handle.
//!
//! Each file that is written or synced has two handles from its first use on: the client works with
//! one, and the other only looks at the end. A *look* is a sync call of a handle, with its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::trace::Trace;
use ext::volume::{FileId, OpenFlags};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::recording::{Hold, Look, Told};

/// The files that a client keeps open.
pub(super) struct Holds {
    trace: Arc<Trace>,
    files: BTreeMap<InodeNr, [(FileId, Hold); 2]>,
}

impl Holds {
    pub(super) fn new(trace: &Arc<Trace>) -> Self {
        Self {
            trace: Arc::clone(trace),
            files: BTreeMap::new(),
        }
    }

    /// Returns the handle that a client works with.
    pub(super) fn open(&mut self, volume: &Volume, inode: InodeNr) -> Result<FileId, Error> {
        if let Some([(file, _), _]) = self.files.get(&inode) {
            return Ok(*file);
        }
        let opened = self.trace.len();
        let open = || -> Result<(FileId, Hold), Error> {
            let file = volume.open_inode(inode, OpenFlags::READ_WRITE)?;
            let looks = Vec::new();
            Ok((
                file,
                Hold {
                    inode,
                    opened,
                    looks,
                },
            ))
        };
        let pair = [open()?, open()?];
        let file = pair[0].0;
        self.files.insert(inode, pair);
        Ok(file)
    }

    /// Syncs a file by the handle that the client works with.
    pub(super) fn sync(
        &mut self,
        volume: &Volume,
        inode: InodeNr,
        data_only: bool,
    ) -> Result<(), Error> {
        self.open(volume, inode)?;
        match self.files.get_mut(&inode) {
            Some([(file, hold), _]) => look(&self.trace, volume, *file, hold, data_only),
            None => Ok(()),
        }
    }

    /// Lets every handle look twice, and closes it.
    pub(super) fn finish(self, volume: &Volume) -> Vec<Hold> {
        let mut holds = Vec::new();
        for (file, mut hold) in self.files.into_values().flatten() {
            for _ in 0..2 {
                drop(look(&self.trace, volume, file, &mut hold, false));
            }
            drop(volume.release(file));
            holds.push(hold);
        }
        holds
    }
}

fn look(
    trace: &Trace,
    volume: &Volume,
    file: FileId,
    hold: &mut Hold,
    data_only: bool,
) -> Result<(), Error> {
    let began = trace.len();
    let synced = volume.sync_file(file, data_only);
    let told = match &synced {
        Ok(()) => Told::Nothing,
        Err(Error::DataLost { .. }) => Told::DataLost,
        Err(_) => Told::Other,
    };
    let ended = trace.len();
    hold.looks.push(Look { began, ended, told });
    synced
}

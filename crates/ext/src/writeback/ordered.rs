//! Writing the ordered data of a committing transaction.

use std::sync::Arc;

use block::DeviceError;
use layout::Tid;

use super::batch::PageBatch;
use super::pages::write_files;
use crate::cache::file_pages::Which;
use crate::cache::ordered::OrderedSet;
use crate::core::Core;

/// Number of attempts of a commit to write ordered data.
const ATTEMPTS: usize = 2;

/// Writes the ordered data of a transaction and waits. Returns true if data writes have completed
/// since the last flush.
///
/// # Errors
/// Returns the first failed write, with `data_err=abort`; the set stays for another attempt.
/// Otherwise every open file of the inode reports the failure, its pages stay dirty, and the
/// transaction may commit.
pub(crate) fn write_ordered(core: &Core, tid: Tid) -> Result<bool, DeviceError> {
    while let Some(set) = core.pages.ordered.take_or_close(tid) {
        let Err(error) = write(core, &set) else {
            continue;
        };
        tracing::warn!(%tid, %error, "ordered data could not be written");
        if core.options.abort_on_data_error {
            core.pages.ordered.put_back(set);
            return Err(error);
        }
    }
    Ok(core.pages.flushes.is_owed())
}

/// Writes the ordered data that a running transaction has so far, and waits. Returns true as
/// [`write_ordered`] does.
///
/// # Errors
/// Returns the first failed write. The set stays: the transaction has to be committed as a whole.
pub(crate) fn write_data_so_far(core: &Core, tid: Tid) -> Result<bool, DeviceError> {
    if let Some(set) = core.pages.ordered.take(tid) {
        for file in &set.files {
            // A page that changes from now on adds its file again; others are written below.
            let mut inner = file.pages.lock();
            inner.ordered_in = inner.ordered_in.filter(|newest| *newest != tid);
        }
        if let Err(error) = write(core, &set) {
            core.pages.ordered.put_back(set);
            return Err(error);
        }
    }
    Ok(core.pages.flushes.is_owed())
}

/// Writes the data that the transaction waits for. A device that fails once may work the next time,
/// and a commit without the data would expose the old contents of its blocks.
fn write(core: &Core, set: &OrderedSet) -> Result<(), DeviceError> {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        let mut loose = PageBatch::default();
        for (nr, image) in &set.loose {
            loose.push_loose(*nr, Arc::clone(image));
        }
        result = write_files(core, &set.files, Which::Ordered(set.tid), loose);
        if result.is_ok() {
            break;
        }
    }
    result
}

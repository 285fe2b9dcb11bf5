//! [`Charged`]: a target on a kernel whose processor takes no time. Its calls sleep for the time
//! that a host would need.
//!
//! | work | cost |
//! |---|---|
//! | every call | a system call |
//! | every part of a path | a look-up |
//! | every entry of a listed directory | an entry |
//! | every byte read or written | a copy between page cache and caller |
//!
//! What a file system computes inside, such as a search in a directory or a journal handle, has no
//! cost: file systems differ in it, and no profile has it.
//!
//! What a thread owes is a part of its time ([`rt::owe`]), so that a phase or a timed call takes
//! what its work costs, however short it is, and most calls do not sleep. It is paid before a call
//! that waits for a device in any case: a sync, and what a file opened for such calls does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rt::{Cost, Memory, Nanos, WallTime};
use sim::{HostProfile, Prices};
use workload::{
    DirectoryEntry, Extent, InodeFlags, OpenFile, OpenFlags, Operation, Space, Stat, Target,
    TargetError,
};

use crate::hash::StableHash;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// A target whose calls cost time.
pub(crate) struct Charged {
    target: Arc<dyn Target>,
    prices: Mutex<Prices>,
    threads: AtomicU32,
}

/// An open file with its name in the caches and its position.
struct ChargedFile {
    file: OpenFile,
    owner: u64,
    position: u64,
    /// True if its calls wait for a device.
    waits: bool,
}

impl ChargedFile {
    /// Pays before a call that waits for a device.
    fn settle(&self) {
        if self.waits {
            rt::settle();
        }
    }
}

impl Charged {
    pub(crate) fn new(target: Arc<dyn Target>, host: &HostProfile) -> Self {
        Self {
            target,
            prices: Mutex::new(Prices::new(host)),
            threads: AtomicU32::new(1),
        }
    }

    /// Charges work to the calling thread.
    fn charge(&self, costs: &[Cost]) {
        if THREAD.get() == 0 {
            THREAD.set(self.threads.fetch_add(1, Ordering::Relaxed));
        }
        let mut prices = self.prices.lock().unwrap_or_else(PoisonError::into_inner);
        let each = costs.iter().map(|cost| prices.nanos(THREAD.get(), *cost));
        let cost = Nanos::new(each.sum::<u64>());
        drop(prices);
        rt::owe(cost);
    }

    fn call(&self) {
        self.charge(&[Cost::Syscall]);
    }

    fn call_on(&self, paths: &[&str]) {
        let parts = |path: &&str| path.split('/').filter(|part| !part.is_empty()).count();
        let lookups: usize = paths.iter().map(parts).sum();
        let search = Cost::Search {
            lookups: lookups as u64,
            entries: 0,
        };
        self.charge(&[Cost::Syscall, search]);
    }

    fn copied_out(&self, owner: u64, offset: u64, bytes: usize) {
        let (from, bytes) = (Memory { owner, offset }, bytes as u64);
        self.charge(&[Cost::Syscall, Cost::CopyOut { from, bytes }]);
    }

    fn copied_in(&self, owner: u64, offset: u64, bytes: usize) {
        let (into, bytes) = (Memory { owner, offset }, bytes as u64);
        self.charge(&[Cost::Syscall, Cost::CopyIn { into, bytes }]);
    }
}

fn own(file: &OpenFile, operation: Operation) -> Result<&ChargedFile, TargetError> {
    let own = file.get();
    own.ok_or_else(|| TargetError::foreign_file(operation))
}

fn own_mut(file: &mut OpenFile, operation: Operation) -> Result<&mut ChargedFile, TargetError> {
    let own = file.get_mut();
    own.ok_or_else(|| TargetError::foreign_file(operation))
}

impl Target for Charged {
    fn name(&self) -> String {
        self.target.name()
    }

    fn keeps_contents(&self) -> bool {
        self.target.keeps_contents()
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<OpenFile, TargetError> {
        self.call_on(&[path]);
        let file = self.target.open(path, flags)?;
        let mut hash = StableHash::new();
        hash.text(path);
        Ok(OpenFile::new(ChargedFile {
            file,
            owner: hash.finish(),
            position: 0,
            waits: flags.sync || flags.data_sync || flags.direct,
        }))
    }

    fn close(&self, file: OpenFile) -> Result<(), TargetError> {
        self.call();
        let own: ChargedFile = file
            .into_inner()
            .ok_or_else(|| TargetError::foreign_file(Operation::Close))?;
        self.target.close(own.file)
    }

    fn read(&self, file: &mut OpenFile, buffer: &mut [u8]) -> Result<usize, TargetError> {
        let own = own_mut(file, Operation::Read)?;
        own.settle();
        let count = self.target.read(&mut own.file, buffer)?;
        self.copied_out(own.owner, own.position, count);
        own.position += count as u64;
        Ok(count)
    }

    fn write(&self, file: &mut OpenFile, data: &[u8]) -> Result<usize, TargetError> {
        let own = own_mut(file, Operation::Write)?;
        own.settle();
        let count = self.target.write(&mut own.file, data)?;
        self.copied_in(own.owner, own.position, count);
        own.position += count as u64;
        Ok(count)
    }

    fn seek(&self, file: &mut OpenFile, offset: u64) -> Result<(), TargetError> {
        self.call();
        let own = own_mut(file, Operation::Seek)?;
        own.position = offset;
        self.target.seek(&mut own.file, offset)
    }

    fn pread(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize, TargetError> {
        let own = own(file, Operation::Pread)?;
        own.settle();
        let count = self.target.pread(&own.file, buffer, offset)?;
        self.copied_out(own.owner, offset, count);
        Ok(count)
    }

    fn pwrite(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<usize, TargetError> {
        let own = own(file, Operation::Pwrite)?;
        own.settle();
        let count = self.target.pwrite(&own.file, data, offset)?;
        self.copied_in(own.owner, offset, count);
        Ok(count)
    }

    fn fsync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.call();
        rt::settle();
        self.target.fsync(&own(file, Operation::Fsync)?.file)
    }

    fn fdatasync(&self, file: &OpenFile) -> Result<(), TargetError> {
        self.call();
        rt::settle();
        self.target
            .fdatasync(&own(file, Operation::Fdatasync)?.file)
    }

    fn fsync_directory(&self, path: &str) -> Result<(), TargetError> {
        self.call_on(&[path]);
        rt::settle();
        self.target.fsync_directory(path)
    }

    fn truncate(&self, path: &str, size: u64) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.truncate(path, size)
    }

    fn unlink(&self, path: &str) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.unlink(path)
    }

    fn mkdir(&self, path: &str) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.mkdir(path)
    }

    fn rmdir(&self, path: &str) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.rmdir(path)
    }

    fn rename(&self, old: &str, new: &str) -> Result<(), TargetError> {
        self.call_on(&[old, new]);
        self.target.rename(old, new)
    }

    fn link(&self, existing: &str, new: &str) -> Result<(), TargetError> {
        self.call_on(&[existing, new]);
        self.target.link(existing, new)
    }

    fn symlink(&self, contents: &str, path: &str) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.symlink(contents, path)
    }

    fn read_link(&self, path: &str) -> Result<String, TargetError> {
        self.call_on(&[path]);
        self.target.read_link(path)
    }

    fn stat(&self, path: &str) -> Result<Stat, TargetError> {
        self.call_on(&[path]);
        self.target.stat(path)
    }

    fn stat_open(&self, file: &OpenFile) -> Result<Stat, TargetError> {
        self.call();
        self.target.stat_open(&own(file, Operation::StatOpen)?.file)
    }

    fn set_times(
        &self,
        path: &str,
        accessed: WallTime,
        modified: WallTime,
    ) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.set_times(path, accessed, modified)
    }

    fn space(&self) -> Result<Space, TargetError> {
        self.call();
        self.target.space()
    }

    fn readdir(&self, path: &str) -> Result<Vec<DirectoryEntry>, TargetError> {
        let entries = self.target.readdir(path)?;
        let search = Cost::Search {
            lookups: 1,
            entries: entries.len() as u64,
        };
        self.charge(&[Cost::Syscall, search]);
        Ok(entries)
    }

    fn set_flags(&self, path: &str, flags: InodeFlags) -> Result<(), TargetError> {
        self.call_on(&[path]);
        self.target.set_flags(path, flags)
    }

    fn extents(&self, path: &str) -> Result<Vec<Extent>, TargetError> {
        self.target.extents(path)
    }

    fn sync(&self) -> Result<(), TargetError> {
        self.call();
        rt::settle();
        self.target.sync()
    }
}

#[cfg(test)]
mod tests {
    use workload::counting::CountingTarget;

    use super::*;

    /// A cost for which no thread sleeps at once.
    const CALL: Nanos = Nanos::new(45_000);

    #[test]
    fn a_phase_of_one_call_takes_what_the_call_costs() {
        let host = HostProfile {
            syscall_ns: CALL.get(),
            ..sim::ZERO
        };
        let target = Charged::new(Arc::new(CountingTarget::new()), &host);
        for _ in 0..20 {
            let began = rt::monotonic();
            target.space().expect("it has space");
            assert!(rt::monotonic() - began >= CALL);
        }
    }
}

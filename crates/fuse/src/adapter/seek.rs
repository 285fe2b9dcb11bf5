//! lseek with SEEK_DATA and SEEK_HOLE.
//!
//! Written data stays in the kernel's cache for a while, and meanwhile the volume's block map has a
//! hole there. The kernel requests data and holes without writing back first. This matters only if
//! the file is open for writing. Then jext makes the kernel write back the whole file system, of
//! which it caches little at a time. Blocks that are mapped are data in any case.
//!
//! | request | the block map has | open for writing | first |
//! |---|---|---|---|
//! | data | data at the offset | any | nothing |
//! | any | any | no | nothing |
//! | any | anything else | yes, or unknown | the kernel writes back |
//!
//! # Rules
//!
//! - The kernel holds the lock of the inode during the request, so that no write, truncation or
//!   hole punch intervenes; only mapped memory may change, and then either answer is right.
//! - The kernel's write-back waits for WRITE requests. The threads of the session answer those, so
//!   none of them may wait for it: [`Seeker`] is a separate thread that answers the requests one by
//!   one. It does not wait in the kernel either; a child process does. The Seeker then waits for
//!   the requests that were submitted: see [`crate::arrivals`].

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Errno, INodeNo, ReplyLseek};
use layout::InodeNr;

use super::guard::{Failure, Guard};
use super::worker::Worker;
use super::{Adapter, inode};
use crate::arrivals::Arrivals;
use crate::served::Served;

/// lseek(2): the next byte of data.
const SEEK_DATA: i32 = 3;
/// lseek(2): the next byte of a hole.
const SEEK_HOLE: i32 = 4;
/// Name of the thread.
const THREAD: &str = "jext-seeker";

/// A request of the kernel.
struct Question {
    node: InodeNr,
    offset: u64,
    whence: i32,
    reply: ReplyLseek,
}

/// The thread that answers slow requests.
#[derive(Default)]
pub(crate) struct Seeker(Worker<Question>);

impl Seeker {
    /// Starts the thread, once.
    pub(crate) fn start(&self, guard: Guard, arrivals: Arrivals) -> io::Result<JoinHandle<()>> {
        let work = Work { guard, arrivals };
        self.0.start(THREAD, move |question| work.answer(question))
    }

    /// Ends the thread after its pending questions. A dropped reply answers EIO.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

impl Adapter {
    /// Returns the seeker for data and holes.
    pub(crate) fn seeker(&self) -> Arc<Seeker> {
        Arc::clone(&self.seeker)
    }

    /// Answers at once, unless the kernel has to write back first.
    pub(super) fn seek(&self, node: INodeNo, offset: i64, whence: i32, reply: ReplyLseek) {
        let begun = self.guard("lseek", || {
            let node = inode(node)?;
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            if ![SEEK_DATA, SEEK_HOLE].contains(&whence) {
                return Err(Errno::EINVAL.into());
            }
            if !self.fs.may_be_behind(node) {
                return find(&self.fs, node, offset, whence).map(Ok);
            }
            let is_data = whence == SEEK_DATA && self.fs.seek_data(node, offset)? == Some(offset);
            Ok(if is_data {
                Ok(offset)
            } else {
                Err((node, offset))
            })
        });
        match begun {
            Ok(Ok(found)) => answer(reply, Ok(found)),
            Ok(Err((node, offset))) => self.seeker.0.add(Question {
                node,
                offset,
                whence,
                reply,
            }),
            Err(errno) => reply.error(errno),
        }
    }
}

/// The state of the thread.
struct Work {
    guard: Guard,
    arrivals: Arrivals,
}

impl Work {
    fn answer(&self, question: Question) {
        let Question {
            node,
            offset,
            whence,
            reply,
        } = question;
        let found = self.guard.run("lseek", || {
            self.arrivals.wait().map_err(|error| {
                tracing::error!(%node, %error, "the kernel does not pass on what it keeps");
                Errno::EIO
            })?;
            find(&self.guard.fs, node, offset, whence)
        });
        answer(reply, found);
    }
}

/// Searches the block map.
fn find(served: &Served, node: InodeNr, offset: u64, whence: i32) -> Result<u64, Failure> {
    let found = match whence {
        SEEK_DATA => served.seek_data(node, offset)?,
        _ => served.seek_hole(node, offset)?,
    };
    Ok(found.ok_or(Errno::ENXIO)?)
}

fn answer(reply: ReplyLseek, found: Result<u64, Errno>) {
    match found.map(i64::try_from) {
        Ok(Ok(offset)) => reply.offset(offset),
        Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
        Err(errno) => reply.error(errno),
    }
}

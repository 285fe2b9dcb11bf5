//! Where data and holes begin: lseek with SEEK_DATA and SEEK_HOLE.
//!
//! What was written is the kernel's for a while, and the volume's map has a hole there as long. The kernel asks all the same before it has passed
//! on what it keeps. That can only be where somebody has the file open for writing; then the kernel is made to write it first, all of the file
//! system, of which it keeps little at a time. What the map takes for data is data in any case.
//!
//! | asked for | the map says | open for writing | first |
//! |---|---|---|---|
//! | data | data at the offset | any | nothing |
//! | anything | anything | by nobody | nothing |
//! | anything | anything else | by somebody, or not known | the kernel writes |
//!
//! # Rules
//!
//! - The kernel holds the lock of the inode while it asks, so that nobody writes, truncates or punches meanwhile; only memory that is mapped may
//!   change, and then either answer is right.
//! - The kernel's writing waits for WRITE requests. Those are answered by the threads of the session, so none of these waits for it: [`Seeker`] is a
//!   thread of its own, and does one question after the other. Nor does it wait in the kernel, but a program does. What the program has made the
//!   kernel submit is waited for here: see [`crate::arrivals`].

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use fuser::{Errno, INodeNo, ReplyLseek};
use layout::InodeNr;

use super::guard::{Failure, Guard};
use super::{Adapter, inode};
use crate::arrivals::Arrivals;
use crate::vfs::Vfs;

/// lseek(2): the next byte of data.
const SEEK_DATA: i32 = 3;
/// lseek(2): the next byte of a hole.
const SEEK_HOLE: i32 = 4;
/// The name of the thread.
const THREAD: &str = "jext-seeker";

/// The way to the thread that answers what takes its time.
#[derive(Default)]
pub(crate) struct Seeker {
    /// None ends it.
    questions: OnceLock<Sender<Option<Question>>>,
}

/// What the kernel asks.
struct Question {
    node: InodeNr,
    offset: u64,
    whence: i32,
    reply: ReplyLseek,
}

impl Seeker {
    /// Starts the thread, once.
    pub(crate) fn start<V: Vfs>(
        &self,
        guard: Guard<V>,
        arrivals: Arrivals,
    ) -> io::Result<JoinHandle<()>> {
        let (sender, questions) = mpsc::channel();
        let _ = self.questions.set(sender);
        let work = Work { guard, arrivals };
        thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                while let Ok(Some(question)) = questions.recv() {
                    work.answer(question);
                }
            })
    }

    /// Lets the thread end when it has answered what it was asked.
    pub(crate) fn stop(&self) {
        if let Some(questions) = self.questions.get() {
            // It may have ended by itself.
            let _ = questions.send(None);
        }
    }

    /// A reply that is dropped on the way says EIO.
    fn ask(&self, question: Question) {
        if let Some(questions) = self.questions.get() {
            let _ = questions.send(Some(question));
        }
    }
}

impl<V: Vfs> Adapter<V> {
    /// Answers at once if the kernel need not write anything first.
    pub(super) fn seek(&self, node: INodeNo, offset: i64, whence: i32, reply: ReplyLseek) {
        let begun = self.guard("lseek", || {
            let node = inode(node)?;
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            if ![SEEK_DATA, SEEK_HOLE].contains(&whence) {
                return Err(Errno::EINVAL.into());
            }
            if !self.vfs.may_be_behind(node) {
                return find(&*self.vfs, node, offset, whence).map(Ok);
            }
            let is_data = whence == SEEK_DATA && self.vfs.seek_data(node, offset)? == Some(offset);
            Ok(if is_data {
                Ok(offset)
            } else {
                Err((node, offset))
            })
        });
        match begun {
            Ok(Ok(found)) => answer(reply, Ok(found)),
            Ok(Err((node, offset))) => self.seeker.ask(Question {
                node,
                offset,
                whence,
                reply,
            }),
            Err(errno) => reply.error(errno),
        }
    }
}

/// What the thread works with.
struct Work<V> {
    guard: Guard<V>,
    arrivals: Arrivals,
}

impl<V: Vfs> Work<V> {
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
            find(&*self.guard.vfs, node, offset, whence)
        });
        answer(reply, found);
    }
}

/// What the map says.
fn find(vfs: &impl Vfs, node: InodeNr, offset: u64, whence: i32) -> Result<u64, Failure> {
    let found = match whence {
        SEEK_DATA => vfs.seek_data(node, offset)?,
        _ => vfs.seek_hole(node, offset)?,
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

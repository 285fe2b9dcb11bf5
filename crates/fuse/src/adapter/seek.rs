//! Where data and holes begin: lseek with SEEK_DATA and SEEK_HOLE.
//!
//! What was written is the kernel's for a while, and the volume's map has a hole there as long. The kernel asks all the same before it has passed
//! on what it keeps. So it is told first to let go of what the map takes for a hole, which makes it write what it has there, and then the map is
//! right. What the map takes for data is data, and needs no word to the kernel.
//!
//! | asked for | the map says | the kernel lets go of |
//! |---|---|---|
//! | data | data at the offset | nothing |
//! | data | a hole | the hole, up to the data behind it or without end |
//! | a hole | a hole, or the end, somewhere behind | that hole; where it turns out to be data, everything from the next one on |
//!
//! # Rules
//!
//! - The kernel holds the lock of the inode while it asks, so that nobody writes, truncates or punches meanwhile; only memory that is mapped may
//!   change, and then either answer is right.
//! - Letting go waits for WRITE requests. Those are answered by the threads of the session, so none of these waits for it: [`Seeker`] is a
//!   thread of its own, and does one question after the other.
//! - A notification fails when the kernel is gone, and then nobody hears the answer either: EIO.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use fuser::{Errno, INodeNo, Notifier, ReplyLseek};
use layout::InodeNr;

use super::guard::{Failure, Guard};
use super::{Adapter, inode};
use crate::attributes::node_of;
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
        notifier: Notifier,
    ) -> io::Result<JoinHandle<()>> {
        let (sender, questions) = mpsc::channel();
        let _ = self.questions.set(sender);
        let work = Work { guard, notifier };
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
    /// Answers at once if the kernel need not be told to let go of anything.
    pub(super) fn seek(&self, node: INodeNo, offset: i64, whence: i32, reply: ReplyLseek) {
        let begun = self.guard("lseek", || {
            let node = inode(node)?;
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let is_data = match whence {
                SEEK_DATA => self.vfs.seek_data(node, offset)? == Some(offset),
                SEEK_HOLE => false,
                _ => return Err(Errno::EINVAL.into()),
            };
            Ok((node, offset, is_data))
        });
        match begun {
            Ok((_, offset, true)) => answer(reply, Ok(offset)),
            Ok((node, offset, false)) => self.seeker.ask(Question {
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
    notifier: Notifier,
}

impl<V: Vfs> Work<V> {
    fn answer(&self, question: Question) {
        let Question { node, offset, .. } = question;
        let found = self.guard.run("lseek", || match question.whence {
            SEEK_DATA => self.data(node, offset),
            _ => self.hole(node, offset),
        });
        answer(question.reply, found);
    }

    fn data(&self, node: InodeNr, offset: u64) -> Result<u64, Failure> {
        let first = self.guard.vfs.seek_data(node, offset)?;
        self.let_go(node, offset, first)?;
        let found = self.guard.vfs.seek_data(node, offset)?;
        Ok(found.ok_or(Errno::ENXIO)?)
    }

    fn hole(&self, node: InodeNr, offset: u64) -> Result<u64, Failure> {
        let vfs = &self.guard.vfs;
        let first = vfs.seek_hole(node, offset)?;
        let from = first.unwrap_or(offset);
        self.let_go(node, from, vfs.seek_data(node, from)?)?;
        // The end is the beginning of a hole, and there is none behind it.
        let second = vfs.seek_hole(node, from)?.or(first).ok_or(Errno::ENXIO)?;
        if Some(second) == first {
            return Ok(second);
        }
        self.let_go(node, second, None)?;
        Ok(vfs.seek_hole(node, second)?.unwrap_or(second))
    }

    /// Makes the kernel write what it keeps of a part of a file, and forget it.
    fn let_go(&self, node: InodeNr, from: u64, to: Option<u64>) -> Result<(), Failure> {
        let number = |offset: u64| i64::try_from(offset).map_err(|_| Errno::ENXIO);
        // A length of 0 means everything from there on.
        let length = to.map_or(0, |to| to - from);
        let told = self
            .notifier
            .inval_inode(node_of(node), number(from)?, number(length)?);
        told.map_err(|error| {
            tracing::debug!(%node, %error, "the kernel does not pass on what it keeps");
            Errno::EIO.into()
        })
    }
}

fn answer(reply: ReplyLseek, found: Result<u64, Errno>) {
    match found.map(i64::try_from) {
        Ok(Ok(offset)) => reply.offset(offset),
        Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
        Err(errno) => reply.error(errno),
    }
}

//! One thread of a personality that works on files.

use std::sync::Arc;

use rt::Nanos;

use super::fileset::{FileSet, LOG, Picked, draw_size};
use super::personality::{Group, Operation, Personality, Pick};
use super::{Parameters, Served};
use crate::client::{Client, Opened};
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::OpenFlags;

/// Maximum size of an append in bytes.
const APPEND_MAX: u64 = 16 << 10;

/// A thread.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) served: Served,
    personality: &'static Personality,
    set: Arc<FileSet>,
    mean_size: u64,
    io: usize,
    end: Nanos,
}

/// The file that a group works on.
struct Hand {
    picked: Picked,
    opened: Option<Opened>,
    is_there: bool,
}

impl Worker {
    pub(super) fn new(
        parameters: &Parameters,
        personality: &'static Personality,
        set: &Arc<FileSet>,
        client: Client,
        end: Nanos,
    ) -> Self {
        Self {
            client,
            served: Served::default(),
            personality,
            set: Arc::clone(set),
            mean_size: parameters.mean_size,
            io: parameters.io,
            end,
        }
    }

    /// Cycles until the time is over.
    pub(super) fn work(&mut self) -> Result<(), RunError> {
        loop {
            for group in self.personality.cycle {
                if rt::monotonic() >= self.end || !self.client.goes_on()? {
                    return Ok(());
                }
                self.group(group)?;
            }
            // Lets other threads run on targets whose calls take no time.
            rt::point();
        }
    }

    fn group(&mut self, group: &Group) -> Result<(), RunError> {
        let Some(picked) = self.set.pick(group.pick, &mut self.client.random) else {
            return Ok(());
        };
        let mut hand = Hand {
            picked,
            opened: None,
            is_there: group.pick != Pick::Absent,
        };
        let mut result = Ok(());
        for operation in group.operations {
            if rt::monotonic() >= self.end && *operation != Operation::Close {
                continue;
            }
            result = self.operation(*operation, &mut hand);
            if result.is_err() {
                break;
            }
            self.served.operations += 1;
        }
        let closed = hand.opened.take().map(|opened| self.client.close(opened));
        self.set.give_back(hand.picked, hand.is_there);
        result.and(closed.unwrap_or(Ok(())))
    }

    fn operation(&mut self, operation: Operation, hand: &mut Hand) -> Result<(), RunError> {
        let path = || self.set.path(hand.picked.number);
        match (operation, &mut hand.opened) {
            (Operation::Create, _) => {
                let flags = OpenFlags::READ_WRITE.create_new();
                hand.opened = Some(self.client.open(path(), flags, hand.picked.key)?);
                hand.is_there = true;
            }
            (Operation::Open, _) => {
                let flags = if hand.picked.number == LOG {
                    OpenFlags::WRITE.append()
                } else {
                    OpenFlags::READ_WRITE
                };
                hand.opened = Some(self.client.open(path(), flags, hand.picked.key)?);
            }
            (Operation::Delete, _) => {
                self.client.delete(&path())?;
                hand.is_there = false;
            }
            (Operation::Stat, _) => drop(self.client.stat(&path())?),
            (Operation::Close, opened) => {
                if let Some(opened) = opened.take() {
                    self.client.close(opened)?;
                }
            }
            // The time was over before the file could be opened, so the operation is skipped.
            (_, None) => {}
            (operation, Some(opened)) => {
                transfer(
                    &mut self.client,
                    operation,
                    opened,
                    &mut hand.picked,
                    (self.mean_size, self.io),
                    &mut self.served,
                )?;
            }
        }
        Ok(())
    }
}

/// Executes an operation on an open file.
fn transfer(
    client: &mut Client,
    operation: Operation,
    opened: &mut Opened,
    picked: &mut Picked,
    (mean_size, io): (u64, usize),
    served: &mut Served,
) -> Result<(), RunError> {
    match operation {
        Operation::ReadWhole => {
            client.seek(opened, 0)?;
            client.read_blocks(opened, picked.size, io)?;
            served.bytes_read += picked.size;
        }
        Operation::WriteWhole => {
            let size = draw_size(&mut client.random, mean_size);
            client.write_blocks(Call::Write, opened, size, io)?;
            picked.size = size;
            served.bytes_written += size;
        }
        Operation::Append => {
            let size = client.random.below(APPEND_MAX + 1);
            if picked.number != LOG {
                client.seek(opened, picked.size)?;
            }
            client.write_blocks(Call::Append, opened, size, io)?;
            picked.size += size;
            served.bytes_written += size;
        }
        Operation::Fsync => client.fsync(opened)?,
        _ => {}
    }
    Ok(())
}

//! Serving a guest in real time: its console, and its disks if it has any of ours.
//!
//! A request is carried out before the kernel gets the answer to the message that reported it. So
//! there is one request in flight at a time, and no thread.

use std::sync::Arc;

use block::BlockDevice;

use super::wire::{self, Source, Wire};
use super::{Disk, Watcher, carry_out};
use crate::disk;
use crate::virtqueue::SIZE_MAX;
use crate::{Guest, GuestError};

/// Waits until a guest ends, in real time.
///
/// # Errors
/// Fails if the guest hangs, or if the watcher cancels it.
pub fn in_real_time(guest: &Guest, watcher: &mut dyn Watcher) -> Result<(), GuestError> {
    Wire::new(guest).listen_to_console(watcher)
}

/// Serves the disks of a guest in real time until it ends.
///
/// # Errors
/// Fails if the guest violates the protocol or hangs, or if the watcher cancels it.
pub fn disks_in_real_time(
    guest: &Guest,
    devices: Vec<Arc<dyn BlockDevice>>,
    watcher: &mut dyn Watcher,
) -> Result<(), GuestError> {
    let disks = devices.into_iter().zip(guest.take_listeners());
    let disks = disks.map(|(device, listener)| Disk::new(device, listener));
    let mut disks: Vec<Disk> = disks.collect();
    let mut wire = Wire::new(guest);
    loop {
        match wire.next(None, &disks, watcher)? {
            Source::Ended | Source::Calendar => return Ok(()),
            Source::Listener(number) => disks[number].accept()?,
            Source::Channel(number) => disks[number].receive_answer()?,
            Source::Disk(number) => handle(&mut disks[number])?,
        }
    }
}

/// Handles a message of a disk's driver.
fn handle(disk: &mut Disk) -> Result<(), GuestError> {
    let Some(handled) = disk.receive()? else {
        return Ok(());
    };
    let has_completed = handled.is_kick && carry_out_all(disk)?;
    disk.reply(handled)?;
    if has_completed {
        wire::send_call(disk.backend.channel()?)?;
    }
    Ok(())
}

/// Carries out all new requests; returns false if there are none. Their number is limited: the
/// driver reports each of those that it adds meanwhile.
fn carry_out_all(disk: &mut Disk) -> Result<bool, GuestError> {
    let is_through = disk.backend.is_write_through();
    let (memory, queue) = disk.backend.queue();
    let mut has_completed = false;
    for _ in 0..SIZE_MAX {
        let Some(chain) = queue.take(memory)? else {
            break;
        };
        let taken = disk::decode(memory, chain, is_through)?;
        let result = taken
            .request
            .map(|request| carry_out(&*disk.device, request));
        let (head, written) = taken.pending.finish(memory, result)?;
        queue.give_back(memory, head, written)?;
        has_completed = true;
    }
    Ok(has_completed)
}

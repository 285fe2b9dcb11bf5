//! Serving a guest: in virtual time as a task of a simulated world, or in real time.
//!
//! # Virtual time
//!
//! | the kernel | the task |
//! |---|---|
//! | runs | waits for its messages in real time; virtual time stands still |
//! | sends a request to a disk | passes it to a task of its own, and limits the kernel's time |
//! | reports its own time | sleeps in virtual time until then |
//! | waits | sleeps in virtual time until its next event or the next completion |
//!
//! A completion is reported only to a waiting kernel. It then asks for the time and requests to run
//! at once.
//!
//! # Rules for both
//!
//! - A request reaches a device only if the device has its sectors, and only after the earlier
//!   requests that touch them, if one of both is a write: [`BlockDevice`] leaves to its callers
//!   avoid conflicts, and a guest need not.
//! - A guest is watched while it sends messages, too: it can be cancelled at any of them, and
//!   counts as hung if virtual time stands still for too long.

mod order;
mod real;
#[cfg(test)]
mod tests;
mod wire;

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Instant;

use block::{BlockDevice, DeviceError, Outcome, Request};
use rt::{Condvar, Mutex, Nanos};

use crate::calendar::{Asked, Calendar, Question};
use crate::disk::{self, Pending};
use crate::socket::STANDSTILL_MAX;
use crate::vhost::{Backend, DiskShape, Handled};
use crate::{Guest, GuestError};

use order::Order;
pub use real::{disks_in_real_time, in_real_time};
use wire::{Source, Wire};

/// Time that the kernel may advance by itself at most, so that the limits of the world apply.
const FREE_MAX: Nanos = Nanos::from_millis(100);
/// A request of the kernel for this time or later is none: it sleeps forever.
const FOREVER: Nanos = Nanos::new(1 << 62);

/// A caller of [`in_virtual_time`] or [`in_real_time`].
pub trait Watcher {
    /// Takes a report of the guest.
    fn report(&mut self, text: &str);

    /// Returns true if the guest has to end.
    fn is_cancelled(&self) -> bool;
}

/// Serves a guest until it ends, as a task of a simulated world.
///
/// # Errors
/// Fails if the guest violates a protocol, hangs or sleeps forever, or if the watcher cancels it.
pub fn in_virtual_time(
    guest: &Guest,
    devices: Vec<Arc<dyn BlockDevice>>,
    watcher: &mut dyn Watcher,
) -> Result<(), GuestError> {
    let mut listeners = guest.take_listeners().into_iter();
    let calendar = listeners.next();
    let calendar = calendar.ok_or_else(|| GuestError::Protocol("no calendar".to_owned()))?;
    let mut wire = Wire::new(guest);
    let Some(socket) = wire.accept(&calendar, watcher)? else {
        return Err(guest.ended_early());
    };
    let disks = devices.into_iter().zip(listeners);
    let disks = disks.map(|(device, listener)| Disk::new(device, listener));
    let service = Service {
        calendar: Calendar::default(),
        socket,
        disks: disks.collect(),
        done: Arc::default(),
        in_flight: 0,
        free_until: Nanos::ZERO,
        is_limiting: false,
        standstill: (rt::monotonic(), Instant::now()),
        wire,
        watcher,
    };
    service.run()
}

/// A disk of a guest.
struct Disk {
    device: Arc<dyn BlockDevice>,
    listener: UnixListener,
    // The connection, once the kernel has found the disk.
    socket: Option<UnixStream>,
    backend: Backend,
    order: Order,
    // True if the kernel has closed it.
    is_gone: bool,
}

impl Disk {
    fn new(device: Arc<dyn BlockDevice>, listener: UnixListener) -> Self {
        let geometry = device.geometry();
        let shape = DiskShape {
            sectors: geometry.size_bytes / 512,
            block_bytes: geometry.sector_bytes,
            has_cache: geometry.has_volatile_cache,
        };
        Self {
            backend: Backend::new(shape),
            device,
            listener,
            socket: None,
            order: Order::default(),
            is_gone: false,
        }
    }

    /// Accepts the connection of the kernel.
    fn accept(&mut self) -> Result<(), GuestError> {
        let at_disk = GuestError::at("a disk of the guest");
        let (socket, _) = self.listener.accept().map_err(at_disk)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Receives a message of the driver and handles it; `None` if the kernel has closed the disk.
    fn receive(&mut self) -> Result<Option<Handled>, GuestError> {
        let socket = self.socket.as_ref().expect("it has sent something");
        let Some((header, payload, files)) = wire::receive_message(socket)? else {
            self.socket = None;
            self.backend.close();
            self.is_gone = true;
            return Ok(None);
        };
        self.backend.handle(header, &payload, files).map(Some)
    }

    /// Receives the answer to a call.
    fn receive_answer(&mut self) -> Result<(), GuestError> {
        match wire::receive_answer(self.backend.channel()?)? {
            Some((header, payload)) => Backend::check_call(header, &payload),
            None => {
                // The kernel closes one disk after another when it ends.
                self.backend.close();
                Ok(())
            }
        }
    }

    /// Sends the reply to a message.
    fn reply(&self, handled: Handled) -> Result<(), GuestError> {
        match (handled.reply, &self.socket) {
            (Some(reply), Some(socket)) => wire::reply(socket, &reply),
            _ => Ok(()),
        }
    }
}

/// A request that a device has completed.
struct Completion {
    disk: usize,
    // The number by which the order of the disk knows it.
    number: u64,
    pending: Pending,
    result: Option<Result<Outcome, DeviceError>>,
}

/// Completions that the kernel does not know yet.
#[derive(Default)]
struct Done {
    queue: Mutex<Vec<Completion>>,
    has_more: Condvar,
}

impl Done {
    fn add(&self, completion: Completion) {
        self.queue.lock().push(completion);
        self.has_more.notify_one();
    }
}

struct Service<'a> {
    calendar: Calendar,
    socket: UnixStream,
    disks: Vec<Disk>,
    done: Arc<Done>,
    in_flight: usize,
    // Up to where the kernel may advance by itself.
    free_until: Nanos,
    // True while the kernel has to acknowledge a limit.
    is_limiting: bool,
    // The virtual time at the last message, and the real time since when it is that.
    standstill: (Nanos, Instant),
    wire: Wire<'a>,
    watcher: &'a mut dyn Watcher,
}

/// The meaning of a message for the loop.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Handled,
    /// The driver of this disk has seen a call, or has gone.
    Called(usize),
    Ended,
}

impl Service<'_> {
    fn run(mut self) -> Result<(), GuestError> {
        loop {
            let step = match self.calendar.is_waiting() {
                true => self.wait()?,
                false => self.step()?,
            };
            if step == Step::Ended {
                return Ok(());
            }
        }
    }

    /// Waits for a message of the guest in real time, and handles it.
    fn step(&mut self) -> Result<Step, GuestError> {
        let source = self
            .wire
            .next(Some(&self.socket), &self.disks, self.watcher)?;
        self.check_progress()?;
        match source {
            Source::Ended => return Ok(Step::Ended),
            Source::Calendar => {
                let Some(message) = wire::receive_time(&self.socket)? else {
                    self.wire.listen_to_console(self.watcher)?;
                    return Ok(Step::Ended);
                };
                if let Some(asked) = self.calendar.receive(message)? {
                    self.answer(asked)?;
                }
            }
            Source::Listener(disk) => self.disks[disk].accept()?,
            Source::Disk(disk) => self.handle(disk)?,
            Source::Channel(disk) => {
                self.disks[disk].receive_answer()?;
                return Ok(Step::Called(disk));
            }
        }
        Ok(Step::Handled)
    }

    /// Fails if messages keep coming while virtual time stands still.
    fn check_progress(&mut self) -> Result<(), GuestError> {
        let now = rt::monotonic();
        let (before, since) = self.standstill;
        if now != before {
            self.standstill = (now, Instant::now());
        } else if since.elapsed() >= STANDSTILL_MAX {
            return Err(self.wire.hung(STANDSTILL_MAX));
        }
        Ok(())
    }

    fn answer(&mut self, asked: Asked) -> Result<(), GuestError> {
        let time = match asked.question {
            Question::Received => 0,
            Question::Time => rt::monotonic().get(),
            Question::TimeOfDay => time_of_day(),
            Question::Passed(moment) => {
                if moment > self.free_until && moment > rt::monotonic() {
                    let what = format!("a time beyond its limit ({} ns)", moment.get());
                    return Err(GuestError::Protocol(what));
                }
                rt::sleep_until(moment);
                0
            }
        };
        wire::send_times(&self.socket, &[asked.answer(time)])
    }

    /// Handles a message of a disk's driver.
    fn handle(&mut self, number: usize) -> Result<(), GuestError> {
        let Some(handled) = self.disks[number].receive()? else {
            return Ok(());
        };
        if handled.is_kick {
            if self.is_limiting {
                let what = "a request to a disk before it had the answer to the last one";
                return Err(GuestError::Protocol(what.to_owned()));
            }
            self.submit(number)?;
            sim::quiesce();
            self.limit()?;
        }
        self.disks[number].reply(handled)
    }

    /// Limits the running kernel to the time before which nothing happens in the world.
    ///
    /// The kernel waits for the reply to a message of its disk. If it found that reply and the new
    /// limit at once, it would read the reply first and go on with the old limit. So the reply has
    /// to wait until the kernel has acknowledged the limit.
    fn limit(&mut self) -> Result<(), GuestError> {
        let horizon = self.horizon();
        if horizon >= self.free_until {
            return Ok(());
        }
        self.free_until = horizon;
        let free = self.calendar.free_until(horizon);
        wire::send_times(&self.socket, &[free])?;
        self.is_limiting = true;
        while !self.calendar.is_acknowledged() {
            if self.step()? == Step::Ended {
                break;
            }
        }
        self.is_limiting = false;
        Ok(())
    }

    /// Takes all new requests of a disk, and starts those that conflict with no earlier one.
    fn submit(&mut self, number: usize) -> Result<(), GuestError> {
        let disk = &mut self.disks[number];
        let is_through = disk.backend.is_write_through();
        let (memory, queue) = disk.backend.queue();
        while let Some(chain) = queue.take(memory)? {
            let taken = disk::decode(memory, chain, is_through)?;
            self.in_flight += 1;
            disk.order.add(taken.pending, taken.request);
        }
        self.start(number);
        Ok(())
    }

    /// Passes the requests of a disk that may start to tasks.
    fn start(&mut self, number: usize) {
        let disk = &mut self.disks[number];
        for start in disk.order.start() {
            let completion = move |result| Completion {
                disk: number,
                number: start.number,
                pending: start.pending,
                result,
            };
            let Some(request) = start.request else {
                self.done.add(completion(None));
                continue;
            };
            let (device, done) = (Arc::clone(&disk.device), Arc::clone(&self.done));
            let work = move || done.add(completion(Some(carry_out(&*device, request))));
            drop(rt::spawn("guest request", work));
        }
    }

    /// Lets time pass until the waiting kernel has something to do, and lets it run.
    fn wait(&mut self) -> Result<Step, GuestError> {
        sim::quiesce();
        loop {
            if self.watcher.is_cancelled() {
                return Err(GuestError::Cancelled);
            }
            let due = self
                .calendar
                .requested()
                .expect("a kernel waits for a time");
            let done = std::mem::take(&mut *self.done.queue.lock());
            if !done.is_empty() {
                match self.complete(done)? {
                    Step::Ended => return Ok(Step::Ended),
                    _ => continue,
                }
            }
            let now = rt::monotonic();
            if due <= now {
                self.let_run(due)?;
                return Ok(Step::Handled);
            }
            if due >= FOREVER && self.in_flight == 0 {
                return Err(GuestError::Asleep(self.wire.tail()));
            }
            let mut queue = self.done.queue.lock();
            while queue.is_empty() && !self.done.has_more.wait_until(&mut queue, due) {}
            drop(queue);
            sim::quiesce();
        }
    }

    fn let_run(&mut self, due: Nanos) -> Result<(), GuestError> {
        let horizon = self.horizon();
        self.free_until = horizon;
        let messages = [self.calendar.free_until(horizon), self.calendar.run(due)];
        wire::send_times(&self.socket, &messages)
    }

    /// Returns completed requests to the kernel.
    fn complete(&mut self, done: Vec<Completion>) -> Result<Step, GuestError> {
        let mut is_called = vec![false; self.disks.len()];
        for completion in done {
            self.in_flight -= 1;
            is_called[completion.disk] = true;
            let disk = &mut self.disks[completion.disk];
            disk.order.complete(completion.number);
            let (memory, queue) = disk.backend.queue();
            let (head, written) = completion.pending.finish(memory, completion.result)?;
            queue.give_back(memory, head, written)?;
        }
        let called: Vec<usize> = (0..is_called.len())
            .filter(|disk| is_called[*disk])
            .collect();
        called.iter().for_each(|disk| self.start(*disk));
        for disk in called {
            if self.disks[disk].is_gone {
                continue;
            }
            wire::send_call(self.disks[disk].backend.channel()?)?;
            loop {
                match self.step()? {
                    Step::Called(answered) if answered == disk => break,
                    Step::Called(_) | Step::Handled => {}
                    Step::Ended => return Ok(Step::Ended),
                }
            }
        }
        Ok(Step::Handled)
    }

    /// Returns the time before which nothing happens in the world.
    fn horizon(&self) -> Nanos {
        let now = rt::monotonic();
        if !self.done.queue.lock().is_empty() {
            return now;
        }
        let most = now.saturating_add(FREE_MAX);
        sim::next_moment().map_or(most, |next| next.min(most))
    }
}

/// Carries out a request of a guest, which may be for sectors that the device does not have.
fn carry_out(device: &dyn BlockDevice, request: Request) -> Result<Outcome, DeviceError> {
    device.geometry().check(&request)?;
    let results = device.submit(vec![request]).wait();
    results.into_iter().next().unwrap_or(Err(DeviceError::Gone))
}

fn time_of_day() -> u64 {
    let wall = rt::wall();
    let seconds = u64::try_from(wall.seconds).unwrap_or(0);
    seconds * 1_000_000_000 + u64::from(wall.nanos)
}

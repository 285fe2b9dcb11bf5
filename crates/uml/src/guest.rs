//! [`Guest`]: the process of a guest, its console and its sockets.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::pipe::fcntl_setpipe_size;

use crate::cage::{Bind, Cage, MEMORY_FOLDER, SOCKET_FOLDER};
use crate::socket::{POLL_INTERVAL, receive_files, timespec};
use crate::{GuestError, Kernel};

/// Name of the file, in the guest's root, that describes its work.
pub const JOB_FILE: &str = "job";
/// Name of the hidden command that is the first process of a guest.
pub const INIT_COMMAND: &str = "guest-init";
/// The words that a line of the console starts with if it is a report.
pub const REPORT_PREFIX: &str = "@jext ";

/// Real time that a killed guest has to disappear.
const END_MAX: Duration = Duration::from_secs(10);
/// Length of the pipe of a console in bytes: `/proc/sys/fs/pipe-max-size` of most systems.
const PIPE_BYTES: usize = 1 << 20;
/// Number of lines of the console that an error shows.
const TAIL_LINES: usize = 20;
/// Maximum length of a line of the console in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// The description of a guest.
#[derive(Debug, Clone)]
pub struct GuestSetup {
    /// The kernel.
    pub kernel: Kernel,
    /// This program.
    pub program: PathBuf,
    /// Memory of the guest in bytes.
    pub memory_bytes: u64,
    /// Commands that the kernel gives a served disk at a time; `None` for its own choice.
    pub queue_depth: Option<u32>,
    /// The disks.
    pub disks: Disks,
    /// The contents of the file [`JOB_FILE`].
    pub job: String,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
}

/// The disks of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disks {
    /// A number of disks that a task serves in virtual time; they are `/dev/vda`, `/dev/vdb` and so
    /// on.
    Served(usize),
    /// A number of disks that a loop serves in real time, with the same names. The driver of the
    /// packaged kernel is a module.
    ServedInRealTime(usize),
    /// Image files, in real time; they are `/dev/ubda`, `/dev/ubdb` and so on.
    Images(Vec<PathBuf>),
}

/// A guest. It is killed on drop.
#[derive(Debug)]
pub struct Guest {
    child: Mutex<Child>,
    console: Mutex<Console>,
    listeners: Mutex<Vec<UnixListener>>,
}

/// The output of a guest.
#[derive(Debug)]
pub(crate) struct Console {
    pipe: OwnedFd,
    line: Vec<u8>,
    last: VecDeque<String>,
    reports: VecDeque<String>,
    failed_write: Option<String>,
    panic: Option<String>,
    has_ended: bool,
}

/// Returns a pipe for a console: its end for reading, which does not block, and its other end.
///
/// It is as long as any user may have it. The kernel of a guest waits for room in it in real time,
/// of which it hears nothing in virtual time: a guest whose pipe is full hangs.
fn console_pipe() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    let (pipe, output) = io::pipe()?;
    ioctl_fionbio(&pipe, true)?;
    // A user with many pipes has less; so has a system with another limit.
    let _ = fcntl_setpipe_size(&pipe, PIPE_BYTES);
    Ok((pipe, output))
}

impl Guest {
    /// Starts a guest, in real time.
    ///
    /// # Errors
    /// Fails if the cage cannot be made.
    pub fn start(setup: &GuestSetup) -> Result<Self, GuestError> {
        let cage = setup.cage();
        let (own, other) = UnixStream::pair().map_err(GuestError::at("socket"))?;
        let (pipe, output) = console_pipe().map_err(GuestError::at("pipe"))?;
        let again = output.try_clone().map_err(GuestError::at("pipe"))?;
        let mut command = Cage::command(&setup.program, other, Stdio::from(output));
        let child = command.stderr(Stdio::from(again)).spawn();
        // The ends of the other side close here.
        drop(command);
        let guest = Self {
            child: Mutex::new(child.map_err(GuestError::at("setpriv"))?),
            console: Mutex::new(Console::new(pipe.into())),
            listeners: Mutex::default(),
        };
        let mut sender = &own;
        let written = sender.write_all(&cage.to_bytes());
        let files = written
            .map_err(GuestError::at("the description of a cage"))
            .and_then(|()| receive_files(&own));
        match files {
            Ok(files) if files.len() == cage.sockets.len() => {
                *lock(&guest.listeners) = files.into_iter().map(UnixListener::from).collect();
                Ok(guest)
            }
            _ => Err(guest.ended_early()),
        }
    }

    /// Returns a guest of a process, its console and its sockets, without a cage.
    #[cfg(test)]
    pub(crate) fn of_parts(child: Child, pipe: OwnedFd, listeners: Vec<UnixListener>) -> Self {
        ioctl_fionbio(&pipe, true).expect("a pipe");
        Self {
            child: Mutex::new(child),
            console: Mutex::new(Console::new(pipe)),
            listeners: Mutex::new(listeners),
        }
    }

    /// Takes the sockets to listen on: the calendar's, then one for each disk.
    pub(crate) fn take_listeners(&self) -> Vec<UnixListener> {
        std::mem::take(&mut *lock(&self.listeners))
    }

    pub(crate) fn console(&self) -> MutexGuard<'_, Console> {
        lock(&self.console)
    }

    /// Takes the next report of the guest: the rest of a line that starts with [`REPORT_PREFIX`].
    #[must_use]
    pub fn next_report(&self) -> Option<String> {
        self.console().reports.pop_front()
    }

    /// Returns the last lines of the console.
    #[must_use]
    pub fn console_tail(&self) -> String {
        self.console().tail()
    }

    /// Returns the kernel's message about the first write or flush that a disk failed.
    #[must_use]
    pub fn failed_write(&self) -> Option<String> {
        self.console().failed_write.clone()
    }

    /// Returns why the kernel gave up, if it did.
    #[must_use]
    pub fn panic(&self) -> Option<String> {
        self.console().panic.clone()
    }

    /// Returns the process that contains all others of the guest.
    pub(crate) fn process(&self) -> u32 {
        lock(&self.child).id()
    }

    /// Kills the guest, and waits until none of its processes is left.
    pub fn kill(&self) {
        let mut child = lock(&self.child);
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
        self.drain();
    }

    /// Reads the console to its end, which is that of the last process.
    pub(crate) fn drain(&self) {
        let mut console = self.console();
        let start = Instant::now();
        while !console.has_ended && start.elapsed() < END_MAX {
            if console.wait().is_err() {
                return;
            }
            console.read_some();
        }
    }

    pub(crate) fn ended_early(&self) -> GuestError {
        self.drain();
        GuestError::Ended(self.console_tail())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Console {
    fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe,
            line: Vec::new(),
            last: VecDeque::new(),
            reports: VecDeque::new(),
            failed_write: None,
            panic: None,
            has_ended: false,
        }
    }

    pub(crate) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads what there is. Returns false if there is nothing.
    pub(crate) fn read_some(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match read(&self.pipe, &mut buffer) {
            Ok(0) => {
                self.has_ended = true;
                self.end_line();
                false
            }
            Ok(count) => {
                self.take(&buffer[..count]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.has_ended = true;
                false
            }
        }
    }

    /// Waits until there is something to read, for a limited time.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        let mut files = [PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::IN)];
        match poll(&mut files, Some(&timespec(POLL_INTERVAL))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                _ if self.line.len() < LINE_BYTES_MAX => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        // Control characters would reach the user's terminal through messages and traces.
        let plain = |letter: char| match letter {
            '\t' => letter,
            _ if letter.is_control() => char::REPLACEMENT_CHARACTER,
            _ => letter,
        };
        let line: String = String::from_utf8_lossy(&line).chars().map(plain).collect();
        tracing::debug!("{line}");
        if self.failed_write.is_none() {
            self.failed_write = failed_write(&line);
        }
        if self.panic.is_none() {
            self.panic = panic(&line);
        }
        if let Some(report) = line.strip_prefix(REPORT_PREFIX) {
            self.reports.push_back(report.to_owned());
        } else if !line.trim().is_empty() {
            if self.last.len() == TAIL_LINES {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
    }

    fn tail(&self) -> String {
        let lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        lines.join("\n")
    }
}

impl GuestSetup {
    fn cage(&self) -> Cage {
        let bind = |source: &PathBuf, name: &str, is_writable| Bind {
            source: source.clone(),
            name: name.to_owned(),
            is_writable,
        };
        let mut binds = vec![
            bind(&self.kernel.path, "kernel", false),
            bind(&self.program, "program", false),
        ];
        let mut environment = vec![
            ("TMPDIR".to_owned(), MEMORY_FOLDER.to_owned()),
            ("HOME".to_owned(), MEMORY_FOLDER.to_owned()),
            ("JEXT_SEED".to_owned(), self.seed.to_string()),
        ];
        let libraries = self.kernel.libraries.clone();
        let preloaded: Vec<String> = libraries
            .iter()
            .map(|library| format!("/{}", library.file_name()))
            .collect();
        environment.push(("LD_PRELOAD".to_owned(), preloaded.join(":")));
        let mut command: Vec<String> = vec!["/kernel".to_owned()];
        command.push(format!("mem={}K", self.memory_bytes >> 10));
        let rest = [
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            // Otherwise the kernel adds it behind the arguments of the first process.
            "console=tty0",
            "con=null",
            // A null channel would need /dev/null, which is not in the cage.
            "con0=fd:0,fd:1",
            "ssl=null",
            "quiet",
            "panic=-1",
            // Otherwise a guest could start again and again.
            "noreboot",
            "nokaslr",
            "uml_dir=/shm/",
        ];
        command.extend(rest.map(str::to_owned));
        let depth = self.queue_depth;
        command.extend(depth.map(|depth| format!("virtio_blk.queue_depth={depth}")));
        let mut sockets = Vec::new();
        match &self.disks {
            Disks::Served(count) => {
                sockets.push("calendar".to_owned());
                command.push(format!("time-travel=ext:{SOCKET_FOLDER}/calendar"));
                add_disks(*count, &mut command, &mut sockets);
            }
            Disks::ServedInRealTime(count) => add_disks(*count, &mut command, &mut sockets),
            Disks::Images(images) => {
                for (number, image) in images.iter().enumerate() {
                    let name = format!("image{number}");
                    // Data: otherwise a guest could write a header that makes the image an
                    // overlay of another file.
                    command.push(format!("ubd{number}d=/{name}"));
                    binds.push(bind(image, &name, true));
                }
            }
        }
        command.push("init=/program".to_owned());
        command.push("--".to_owned());
        command.push(INIT_COMMAND.to_owned());
        Cage {
            command,
            environment,
            binds,
            files: vec![(JOB_FILE.to_owned(), self.job.clone())],
            libraries,
            sockets,
            memory_bytes: self.memory_bytes,
        }
    }
}

/// Returns the reason in a console line that says why the kernel gives up.
fn panic(line: &str) -> Option<String> {
    let (_, reason) = line.split_once("Kernel panic - not syncing: ")?;
    Some(reason.to_owned())
}

/// Returns the message of a line of the kernel's log, if it reports that a disk failed a write or
/// a flush (`blk_print_req_error`).
fn failed_write(line: &str) -> Option<String> {
    let (cause, rest) = line.split_once(" error, dev ")?;
    let is_write = rest.contains(":(WRITE)") || rest.contains(":(FLUSH)");
    // Without the time of the message.
    let cause = cause.rsplit("] ").next()?;
    is_write.then(|| format!("{cause} error, dev {rest}"))
}

/// Adds disks to the arguments of a kernel, and their sockets.
fn add_disks(count: usize, command: &mut Vec<String>, sockets: &mut Vec<String>) {
    for number in 0..count {
        let name = format!("disk{number}");
        command.push(format!("virtio_uml.device={SOCKET_FOLDER}/{name}:2"));
        sockets.push(name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_takes_a_megabyte_that_is_not_read() {
        let (pipe, output) = console_pipe().expect("a pipe");
        ioctl_fionbio(&output, true).expect("a pipe");
        let written = (&output).write(&[b'a'; PIPE_BYTES]);
        assert_eq!(written.expect("there is room"), PIPE_BYTES);
        let mut console = Console::new(pipe.into());
        assert!(console.read_some());
    }

    #[test]
    fn reports_are_told_from_other_lines() {
        let (pipe, _output) = io::pipe().expect("a pipe");
        let mut console = Console::new(pipe.into());
        console.take(b"booting\r\n@jext figure 1\r\n\r\n@jext fi");
        console.take(b"gure 2\nlast");
        console.end_line();
        assert_eq!(console.reports, ["figure 1", "figure 2"]);
        assert_eq!(console.tail(), "booting\nlast");
    }

    #[test]
    fn a_guest_does_not_control_the_terminal() {
        let (pipe, _output) = io::pipe().expect("a pipe");
        let mut console = Console::new(pipe.into());
        console.take(b"a\tb \x1b]0;title\x07\n@jext failed \x1b[2J\n");
        assert_eq!(console.tail(), "a\tb \u{fffd}]0;title\u{fffd}");
        assert_eq!(console.reports, ["failed \u{fffd}[2J"]);
    }

    #[test]
    fn a_console_keeps_the_first_failed_write() {
        let (pipe, _output) = io::pipe().expect("a pipe");
        let mut console = Console::new(pipe.into());
        console.take(b"[    1.5] I/O error, dev ubda, sector 8 op 0x0:(READ) flags 0x0\n");
        assert_eq!(console.failed_write, None);
        console.take(
            b"[    2.5] critical space allocation error, dev ubda, sector 16 op 0x1:(WRITE) flags\n\
              [    3.5] I/O error, dev ubda, sector 0 op 0x2:(FLUSH) flags 0x800\n",
        );
        let first = "critical space allocation error, dev ubda, sector 16 op 0x1:(WRITE) flags";
        assert_eq!(console.failed_write.as_deref(), Some(first));
    }

    #[test]
    fn the_reason_of_a_panic_is_kept() {
        let (pipe, _output) = io::pipe().expect("a pipe");
        let mut console = Console::new(pipe.into());
        assert_eq!(console.panic, None);
        console.take(
            b"[    3.9] Kernel panic - not syncing: System is deadlocked on memory\n\
              [    3.9] Kernel panic - not syncing: another\n",
        );
        let reason = "System is deadlocked on memory";
        assert_eq!(console.panic.as_deref(), Some(reason));
    }

    #[test]
    fn a_console_keeps_its_last_lines() {
        let (pipe, _output) = io::pipe().expect("a pipe");
        let mut console = Console::new(pipe.into());
        for number in 0..100 {
            console.take(format!("{number}\n").as_bytes());
        }
        assert_eq!(console.last.len(), TAIL_LINES);
        assert!(console.tail().ends_with("98\n99"));
    }
}

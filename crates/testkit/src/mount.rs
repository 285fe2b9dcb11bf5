//! Mounts by the kernel.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Loop, tool, wait};

/// Maximum length of a record of the kernel's log in bytes.
const RECORD_BYTES_MAX: usize = 8192;
/// The flag of open(2) for which a read of the log does not wait for the next record.
const NON_BLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// A kernel mount. On drop it is unmounted and its loop devices are detached.
#[derive(Debug)]
pub struct Mount {
    directory: PathBuf,
    /// Loop devices; fields are dropped, and so detached, after the unmount.
    loops: Vec<Loop>,
}

/// The ways to shut a mounted file system down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// The running transaction is committed first.
    FlushesLog,
    /// The running transaction is lost.
    CutsLog,
}

impl Mount {
    /// Mounts an image, with its external journal if it has one, at a directory created beside it.
    /// `kind` and `options` are those of mount(8).
    ///
    /// # Errors
    /// Returns the message of mount(8) and the kernel's log messages about it.
    pub fn new(
        image: &Path,
        journal: Option<&Path>,
        kind: &str,
        options: &str,
    ) -> Result<Self, String> {
        let device = Loop::attach(image);
        let mut loops = Vec::new();
        let mut options = options.to_owned();
        if let Some(journal) = journal {
            let journal = Loop::attach(journal);
            options.push_str(&format!(",journal_path={}", journal.path()));
            loops.push(journal);
        }
        let log = KernelLog::from_now();
        let arguments = ["-t", kind, "-o", &options];
        match Self::of_device(device.path(), &image.with_extension("mount"), &arguments) {
            Ok(mut mount) => {
                loops.push(device);
                mount.loops = loops;
                Ok(mount)
            }
            Err(said) => Err(said + &log.of_device(device.name())),
        }
    }

    /// Mounts a device at a directory created for it, with these arguments of mount(8).
    ///
    /// # Errors
    /// Returns the message of mount(8).
    pub fn of_device(device: &str, directory: &Path, arguments: &[&str]) -> Result<Self, String> {
        std::fs::create_dir_all(directory).expect("a mount point");
        let mut arguments = arguments.to_vec();
        arguments.extend([device, directory.to_str().expect("UTF-8")]);
        let output = tool::run("mount", &arguments);
        if !output.status.success() {
            return Err(tool::said(&output));
        }
        Ok(Self {
            directory: directory.to_owned(),
            loops: Vec::new(),
        })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns the location of a path of the file system, `/` being its root.
    pub fn at(&self, path: &str) -> PathBuf {
        self.directory.join(path.trim_start_matches('/'))
    }

    /// Makes all changes durable: syncfs(2).
    pub fn sync(&self) {
        let directory = File::open(&self.directory).expect("the mount point");
        rustix::fs::syncfs(directory).expect("syncfs");
    }

    /// Shuts the file system down as a crash would: `EXT4_IOC_SHUTDOWN`. Nothing is written after
    /// it.
    pub fn shut_down(&self, how: Shutdown) {
        let command = match how {
            Shutdown::FlushesLog => "shutdown -f",
            Shutdown::CutsLog => "shutdown",
        };
        let at = self.directory.to_str().expect("UTF-8");
        tool::run_well("xfs_io", &["-x", "-c", command, at]);
    }
}

impl Drop for Mount {
    /// Unmounts, retrying while the mount is busy. A child process that another thread is starting
    /// holds this process's open files from its fork until its exec.
    fn drop(&mut self) {
        let at = self.directory.to_str().expect("UTF-8");
        let gone = wait::until(|| {
            let output = tool::run("umount", &[at]);
            if output.status.success() {
                Ok(())
            } else {
                Err(tool::said(&output))
            }
        });
        if let Err(said) = gone
            && !std::thread::panicking()
        {
            panic!("{at} is not unmounted: {said}");
        }
    }
}

/// The kernel's log from some time on.
struct KernelLog(Option<File>);

impl KernelLog {
    /// Skips what the log says already. If it cannot be read, it says nothing.
    fn from_now() -> Self {
        let mut options = File::options();
        let options = options.read(true).custom_flags(NON_BLOCKING);
        let file = options.open("/dev/kmsg").and_then(|mut file| {
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        });
        Self(file.ok())
    }

    /// Returns the messages about a device.
    fn of_device(self, device: &str) -> String {
        let Some(mut file) = self.0 else {
            return String::new();
        };
        let name = format!("({device})");
        let mut lines = Vec::new();
        let mut record = vec![0; RECORD_BYTES_MAX];
        // Each read returns one record; an error means that there is none, or that the next ones
        // are overwritten already.
        while let Ok(count) = file.read(&mut record) {
            let text = String::from_utf8_lossy(&record[..count]);
            // The fields end with a semicolon, and lines with the keys of a record follow it.
            let message = text.split_once(';').map_or("", |(_, rest)| rest);
            let message = message.lines().next().unwrap_or_default();
            if message.contains(&name) {
                lines.push(message.to_owned());
            }
        }
        lines.join("\n")
    }
}

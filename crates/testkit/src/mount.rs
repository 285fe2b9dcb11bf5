//! Mounts by the kernel.

use std::path::{Path, PathBuf};

use crate::{Loop, tool, wait};

/// A file system that the kernel has mounted; it is unmounted and its loop devices are detached with the value.
#[derive(Debug)]
pub struct Mount {
    directory: PathBuf,
    /// Detached after the unmount, which is when fields are dropped.
    loops: Vec<Loop>,
}

/// How a mounted file system is stopped in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// What is running is committed first.
    FlushesLog,
    /// What is running is lost.
    CutsLog,
}

impl Mount {
    /// Mounts an image, with its external journal if it has one, at a directory that is made beside it. `kind` and
    /// `options` are those of mount(8).
    ///
    /// # Errors
    /// What mount(8) says, and what the kernel wrote to its log about it.
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
        let before = kernel_log();
        let arguments = ["-t", kind, "-o", &options];
        match Self::of_device(device.path(), &image.with_extension("mount"), &arguments) {
            Ok(mut mount) => {
                loops.push(device);
                mount.loops = loops;
                Ok(mount)
            }
            Err(said) => Err(said + &told_since(&before, device.name())),
        }
    }

    /// Mounts a device at a directory that is made for it, with these arguments of mount(8).
    ///
    /// # Errors
    /// What mount(8) says.
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

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where a path of the file system is, `/` being its root.
    pub fn at(&self, path: &str) -> PathBuf {
        self.directory.join(path.trim_start_matches('/'))
    }

    /// Makes everything durable: syncfs(2).
    pub fn sync(&self) {
        let directory = std::fs::File::open(&self.directory).expect("the mount point");
        rustix::fs::syncfs(directory).expect("syncfs");
    }

    /// Stops the file system as a crash does: `EXT4_IOC_SHUTDOWN`. Nothing is written after it.
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
    /// A program that another thread is just starting holds, until it runs, what was open in this process when it was
    /// forked; so long the mount is busy.
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

fn kernel_log() -> String {
    tool::run_well::<&str>("dmesg", &[])
}

/// What the kernel has written about a device since then.
fn told_since(before: &str, device: &str) -> String {
    let now = kernel_log();
    let new = before
        .lines()
        .last()
        .and_then(|last| now.rfind(last).map(|at| &now[at + last.len()..]))
        .unwrap_or(&now);
    let name = format!("({device})");
    let lines = new.lines().filter(|line| line.contains(&name));
    lines.collect::<Vec<_>>().join("\n")
}

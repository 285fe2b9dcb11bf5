//! The first process of a guest: makes and mounts the file system, runs the workload, reports, and
//! turns the guest off.
//!
//! Nothing here runs on the host: [`run`] refuses to be anything but the first process of a
//! user-mode kernel.

mod maker;
mod proc;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rt::Nanos;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sim::HostProfile;
use workload::directory::DirectoryTarget;
use workload::{Control, Target};

use super::job::{Job, JobResult, Report};
use crate::system::open_files;
use crate::targets::Charged;

/// Mount point of the file system.
const PLACE: &str = "/mnt";
/// Folder of the modules of Debian's package of a user-mode kernel, by release.
const MODULES: &str = "/usr/lib/uml/modules";
/// Prefix of console lines that are reports.
const PREFIX: &str = uml::guest::REPORT_PREFIX;
/// Pause after each part of a result.
const PART_PAUSE: Nanos = Nanos::new(1_000_000);
/// A slack in nanoseconds by which the kernel may let a process sleep longer; zero means the
/// default.
const TIMER_SLACK: &str = "1";

/// Runs the job of this guest, and turns the guest off.
///
/// # Errors
/// Fails outside a guest, and if the guest cannot be turned off.
pub fn run() -> Result<()> {
    ensure!(
        std::process::id() == 1,
        "the first process of a guest runs in guests only"
    );
    // Without /proc nothing about the kernel is known yet; on a host it is there already.
    let is_mounted = Path::new("/proc/version").exists();
    ensure!(
        !is_mounted,
        "the first process of a guest runs in guests only"
    );
    let prepared = keep_root().and_then(|()| mount_all());
    if let Err(error) = prepared.and_then(|()| open_console()) {
        // The kernel shows its log if it panics, which it does when this program ends.
        let _ = fs::write("/dev/kmsg", format!("{error:#}"));
        return Err(error);
    }
    if let Err(error) = work() {
        report(&Report::Failed(format!("{error:#}")));
    }
    // Everything that matters is unmounted.
    rustix::system::reboot(rustix::system::RebootCommand::PowerOff).context("power off")
}

fn work() -> Result<()> {
    let text = fs::read_to_string(Path::new("/").join(uml::guest::JOB_FILE)).context("job")?;
    let job: Job = serde_json::from_str(&text).context("job")?;
    let load = job.load()?;
    for module in &job.modules {
        load_module(module)?;
    }
    let notes = maker::make(&job.commands)?;
    set(&job.values)?;
    mount_file_system(&job)?;
    set(&job.mounted_values)?;
    // Open from the start: it then reports every failed write since.
    let place = fs::File::open(PLACE).context(PLACE)?;
    // Dirty pages and caches of mkfs must not count.
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("the kernel's caches")?;
    let target = target(&job)?;
    rt::sleep(Nanos::new(job.pause_ns));
    let control = Control::with_progress(|share| {
        report(&Report::Progress((share * 1000.0) as u32));
    });
    let (memory, commits) = (proc::available_bytes(), proc::commits());
    report(&Report::Begin);
    let outcome = load.run(&target, &Arc::new(control))?;
    report(&Report::End);
    let committed = proc::commits();
    drop(target);
    let mut result = JobResult::of(&outcome);
    result.measured.notes = notes;
    let closing = rt::monotonic();
    // An unmount reports no failed write.
    rustix::fs::syncfs(&place).context("syncing the file system")?;
    drop(place);
    unmount(PLACE, UnmountFlags::empty()).context("unmount")?;
    let closed = rt::monotonic().saturating_sub(closing);
    let metrics = &mut result.measured.metrics;
    metrics.insert("close_time".to_owned(), closed.as_secs_f64());
    let committed = committed
        .zip(commits)
        .map(|(after, before)| (after - before) as f64);
    let memory = memory.map(|bytes| bytes as f64);
    for (name, figure) in [("memory_left", memory), ("commits", committed)] {
        metrics.extend(figure.map(|figure| (name.to_owned(), figure)));
    }
    for part in result.reports()? {
        report(&part);
        // The host reads the console when time passes; this kernel does not notice when a full one
        // has room again.
        rt::sleep(PART_PAUSE);
    }
    report(&Report::Done);
    Ok(())
}

/// Writes values to files of the kernel.
fn set(values: &[(String, String)]) -> Result<()> {
    for (file, value) in values {
        fs::write(file, value).with_context(|| format!("{file}: {value}"))?;
    }
    Ok(())
}

/// Keeps this program's identity in the commands that it starts.
///
/// Files of the host have the owners that a user namespace shows: without root, root's programs
/// have the overflow owner there, and `mount`, which is set-user-ID, would run as that.
fn keep_root() -> Result<()> {
    rustix::thread::set_no_new_privs(true).context("no new privileges")
}

/// Mounts the file systems of every system.
fn mount_all() -> Result<()> {
    for (kind, place) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/tmp"),
        ("devtmpfs", "/dev"),
    ] {
        match mount(kind, place, kind, MountFlags::empty(), None) {
            // The kernel mounts this one itself.
            Err(rustix::io::Errno::BUSY) if kind == "devtmpfs" => {}
            result => result.with_context(|| place.to_owned())?,
        }
    }
    Ok(())
}

/// Loads a module of the running kernel.
fn load_module(name: &str) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("osrelease")?;
    let path = format!("{MODULES}/{}/kernel/{name}", release.trim());
    let file = fs::File::open(&path).with_context(|| path.clone())?;
    rustix::system::finit_module(&file, c"", 0).context(path)
}

/// Makes the console the output: the kernel looks for it before there are devices.
fn open_console() -> Result<()> {
    let console = fs::OpenOptions::new().write(true).open("/dev/console");
    let console = console.context("console")?;
    rustix::stdio::dup2_stdout(&console).context("console")?;
    rustix::stdio::dup2_stderr(&console).context("console")
}

fn mount_file_system(job: &Job) -> Result<()> {
    // The options of every file system are flags; the program knows them.
    let mount = [
        "mount",
        "-i",
        "-t",
        &job.kind,
        "-o",
        &job.options,
        &job.device,
        PLACE,
    ];
    call(&mount.map(str::to_owned))
}

/// Returns the target of the workload, whose calls take the time of the host that the job names.
fn target(job: &Job) -> Result<Arc<dyn Target>> {
    open_files::raise_limit()?;
    let target: Arc<dyn Target> = Arc::new(DirectoryTarget::new(PLACE)?);
    let Some(text) = &job.host else {
        return Ok(target);
    };
    fs::write("/proc/self/timerslack_ns", TIMER_SLACK).context("timer slack")?;
    let host: HostProfile = text.parse()?;
    Ok(Arc::new(Charged::new(target, &host)))
}

/// Runs a command; its errors are in the message.
fn call(command: &[String]) -> Result<()> {
    let output = output(command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {} ({})",
        command.join(" "),
        said.trim(),
        output.status
    );
    Ok(())
}

/// Runs a command, and returns what it left.
fn output(command: &[String]) -> Result<Output> {
    let Some((program, arguments)) = command.split_first() else {
        bail!("an empty command");
    };
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.clone())
}

fn report(report: &Report) {
    let mut out = std::io::stdout().lock();
    // A console that is gone has no reader.
    let _ = out.write_all(format!("{PREFIX}{report}\n").as_bytes());
    let _ = out.flush();
}

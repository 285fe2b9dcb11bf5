//! Runs a program as a child process and measures its time.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions};

/// Index of the user time among the fields of `/proc/PID/stat` after the name; the system time
/// follows it.
const USER_FIELD: usize = 11;

/// Time that a process took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    /// User and system time of all its threads, on all processors.
    pub(crate) processor_seconds: f64,
}

/// Runs a command. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<Usage> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| name.clone())?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.context("the number of a process")?;
    // The process has exited, but its figures remain until it is reaped.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options))?;
    let seconds = started.elapsed().as_secs_f64();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).context("its figures")?;
    let status = child.wait().with_context(|| name.clone())?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    let ticks = processor_ticks(&stat).context("the figures of a process")?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Usage {
        seconds,
        processor_seconds: ticks as f64 / ticks_per_second as f64,
    })
}

/// Returns the processor time from `/proc/PID/stat`, in clock ticks.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields = behind_name.split_whitespace().skip(USER_FIELD).take(2);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "12 (a) name) Z 1 12 12 0 -1 4 300 0 0 0 31 86 0 0 20 0 1 0 100 0 0";
        assert_eq!(processor_ticks(stat), Some(117));
        assert_eq!(processor_ticks("12 (name) Z 1"), Some(0));
        assert_eq!(processor_ticks(""), None);
    }

    #[test]
    fn a_program_that_fails_is_told() {
        let usage = run(&mut Command::new("true")).expect("it succeeds");
        assert!(usage.seconds > 0.0);
        let error = run(&mut Command::new("false")).expect_err("it fails");
        assert!(
            error.to_string().starts_with("false: exit status"),
            "{error}"
        );
    }
}

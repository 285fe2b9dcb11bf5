//! Runs a program to its end, and returns its output and its times.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Indices of the children's times in a process's `stat` file, after its name: Linux,
/// Documentation/filesystems/proc.rst.
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;

/// Output and times of a finished program.
pub(super) struct Finished {
    pub(super) printed: String,
    pub(super) seconds: f64,
    /// Processor time in seconds, including its own children.
    pub(super) processor_seconds: f64,
}

/// Runs a program in a folder.
pub(super) fn run(program: &Path, arguments: &[String], folder: &Path) -> Result<Finished> {
    let name = program.display();
    let before = children_seconds()?;
    let started = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .output()
        .with_context(|| name.to_string())?;
    let seconds = started.elapsed().as_secs_f64();
    let processor_seconds = children_seconds()? - before;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        // Some programs report errors on standard error, others on standard output, always last.
        let ends = [&*errors, &*printed].map(|text| text.trim().lines().last().unwrap_or_default());
        bail!(
            "{name} {}: {}: {}",
            arguments.join(" "),
            output.status,
            ends.join(" ")
        );
    }
    Ok(Finished {
        printed,
        seconds,
        processor_seconds,
    })
}

/// Returns the processor time of all children that this process has waited for.
fn children_seconds() -> Result<f64> {
    let place = "/proc/self/stat";
    let text = std::fs::read_to_string(place).context(place)?;
    let ticks = ticks(&text).with_context(|| format!("{place}: {text}"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the children's time from a `stat` file, in clock ticks.
fn ticks(stat: &str) -> Option<u64> {
    // The name may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(field(CHILDREN_USER)? + field(CHILDREN_SYSTEM)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 200 0 0 11 12 130 7 20 0 1 0 99 0 0";
        assert_eq!(ticks(stat), Some(137));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}

//! Counts of instructions, by valgrind's callgrind.
//!
//! Each case is a process of its own, so that no case changes the memory that another finds. Only
//! the thread that runs the body counts, while it is in
//! [`measured_part`](jext_bench::measured_part).
//!
//! Counts are those of any machine: valgrind has one processor for all that have AVX2, so that the
//! C library takes the same copying functions everywhere, and addresses are not random. The
//! environment, which lies above the stack, is the same.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use jext_bench::Images;

/// The function that is counted, with everything that it calls, as valgrind sees names.
const TOGGLE: &str = "--toggle-collect=*measured_part*";
const MISSING: &str = "valgrind does not run: scripts/install-test-tools installs it";

/// The instructions of one operation of a case.
pub(crate) struct Count {
    pub(crate) case: String,
    pub(crate) instructions: u64,
}

/// Counts all cases, as many at a time as there are processors.
pub(crate) fn all() -> Result<Vec<Count>> {
    let folder = tempfile::tempdir().context("a folder for images")?;
    Images::make(folder.path())?;
    let cases = jext_bench::all();
    let cases: Vec<(&str, u64)> = cases
        .iter()
        .map(|case| (case.name.as_str(), case.operations))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Count>> {
        let mut counts = Vec::new();
        while let Some((case, operations)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let total = one(case, folder.path()).with_context(|| (*case).to_owned())?;
            counts.push(Count {
                case: (*case).to_owned(),
                instructions: total / operations,
            });
        }
        Ok(counts)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut counts = Vec::new();
        for worker in workers {
            counts.extend(worker.join().expect("counting does not panic")?);
        }
        Ok(counts)
    })
}

/// Runs a case under valgrind. Returns the number of instructions of its body.
fn one(case: &str, folder: &Path) -> Result<u64> {
    let output = folder.join(format!("counts-of-{}", case.replace('/', "-")));
    let run = Command::new("valgrind")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // The allocator gives memory back after some time, which differs from run to run.
        .env("MIMALLOC_PURGE_DELAY", "-1")
        .current_dir(folder)
        .args(["--tool=callgrind", "--quiet", TOGGLE])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(std::env::current_exe().context("the path of this program")?)
        .args(["case", case, "."])
        .output()
        .context(MISSING)?;
    if !run.status.success() {
        let errors = String::from_utf8_lossy(&run.stderr);
        bail!("the case failed under valgrind: {}", errors.trim_end());
    }
    let text = std::fs::read_to_string(&output).context("what callgrind wrote")?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total: Option<u64> = totals.and_then(|number| number.trim().parse().ok());
    match total {
        Some(total) if total > 0 => Ok(total),
        _ => bail!("callgrind has counted nothing: it did not find the function measured_part"),
    }
}

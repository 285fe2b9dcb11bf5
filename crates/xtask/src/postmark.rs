//! PostMark's published tests: in this process, and by Debian's program on a mounted file system.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use lab::system::tool;
use workload::postmark::{self, FinalSync, NoObserver, Parameters};
use workload::{Control, Target};

use crate::spans::{Run, Work};

/// One of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) number: u8,
    pub(crate) sizes: (u32, u32),
    pub(crate) files: u32,
    pub(crate) transactions: u32,
}

impl Test {
    /// Returns a published configuration.
    pub(crate) const fn new(number: u8) -> Self {
        let (sizes, files) = match number {
            1 => ((1000, 100_000), 4000),
            2 => ((1, 1000), 30_000),
            _ => ((1000, 300_000), 4000),
        };
        Self {
            number,
            sizes,
            files,
            transactions: 50_000,
        }
    }

    fn parameters(self) -> Parameters {
        Parameters {
            size_low: self.sizes.0,
            size_high: self.sizes.1,
            number: self.files,
            transactions: self.transactions,
            ..Parameters::default()
        }
    }

    fn commands(self, folder: &Path) -> String {
        let Self {
            sizes: (low, high),
            files,
            transactions,
            ..
        } = self;
        let folder = folder.display();
        format!(
            "set location {folder}\nset size {low} {high}\nset number {files}\nset transactions {transactions}\nrun\nquit\n"
        )
    }

    /// Runs the test in this process. The time includes a sync of the target.
    pub(crate) fn run(self, target: &Arc<dyn Target>, control: &Arc<Control>) -> Result<Run> {
        let options = postmark::Options {
            final_sync: FinalSync::End,
            latencies: false,
            ..postmark::Options::lab()
        };
        let parameters = self.parameters();
        let outcome = postmark::run(&parameters, &options, target, control, &mut NoObserver)?;
        Ok(Run {
            seconds: outcome.value("elapsed").context("the run has no time")?,
            counts: Work::of(&outcome)?,
        })
    }

    /// Runs Debian's program on a mounted file system, with its commands in the file `script`. The
    /// time includes a sync of the file system.
    pub(crate) fn run_program(
        self,
        mounted: &Path,
        script: &Path,
        control: &Control,
    ) -> Result<Run> {
        fs::write(script, self.commands(mounted)).context("postmark's commands")?;
        let script = script.to_str().context("a path that is not UTF-8")?;
        let root = File::open(mounted).context("the mounted file system")?;
        let started = Instant::now();
        let output = tool::output("postmark", &[script]);
        rustix::fs::syncfs(&root).context("sync of the mounted file system")?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(!control.is_cancelled(), "interrupted");
        let report = String::from_utf8_lossy(&output?.stdout).into_owned();
        Ok(Run {
            seconds,
            counts: Work::parse(&report)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_the_published_ones() {
        let parameters = Test::new(2).parameters();
        assert_eq!((parameters.size_low, parameters.size_high), (1, 1000));
        assert_eq!(
            (parameters.number, parameters.transactions),
            (30_000, 50_000)
        );
        assert_eq!(Test::new(1).sizes.1, 100_000);
        assert_eq!(Test::new(3).sizes.1, 300_000);
    }
}

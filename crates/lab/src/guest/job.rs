//! [`Job`]: the work of a guest, and [`Report`]: the lines by which it reports.
//!
//! A job is a file of JSON in the guest's root. A report is a line of the guest's console.

use std::fmt;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use workload::{Definition, Load, Outcome};

use crate::plan::key::Key;
use crate::plan::settings::Settings;
use crate::record::Measured;
use crate::setup;

/// Length of a part of the result: a console line has at most 4096 characters.
const PART_BYTES: usize = 2000;

/// The work of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Modules of the kernel, below its folder of modules.
    pub modules: Vec<String>,
    /// Commands that make the file system, one after another.
    pub commands: Vec<Vec<String>>,
    /// Type of the file system.
    pub kind: String,
    /// Its device.
    pub device: String,
    /// Mount options.
    pub options: String,
    /// Files of the kernel and the values that are written to them, before the mount.
    pub values: Vec<(String, String)>,
    /// The same, after the mount.
    pub mounted_values: Vec<(String, String)>,
    /// Time between mount and workload in nanoseconds.
    pub pause_ns: u64,
    /// The cost of host work, as a host profile; `None` if it takes its real time.
    pub host: Option<String>,
    /// Name of the workload.
    pub workload: String,
    /// The workload's parameters.
    pub parameters: Vec<(String, String)>,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// Figures and latencies.
    pub measured: Measured,
    /// Phases and their durations in nanoseconds.
    pub phases: Vec<(String, u64)>,
}

/// A report of a guest.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The workload starts.
    Begin,
    /// Share of the workload that is done, in thousandths.
    Progress(u32),
    /// The workload has ended.
    End,
    /// A part of the result, as JSON.
    Part(String),
    /// The result is complete, and the file system is unmounted.
    Done,
    /// The job failed.
    Failed(String),
}

impl Job {
    /// Sets the workload.
    #[must_use]
    pub fn with_workload(mut self, load: &Load) -> Self {
        self.workload = load.definition().name.to_owned();
        let values = load.values().iter();
        self.parameters = values
            .map(|(name, setting)| (name.to_owned(), setting.to_string()))
            .collect();
        self
    }

    /// Returns the workload.
    ///
    /// # Errors
    /// Fails if this program does not have the workload.
    pub fn load(&self) -> Result<Load> {
        let definition = Definition::named(&self.workload);
        let definition = definition.with_context(|| format!("no workload {}", self.workload))?;
        let mut settings = Settings::defaults();
        for (name, value) in &self.parameters {
            let key = Key::named(name).with_context(|| format!("no parameter {name}"))?;
            let value = key.kind.check_text(value);
            let value = value.map_err(|error| anyhow!("{name}: {error}"))?;
            settings.set(key.name, value, None);
        }
        Ok(setup::load(definition, &settings)?)
    }
}

impl JobResult {
    /// Returns the result of an outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let phases = outcome.phases.iter();
        Self {
            measured: Measured::of(outcome),
            phases: phases
                .map(|phase| (phase.name.to_owned(), phase.took.get()))
                .collect(),
        }
    }

    /// Returns the reports of the result.
    ///
    /// # Errors
    /// Fails if a figure is not a JSON number.
    pub fn reports(&self) -> Result<Vec<Report>> {
        let text = serde_json::to_string(self)?;
        let mut rest = text.as_str();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let mut at = rest.len().min(PART_BYTES);
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (part, after) = rest.split_at(at);
            parts.push(Report::Part(part.to_owned()));
            rest = after;
        }
        Ok(parts)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("begin"),
            Self::Progress(permille) => write!(f, "progress {permille}"),
            Self::End => f.write_str("end"),
            // Blanks at the end of a line do not survive every console.
            Self::Part(text) => write!(f, "part <{text}>"),
            Self::Done => f.write_str("done"),
            Self::Failed(cause) => write!(f, "failed {}", cause.replace('\n', "; ")),
        }
    }
}

impl Report {
    /// Parses the text of a report; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "begin" => Self::Begin,
            "progress" => Self::Progress(rest.parse().ok()?),
            "end" => Self::End,
            "part" => Self::Part(rest.strip_prefix('<')?.strip_suffix('>')?.to_owned()),
            "done" => Self::Done,
            "failed" => Self::Failed(rest.to_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_their_text() {
        for report in [
            Report::Begin,
            Report::Progress(7),
            Report::End,
            Report::Part(" {\"a\": 1} ".to_owned()),
            Report::Done,
            Report::Failed("no space".to_owned()),
        ] {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
        assert_eq!(Report::parse("part of"), None);
        assert_eq!(Report::parse("something"), None);
    }

    #[test]
    fn a_long_result_has_several_parts() {
        let phase = |number| (format!("phase {number} \u{e9}"), number);
        let result = JobResult {
            phases: (0..500).map(phase).collect(),
            ..JobResult::default()
        };
        let reports = result.reports().expect("numbers");
        assert!(reports.len() > 2);
        let text: String = reports
            .iter()
            .map(|report| match report {
                Report::Part(text) => text.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        let back: JobResult = serde_json::from_str(&text).expect("valid");
        assert_eq!(back, result);
    }

    #[test]
    fn a_job_carries_every_workload() {
        for definition in workload::WORKLOADS {
            let load = Load::new(definition, definition.defaults()).expect("valid");
            let job = Job {
                modules: Vec::new(),
                commands: Vec::new(),
                kind: String::new(),
                device: String::new(),
                options: String::new(),
                values: Vec::new(),
                mounted_values: Vec::new(),
                pause_ns: 0,
                host: None,
                workload: String::new(),
                parameters: Vec::new(),
            };
            let carried = job.with_workload(&load).load().expect("valid");
            assert_eq!(carried, load, "{}", definition.name);
        }
    }
}

//! `jext replay`: repeats a violation and prints the events before it.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use crash::device_log::device_log;
use crash::replay::{ReplayId, replay};

use crate::output::print;

/// Repeat a violation that `jext crash` found: the operations, the requests to the devices, the
/// power cut, the broken rule.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Line printed by `jext crash`.
    #[arg(value_name = "ID")]
    id: ReplayId,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let id = &arguments.id;
    let shown = replay(id)?;
    let mut text = format!("on {}\n", id.workload.setting);
    for (lane, ops) in id.workload.lanes.iter().enumerate() {
        for (number, op) in ops.iter().enumerate() {
            let place = match shown.recording.transactions(lane, number) {
                None => "before the recording".to_owned(),
                Some(_) if op.is_sync() => "makes durable".to_owned(),
                Some((first, last)) if first == last => format!("transaction {first}"),
                Some((first, last)) => format!("transactions {first} to {last}"),
            };
            let _ = writeln!(text, "lane {lane}: {number:3} {op}  ({place})");
        }
    }
    let until = id.cuts.first().map_or(usize::MAX, |cut| cut.event);
    for line in device_log(&shown.recording, until) {
        let _ = writeln!(text, "{line}");
    }
    for (depth, cut) in id.cuts.iter().enumerate() {
        let what = if depth == 0 {
            "the run"
        } else {
            "the recovery of that"
        };
        let _ = writeln!(text, "the power fails in {what}: {cut}");
    }
    if let Some(trial) = &shown.silent {
        let _ = writeln!(text, "after the recovery: {trial}");
    }
    let code = match &shown.broken {
        Some(broken) => {
            let _ = writeln!(text, "violation of {broken}");
            ExitCode::FAILURE
        }
        None => {
            text.push_str("no violation\n");
            ExitCode::SUCCESS
        }
    };
    print(&text)?;
    Ok(code)
}

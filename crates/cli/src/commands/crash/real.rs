//! `jext crash --real`: clients on threads of the operating system, with devices that are cut off
//! at a random instant.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use crash::real::{Report, Session};
use crash::setting::{Cell, LANES_MAX};
use serde_json::json;

use crate::output::{print, print_json};
use crate::progress;

/// Default number of clients.
const LANES: u16 = 16;
/// One image in this number goes to e2fsck.
const E2FSCK_ONE_IN: u64 = 16;

/// Arguments of the stress test on real threads.
#[derive(Debug, Args)]
pub(crate) struct RealArguments {
    /// Run clients on threads of the operating system, cut their devices off at random instants,
    /// and check what recovery leaves. The default is all cells; --minutes sets the duration.
    #[arg(long, conflicts_with_all = ["generator", "length", "states"])]
    pub(crate) real: bool,
    /// Folder for images, operations and the order of requests if a rule is broken, because runs on
    /// threads cannot be repeated.
    #[arg(long, requires = "real", default_value = ".", value_name = "FOLDER")]
    keep: PathBuf,
}

/// Options from the other arguments.
pub(super) struct Options {
    pub(super) cells: Vec<Cell>,
    pub(super) lanes: Option<u16>,
    pub(super) minutes: Option<Duration>,
    pub(super) seed: u64,
    pub(super) is_json: bool,
}

pub(super) fn run(arguments: &RealArguments, options: Options) -> Result<ExitCode> {
    let minutes = options.minutes.context("this has no end: give --minutes")?;
    let lanes = u32::from(options.lanes.unwrap_or(LANES));
    ensure!(lanes <= LANES_MAX, "there are at most {LANES_MAX} clients");
    let session = Session {
        cells: options.cells,
        lanes,
        seed: options.seed,
        after: minutes,
        e2fsck_one_in: E2FSCK_ONE_IN,
        folder: arguments.keep.clone(),
        plant: None,
    };
    let bar = progress::share(1000);
    let report = session.run(&|tally, elapsed| {
        let share = elapsed.as_secs_f64() / session.after.as_secs_f64();
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(format!("{} rounds, {} images", tally.rounds, tally.images));
    });
    bar.finish_and_clear();
    if options.is_json {
        print_json(&to_json(&report))?;
    } else {
        print(&to_text(&report))?;
    }
    Ok(if report.violation.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn to_json(report: &Report) -> serde_json::Value {
    let tally = report.tally;
    let violation = report.violation.as_ref().map(|violation| {
        json!({
            "rule": violation.broken.rule.to_string(),
            "what": violation.broken.what,
            "round": violation.round,
            "kept": violation.kept.as_ref().ok(),
        })
    });
    json!({
        "rounds": tally.rounds,
        "operations": tally.ops,
        "syncs": tally.syncs,
        "images": tally.images,
        "unsettled": tally.unsettled,
        "e2fsck": tally.e2fsck,
        "seconds": report.elapsed.as_secs_f64(),
        "violation": violation,
    })
}

fn to_text(report: &Report) -> String {
    let tally = report.tally;
    let mut text = format!(
        "{:9} rounds\n{:9} operations\n{:9} of them sync calls\n{:9} images recovered, checked and compared\n\
         {:9} of them with something that no flush had covered\n{:9} of them given to e2fsck\nin {:.1} s\n",
        tally.rounds,
        tally.ops,
        tally.syncs,
        tally.images,
        tally.unsettled,
        tally.e2fsck,
        report.elapsed.as_secs_f64(),
    );
    match &report.violation {
        Some(violation) => {
            let kept = match &violation.kept {
                Ok(folder) => format!("everything is in {}", folder.display()),
                Err(error) => format!("nothing could be left: {error}"),
            };
            text.push_str(&format!(
                "violation of {}\nin round {}; {kept}\n",
                violation.broken, violation.round
            ));
        }
        None => text.push_str("no violation\n"),
    }
    text
}

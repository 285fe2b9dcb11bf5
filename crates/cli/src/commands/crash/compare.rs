//! `jext crash --compare`: gives crash images to e2fsck and to the kernel.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Args;
use crash::outside::{Comparison, Report, missing};
use crash::setting::Cell;
use serde_json::json;

use crate::output::{print, print_json};
use crate::progress;

/// Arguments of a comparison with other implementations.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Give random crash images of all generators to e2fsck and to the kernel, and compare the
    /// results. The default is all cells.
    #[arg(long, conflicts_with_all = ["generator", "length", "minutes", "states", "real"])]
    pub(crate) compare: bool,
    /// Number of images that e2fsck checks after jext has recovered them.
    #[arg(
        long,
        requires = "compare",
        default_value_t = 1000,
        value_name = "COUNT"
    )]
    recovered: u64,
    /// Number of images that jext, e2fsck and the kernel each recover; mounting them needs root.
    #[arg(
        long,
        requires = "compare",
        default_value_t = 200,
        value_name = "COUNT"
    )]
    unrecovered: u64,
    /// Number of images of volumes without a journal that e2fsck repairs.
    #[arg(
        long,
        requires = "compare",
        default_value_t = 200,
        value_name = "COUNT"
    )]
    unjournaled: u64,
}

pub(super) fn run(
    arguments: &CompareArguments,
    cells: Vec<Cell>,
    seed: u64,
    threads: usize,
    is_json: bool,
) -> Result<ExitCode> {
    let comparison = Comparison {
        cells,
        seed,
        recovered: arguments.recovered,
        unrecovered: arguments.unrecovered,
        unjournaled: arguments.unjournaled,
        threads,
    };
    if let Some(tool) = missing(&comparison) {
        bail!("{tool} is missing: run scripts/install-test-tools");
    }
    ensure!(
        comparison.unrecovered == 0 || rustix::process::geteuid().is_root(),
        "the kernel mounts images only for root: run this as root, or leave that out with --unrecovered 0"
    );
    let bar = progress::share(comparison.count());
    let report = comparison.run(&|done| bar.set_position(done));
    bar.finish_and_clear();
    if is_json {
        print_json(&to_json(&report))?;
    } else {
        print(&to_text(&report))?;
    }
    Ok(if report.difference.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn to_json(report: &Report) -> serde_json::Value {
    let counts = report.counts;
    let difference = report.difference.as_ref().map(|difference| {
        json!({
            "rule": difference.broken.rule.to_string(),
            "what": difference.broken.what,
            "replay": difference.id.to_string(),
        })
    });
    json!({
        "recovered": counts.recovered,
        "just_recovered": counts.just_recovered,
        "closed": counts.closed,
        "same_trees": counts.same_trees,
        "same_bytes": counts.same_bytes,
        "replayed": counts.replayed,
        "repaired": counts.repaired,
        "synced_files": counts.synced_files,
        "torn": counts.torn,
        "seconds": report.elapsed.as_secs_f64(),
        "difference": difference,
    })
}

fn to_text(report: &Report) -> String {
    let counts = report.counts;
    let mut text = format!(
        "{:6} recovered images on which e2fsck -fn and the checker find nothing\n\
         {:6} of them as recovery left them, before they were closed\n\
         {:6} volumes that workloads closed themselves, the same\n\
         {:6} images that e2fsck -fy and the kernel recover to the tree that we do\n\
         {:6} of them to the same bytes\n\
         {:6} of them with something to replay\n\
         {:6} images of volumes without a journal that e2fsck -fy repairs\n\
         {:6} files on them that were synced and not changed since, and are there\n\
         {:6} images with half a superblock, which the others refuse\n\
         in {:.1} s\n",
        counts.recovered,
        counts.just_recovered,
        counts.closed,
        counts.same_trees,
        counts.same_bytes,
        counts.replayed,
        counts.repaired,
        counts.synced_files,
        counts.torn,
        report.elapsed.as_secs_f64(),
    );
    match &report.difference {
        Some(difference) => {
            text.push_str(&format!(
                "difference: {}\njext replay '{}'\n",
                difference.broken, difference.id
            ));
        }
        None => text.push_str("no difference\n"),
    }
    text
}

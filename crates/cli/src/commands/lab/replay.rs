//! `jext lab replay`: replays a recording on other devices.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use lab::replay::{Comparison, Latency, ReplaySetup};
use workload::Control;

use crate::image::parse_device;
use crate::{output, progress};

/// Replay a recording of `jext bench --record` on other devices, and compare the times.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The recording.
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Device of the replay: a simulated one, in virtual time, or a file. Repeat it for a recording
    /// of several devices.
    #[arg(long, value_name = "DEVICE", required = true)]
    device: Vec<String>,
    /// Leave out the pauses in which the recorded program computed or slept.
    #[arg(long)]
    no_pauses: bool,
    /// Write over files that contain something.
    #[arg(long)]
    overwrite: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let devices = arguments.device.iter().map(|text| parse_device(text));
    let setup = ReplaySetup {
        path: arguments.recording.clone(),
        devices: devices.collect::<Result<_>>()?,
        has_pauses: !arguments.no_pauses,
        overwrites: arguments.overwrite,
    };
    let bar = progress::share(1000);
    let drawn = bar.clone();
    let control = Arc::new(Control::with_progress(move |share| {
        drawn.set_position((share * 1000.0) as u64);
    }));
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let comparison = setup.run(&control);
    bar.finish_and_clear();
    let comparison = comparison?;
    match arguments.json {
        true => output::print_json(&serde_json::to_value(&comparison)?)?,
        false => output::print(&text(&comparison))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(comparison: &Comparison) -> String {
    let seconds = |nanos| rt::Nanos::new(nanos).as_secs_f64();
    let mut text = format!(
        "{:31} {:>14} {:>14}\n{:31} {:14.6} {:14.6}\n",
        "",
        "recorded",
        "replayed",
        "elapsed in s",
        seconds(comparison.recorded_ns),
        seconds(comparison.replayed_ns)
    );
    for device in &comparison.devices {
        let _ = writeln!(text, "{} -> {}", device.recorded, device.replayed);
        for (name, kind) in &device.requests {
            let sum = format!("{name}: {}, {} bytes", kind.count, kind.bytes);
            let _ = writeln!(text, "  {sum}");
            type Part = fn(&Latency) -> u64;
            let parts: [(&str, Part); 3] = [
                ("mean latency in ms", |latency| latency.mean_ns),
                ("99 %", |latency| latency.p99_ns),
                ("longest", |latency| latency.max_ns),
            ];
            for (label, part) in parts {
                let ms = |latency| part(latency) as f64 / 1e6;
                let (recorded, replayed) = (ms(&kind.recorded), ms(&kind.replayed));
                let _ = writeln!(text, "    {label:27} {recorded:14.6} {replayed:14.6}");
            }
        }
    }
    text
}

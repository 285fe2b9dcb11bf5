//! A benchmark on a new file system of a real kernel, in a guest.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::DeviceText;
use lab::guest::job::JobResult;
use lab::metric::MetricKind;
use lab::plan::Spot;
use lab::plan::key::Key;
use lab::plan::settings::Settings;
use lab::setup::{Environment, Setup};
use lab::trial::RecordOutput;
use workload::{Control, Load};

use super::place::GuestArguments;
use crate::commands::new_device::refuse_used;
use crate::image::{Access, open_parsed};
use crate::new_file::NewFile;
use crate::{output, progress};

/// Seed of everything random in the guest and its world.
const SEED: u64 = 1;
/// Size of the buffer of a recording in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Runs a workload in a guest, and prints its figures.
pub(super) fn run(
    load: &Load,
    (target, arguments): (&str, &GuestArguments),
    is_json: bool,
) -> Result<()> {
    let setup = Setup::of(&settings(load, target, arguments)?)?;
    let record = arguments.record.as_deref().map(new_recording).transpose()?;
    let (record, output) = record.unzip();
    if !arguments.force {
        refuse_used_files(&setup)?;
    }
    let bar = progress::share(1000);
    let drawn = bar.clone();
    let control = Arc::new(Control::with_progress(move |share| {
        drawn.set_position((share * 1000.0) as u64);
    }));
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let result = lab::trial::run_in_guest(&setup, SEED, control, output);
    bar.finish_and_clear();
    let result = result.with_context(|| target.to_owned())?;
    let notes = &result.measured.notes;
    notes
        .iter()
        .for_each(|note| output::note(&format!("{target}: {note}")));
    if let Some(record) = record {
        record.finish(false)?;
    }
    match is_json {
        true => output::print_json(&serde_json::to_value(&result)?),
        false => output::print(&text(&result)),
    }
}

/// Refuses files that hold a file system or other known contents.
fn refuse_used_files(setup: &Setup) -> Result<()> {
    let Environment::Guest { file_system, .. } = &setup.place else {
        return Ok(());
    };
    for text in file_system.devices().filter(|text| !text.is_ephemeral()) {
        let device = open_parsed(text, Access::Read)?;
        let name = match text {
            DeviceText::File { path, .. } => path.clone(),
            other => other.to_string(),
        };
        refuse_used(&name, &device)?;
    }
    Ok(())
}

/// Creates the file of a recording, which gets its name when it is complete.
fn new_recording(path: &Path) -> Result<(NewFile, RecordOutput)> {
    // Found at once, and not after a long run.
    if path.exists() {
        bail!("{}: is there already", path.display());
    }
    let file = NewFile::create(path)?;
    let output = file.file().try_clone();
    let output = output.with_context(|| path.display().to_string())?;
    let output = BufWriter::with_capacity(BUFFER_BYTES, output);
    Ok((file, Box::new(output)))
}

/// Returns the settings of a plan that has this one trial.
fn settings(load: &Load, target: &str, arguments: &GuestArguments) -> Result<Settings> {
    let mut settings = Settings::defaults();
    let mut set = |name: &str, value: &str| -> Result<()> {
        let unknown = || anyhow!("--key {name}: no such key; `jext lab keys` lists them");
        let key = Key::named(name).ok_or_else(unknown)?;
        let value = key.kind.check_text(value);
        let value = value.map_err(|error| anyhow!("{name}: {error}"))?;
        let spot = Spot {
            file: "--key".into(),
            line: 1,
        };
        settings.set(key.name, value, Some(spot));
        Ok(())
    };
    set("workload", load.definition().name)?;
    for (name, setting) in load.values().iter() {
        set(name, &setting.to_string())?;
    }
    set("target", target)?;
    if let Some(device) = &arguments.device {
        set("device", device)?;
    }
    for given in &arguments.key {
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| anyhow!("--key {given}: expected KEY=VALUE"))?;
        set(name, value)?;
    }
    Ok(settings)
}

fn text(result: &JobResult) -> String {
    let mut text = "Phases:\n".to_owned();
    for (name, nanos) in &result.phases {
        let seconds = rt::Nanos::new(*nanos).as_secs_f64();
        text.push_str(&format!("  {name:24} {seconds:14.6} s\n"));
    }
    text.push_str("Figures:\n");
    for (name, value) in &result.measured.metrics {
        let Some(kind) = MetricKind::named(name) else {
            continue;
        };
        let unit = kind.display.unit;
        let value = match unit {
            "s" => format!("{value:.6}"),
            _ => kind.text(*value),
        };
        let line = format!("  {name:24} {value:>14} {unit}");
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    text
}

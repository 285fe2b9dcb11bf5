//! `jext bench NAME`: runs any workload of the catalogue on the engine in this process, or on any
//! directory.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use lab::metric::MetricKind;
use lab::plan::key::Key;
use lab::plan::settings::Settings;
use serde_json::{Map, Value, json};
use workload::{Control, Definition, LatencySummary, Load, Metric, Outcome, Phase, Setting};

use super::figures::{latencies_json, metrics_json};
use super::place::PlaceArguments;
use crate::{output, progress};

/// Run a workload of the catalogue.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// Set a parameter, as in a plan but without the workload's name: "tasks=20", "size=64KiB",
    /// "seed=7".
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Print the parameters, their values and meanings; run nothing.
    #[arg(long)]
    parameters: bool,
    /// Print only the report of this name, in the original's format.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    document: Option<String>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(definition: &'static Definition, arguments: &Arguments) -> Result<ExitCode> {
    let load = load(definition, &arguments.set)?;
    if arguments.parameters {
        output::print(&parameters_text(&load))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(guest) = arguments.place.guest() {
        super::guest::run(&load, guest, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let bar = progress::share(1000);
    let drawn = bar.clone();
    let control = Arc::new(Control::with_progress(move |share| {
        drawn.set_position((share * 1000.0) as u64);
    }));
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let result = arguments
        .place
        .with_target(|target| load.run(target, &control).with_context(|| target.name()));
    bar.finish_and_clear();
    report(arguments, &load, &result?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns one line for each parameter: name, value and meaning.
pub(super) fn parameters_text(load: &Load) -> String {
    let line = |(name, setting): (&str, &Setting)| {
        let meaning = Key::named(name).map_or("", |key| key.meaning);
        format!("{name:32} {:16} {meaning}\n", setting.to_string())
    };
    load.values().iter().map(line).collect()
}

/// Returns the workload with the given parameters.
fn load(definition: &'static Definition, set: &[String]) -> Result<Load> {
    let mut settings = Settings::defaults();
    for given in set {
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| anyhow!("--set {given}: expected NAME=VALUE"))?;
        let names = [
            format!("{}.{name}", definition.name),
            format!("bench.{name}"),
        ];
        let parameter = definition
            .all_parameters()
            .find(|parameter| names.iter().any(|name| name == parameter.name))
            .ok_or_else(|| {
                let name = definition.name;
                anyhow!(
                    "--set {given}: no such parameter; `jext bench {name} --parameters` lists them"
                )
            })?;
        let key = Key::named(parameter.name).context("every parameter is a key")?;
        let value = key
            .kind
            .parse(value)
            .map_err(|error| anyhow!("--set {given}: {error}"))?;
        settings.set(key.name, value, None);
    }
    Ok(lab::setup::load(definition, &settings)?)
}

fn report(arguments: &Arguments, load: &Load, outcome: &Outcome) -> Result<()> {
    if let Some(wanted) = &arguments.document {
        let found = outcome.documents.iter().find(|d| d.name == wanted);
        let Some(document) = found else {
            let names: Vec<&str> = outcome.documents.iter().map(|d| d.name).collect();
            bail!(
                "--document {wanted}: there is no such report, only: {}",
                names.join(", ")
            );
        };
        return output::print(&document.text);
    }
    if arguments.json {
        return output::print_json(&outcome_json(load, outcome));
    }
    output::print(&outcome_text(outcome))
}

fn outcome_text(outcome: &Outcome) -> String {
    let phase = |phase: &Phase| {
        let seconds = phase.took.as_secs_f64();
        format!("  {:24} {seconds:14.6} s\n", phase.name)
    };
    let figure = |metric: &Metric| {
        let kind = MetricKind::named(metric.name)?;
        let unit = kind.display.unit;
        let value = match unit {
            "s" => format!("{:.6}", metric.value),
            _ => kind.text(metric.value),
        };
        let line = format!("  {:24} {value:>14} {unit}", metric.name);
        Some(format!("{}\n", line.trim_end()))
    };
    let mut text = "Phases:\n".to_owned();
    text.extend(outcome.phases.iter().map(phase));
    text.push_str("Figures:\n");
    text.extend(outcome.metrics.iter().filter_map(figure));
    if let Some(latencies) = &outcome.latencies {
        text.push_str(&format!(
            "{:16} {:>9} {:>10} {:>10} {:>10} {:>10}\n",
            "Latencies in ms:", "calls", "mean", "50 %", "99 %", "longest"
        ));
        text.extend(latencies.summaries().map(latency_text));
    }
    text
}

fn latency_text((label, summary): (&str, LatencySummary)) -> String {
    let ms = |nanos: rt::Nanos| nanos.as_secs_f64() * 1e3;
    format!(
        "  {label:14} {:9} {:10.4} {:10.4} {:10.4} {:10.4}\n",
        summary.count,
        summary.mean_ns / 1e6,
        ms(summary.p50),
        ms(summary.p99),
        ms(summary.max)
    )
}

fn outcome_json(load: &Load, outcome: &Outcome) -> Value {
    let parameters: Map<String, Value> = load
        .values()
        .iter()
        .map(|(name, setting)| (name.to_owned(), Value::from(setting.to_string())))
        .collect();
    let phases: Vec<Value> = outcome
        .phases
        .iter()
        .map(|phase| json!({ "name": phase.name, "took_ns": phase.took.get() }))
        .collect();
    json!({
        "workload": load.definition().name,
        "parameters": parameters,
        "phases": phases,
        "metrics": metrics_json(&outcome.metrics),
        "latencies": latencies_json(outcome.latencies.as_ref()),
    })
}

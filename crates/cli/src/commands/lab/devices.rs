//! `jext lab devices`: lists the device models and hosts, and measures one of them.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use block::{DeviceText, OpenOptions};
use clap::Args;
use diskmodel::{Builder, ControllerModel, Measured, measure};
use jext::device;
use serde_json::{Map, Value, json};
use sim::{HostEntry, HostProfile, Parameter, ParameterValue};

use crate::output;

/// Capacity with which models without a fixed size are measured: all of it is written first.
const MEASURED_CAPACITY: &str = "64MiB";
/// The device that is measured for a controller.
const MEASURED_CONTROLLER: &str = "bbu(sim:atlas-v-18)";

/// List the models of devices and hosts, or show one of them and measure it in simulated time.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A name from the list, or a device text such as "raid5(sim:atlas-v-18 x4)".
    #[arg(value_name = "NAME|DEVICE")]
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A model of the catalogue.
struct Model {
    name: &'static str,
    description: &'static str,
    source: &'static str,
    provenance: String,
    options: &'static str,
    parameters: Vec<Parameter>,
    /// The device that is measured.
    measured: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let hosts = HostProfile::catalogue();
    match &arguments.name {
        None if arguments.json => output::print_json(&json!({
            "devices": models()?.iter().map(Model::json).collect::<Value>(),
            "hosts": hosts.iter().map(host_json).collect::<Value>(),
        }))?,
        None => output::print(&list(&models()?, hosts))?,
        Some(name) => {
            if let Some(host) = hosts.iter().find(|host| host.profile.name == *name) {
                show_host(host, arguments.json)?;
            } else if let Some(model) = models()?.iter().find(|model| model.name == name) {
                show_model(model, arguments.json)?;
            } else {
                show_text(name, arguments.json)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns all models, from the catalogue itself.
fn models() -> Result<Vec<Model>> {
    let controller = Model {
        name: "bbu",
        description: ControllerModel::DESCRIPTION,
        source: ControllerModel::SOURCE,
        provenance: ControllerModel::PROVENANCE.to_string(),
        options: ControllerModel::OPTIONS,
        parameters: ControllerModel::default().parameters(),
        measured: MEASURED_CONTROLLER.to_owned(),
    };
    let of_catalogue = diskmodel::catalogue().into_iter().map(|entry| {
        let builder = Builder::new(entry.name)?;
        let name = entry.name;
        Ok(Model {
            name,
            description: entry.description,
            source: entry.source,
            provenance: entry.provenance.to_string(),
            options: builder.options(),
            parameters: builder.parameters(),
            measured: match builder.model() {
                Some(_) => format!("sim:{name}"),
                None => format!("sim({name},capacity={MEASURED_CAPACITY})"),
            },
        })
    });
    of_catalogue.chain([Ok(controller)]).collect()
}

fn list(models: &[Model], hosts: &[HostEntry]) -> String {
    let names = models.iter().map(|model| model.name.len());
    let widest = names
        .chain(hosts.iter().map(|host| host.profile.name.len()))
        .max()
        .unwrap_or(0);
    let entry = |name: &str, what: &str, parameters: &[Parameter], source: &str| {
        let main: Vec<String> = parameters
            .iter()
            .filter(|parameter| parameter.is_main)
            .map(|parameter| format!("{} {}", parameter.name, parameter.value))
            .collect();
        let main = match main.is_empty() {
            true => String::new(),
            false => format!("{:widest$}  {}\n", "", main.join(", ")),
        };
        format!("{name:widest$}  {what}\n{main}{:widest$}  {source}\n", "")
    };
    let mut text = String::from("DEVICES\n");
    for model in models {
        let source = format!("{}: {}", model.provenance, model.source);
        text += &entry(model.name, model.description, &model.parameters, &source);
    }
    text += "\nHOSTS\n";
    for host in hosts {
        let parameters = host.profile.parameters();
        text += &entry(
            &host.profile.name,
            host.description,
            &parameters,
            host.source,
        );
    }
    text
}

fn show_model(model: &Model, is_json: bool) -> Result<()> {
    let measured = measured(&model.measured)?;
    if is_json {
        let mut json = model.json();
        json["measured"] = measured_json(&model.measured, &measured);
        return output::print_json(&json);
    }
    let options = model.options;
    let head = [
        ("name", model.name),
        ("description", model.description),
        ("source", model.source),
        ("provenance", &*model.provenance),
        ("options", options),
    ];
    let mut rows = rows_of(&head, &model.parameters);
    rows.extend(measured_rows(&model.measured, &measured));
    output::print(&table(&rows))
}

fn show_host(host: &HostEntry, is_json: bool) -> Result<()> {
    if is_json {
        return output::print_json(&host_json(host));
    }
    let head = [
        ("name", &*host.profile.name),
        ("description", host.description),
        ("source", host.source),
    ];
    output::print(&table(&rows_of(&head, &host.profile.parameters())))
}

/// Shows a device that is not in the catalogue: only its measurements.
fn show_text(text: &str, is_json: bool) -> Result<()> {
    if !text.contains([':', '(']) {
        return Err(anyhow!(
            "{text}: no model, host or device text; `jext lab devices` lists the models and hosts"
        ));
    }
    let measured = measured(text)?;
    if is_json {
        let json = json!({ "measured": measured_json(text, &measured) });
        return output::print_json(&json);
    }
    output::print(&table(&measured_rows(text, &measured)))
}

/// Measures a device in a separate simulated world.
fn measured(text: &str) -> Result<Measured> {
    let parsed: DeviceText = text.parse().with_context(|| text.to_owned())?;
    if !parsed.is_ephemeral() {
        return Err(anyhow!(
            "{text}: measuring overwrites, and simulated time says nothing of a real device"
        ));
    }
    let report = sim::run(sim::Config::fair(0), move || {
        let device = device::open_text(&parsed, &OpenOptions::default())?;
        measure(&device)
    });
    report
        .map_err(|error| anyhow!(error))?
        .value
        .with_context(|| text.to_owned())
}

impl Model {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "source": self.source,
            "provenance": self.provenance,
            "options": self.options.split(", ").collect::<Vec<_>>(),
            "parameters": parameters_json(&self.parameters),
        })
    }
}

fn host_json(host: &HostEntry) -> Value {
    json!({
        "name": host.profile.name,
        "description": host.description,
        "source": host.source,
        "parameters": parameters_json(&host.profile.parameters()),
    })
}

fn parameters_json(parameters: &[Parameter]) -> Value {
    let pairs = parameters.iter().map(|parameter| {
        let value = match parameter.value {
            ParameterValue::Whole(number) => json!(number),
            ParameterValue::Decimal(number) => json!(number),
            ParameterValue::Switch(is_so) => json!(is_so),
            ParameterValue::Word(word) => json!(word),
        };
        (parameter.name.to_owned(), value)
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn measured_json(text: &str, measured: &Measured) -> Value {
    json!({
        "device": text,
        "size_bytes": measured.size_bytes,
        "read_outer_bytes_per_second": measured.read_outer,
        "read_inner_bytes_per_second": measured.read_inner,
        "write_outer_bytes_per_second": measured.write_outer,
        "random_read_ns": measured.random_read.get(),
        "random_reads_per_second_of_32": measured.random_reads_queued,
        "durable_write_ns": measured.durable_write.get(),
    })
}

fn rows_of(head: &[(&str, &str)], parameters: &[Parameter]) -> Vec<(String, String)> {
    let head = head
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let rest = parameters
        .iter()
        .map(|parameter| (parameter.name.to_owned(), parameter.value.to_string()));
    head.chain(rest).collect()
}

fn measured_rows(text: &str, measured: &Measured) -> Vec<(String, String)> {
    let rate = |rate: Option<u64>| match rate {
        Some(bytes) => format!("{:.1} MB/s", bytes as f64 / 1e6),
        None => "takes no time".to_owned(),
    };
    let queued = match measured.random_reads_queued {
        Some(reads) => format!("{reads} a second"),
        None => "take no time".to_owned(),
    };
    let rows = [
        ("", String::new()),
        ("measured", text.to_owned()),
        ("size", format!("{} bytes", measured.size_bytes)),
        ("sequential read, outer", rate(measured.read_outer)),
        ("sequential read, inner", rate(measured.read_inner)),
        ("sequential write, outer", rate(measured.write_outer)),
        ("random read of 4 KiB", measured.random_read.to_string()),
        ("random reads, 32 readers", queued),
        ("durable write of 4 KiB", measured.durable_write.to_string()),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).into()
}

fn table(rows: &[(String, String)]) -> String {
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| format!("{name:widest$}  {value}");
    rows.iter()
        .map(|row| format!("{}\n", line(row).trim_end()))
        .collect()
}

//! `jext bench postmark`: PostMark on the engine in this process, or on any directory.
//!
//! With `--compat` its output equals that of the original program byte for byte except for the
//! banner, and commands come from a script or standard input. Without it, the benchmark uses a
//! nanosecond clock and prints latencies.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use lab::plan::key::Key;
use lab::plan::settings::Settings;
use serde_json::{Value, json};
use workload::directory::Terminal;
use workload::postmark::{
    Console, DEFINITION, FinalSync, Flow, Fsync, Options, ParameterError, Parameters, Session,
    SessionRun,
};
use workload::{Control, Load, Target};

use super::figures::{latencies_json, metrics_json};
use super::load::parameters_text;
use super::place::PlaceArguments;
use crate::{output, progress};

/// Run PostMark on a directory, an image, or a new file system in memory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// Behave and print as the original does; commands come from the script, or else from standard
    /// input.
    #[arg(long)]
    compat: bool,
    /// Set a parameter as the original's `set` does: "size 1000 100000", "transactions 50000".
    #[arg(long, value_name = "PARAMETER")]
    set: Vec<String>,
    /// Print the parameters, their values and meanings; run nothing.
    #[arg(long, conflicts_with_all = ["compat", "script"])]
    parameters: bool,
    /// File of commands of the original, executed first.
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// Number of threads that share files and transactions.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        conflicts_with = "compat"
    )]
    threads: u32,
    /// Files to sync, and when.
    #[arg(long, value_enum, default_value_t = FsyncArgument::None, conflicts_with = "compat")]
    fsync: FsyncArgument,
    /// Final sync, included in the measured time.
    #[arg(long, value_enum, default_value_t = FinalSyncArgument::None, conflicts_with = "compat")]
    final_sync: FinalSyncArgument,
    /// Do not measure the latency of each call.
    #[arg(long)]
    no_latencies: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FsyncArgument {
    None,
    Close,
    EveryWrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FinalSyncArgument {
    None,
    End,
    EachPhase,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.parameters {
        output::print(&parameters_text(&chosen(arguments)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(guest) = arguments.place.guest() {
        super::guest::run(&chosen(arguments)?, guest, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    arguments
        .place
        .with_target(|target| bench(arguments, Arc::clone(target)))
}

/// Returns the workload of the catalogue with the given parameters.
fn chosen(arguments: &Arguments) -> Result<Load> {
    let mut given = Parameters::default();
    for parameter in &arguments.set {
        set(parameter, |parameter| given.set(parameter))?;
    }
    let values = [
        ("size", format!("{} {}", given.size_low, given.size_high)),
        ("number", given.number.to_string()),
        ("transactions", given.transactions.to_string()),
        ("seed", given.seed.to_string()),
        ("subdirectories", given.subdirectories.to_string()),
        ("read", given.read_block.to_string()),
        ("write", given.write_block.to_string()),
        ("buffering", given.buffered.to_string()),
        ("bias_read", given.read_bias.to_string()),
        ("bias_create", given.create_bias.to_string()),
        ("threads", arguments.threads.to_string()),
        ("fsync", word(arguments.fsync)),
        ("final_sync", word(arguments.final_sync)),
        ("latencies", (!arguments.no_latencies).to_string()),
    ];
    let mut settings = Settings::defaults();
    for (name, value) in values {
        let key = Key::named(&format!("postmark.{name}")).context("every parameter is a key")?;
        let value = key
            .kind
            .parse(&value)
            .map_err(|error| anyhow!("{name}: {error}"))?;
        settings.set(key.name, value, None);
    }
    Ok(lab::setup::load(&DEFINITION, &settings)?)
}

/// Returns a value as it is given to an option.
fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Sets a parameter from the text of `--set`.
fn set(text: &str, set: impl FnOnce(&str) -> Result<(), ParameterError>) -> Result<()> {
    set(text).map_err(|error| anyhow!("--set {text}: {error}"))
}

fn bench(arguments: &Arguments, target: Arc<dyn Target>) -> Result<ExitCode> {
    let bar = progress::share(1000);
    let drawn = bar.clone();
    let control = if arguments.compat {
        Arc::new(Control::new())
    } else {
        Arc::new(Control::with_progress(move |share| {
            drawn.set_position((share * 1000.0) as u64)
        }))
    };
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let mut console = Quiet {
        inner: Terminal,
        is_quiet: arguments.json,
    };
    let mut session = Session::new(target, options(arguments), control, &mut console);
    let flow = converse(arguments, &mut session)?;
    bar.finish_and_clear();
    let has_run = !session.runs().is_empty();
    if flow == Flow::Continue && !has_run && session.failures() == 0 && !arguments.compat {
        session.execute("run");
    }
    let failures = session.failures();
    let runs = session.runs().iter();
    let runs: Vec<Value> = runs.map(|run| run_json(run, arguments.threads)).collect();
    bar.finish_and_clear();
    if arguments.json {
        output::print_json(&Value::from(runs))?;
    }
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the commands: the script, `--set`, and in the original's form standard input.
fn converse(arguments: &Arguments, session: &mut Session<'_>) -> Result<Flow> {
    let is_own = !arguments.compat;
    let flow = match (&arguments.script, is_own) {
        (None, true) => Flow::Continue,
        (Some(script), true) => load(script, session)?,
        (script, false) => session.start(script.as_deref()),
    };
    if flow == Flow::Quit {
        return Ok(flow);
    }
    for parameter in &arguments.set {
        set(parameter, |parameter| session.set(parameter))?;
    }
    if arguments.compat && arguments.script.is_none() {
        session.converse(io::stdin().lines().map_while(Result::ok));
    }
    Ok(Flow::Continue)
}

fn load(script: &str, session: &mut Session<'_>) -> Result<Flow> {
    let text = std::fs::read_to_string(script).with_context(|| script.to_owned())?;
    let flow = text
        .lines()
        .map(|line| session.execute(line))
        .find(|flow| *flow == Flow::Quit);
    Ok(flow.unwrap_or(Flow::Continue))
}

fn options(arguments: &Arguments) -> Options {
    if arguments.compat {
        return Options {
            latencies: false,
            ..Options::compat()
        };
    }
    Options {
        fsync: match arguments.fsync {
            FsyncArgument::None => Fsync::None,
            FsyncArgument::Close => Fsync::Close,
            FsyncArgument::EveryWrite => Fsync::EveryWrite,
        },
        final_sync: match arguments.final_sync {
            FinalSyncArgument::None => FinalSync::None,
            FinalSyncArgument::End => FinalSync::End,
            FinalSyncArgument::EachPhase => FinalSync::EachPhase,
        },
        threads: arguments.threads,
        latencies: !arguments.no_latencies,
        ..Options::lab()
    }
}

/// A console that prints only errors, for `--json`.
struct Quiet {
    inner: Terminal,
    is_quiet: bool,
}

impl Console for Quiet {
    fn print(&mut self, text: &str) {
        if !self.is_quiet {
            self.inner.print(text);
        }
    }

    fn error(&mut self, text: &str) {
        self.inner.error(text);
    }

    fn append(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.inner.append(path, text)
    }

    fn load(&mut self, path: &str) -> io::Result<String> {
        self.inner.load(path)
    }
}

fn run_json(run: &SessionRun, threads: u32) -> Value {
    let metrics = metrics_json(&run.outcome.metrics);
    let latencies = latencies_json(run.outcome.latencies.as_ref());
    let p = &run.parameters;
    json!({
        "workload": "postmark",
        "parameters": {
            "size": [p.size_low, p.size_high],
            "number": p.number,
            "transactions": p.transactions,
            "seed": p.seed,
            "subdirectories": p.subdirectories,
            "read": p.read_block,
            "write": p.write_block,
            "buffering": p.buffered,
            "bias_read": p.read_bias.to_string(),
            "bias_create": p.create_bias.to_string(),
            "threads": threads,
        },
        "out_of_files": run.is_out_of_files(),
        "metrics": metrics,
        "latencies": latencies,
    })
}

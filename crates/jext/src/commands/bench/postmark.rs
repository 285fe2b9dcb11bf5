//! `jext bench postmark`: PostMark on the engine in this process, or on any directory.
//!
//! With `--compat` it is the original program, to the byte of its output but for the banner: commands come from a script or
//! from standard input. Without, it measures with a nanosecond clock and prints latencies.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::DeviceText;
use clap::{Args, ValueEnum};
use ext::Volume;
use jext::mount_options::ParsedOptions;
use lab::targets::VolumeTarget;
use serde_json::{Value, json};
use workload::directory::{DirectoryTarget, Terminal};
use workload::postmark::{Console, FinalSync, Flow, Fsync, Options, Outcome, Session};
use workload::{Control, Target};

use crate::commands::mkfs::{Format, FormatArguments};
use crate::image::{Access, MountArguments, open_parsed, parse_device};
use crate::{output, progress};

/// Run PostMark on a directory, an image, or a new file system in memory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A directory, an image, or mem:SIZE for a new file system in memory.
    #[arg(value_name = "DIR|IMAGE|mem:SIZE")]
    target: String,
    /// Do what the original does and print what it prints; commands come from the script, or else from standard input.
    #[arg(long)]
    compat: bool,
    /// A parameter as the original's `set` takes it: "size 1000 100000", "transactions 50000".
    #[arg(long, value_name = "PARAMETER")]
    set: Vec<String>,
    /// A file of the original's commands, done first.
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// How many threads share files and transactions.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        conflicts_with = "compat"
    )]
    threads: u32,
    /// When files are synced.
    #[arg(long, value_enum, default_value_t = FsyncArgument::None, conflicts_with = "compat")]
    fsync: FsyncArgument,
    /// Whether the time counts a sync of everything.
    #[arg(long, value_enum, default_value_t = FinalSyncArgument::None, conflicts_with = "compat")]
    final_sync: FinalSyncArgument,
    /// Do not measure the latency of each call.
    #[arg(long)]
    no_latencies: bool,
    /// How the file system in memory is made, as in --mkfs "-t ext3 -b 4096 -J size=32".
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mkfs: Option<String>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
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

/// What the benchmark runs on.
enum Place {
    Directory(Arc<dyn Target>),
    Volume(Arc<VolumeTarget>),
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let place = place(arguments)?;
    let target = match &place {
        Place::Directory(target) => Arc::clone(target),
        Place::Volume(target) => Arc::<VolumeTarget>::clone(target),
    };
    let result = bench(arguments, target);
    if let Place::Volume(target) = place {
        let target = Arc::into_inner(target).ok_or_else(|| anyhow!("the benchmark still runs"))?;
        target
            .into_volume()
            .close()
            .with_context(|| format!("{}: closing", arguments.target))?;
    }
    result
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
    let has_run = !session.outcomes().is_empty();
    if flow == Flow::Continue && !has_run && session.failures() == 0 && !arguments.compat {
        session.execute("run");
    }
    let failures = session.failures();
    let outcomes: Vec<Value> = session.outcomes().iter().map(outcome_json).collect();
    bar.finish_and_clear();
    if arguments.json {
        output::print_json(&Value::from(outcomes))?;
    }
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The commands: the script, what `--set` says, and in the original's form standard input.
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
        session.execute(&format!("set {parameter}"));
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

fn place(arguments: &Arguments) -> Result<Place> {
    let text = &arguments.target;
    if Path::new(text).is_dir() {
        if arguments.mkfs.is_some() {
            bail!("{text}: is a directory; --mkfs is for mem:SIZE");
        }
        let target = DirectoryTarget::new(text).map_err(|error| anyhow!("{text}: {error}"))?;
        return Ok(Place::Directory(Arc::new(target)));
    }
    let device = parse_device(text)?;
    if device.is_simulated() {
        bail!("{text}: exists in simulated time only; write a plan and use `jext lab run`");
    }
    let opened = open_parsed(&device, Access::Write)?;
    let ParsedOptions {
        options,
        journal_path,
    } = arguments.mount.parse()?;
    let journal = match &journal_path {
        Some(text) => Some(open_parsed(&parse_device(text)?, Access::Write)?),
        None => None,
    };
    if matches!(device, DeviceText::Memory { .. }) {
        format(arguments, &opened, journal.as_ref()).context("mkfs")?;
    } else if arguments.mkfs.is_some() {
        bail!("{text}: --mkfs is for mem:SIZE; `jext mkfs {text}` makes a file system there");
    }
    let volume = Volume::open(opened, journal, options).with_context(|| text.clone())?;
    Ok(Place::Volume(Arc::new(VolumeTarget::new(
        volume,
        text.clone(),
    ))))
}

/// Makes the file system in memory.
fn format(
    arguments: &Arguments,
    device: &Arc<dyn block::BlockDevice>,
    journal: Option<&Arc<dyn block::BlockDevice>>,
) -> Result<()> {
    let Format {
        options,
        journal_device,
    } = match &arguments.mkfs {
        None => FormatArguments::default().parse()?,
        Some(text) => parse_mkfs(text)?.parse()?,
    };
    if journal_device.is_some() {
        bail!("-J device: say --journal DEV");
    }
    match journal {
        None => ext::mkfs::format(device, &options)?,
        Some(journal) => {
            let uuid =
                (u128::from(rt::random_u64()) << 64 | u128::from(rt::random_u64())).to_le_bytes();
            let block_bytes = options.block_bytes.unwrap_or(4096);
            ext::mkfs::format_journal_device(journal, block_bytes, uuid)?;
            ext::mkfs::format_with_journal(device, journal, &options)?
        }
    };
    Ok(())
}

/// Reads mkfs's options from one text.
fn parse_mkfs(text: &str) -> Result<FormatArguments> {
    #[derive(clap::Parser)]
    #[command(name = "--mkfs", no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        format: FormatArguments,
    }
    let parsed = <Line as clap::Parser>::try_parse_from(text.split_whitespace());
    let parsed = parsed.map_err(|error| {
        let said = error.to_string();
        let first = said
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        anyhow!("--mkfs {text:?}: {first}")
    })?;
    Ok(parsed.format)
}

/// A console that prints nothing but errors, for `--json`.
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

fn outcome_json(outcome: &Outcome) -> Value {
    let metrics: serde_json::Map<String, Value> = outcome
        .metrics()
        .into_iter()
        .map(|metric| {
            let value = json!({ "value": metric.value, "unit": metric.unit.symbol() });
            (metric.name.to_owned(), value)
        })
        .collect();
    let latencies: serde_json::Map<String, Value> = outcome
        .latencies
        .iter()
        .flat_map(|latencies| latencies.summaries())
        .map(|(label, s)| {
            let value = json!({
                "count": s.count,
                "mean_ns": s.mean_ns,
                "p50_ns": s.p50.get(),
                "p90_ns": s.p90.get(),
                "p99_ns": s.p99.get(),
                "p999_ns": s.p999.get(),
                "max_ns": s.max.get(),
            });
            (label.to_owned(), value)
        })
        .collect();
    let p = &outcome.parameters;
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
            "threads": outcome.options.threads,
        },
        "out_of_files": outcome.out_of_files,
        "metrics": metrics,
        "latencies": latencies,
    })
}

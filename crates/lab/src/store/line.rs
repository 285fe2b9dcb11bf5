//! A line of a record file: a context, or a trial with the name of its context.
//!
//! A context is named by a hash of its text, so that several runs into one file, and concatenated
//! files, agree. The fields of a line determine its kind; in the older format a line has the fields
//! of both kinds.
//!
//! ```text
//! {"context":"5d0f…","plan":"mail","combination":"fs.commit=5","settings":{…},"program":{…},…}
//! {"context":"5d0f…","repetition":0,"is_warmup":false,"seed":"88e8…","started":1795311847,…}
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Error;

use crate::hash::StableHash;
use crate::plan::split_id;
use crate::program::{Machine, Program};
use crate::record::{Context, Measured, Record};

/// A trial without its context; `M` is the part of its figures that is read.
#[derive(Debug)]
pub(super) struct Entry<M> {
    pub(super) repetition: u32,
    pub(super) is_warmup: bool,
    pub(super) seed: u64,
    pub(super) workload_seed: Option<u32>,
    pub(super) load: Option<f64>,
    pub(super) started: u64,
    pub(super) real_seconds: f64,
    pub(super) measured: M,
}

/// The contents of a line.
pub(super) enum Said<'a, M> {
    /// A context and its name.
    Context(&'a str, Context),
    /// A trial and the name of its context.
    Trial(&'a str, Entry<M>),
    /// Both in one line: the older format.
    Whole(Context, Entry<M>),
}

/// The fields of both kinds of lines.
#[derive(Deserialize)]
struct Line<'a, M> {
    #[serde(borrow)]
    context: Option<&'a str>,
    repetition: Option<u32>,
    is_warmup: Option<bool>,
    #[serde(borrow)]
    seed: Option<&'a str>,
    workload_seed: Option<u32>,
    load: Option<f64>,
    started: Option<u64>,
    real_seconds: Option<f64>,
    measured: Option<M>,
    #[serde(borrow)]
    trial: Option<Cow<'a, str>>,
    plan: Option<String>,
    plan_hash: Option<String>,
    combination: Option<String>,
    block: Option<String>,
    levels: Option<BTreeMap<String, String>>,
    settings: Option<BTreeMap<String, String>>,
    program: Option<Program>,
    machine: Option<MachineFields>,
}

/// A machine, with the load that the older format records here.
#[derive(Deserialize)]
struct MachineFields {
    #[serde(flatten)]
    machine: Machine,
    load: Option<f64>,
}

/// The written form of a trial's line.
#[derive(Serialize)]
struct TrialLine<'a> {
    context: &'a str,
    repetition: u32,
    is_warmup: bool,
    seed: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload_seed: Option<u32>,
    load: Option<f64>,
    started: u64,
    real_seconds: f64,
    measured: &'a Measured,
}

/// Serialises records to lines, with a context's line before the first record that refers to it.
#[derive(Debug, Default)]
pub struct Lines {
    written: BTreeSet<String>,
    // The context of the previous record, and its name.
    last: Option<(Arc<Context>, String)>,
}

impl Lines {
    /// Returns the lines of a record, each with its newline.
    ///
    /// # Errors
    /// Fails if a figure is not a JSON number.
    pub fn of(&mut self, record: &Record) -> Result<String, Error> {
        let mut text = String::new();
        let context = &record.context;
        let is_last = |(last, _): &&(Arc<Context>, String)| Arc::ptr_eq(last, context);
        let name = match self.last.as_ref().filter(is_last) {
            Some((_, name)) => name.clone(),
            None => {
                let fields = serde_json::to_string(&**context)?;
                let name = name(&fields);
                if self.written.insert(name.clone()) {
                    let rest = fields.trim_start_matches('{');
                    text.push_str(&format!("{{\"context\":\"{name}\",{rest}\n"));
                }
                self.last = Some((Arc::clone(context), name.clone()));
                name
            }
        };
        let line = TrialLine {
            context: &name,
            repetition: record.repetition,
            is_warmup: record.is_warmup,
            seed: &format!("{:016x}", record.seed),
            workload_seed: record.workload_seed,
            load: record.load,
            started: record.started,
            real_seconds: record.real_seconds,
            measured: &record.measured,
        };
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
        Ok(text)
    }
}

/// Returns the name of a context: the hash of its text.
fn name(text: &str) -> String {
    let mut hash = StableHash::new();
    hash.text(text);
    format!("{:016x}", hash.finish())
}

/// Parses a line.
pub(super) fn parse<'a, M: Deserialize<'a>>(line: &'a [u8]) -> Result<Said<'a, M>, Error> {
    let mut fields: Line<'a, M> = serde_json::from_slice(line)?;
    match fields.context {
        Some(name) if fields.measured.is_some() => Ok(Said::Trial(name, fields.entry()?)),
        Some(name) => Ok(Said::Context(name, fields.context(None)?)),
        None => {
            let trial = want(fields.trial.take(), "trial")?;
            let parts = split_id(&trial).ok_or_else(|| Error::custom("not a trial's id"))?;
            let load = fields.machine.as_ref().and_then(|machine| machine.load);
            fields.load = fields.load.or(load);
            let context = fields.context(Some(parts.0))?;
            Ok(Said::Whole(context, fields.entry()?))
        }
    }
}

impl<M> Line<'_, M> {
    fn context(&mut self, combination: Option<&str>) -> Result<Context, Error> {
        let combination = combination.map(str::to_owned);
        Ok(Context {
            plan: want(self.plan.take(), "plan")?,
            plan_hash: want(self.plan_hash.take(), "plan_hash")?,
            combination: want(combination.or(self.combination.take()), "combination")?,
            block: want(self.block.take(), "block")?,
            levels: want(self.levels.take(), "levels")?,
            settings: want(self.settings.take(), "settings")?,
            program: want(self.program.take(), "program")?,
            machine: want(self.machine.take(), "machine")?.machine,
        })
    }

    fn entry(self) -> Result<Entry<M>, Error> {
        let seed = u64::from_str_radix(want(self.seed, "seed")?, 16);
        Ok(Entry {
            repetition: want(self.repetition, "repetition")?,
            is_warmup: want(self.is_warmup, "is_warmup")?,
            seed: seed.map_err(Error::custom)?,
            workload_seed: self.workload_seed,
            load: self.load,
            started: want(self.started, "started")?,
            real_seconds: want(self.real_seconds, "real_seconds")?,
            measured: want(self.measured, "measured")?,
        })
    }
}

fn want<T>(field: Option<T>, name: &'static str) -> Result<T, Error> {
    field.ok_or_else(|| Error::missing_field(name))
}

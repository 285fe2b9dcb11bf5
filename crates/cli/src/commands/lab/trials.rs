//! `jext lab trials`: lists the trials of a plan, for programs that distribute them.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lab::Plan;
use lab::plan::Shard;
use lab::program::Program;
use lab::setup::Setup;
use serde_json::{Value, json};

use super::{read_plan, warn_of_rounding};
use crate::output;

/// List the trials of a plan, each with its shard.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of a built-in plan, or path of a TOML file.
    #[arg(value_name = "NAME|PATH")]
    plan: String,
    /// Number of shards, the N of `jext lab run --shard I/N`.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    shards: u32,
    /// Print JSON: the plan and its hash, the program, and the trials.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (plan, _) = read_plan(&arguments.plan)?;
    warn_of_rounding(&arguments.plan, &plan);
    let count = arguments.shards;
    if arguments.json {
        output::print_json(&json_of(&plan, count)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for trial in plan.trials() {
        let number = Shard::number_of(&trial, count);
        text.push_str(&format!("{number}/{count}  {}\n", trial.id()));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn json_of(plan: &Plan, count: u32) -> Result<Value> {
    let mut is_simulated = true;
    for combination in plan.combinations() {
        is_simulated &= Setup::of(&combination.settings)?.is_simulated();
    }
    let trials: Vec<Value> = plan
        .trials()
        .iter()
        .map(|trial| json!({"id": trial.id(), "shard": Shard::number_of(trial, count)}))
        .collect();
    let program = Program::current();
    Ok(json!({
        "plan": plan.name,
        "plan_hash": format!("{:016x}", plan.hash()),
        "is_simulated": is_simulated,
        "build": program.build(),
        "program": program,
        "shards": count,
        "trials": trials,
    }))
}

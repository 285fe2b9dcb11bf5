//! `jext lab keys`: lists the keys of a plan.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use lab::plan::key::{KEYS, Key};
use serde_json::{Value, json};

use crate::output;

/// List the keys of `[fixed]` and `[factors]`, each with its values, its default and its meaning.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Part of a name, such as "journal" or "postmark."; without it, all keys are listed.
    #[arg(value_name = "PART")]
    part: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let part = arguments.part.as_deref().unwrap_or_default();
    let keys: Vec<&Key> = KEYS.iter().filter(|key| key.name.contains(part)).collect();
    if keys.is_empty() {
        bail!("{part}: no key has this in its name; `jext lab keys` lists all");
    }
    if arguments.json {
        output::print_json(&keys.iter().map(|key| json_of(key)).collect::<Value>())?;
    } else {
        output::print(&text(&keys)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn default(key: &Key) -> Option<String> {
    key.default_value().map(|value| value.to_string())
}

fn json_of(key: &Key) -> Value {
    json!({
        "name": key.name,
        "values": key.kind.expected(),
        "default": default(key),
        "meaning": key.meaning,
    })
}

/// Returns two lines for each key: its name, default and meaning, then its values.
fn text(keys: &[&Key]) -> Result<String> {
    let mut text = String::new();
    for key in keys {
        let default = match default(key) {
            Some(default) if default.is_empty() => " = \"\"".to_owned(),
            Some(default) => format!(" = {default}"),
            None => String::new(),
        };
        writeln!(text, "{}{default}: {}", key.name, key.meaning)?;
        writeln!(text, "    {}", key.kind.expected())?;
    }
    Ok(text)
}

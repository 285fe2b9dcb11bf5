//! `jext quota`: reports what users, groups and projects hold, and sets their limits.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use ext::Volume;
use ext::volume::{Quota, QuotaKind, QuotaLimits};
use serde_json::{Value, json};

use crate::image::{Access, MountArguments, with_look, with_volume};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Report what users, groups and projects hold, and set their limits.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the space and inodes of each owner, with the limits.
    Report(ReportArguments),
    /// Set the limits of an owner. They are stored for Linux, and not enforced by jext.
    Set(SetArguments),
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// Image or block device.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    mount: MountArguments,
}

#[derive(Debug, Args)]
struct SetArguments {
    /// Image or block device.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// User, by number.
    #[arg(short, long, value_name = "UID", group = "owner", required = true)]
    user: Option<u32>,
    /// Group, by number.
    #[arg(short, long, value_name = "GID", group = "owner")]
    group: Option<u32>,
    /// Project, by number.
    #[arg(short = 'P', long, value_name = "ID", group = "owner")]
    project: Option<u32>,
    /// Space in KiB that may be exceeded for a time; 0 for none.
    #[arg(value_name = "SPACE_SOFT")]
    space_soft: u64,
    /// Largest space in KiB; 0 for none.
    #[arg(value_name = "SPACE_HARD")]
    space_hard: u64,
    /// Number of inodes that may be exceeded for a time; 0 for none.
    #[arg(value_name = "INODES_SOFT")]
    inodes_soft: u64,
    /// Largest number of inodes; 0 for none.
    #[arg(value_name = "INODES_HARD")]
    inodes_hard: u64,
    #[command(flatten)]
    mount: MountArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.action {
        Action::Report(arguments) => report(arguments)?,
        Action::Set(arguments) => set(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(arguments: &ReportArguments) -> Result<()> {
    let image = &arguments.image;
    let found = with_look(image, &arguments.mount, |volume| {
        all(volume).with_context(|| image.clone())
    })?;
    if found.is_empty() {
        bail!("{image}: has no quotas; jext tune -O quota makes them");
    }
    if arguments.json {
        let kinds = found.iter().map(|(kind, quotas)| {
            let quotas: Vec<Value> = quotas.iter().map(to_json).collect();
            (kind.name().to_owned(), Value::Array(quotas))
        });
        output::print_json(&Value::Object(kinds.collect()))
    } else {
        output::print(&text(&found))
    }
}

/// Returns the quotas of all kinds of owners that the volume counts.
fn all(volume: &Volume) -> Result<Vec<(QuotaKind, Vec<Quota>)>> {
    let mut all = Vec::new();
    for kind in QuotaKind::ALL {
        if let Some(quotas) = volume.quotas(kind)? {
            all.push((kind, quotas));
        }
    }
    Ok(all)
}

fn text(found: &[(QuotaKind, Vec<Quota>)]) -> String {
    let mut text = String::new();
    for (kind, quotas) in found {
        let name = kind.name();
        writeln!(
            text,
            "{name:<10} {:>14} {:>12} {:>12} {:>10} {:>10} {:>10}",
            "space, bytes", "soft, KiB", "hard, KiB", "inodes", "soft", "hard"
        )
        .expect(INFALLIBLE);
        for quota in quotas {
            let limits = &quota.limits;
            writeln!(
                text,
                "{:<10} {:>14} {:>12} {:>12} {:>10} {:>10} {:>10}",
                quota.id,
                quota.space,
                limits.space_soft,
                limits.space_hard,
                quota.inodes,
                limits.inodes_soft,
                limits.inodes_hard
            )
            .expect(INFALLIBLE);
        }
    }
    text
}

fn to_json(quota: &Quota) -> Value {
    let limits = &quota.limits;
    json!({
        "id": quota.id,
        "space_bytes": quota.space,
        "space_soft_kib": limits.space_soft,
        "space_hard_kib": limits.space_hard,
        "inodes": quota.inodes,
        "inodes_soft": limits.inodes_soft,
        "inodes_hard": limits.inodes_hard,
    })
}

fn set(arguments: &SetArguments) -> Result<()> {
    let owners = [
        (QuotaKind::User, arguments.user),
        (QuotaKind::Group, arguments.group),
        (QuotaKind::Project, arguments.project),
    ];
    let owner = owners.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    let (kind, id) = owner.context("name a user, a group or a project")?;
    let limits = QuotaLimits {
        space_soft: arguments.space_soft,
        space_hard: arguments.space_hard,
        inodes_soft: arguments.inodes_soft,
        inodes_hard: arguments.inodes_hard,
    };
    let image = &arguments.image;
    with_volume(image, Access::Write, &arguments.mount, |volume| {
        volume
            .set_quota_limits(kind, id, &limits)
            .with_context(|| image.clone())
    })
}

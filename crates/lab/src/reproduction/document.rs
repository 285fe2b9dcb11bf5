//! Reproductions as a document in Markdown, and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::distinct::{present, tally};
use super::number::number;
use super::{
    Column, Decided, Distinct, Figure, Machines, Order, Reproduction, Tally, Verdict, causes,
    distinct, kind, stamp, table,
};
use crate::plan::{ClaimRule, Explanation, PublishedSet};
use crate::statistics::Mean;

const INFALLIBLE: &str = "writing to a string does not fail";

const INTRODUCTION: &str = "\
# Reproductions

Published results about journalling file systems, compared with those of jext's laboratory. This
page is generated from records by `COMMAND`; repeat an experiment with
`jext lab run NAME`, REPEAT.

## Rules

- A published statement is a claim. So is a figure beside the first figure of its table, if the two differ by more than 2 %: one
  is higher by a factor. A table of seven figures has 21 pairs, and counts as six claims.
- A claim is counted once, whatever number of sources and plans state it.
- *Reproduced*: the 95 % interval of the ratio of our figures, in pairs of repetitions, excludes 1 on the claimed side, and the
  logarithm of our ratio is between half and double that of the published one, if the source gives one. *Direction only*: the
  size differs by more. *Not reproduced*: the interval lies on the other side, or it includes 1 and ends below half of the published
  size. *Undecided*: it includes 1, and half of that size if there is one; or there is one trial.
- *Explained*: not reproduced as the plan first has it, but with one input changed, which a source gives.
- *In memory*: the claim is about a disk, and the kernel's file systems ran on a device in memory, which decides nothing about it.
- *Not run here*: nothing runs that decides it.
- *Kernel 6.1, simulated disk*: the file systems of Linux 6.1 in a guest ([how-to/kernels.md](how-to/kernels.md)), on the disk and the memory of the
  publication. It is not the kernel of the publication, so these verdicts say what today's file systems do on the disks of then; no sum contains them.
- Kendall's tau is over all pairs of a plan's tables: 1 for the published order, -1 for its reverse.

Nearly all published figures are of one run each, on machines that no longer exist.
";

pub(super) fn render(all: &[Reproduction]) -> String {
    let claims = distinct(all);
    let (command, repeat) = match all
        .iter()
        .all(|own| Machines::of(&own.plan) == Machines::Guest)
    {
        true => (
            "jext lab reproductions --guests --out docs/reproductions-kernel-6.1.md",
            "all others are in [reproductions.md](reproductions.md)",
        ),
        false => (
            "jext lab reproductions --out docs/reproductions.md",
            "all simulated ones with `scripts/lab-results --all-simulated`",
        ),
    };
    let mut text = INTRODUCTION
        .replace("COMMAND", command)
        .replace("REPEAT", repeat);
    summary(&mut text, all, &claims);
    line(&mut text, "\n## Claims\n");
    line(
        &mut text,
        "Ratios: the figure that is claimed to be higher over the other, as published, and ours with its 95 % interval.",
    );
    table::markdown(&mut text, &claims);
    causes::markdown(&mut text, all, &claims);
    for own in all.iter().filter(|own| own.has_claims()) {
        experiment(&mut text, own);
    }
    plans(&mut text, all);
    text
}

fn line(text: &mut String, line: impl AsRef<str>) {
    writeln!(text, "{}", line.as_ref()).expect(INFALLIBLE);
}

fn summary(text: &mut String, all: &[Reproduction], claims: &[Distinct]) {
    let present = present(claims);
    line(text, "\n## Summary\n");
    for machines in &present {
        let tally = tally(claims, *machines);
        let (run, reproduced) = (tally.run(), tally.of(Verdict::Reproduced));
        let or_explained = reproduced + tally.of(Verdict::Explained);
        let on = match machines {
            Machines::Simulated => "on simulated machines of the period",
            // Claims that are about disks are not decided by it.
            Machines::Kernel => continue,
            Machines::Guest => "by kernel 6.1 on simulated disks of the period",
        };
        line(
            text,
            format!(
                "**Of {run} claims that were run {on}, {reproduced} ({}) are reproduced, {or_explained} ({}) reproduced or \
                 explained.**\n",
                share(reproduced, run),
                share(or_explained, run)
            ),
        );
    }
    let heads = Verdict::ALL.map(Verdict::name).join(" | ");
    line(text, format!("| machines | claims run | {heads} |"));
    line(text, "|---|---|---|---|---|---|---|---|---|");
    for machines in &present {
        let tally = tally(claims, *machines);
        let counts = Verdict::ALL.map(|verdict| tally.of(verdict).to_string());
        let (name, run) = (machines.described(), tally.run());
        line(text, format!("| {name} | {run} | {} |", counts.join(" | ")));
    }
    let stamps = stamp::sentences(all.iter().map(|own| &own.plan));
    let stamps: Vec<String> = stamps.into_iter().flatten().collect();
    line(text, format!("\n{} {}", provenance(all), stamps.join(" ")));
    line(
        text,
        format!("\n| experiment | published by | {heads} | Kendall's tau |"),
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|");
    for own in all.iter().filter(|own| own.has_claims()) {
        let (name, tally) = (&own.plan.name, own.tally());
        let counts = Verdict::ALL.map(|verdict| tally.of(verdict).to_string());
        let tau = own.tau();
        line(
            text,
            format!(
                "| [{name}](#{}) | {} | {} | {} |",
                name.replace('.', ""),
                sources(own).join("; "),
                counts.join(" | "),
                tau.map_or_else(String::new, |tau| format!("{tau:+.2}"))
            ),
        );
    }
}

/// Returns a share in percent.
fn share(part: usize, whole: usize) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.0} %", part as f64 / whole as f64 * 100.0),
    }
}

/// Names the programs, the machines and the dates of the records.
fn provenance(all: &[Reproduction]) -> String {
    let records = || all.iter().flat_map(|own| &own.records);
    if records().next().is_none() {
        return "There are no records.".to_owned();
    }
    let commits: BTreeSet<&str> = records()
        .map(|own| own.context.program.commit.as_str())
        .collect();
    let machines: BTreeSet<String> = records()
        .map(|own| {
            let machine = &own.context.machine;
            let gibibytes = machine.memory as f64 / f64::from(1 << 30);
            format!(
                "{} with {} processors and {gibibytes:.0} GiB, {}",
                machine.processor, machine.processors, machine.system
            )
        })
        .collect();
    let days: BTreeSet<String> = records().map(|own| day(own.started)).collect();
    let join = |parts: Vec<&str>| parts.join("; ");
    format!(
        "Made from {} records of {}, on {}, by jext at {}. Simulated results do not depend on the machine; those of the \
         kernel's file systems do.",
        records().count(),
        join(days.iter().map(String::as_str).collect()),
        join(machines.iter().map(String::as_str).collect()),
        join(commits.into_iter().collect()),
    )
}

fn sources(own: &Reproduction) -> Vec<&str> {
    let sets = own.plan.published_sets.iter().map(|set| &set.source);
    let claims = own.plan.claims.iter().map(|claim| &claim.source);
    let mut sources: Vec<&str> = Vec::new();
    for source in sets.chain(claims) {
        // The position in a source follows the last comma or semicolon; the table names the source
        // only.
        if !sources.contains(&source.as_str()) {
            sources.push(source);
        }
    }
    sources
}

fn experiment(text: &mut String, own: &Reproduction) {
    let plan = &own.plan;
    line(text, format!("\n## {}\n", plan.name));
    line(text, format!("{}\n", sentence(&plan.question)));
    for source in sources(own) {
        line(text, format!("Published: {source}.\n"));
    }
    if own.records.is_empty() {
        line(
            text,
            format!("There are no records; run `jext lab run {}`.\n", plan.name),
        );
    }
    if !own.figures.is_empty() {
        figures(text, own);
    }
    if !own.orders.is_empty() {
        orders(text, own);
    }
    own.claims.iter().for_each(|decided| claim(text, decided));
    let mut reasons: Vec<String> = Vec::new();
    for set in &plan.published_sets {
        let explained = set.explained.as_ref().map(explanation);
        for reason in set.why.clone().into_iter().chain(explained) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    if !reasons.is_empty() {
        line(text, format!("\nWhy: {}", reasons.join(" ")));
    }
}

fn figures(text: &mut String, own: &Reproduction) {
    line(text, "| figure | | published | ours | ours / published |");
    line(text, "|---|---|---|---|---|");
    for figure in &own.figures {
        let set = &own.plan.published_sets[figure.set];
        let ours = match (&figure.ours, figure.is_run) {
            (Some(mean), _) => shown(mean, set.scale),
            (None, true) => "no records".to_owned(),
            (None, false) => "not run here".to_owned(),
        };
        let ratio = figure.ours.map(|mean| mean.value / figure.published);
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        line(
            text,
            format!(
                "| {} | {} | {} | {ours} | {} |",
                head(set),
                figure.label,
                number(figure.published / set.scale),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
            ),
        );
    }
}

/// Returns the subject of a set's figures, with their unit.
fn head(set: &PublishedSet) -> String {
    let title = kind(set.metric).title;
    let parts = [title, set.unit.as_str()].into_iter();
    let parts = parts.filter(|part| !part.is_empty());
    let measured = parts.collect::<Vec<_>>().join(", ");
    match set.what.as_str() {
        "" => measured,
        what => format!("{what}: {measured}"),
    }
}

fn orders(text: &mut String, own: &Reproduction) {
    line(
        text,
        format!(
            "\nPairs, each with the published ratio and ours.\n\n| higher than another | {} |",
            Verdict::ALL.map(Verdict::name).join(" | ")
        ),
    );
    line(text, "|---|---|---|---|---|---|---|---|");
    for (index, set) in own.plan.published_sets.iter().enumerate() {
        let mine: Vec<&Order> = own
            .orders
            .iter()
            .filter(|order| order.set == index)
            .collect();
        if mine.is_empty() {
            continue;
        }
        let cells = Verdict::ALL.map(|verdict| {
            let those = mine.iter().filter(|order| order.verdict == verdict);
            those
                .map(|order| pair(order))
                .collect::<Vec<_>>()
                .join("; ")
        });
        line(text, format!("| {} | {} |", head(set), cells.join(" | ")));
    }
}

fn pair(order: &Order) -> String {
    let (higher, lower) = (&order.higher, &order.lower);
    match (order.published, order.ours) {
        (Some(published), Some(ours)) => {
            let ratio = 1.0 + ours.share();
            format!("{higher} > {lower} ({published:.2}; {ratio:.2})")
        }
        _ => format!("{higher} > {lower}"),
    }
}

fn claim(text: &mut String, decided: &Decided) {
    let Decided {
        claim,
        verdict,
        ours,
        ..
    } = decided;
    let mut all = format!("\n- *{}* **{}**", claim.text, verdict.name());
    if let Some(test) = &claim.test {
        let metric = kind(test.metric);
        let scale = metric.in_display_unit(1.0);
        let cells = test.cells().zip(ours).map(|(cell, mean)| {
            let found = mean
                .as_ref()
                .map_or("no records".to_owned(), |mean| shown(mean, 1.0 / scale));
            match cell.label.as_str() {
                "" => found,
                label => format!("{found} ({label})"),
            }
        });
        let limits = match &test.rule {
            ClaimRule::Between(_, low, high) => {
                format!(
                    ", claimed {} to {}",
                    number(low * scale),
                    number(high * scale)
                )
            }
            ClaimRule::Higher(..) | ClaimRule::Alike(..) => String::new(),
        };
        let cells = cells.collect::<Vec<_>>().join(" and ");
        write!(all, ": {}: {cells}{limits}", metric.head()).expect(INFALLIBLE);
    }
    if let Some(why) = &claim.why {
        write!(all, ". {why}").expect(INFALLIBLE);
    }
    if let Some(explained) = &claim.explained {
        write!(all, " {}", explanation(explained)).expect(INFALLIBLE);
    }
    line(text, all);
}

/// States the input that a plan also runs with the value of another source.
fn explanation(own: &Explanation) -> String {
    let blocks = own.blocks.iter();
    let blocks: Vec<String> = blocks
        .map(|(one, other)| format!("{other} for {one}"))
        .collect();
    let (input, source) = (&own.input, &own.source);
    format!("Also run ({}): {input} ({source}).", blocks.join(", "))
}

/// Writes the table of all plans, with their trials and times.
fn plans(text: &mut String, all: &[Reproduction]) {
    line(text, "\n## All plans\n");
    line(
        text,
        "The time is the sum over all trials, in real seconds on the machine above. A plan runs simulated trials in parallel.\n",
    );
    line(text, "| plan | trials | recorded | seconds | question |");
    line(text, "|---|---|---|---|---|");
    for own in all {
        let times = own.records.iter().map(|record| record.real_seconds);
        // `sum` of an empty iterator would be minus zero.
        let seconds = times.fold(0.0, |sum, time| sum + time);
        line(
            text,
            format!(
                "| {} | {} | {} | {seconds:.0} | {} |",
                own.plan.name,
                own.plan.trials().len(),
                own.records.len(),
                sentence(&own.plan.question)
            ),
        );
    }
}

fn sentence(question: &str) -> String {
    let mut letters = question.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn shown(mean: &Mean, scale: f64) -> String {
    let value = number(mean.value / scale);
    match mean.half_interval {
        Some(half) => format!("{value} ± {}", number(half / scale)),
        None => value,
    }
}

/// Returns the date of a time in seconds since 1970, as `2003-05-17`.
fn day(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = rt::WallTime { seconds, nanos: 0 }.date();
    format!("{year:04}-{month:02}-{day:02}")
}

pub(super) fn json(all: &[Reproduction]) -> Value {
    let claims = distinct(all);
    let experiments = all.iter().filter(|own| own.has_claims()).map(|own| {
        json!({
            "plan": own.plan.name,
            "tally": tally_json(own.tally()),
            "kendalls_tau": own.tau(),
            "figures": own.figures.iter().map(|figure| figure_json(own, figure)).collect::<Vec<_>>(),
            "orders": own.orders.iter().map(|order| json!({
                "metric": own.plan.published_sets[order.set].metric,
                "what": own.plan.published_sets[order.set].what,
                "higher": order.higher,
                "lower": order.lower,
                "is_counted": order.is_counted,
                "verdict": order.verdict.name(),
                "published_ratio": order.published,
                "ratio": order.ours.map(|ours| 1.0 + ours.share()),
            })).collect::<Vec<_>>(),
            "claims": own.claims.iter().map(|decided| json!({
                "text": decided.claim.text,
                "source": decided.claim.source,
                "verdict": decided.verdict.name(),
                "why": decided.claim.why,
                "ours": decided.ours.iter().map(|mean| mean.map(|mean| mean.value)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    });
    let claim = |claim: &Distinct| {
        json!({
            "text": claim.text,
            "sources": claim.sources,
            "published_ratio": claim.size.map(|size| [size.least, size.most]),
            "simulated": column_json(claim.on(Machines::Simulated)),
            "kernel": column_json(claim.on(Machines::Kernel)),
            "guest": column_json(claim.on(Machines::Guest)),
        })
    };
    let on = |machines| tally_json(tally(&claims, machines));
    json!({
        "stamp": stamp::of(all),
        "simulated": on(Machines::Simulated),
        "kernel": on(Machines::Kernel),
        "guest": on(Machines::Guest),
        "claims": claims.iter().map(claim).collect::<Vec<_>>(),
        "experiments": experiments.collect::<Vec<_>>(),
    })
}

fn column_json(column: &Column) -> Value {
    let interval = column.ratio.and_then(|ratio| ratio.share_interval());
    json!({
        "verdict": column.verdict.name(),
        "plan": column.plan,
        "ratio": column.ratio.map(|ratio| 1.0 + ratio.share()),
        "interval_95": interval.map(|share| [1.0 + share.low, 1.0 + share.high]),
        "figure": column.figure.map(|(_, mean)| mean.value),
        "explained": column.explained,
        "cause": column.cause,
    })
}

fn tally_json(tally: Tally) -> Value {
    let counts = Verdict::ALL.into_iter().map(|verdict| {
        let name = verdict.name().replace(' ', "_");
        (name, Value::from(tally.of(verdict)))
    });
    Value::Object(counts.collect())
}

fn figure_json(own: &Reproduction, figure: &Figure) -> Value {
    let set = &own.plan.published_sets[figure.set];
    json!({
        "metric": set.metric,
        "what": set.what,
        "label": figure.label,
        "source": set.source,
        "published": figure.published,
        "ours": figure.ours.map(|mean| mean.value),
        "half_interval": figure.ours.and_then(|mean| mean.half_interval),
        "why": set.why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_right() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_053_129_600, "2003-05-17"),
        ] {
            assert_eq!(day(seconds), text);
        }
    }
}

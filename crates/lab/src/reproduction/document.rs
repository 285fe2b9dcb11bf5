//! Reproductions as a document in Markdown, and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{Decided, Figure, Order, Reproduction, Tally, Verdict, kind};
use crate::plan::{ClaimRule, PublishedSet};
use crate::statistics::Mean;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Significant digits of a figure.
const DIGITS: i32 = 3;

const INTRODUCTION: &str = "\
# Reproductions

Published results about journalling file systems, compared with those of jext's laboratory. This
page is generated from records by `jext lab reproductions --out docs/reproductions.md`; repeat an experiment with
`jext lab run NAME`, all of them with `jext lab run --all`.

If one published figure is higher than another by more than 2 %, that is a claim of a direction and a size. It is
*reproduced* if the 95 % interval of the ratio of our figures, in pairs of repetitions, excludes 1 on the same side, and the
logarithm of our ratio is between half and double that of the published one; *direction only* if the size differs by more;
*not reproduced* if the interval lies on the other side; *undecided* if it includes 1, or with a single trial; *not run here* if
no run decides it. Pairs of one table are not independent: Kendall's tau, 1 for the published order and -1 for its reverse, is
the summary of a table. Nearly all published figures are of one run each, on machines that no longer exist.
";

pub(super) fn render(all: &[Reproduction]) -> String {
    let mut text = INTRODUCTION.to_owned();
    summary(&mut text, all);
    for own in all.iter().filter(|own| own.has_claims()) {
        experiment(&mut text, own);
    }
    plans(&mut text, all);
    text
}

fn line(text: &mut String, line: impl AsRef<str>) {
    writeln!(text, "{}", line.as_ref()).expect(INFALLIBLE);
}

fn summary(text: &mut String, all: &[Reproduction]) {
    let mut total = Tally::default();
    all.iter().for_each(|own| total += own.tally());
    let (reproduced, run) = (total.reproduced, total.run());
    line(text, "\n## Summary\n");
    line(
        text,
        format!(
            "**{reproduced} of the {run} claims that were run here are reproduced**, {} more in their direction only; {} are \
             not reproduced, {} undecided. {} more were not run here.\n",
            total.direction_only, total.not_reproduced, total.undecided, total.not_run
        ),
    );
    let (simulated, mounted) = (share(all, false), share(all, true));
    line(
        text,
        format!(
            "On simulated machines of the period: {simulated}. On the kernel's file systems of today, in memory: {mounted}.\n"
        ),
    );
    line(text, provenance(all));
    let heads = Verdict::ALL.map(Verdict::name).join(" | ");
    line(
        text,
        format!("\n| experiment | published by | {heads} | Kendall's tau |"),
    );
    line(text, "|---|---|---|---|---|---|---|---|");
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

/// Returns the share of reproduced claims among those that were run by plans that mount something,
/// or by those that do not.
fn share(all: &[Reproduction], is_mounted: bool) -> String {
    let mut tally = Tally::default();
    let own = all.iter().filter(|own| own.plan.mounts() == is_mounted);
    own.for_each(|own| tally += own.tally());
    format!("{} of {}", tally.reproduced, tally.run())
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
    let mut reasons: Vec<&str> = Vec::new();
    for why in plan
        .published_sets
        .iter()
        .filter_map(|set| set.why.as_deref())
    {
        if !reasons.contains(&why) {
            reasons.push(why);
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
    line(text, "|---|---|---|---|---|---|");
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
    match (order.published, order.ratio) {
        (Some(published), Some(ratio)) => {
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
    line(text, all);
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

/// Formats a number with three significant digits, or with all digits of its integer part.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (DIGITS - 1 - magnitude).max(i32::from(magnitude < DIGITS));
    let text = format!("{value:.*}", decimals.unsigned_abs() as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns the date of a time in seconds since 1970, as `2003-05-17`.
fn day(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = rt::WallTime { seconds, nanos: 0 }.date();
    format!("{year:04}-{month:02}-{day:02}")
}

pub(super) fn json(all: &[Reproduction]) -> Value {
    let mut total = Tally::default();
    all.iter().for_each(|own| total += own.tally());
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
                "verdict": order.verdict.name(),
                "published_ratio": order.published,
                "ratio": order.ratio,
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
    json!({ "tally": tally_json(total), "experiments": experiments.collect::<Vec<_>>() })
}

fn tally_json(tally: Tally) -> Value {
    json!({
        "reproduced": tally.reproduced,
        "direction_only": tally.direction_only,
        "not_reproduced": tally.not_reproduced,
        "undecided": tally.undecided,
        "not_run": tally.not_run,
    })
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
    fn numbers_have_three_digits_and_days_are_right() {
        for (value, text) in [
            (588.0, "588"),
            (455.5, "455.5"),
            (2.64, "2.64"),
            (14_813.0, "14813"),
            (0.012_345, "0.0123"),
            (1192.83, "1193"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_053_129_600, "2003-05-17"),
        ] {
            assert_eq!(day(seconds), text);
        }
    }
}

//! A report as JSON, in SI base units.

use serde_json::{Map, Value, json};

use super::findings::{Mark, Marks};
use super::recommendation::Recommendation;
use super::{BlockReport, Group, Report, Row, answer};
use crate::statistics::effect::Effect;

pub(super) fn render(report: &Report) -> Value {
    json!({
        "plan": report.plan,
        "question": report.question,
        "plan_hash": report.plan_hash,
        "blocks": report.blocks.iter().map(block).collect::<Vec<_>>(),
        "warnings": report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "missing_trials": report.missing,
        "commits": commits(report),
        "trials": report.count,
    })
}

/// Returns the commits of the programs that made the records.
pub(super) fn commits(report: &Report) -> Vec<&str> {
    report
        .programs
        .iter()
        .map(|program| program.commit.as_str())
        .collect()
}

fn block(block: &BlockReport) -> Value {
    json!({
        "name": block.name,
        "title": block.title,
        "why": block.why,
        "groups": block.groups.iter().map(group).collect::<Vec<_>>(),
        "sources": block.sources,
    })
}

fn group(group: &Group) -> Value {
    let common: Map<String, Value> = group
        .common
        .iter()
        .map(|(factor, label)| ((*factor).to_owned(), Value::from(label.as_str())))
        .collect();
    let findings = &group.findings;
    json!({
        "common": common,
        "factors": group.factors,
        "primary": group.primary.name,
        "rows": group.rows.iter().map(row).collect::<Vec<_>>(),
        "recommendation": Recommendation::of(group).map(|own| json!({
            "advice": own.advice,
            "basis": own.basis,
            "distance": own.distance,
        })),
        "answer": answer::sentences(group),
        "findings": {
            "ours": marks(&findings.ours),
            "published": marks(&findings.published),
            "pairs_compared": findings.order.pairs,
            "pairs_reversed": findings.order.reversed,
            "pairs_undecided": findings.order.undecided,
            "kendalls_tau": findings.order.tau,
            "furthest": findings.furthest.as_ref().map(|(label, share)| json!({
                "row": label, "error": share,
            })),
        },
    })
}

fn row(row: &Row) -> Value {
    let figures: Map<String, Value> = row
        .figures
        .iter()
        .map(|(name, mean)| {
            let value = json!({
                "mean": mean.value,
                "deviation": mean.deviation,
                "half_interval_95": mean.half_interval,
                "count": mean.count,
                "published": row.published.get(name),
                "error": row.error(name),
            });
            ((*name).to_owned(), value)
        })
        .collect();
    json!({
        "labels": row.labels,
        "is_baseline": row.is_baseline,
        "count": row.count,
        "figures": figures,
        "engine": row.engine.map(|mean| mean.value),
        "engine_half_interval_95": row.engine.and_then(|mean| mean.half_interval),
        "gain": row.effect.as_ref().map(effect),
        "notes": row.notes.iter().map(|(_, note)| note).collect::<Vec<_>>(),
        "runs_95": row.runs.map(|runs| [runs.low, runs.high]),
    })
}

/// Returns an effect: a share of one, with its interval and p-value if trials were repeated.
pub(super) fn effect(effect: &Effect) -> Value {
    json!({
        "share": effect.share,
        "interval_95": effect.interval.map(|interval| [interval.low, interval.high]),
        "p": effect.p,
        "cliffs_delta": effect.delta,
    })
}

fn marks(marks: &Marks) -> Value {
    let mark = |mark: &Option<Mark>| {
        mark.as_ref()
            .map(|Mark { label, share }| json!({ "row": label, "share": share }))
    };
    json!({ "first_gain": mark(&marks.first_gain), "saturation": mark(&marks.saturation) })
}

//! From TOML to a plan that has been checked, trial by trial.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::key::Key;
use super::reader::{Entry, Section, Source};
use super::settings::Settings;
use super::value::{Value, describe, number, whole};
use super::{Block, Factor, Level, Plan, PlanError, Published};
use crate::metric::{self, MetricKind};
use crate::setup::Setup;

/// More combinations than anybody waits for; a typing error makes them.
const COMBINATIONS_MAX: usize = 100_000;
/// More trials than a report can be asked to read.
const TRIALS_MAX: usize = 2_000_000;
/// More repetitions than anybody waits for.
const REPETITIONS_MAX: i64 = 10_000;
/// How often a trial is repeated at most for its interval, where the plan does not say.
const REPETITIONS_MAX_DEFAULT: i64 = 30;

pub(super) fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        source.error(&span, error.message())
    })?;
    let root = Section::new(source, "the plan", 0..0, table.get_ref());
    let mut notes = Vec::new();
    let mut plan = Parser {
        source,
        notes: &mut notes,
    }
    .plan(root)?;
    notes.dedup();
    plan.notes = notes;
    check(&plan, source)?;
    Ok(plan)
}

struct Parser<'t, 'n> {
    source: Source<'t>,
    notes: &'n mut Vec<String>,
}

/// A key's value with the line that says it.
type Setting = (&'static Key, Value, usize);

impl Parser<'_, '_> {
    fn plan(&mut self, mut root: Section<'_, '_>) -> Result<Plan, PlanError> {
        let mut head = root.need_section("plan", "[plan]")?;
        let (name, span) = head.need_text("name")?;
        self.check_name(&name, &span)?;
        let (question, _) = head.need_text("question")?;
        let seed = head.whole("seed", 0..i64::MAX)?.unwrap_or(1);
        let repetitions = head
            .whole("repetitions", 1..REPETITIONS_MAX + 1)?
            .unwrap_or(1);
        let (precision, repetitions_max) = self.stopping(&mut head, repetitions)?;
        let warmup = head.whole("warmup", 0..REPETITIONS_MAX + 1)?.unwrap_or(0);
        head.finish()?;
        let fixed = self.settings(&root.flat("fixed")?)?;
        let factors = self.factors(&root.flat("factors")?)?;
        self.refuse_fixed_factor(&fixed, &factors)?;
        let mut blocks = Vec::new();
        for section in root.sections("block", "[[block]]")? {
            let block = self.block(section, &fixed, &factors, &blocks)?;
            blocks.push(block);
        }
        if blocks.is_empty() {
            blocks.push(assemble(
                String::new(),
                name.clone(),
                String::new(),
                fixed,
                factors,
            ));
        }
        self.baseline(&root.flat("baseline")?, &mut blocks)?;
        let mut published = Vec::new();
        for section in root.sections("published", "[[published]]")? {
            published.push(self.published(section, &blocks)?);
        }
        root.finish()?;
        let [seed, repetitions, repetitions_max, warmup] =
            [seed, repetitions, repetitions_max, warmup].map(i64::unsigned_abs);
        let small = |number| u32::try_from(number).expect("checked against its limit");
        Ok(Plan {
            name,
            question,
            seed,
            repetitions: small(repetitions),
            repetitions_max: small(repetitions_max),
            precision,
            warmup: small(warmup),
            blocks,
            published,
            notes: Vec::new(),
        })
    }

    /// The precision that is asked for, and how often a trial is repeated for it at most.
    fn stopping(
        &self,
        head: &mut Section<'_, '_>,
        repetitions: i64,
    ) -> Result<(Option<f64>, i64), PlanError> {
        let precision = match head.take("precision") {
            None => None,
            Some(entry) => {
                let share = number(&entry.value).filter(|share| *share > 0.0 && *share < 1.0);
                let found = describe(&entry.value);
                let message = format!("precision: expected a share such as 0.05, found {found}");
                Some(share.ok_or_else(|| self.source.error(&entry.span, message))?)
            }
        };
        let said = head.take("repetitions_max");
        let Some(entry) = said else {
            let most = precision.map_or(repetitions, |_| REPETITIONS_MAX_DEFAULT.max(repetitions));
            return Ok((precision, most));
        };
        let wrong = |message: String| Err(self.source.error(&entry.span, message));
        if precision.is_none() {
            return wrong("repetitions_max: means nothing without precision".to_owned());
        }
        match whole(&entry.value).filter(|most| (repetitions..=REPETITIONS_MAX).contains(most)) {
            Some(most) => Ok((precision, most)),
            None => wrong(format!(
                "repetitions_max: expected a whole number from {repetitions} to {REPETITIONS_MAX}, found {}",
                describe(&entry.value)
            )),
        }
    }

    fn check_name(&self, name: &str, span: &Range<usize>) -> Result<(), PlanError> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if name.bytes().all(is_plain) && !name.starts_with(['-', '.']) {
            return Ok(());
        }
        let message = format!(
            "name: expected lower-case letters, digits, hyphens and points, found {name:?}"
        );
        Err(self.source.error(span, message))
    }

    fn key(&self, entry: &Entry<'_>) -> Result<&'static Key, PlanError> {
        Key::named(&entry.key).ok_or_else(|| {
            let hint = Key::closest(&entry.key)
                .map(|known| format!(" (did you mean `{known}`?)"))
                .unwrap_or_default();
            self.source
                .error(&entry.span, format!("unknown key `{}`{hint}", entry.key))
        })
    }

    fn value(
        &mut self,
        key: &Key,
        value: &DeValue<'_>,
        span: &Range<usize>,
    ) -> Result<Value, PlanError> {
        key.kind
            .check(value, self.notes)
            .map_err(|cause| self.source.error(span, format!("{}: {cause}", key.name)))
    }

    fn settings(&mut self, entries: &[Entry<'_>]) -> Result<Vec<Setting>, PlanError> {
        entries
            .iter()
            .map(|entry| {
                let key = self.key(entry)?;
                let value = self.value(key, &entry.value, &entry.span)?;
                Ok((key, value, self.source.line(entry.span.start)))
            })
            .collect()
    }

    fn factors(&mut self, entries: &[Entry<'_>]) -> Result<Vec<Factor>, PlanError> {
        entries.iter().map(|entry| self.factor(entry)).collect()
    }

    fn factor(&mut self, entry: &Entry<'_>) -> Result<Factor, PlanError> {
        let key = self.key(entry)?;
        let Some(array) = entry.value.as_array().filter(|array| !array.is_empty()) else {
            let found = match &entry.value {
                DeValue::Array(_) => "an array without any".to_owned(),
                other => describe(other),
            };
            let message = format!("{}: expected an array of levels, found {found}", key.name);
            return Err(self.source.error(&entry.span, message));
        };
        let mut levels: Vec<Level> = Vec::with_capacity(array.len());
        for item in array.iter() {
            let level = self.level(key, item.get_ref(), &item.span())?;
            if levels
                .iter()
                .any(|other| other.value == level.value || other.label == level.label)
            {
                let message = format!("{}: the level {} is there twice", key.name, level.label);
                return Err(self.source.error(&item.span(), message));
            }
            levels.push(level);
        }
        Ok(Factor { key, levels })
    }

    fn level(
        &mut self,
        key: &Key,
        item: &DeValue<'_>,
        span: &Range<usize>,
    ) -> Result<Level, PlanError> {
        let line = self.source.line(span.start);
        let Some(table) = item.as_table() else {
            let value = self.value(key, item, span)?;
            return Ok(Level {
                label: value.to_string(),
                value,
                line,
            });
        };
        let mut section = Section::new(self.source, "a level", span.clone(), table);
        let (label, _) = section.need_text("label")?;
        let entry = section.need("value")?;
        section.finish()?;
        let value = self.value(key, &entry.value, &entry.span)?;
        Ok(Level { label, value, line })
    }

    fn refuse_fixed_factor(&self, fixed: &[Setting], factors: &[Factor]) -> Result<(), PlanError> {
        for (key, _, line) in fixed {
            if factors.iter().any(|factor| factor.key == *key) {
                let message = format!("{} is fixed and a factor as well", key.name);
                return Err(self.source.error_at(*line, message));
            }
        }
        Ok(())
    }

    fn block(
        &mut self,
        mut section: Section<'_, '_>,
        fixed: &[Setting],
        factors: &[Factor],
        before: &[Block],
    ) -> Result<Block, PlanError> {
        let (name, span) = section.need_text("name")?;
        self.check_name(&name, &span)?;
        if before.iter().any(|block| block.name == name) {
            return Err(self
                .source
                .error(&span, format!("the block {name} is there twice")));
        }
        let title = section.text("title")?.unwrap_or_else(|| name.clone());
        let why = section.text("why")?.unwrap_or_default();
        let own_fixed = self.settings(&section.flat("fixed")?)?;
        let own_factors = self.factors(&section.flat("factors")?)?;
        section.finish()?;
        self.refuse_fixed_factor(&own_fixed, &own_factors)?;
        let replaced = |key: &Key| own_factors.iter().find(|factor| factor.key == key);
        let kept = factors
            .iter()
            .filter(|factor| own_fixed.iter().all(|(key, ..)| *key != factor.key));
        let mut all_factors: Vec<Factor> = kept
            .map(|factor| replaced(factor.key).unwrap_or(factor).clone())
            .collect();
        let added = own_factors
            .iter()
            .filter(|own| factors.iter().all(|f| f.key != own.key));
        all_factors.extend(added.cloned());
        let all_fixed = [fixed, &own_fixed].concat();
        Ok(assemble(name, title, why, all_fixed, all_factors))
    }

    fn baseline(&mut self, entries: &[Entry<'_>], blocks: &mut [Block]) -> Result<(), PlanError> {
        for entry in entries {
            let key = self.key(entry)?;
            let mut is_used = false;
            for block in &mut *blocks {
                let Some(factor) = block.factors.iter().find(|factor| factor.key == key) else {
                    continue;
                };
                let value = self.level_value(factor, &entry.value, &entry.span)?;
                block.baseline.push((key, value));
                is_used = true;
            }
            if !is_used {
                let message = format!("baseline: {} is not a factor", key.name);
                return Err(self.source.error(&entry.span, message));
            }
        }
        Ok(())
    }

    /// The value of one of a factor's levels, given by value or by label.
    fn level_value(
        &mut self,
        factor: &Factor,
        given: &DeValue<'_>,
        span: &Range<usize>,
    ) -> Result<Value, PlanError> {
        let by_label = |label| factor.levels.iter().find(|level| level.label == label);
        if let Some(level) = given.as_str().and_then(by_label) {
            return Ok(level.value.clone());
        }
        let value = factor.key.kind.check(given, self.notes).ok();
        value
            .filter(|value| factor.levels.iter().any(|level| level.value == *value))
            .ok_or_else(|| {
                let labels: Vec<&str> = factor.levels.iter().map(|l| l.label.as_str()).collect();
                let (name, found) = (factor.key.name, describe(given));
                let message = format!(
                    "{name}: {found} is not one of its levels: {}",
                    labels.join(", ")
                );
                self.source.error(span, message)
            })
    }

    fn published(
        &mut self,
        mut section: Section<'_, '_>,
        blocks: &[Block],
    ) -> Result<Published, PlanError> {
        let span = section.span().clone();
        let block = section.text("block")?;
        let of_block: Vec<&Block> = blocks
            .iter()
            .filter(|b| block.as_ref().is_none_or(|name| b.name == *name))
            .collect();
        if of_block.is_empty() {
            let name = block.unwrap_or_default();
            return Err(self
                .source
                .error(&span, format!("there is no block {name:?}")));
        }
        let mut at = Vec::new();
        for entry in section.flat("at")? {
            let key = self.key(&entry)?;
            let mut factors = of_block.iter().flat_map(|block| &block.factors);
            let Some(factor) = factors.find(|factor| factor.key == key) else {
                let message = format!("at: {} is not a factor", key.name);
                return Err(self.source.error(&entry.span, message));
            };
            at.push((key, self.level_value(factor, &entry.value, &entry.span)?));
        }
        let (metric, metric_span) = section.need_text("metric")?;
        let Some(kind) = MetricKind::named(&metric) else {
            return Err(self
                .source
                .error(&metric_span, format!("unknown metric {metric:?}")));
        };
        let number = section.need_number("value")?;
        let (unit, unit_span) = section.need_text("unit")?;
        let scale = metric::scale_of(&unit).filter(|_| metric::measures(&unit, kind.unit));
        let Some(scale) = scale else {
            let message = format!("unit: {unit:?} does not measure {metric}");
            return Err(self.source.error(&unit_span, message));
        };
        let (source, _) = section.need_text("source")?;
        section.finish()?;
        Ok(Published {
            block,
            at,
            metric: kind.name,
            value: number * scale,
            source,
        })
    }
}

fn assemble(
    name: String,
    title: String,
    why: String,
    settings: Vec<Setting>,
    factors: Vec<Factor>,
) -> Block {
    let mut fixed = Settings::defaults();
    for (key, value, line) in settings {
        fixed.set(key.name, value, Some(line));
    }
    Block {
        name,
        title,
        why,
        fixed,
        factors,
        baseline: Vec::new(),
    }
}

/// Makes sure that every trial can be set up.
fn check(plan: &Plan, source: Source<'_>) -> Result<(), PlanError> {
    let runs = plan.repetitions_max as usize + plan.warmup as usize;
    let combinations = plan.blocks.iter().map(|block| {
        let lengths = block.factors.iter().map(|factor| factor.levels.len());
        lengths.fold(1usize, usize::saturating_mul)
    });
    let count = combinations.fold(0, usize::saturating_add);
    for (count, most, what) in [
        (count, COMBINATIONS_MAX, "combinations of levels"),
        (count.saturating_mul(runs), TRIALS_MAX, "trials"),
    ] {
        if count > most {
            let message = format!("{count} {what} are more than {most}");
            return Err(source.error_at(1, message));
        }
    }
    for combination in plan.combinations() {
        let trial = combination.trial(0, false);
        let setup = Setup::of(&trial.settings).map_err(|error| {
            let line = error
                .keys
                .iter()
                .filter_map(|key| trial.settings.line(key))
                .max();
            let place = if trial.levels.is_empty() {
                String::new()
            } else {
                format!(" ({})", trial.name())
            };
            source.error_at(line.unwrap_or(1), format!("{}{place}", error.message))
        })?;
        if plan.warmup > 0 && setup.is_simulated() {
            let message =
                "warmup: a simulated trial always begins in the same state and needs none";
            return Err(source.error_at(1, message));
        }
    }
    Ok(())
}

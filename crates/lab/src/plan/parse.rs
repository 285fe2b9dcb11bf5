//! Parses a plan from TOML.

mod causes;
mod draft;
mod preset;
mod published;
mod taken;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::key::Key;
use super::reader::{Entry, Section, Source};
use super::value::{Value, describe, number, whole};
use super::{
    Block, Cell, Claim, Factor, Level, Plan, PlanError, Published, PublishedSet, Spot, Taken,
};
use draft::Draft;
use preset::PRESET;

/// Maximum number of combinations: a larger one is a typing error.
const COMBINATIONS_MAX: usize = 100_000;
/// Maximum number of trials: a report could not read more.
const TRIALS_MAX: usize = 2_000_000;
/// Maximum number of repetitions: a larger one is a typing error.
const REPETITIONS_MAX: i64 = 10_000;
/// Default of the maximum number of repetitions for a precision.
const REPETITIONS_MAX_DEFAULT: i64 = 30;

/// Reads a plan without setting up its trials.
pub(crate) fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
    let source = Source { file, text };
    let mut notes = Vec::new();
    let mut plan = Parser {
        source,
        notes: &mut notes,
        bases: Vec::new(),
        renamed: BTreeMap::new(),
        block: None,
    }
    .plan()?;
    notes.dedup();
    plan.notes = notes;
    check_size(&plan, source)?;
    plan.check_causes()?;
    Ok(plan)
}

struct Parser<'t, 'n> {
    source: Source<'t>,
    notes: &'n mut Vec<String>,
    /// The chain of plans that leads here, each based on the next.
    bases: Vec<&'static str>,
    /// The blocks that published figures and claims are about, by their names in this text.
    renamed: BTreeMap<String, String>,
    /// The block that published figures and claims without a block are about.
    block: Option<String>,
}

/// A key, its value, and the position of its definition.
type Setting = (&'static Key, Value, Spot);

/// The published results of a plan.
#[derive(Default)]
struct Results {
    published: Vec<Published>,
    sets: Vec<PublishedSet>,
    claims: Vec<Claim>,
}

/// The contents of `[plan]`.
struct Head {
    name: String,
    question: String,
    seed: i64,
    repetitions: i64,
    repetitions_max: i64,
    precision: Option<f64>,
    warmup: i64,
    has_base: bool,
    taken: Vec<Taken>,
}

impl<'t> Parser<'t, '_> {
    fn plan(&mut self) -> Result<Plan, PlanError> {
        let mut root = self.root()?;
        let (head, draft) = self.head_and_draft(&mut root)?;
        let written_out = head
            .has_base
            .then(|| draft.written(&head, self.source.file));
        let blocks = self.blocks(&head.name, draft)?;
        let mut results = Results::default();
        for taken in &head.taken {
            self.take(taken, &blocks, &mut results)?;
        }
        self.results(&mut root, &blocks, &mut results)?;
        let causes = self.causes(&mut root)?;
        root.finish()?;
        let [seed, repetitions, repetitions_max, warmup] = [
            head.seed,
            head.repetitions,
            head.repetitions_max,
            head.warmup,
        ]
        .map(i64::unsigned_abs);
        let small = |number| u32::try_from(number).expect("checked against its limit");
        Ok(Plan {
            name: head.name,
            question: head.question,
            seed,
            repetitions: small(repetitions),
            repetitions_max: small(repetitions_max),
            precision: head.precision,
            warmup: small(warmup),
            blocks,
            published: results.published,
            published_sets: results.sets,
            claims: results.claims,
            causes,
            taken: head.taken,
            written_out,
            notes: Vec::new(),
        })
    }

    /// Parses every `[[published]]` and `[[claim]]`.
    fn results(
        &mut self,
        root: &mut Section<'t, 't>,
        blocks: &[Block],
        results: &mut Results,
    ) -> Result<(), PlanError> {
        for section in root.sections("published", "[[published]]")? {
            let set = results.sets.len();
            let own = self.published(section, blocks, set, &mut results.published)?;
            results.sets.push(own);
        }
        for section in root.sections("claim", "[[claim]]")? {
            results.claims.push(self.claim(section, blocks)?);
        }
        Ok(())
    }

    fn root(&self) -> Result<Section<'t, 't>, PlanError> {
        let table = DeTable::parse(self.source.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.source.error(&span, error.message())
        })?;
        Ok(Section::new(self.source, "the plan", 0..0, table.get_ref()))
    }

    /// Reads `[plan]` and the draft, with the settings of the plan that it is based on.
    fn head_and_draft(
        &mut self,
        root: &mut Section<'t, 't>,
    ) -> Result<(Head, Draft<'t>), PlanError> {
        let mut section = root.need_section("plan", "[plan]")?;
        let (name, span) = section.need_text("name")?;
        self.check_name(&name, &span)?;
        let (question, _) = section.need_text("question")?;
        let seed = section.whole("seed", 0..i64::MAX)?.unwrap_or(1);
        let repetitions = section
            .whole("repetitions", 1..REPETITIONS_MAX + 1)?
            .unwrap_or(1);
        let (precision, repetitions_max) = self.stopping(&mut section, repetitions)?;
        let warmup = section
            .whole("warmup", 0..REPETITIONS_MAX + 1)?
            .unwrap_or(0);
        let base = self.base(&mut section)?;
        let taken = self.taken(&mut section)?;
        section.finish()?;
        let own = self.draft(root)?;
        let head = Head {
            name,
            question,
            seed,
            repetitions,
            repetitions_max,
            precision,
            warmup,
            has_base: base.is_some(),
            taken,
        };
        let draft = match base {
            Some(base) => own.over(base),
            None => own,
        };
        Ok((head, draft))
    }

    /// Reads the required precision and the maximum number of repetitions for it.
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
            return wrong("repetitions_max: has no effect without precision".to_owned());
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
        let (presets, entries): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) =
            entries.iter().partition(|entry| entry.key == PRESET);
        let mut all = Vec::new();
        for entry in presets {
            all.extend(self.preset(entry)?);
        }
        for entry in entries {
            let key = self.key(entry)?;
            let value = self.value(key, &entry.value, &entry.span)?;
            all.push((key, value, self.source.spot(&entry.span)));
        }
        Ok(all)
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
                let message = format!("{}: the level {} is listed twice", key.name, level.label);
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
        let spot = self.source.spot(span);
        let Some(table) = item.as_table() else {
            let value = self.value(key, item, span)?;
            return Ok(Level {
                label: value.to_string(),
                value,
                with: Vec::new(),
                spot,
            });
        };
        let mut section = Section::new(self.source, "a level", span.clone(), table);
        let (label, _) = section.need_text("label")?;
        let entry = section.need("value")?;
        let with = section.flat("with")?;
        section.finish()?;
        let value = self.value(key, &entry.value, &entry.span)?;
        let with = self.settings(&with)?;
        Ok(Level {
            label,
            value,
            with: with
                .into_iter()
                .map(|(key, value, _)| (key, value))
                .collect(),
            spot,
        })
    }

    fn refuse_fixed_factor(&self, fixed: &[Setting], factors: &[Factor]) -> Result<(), PlanError> {
        for (key, _, spot) in fixed {
            if factors.iter().any(|factor| factor.key == *key) {
                let message = format!("{} is both fixed and a factor", key.name);
                return Err(PlanError::at(spot, &message));
            }
        }
        Ok(())
    }

    /// Returns the value of a factor's level, given by value or by label.
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
}

/// Checks that a plan is not too large to be run.
fn check_size(plan: &Plan, source: Source<'_>) -> Result<(), PlanError> {
    let start = source.spot(&(0..0));
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
            return Err(PlanError::at(&start, &message));
        }
    }
    Ok(())
}

/// Checks that each published figure and each claim belongs to one trial.
pub(crate) fn check_cells(plan: &Plan) -> Result<(), PlanError> {
    let combinations = plan.combinations();
    let trials: Vec<_> = combinations.iter().map(|own| own.trial(0, false)).collect();
    let published = plan.published.iter().map(|own| {
        let set = &plan.published_sets[own.set];
        (&own.cell, set.explained.as_ref())
    });
    let claimed = plan.claims.iter().flat_map(|claim| {
        let cells = claim.test.iter().flat_map(|test| test.cells());
        cells.map(|cell| (cell, claim.explained.as_ref()))
    });
    let count = |cell: &Cell| trials.iter().filter(|trial| cell.is_at(trial)).count();
    for (cell, explained) in published.chain(claimed) {
        check_cell(cell, count(cell))?;
        if let Some(explained) = explained {
            let replaced = explained.replace(cell);
            check_cell(&replaced, count(&replaced))?;
        }
    }
    Ok(())
}

fn check_cell(cell: &Cell, count: usize) -> Result<(), PlanError> {
    if count == 1 {
        return Ok(());
    }
    let message = format!("{count} trials match this; set `block` and the level of each factor");
    Err(PlanError::at(&cell.spot, &message))
}

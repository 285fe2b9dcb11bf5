//! Parses `[[published]]` and `[[claim]]`.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeValue;

use super::Parser;
use crate::metric::{self, MetricKind};
use crate::plan::published::{
    Absent, Cell, Claim, ClaimRule, ClaimTest, Explanation, Limit, Published, PublishedSet, Size,
};
use crate::plan::reader::{Entry, Section};
use crate::plan::value::{describe, number};
use crate::plan::{Block, PlanError};

/// The key that names a block.
const BLOCK: &str = "block";

/// A metric, and a unit of it.
struct Measure {
    metric: &'static str,
    unit: String,
    scale: f64,
}

impl Parser<'_, '_> {
    /// Parses one `[[published]]` and adds its figures to the plan's.
    pub(super) fn published(
        &mut self,
        mut section: Section<'_, '_>,
        blocks: &[Block],
        set: usize,
        all: &mut Vec<Published>,
    ) -> Result<PublishedSet, PlanError> {
        let base = self.cell(&mut section, "at", blocks)?;
        let measure = self.measure(&mut section)?;
        let (source, _) = section.need_text("source")?;
        let what = section.text("what")?;
        let why = section.text("why")?;
        let is_compared = section.switch("compare")?.unwrap_or(true);
        let limit = self.limit(&mut section)?;
        let explained = self.explanation(&mut section, blocks)?;
        let by_factor = section.has("by") && !section.has_text("by", BLOCK);
        let mut cells = self.figures(&mut section, &base, blocks)?;
        let mut absent = self.absent(&mut section, measure.scale)?;
        section.finish()?;
        if !by_factor {
            let run = absent.extract_if(.., |own| block_of(own, blocks).is_some());
            cells.extend(run.map(|own| {
                let cell = Cell {
                    block: block_of(&own, blocks),
                    label: own.label,
                    ..base.clone()
                };
                (cell, own.value / measure.scale)
            }));
        }
        all.extend(cells.into_iter().map(|(cell, value)| Published {
            cell,
            metric: measure.metric,
            value: value * measure.scale,
            source: source.clone(),
            set,
        }));
        Ok(PublishedSet {
            metric: measure.metric,
            what: what.unwrap_or(base.label),
            unit: measure.unit,
            scale: measure.scale,
            source,
            why,
            is_compared,
            limit,
            explained,
            absent,
        })
    }

    /// Parses the figures: one `value`, or `values` by a factor's levels or by blocks.
    fn figures(
        &mut self,
        section: &mut Section<'_, '_>,
        base: &Cell,
        blocks: &[Block],
    ) -> Result<Vec<(Cell, f64)>, PlanError> {
        let Some(by) = section.take("by") else {
            if section.has("absent") && !section.has("value") {
                return Ok(Vec::new());
            }
            return Ok(vec![(base.clone(), section.need_number("value")?)]);
        };
        let Some(name) = by.value.as_str() else {
            let found = describe(&by.value);
            let message = format!("by: expected a factor or \"block\", found {found}");
            return Err(self.source.error(&by.span, message));
        };
        let mut cells = Vec::new();
        for entry in section.need_entries("values")? {
            let mut cell = base.clone();
            let level = Entry {
                key: name.to_owned(),
                value: DeValue::String(entry.key.clone().into()),
                ..entry.clone()
            };
            self.narrow(&mut cell, &level, blocks)?;
            cell.label.clone_from(&entry.key);
            cells.push((cell, self.number(&entry)?));
        }
        Ok(cells)
    }

    fn absent(&self, section: &mut Section<'_, '_>, scale: f64) -> Result<Vec<Absent>, PlanError> {
        let entries = section.entries("absent")?.unwrap_or_default();
        let figure = |entry: Entry<'_>| {
            let value = self.number(&entry)? * scale;
            Ok(Absent {
                label: entry.key,
                value,
            })
        };
        entries.into_iter().map(figure).collect()
    }

    /// Parses one `[[claim]]`.
    pub(super) fn claim(
        &mut self,
        mut section: Section<'_, '_>,
        blocks: &[Block],
    ) -> Result<Claim, PlanError> {
        let span = section.span().clone();
        let (text, _) = section.need_text("text")?;
        let (source, _) = section.need_text("source")?;
        let why = section.text("why")?;
        let limit = self.limit(&mut section)?;
        let explained = self.explanation(&mut section, blocks)?;
        let test = if section.has("metric") {
            Some(self.claim_test(&mut section, blocks)?)
        } else {
            None
        };
        section.finish()?;
        if test.is_none() && why.is_none() {
            let message = "[[claim]] needs a metric and a condition, or `why` it is not run";
            return Err(self.source.error(&span, message));
        }
        Ok(Claim {
            text,
            source,
            why,
            limit,
            explained,
            test,
        })
    }

    /// Parses `limit`, the part of the published machine that set a figure.
    fn limit(&self, section: &mut Section<'_, '_>) -> Result<Limit, PlanError> {
        let Some(entry) = section.take("limit") else {
            return Ok(Limit::Disk);
        };
        match entry.value.as_str() {
            Some("disk") => Ok(Limit::Disk),
            Some("host") => Ok(Limit::Host),
            _ => {
                let found = describe(&entry.value);
                let message = format!("limit: expected \"disk\" or \"host\", found {found}");
                Err(self.source.error(&entry.span, message))
            }
        }
    }

    /// Parses `explained`: the blocks that replace others, which differ from them in one setting.
    fn explanation(
        &self,
        section: &mut Section<'_, '_>,
        blocks: &[Block],
    ) -> Result<Option<Explanation>, PlanError> {
        if !section.has("explained") {
            return Ok(None);
        }
        let mut section = section.need_section("explained", "`explained`")?;
        let (input, _) = section.need_text("input")?;
        let (source, _) = section.need_text("source")?;
        let span = section.span().clone();
        let mut replaced = BTreeMap::new();
        let mut changes = BTreeSet::new();
        for entry in section.need_entries("blocks")? {
            let named = |name: &str| blocks.iter().find(|block| block.name == name);
            let by = entry.value.as_str().unwrap_or_default();
            let (Some(one), Some(other)) = (named(&entry.key), named(by)) else {
                let message = format!("blocks: there is no block {:?} or {by:?}", entry.key);
                return Err(self.source.error(&entry.span, message));
            };
            changes.insert(changed(one, other));
            replaced.insert(entry.key, by.to_owned());
        }
        section.finish()?;
        let changes = Vec::from_iter(changes);
        let [Some(_)] = changes.as_slice() else {
            let message = "explained: every block must differ from the one that it replaces in \
                           one setting, and all in the same one";
            return Err(self.source.error(&span, message));
        };
        Ok(Some(Explanation {
            blocks: replaced,
            input,
            source,
            spot: self.source.spot(&span),
        }))
    }

    fn claim_test(
        &mut self,
        section: &mut Section<'_, '_>,
        blocks: &[Block],
    ) -> Result<ClaimTest, PlanError> {
        if section.has("between") {
            let measure = self.measure(section)?;
            let limits = section.need("between")?;
            let numbers: Option<Vec<f64>> = limits.value.as_array().map(|array| {
                array
                    .iter()
                    .filter_map(|item| number(item.get_ref()))
                    .collect()
            });
            let Some([low, high]) = numbers.as_deref().filter(|two| two.is_sorted()) else {
                let message = "between: expected two numbers, the lower first";
                return Err(self.source.error(&limits.span, message));
            };
            let (low, high) = (low * measure.scale, high * measure.scale);
            let cell = self.cell(section, "at", blocks)?;
            return Ok(ClaimTest {
                metric: measure.metric,
                rule: ClaimRule::Between(cell, low, high),
            });
        }
        let metric = self.metric(section)?.name;
        let size = self.size(section)?;
        let two = match section.has("higher") {
            true => ["higher", "lower"],
            false => ["like", "as"],
        };
        let [one, other] = two.map(|key| {
            section.must_have(key)?;
            self.cell(section, key, blocks)
        });
        let rule = match (two, size) {
            (["higher", _], size) => ClaimRule::Higher(one?, other?, size),
            (_, None) => ClaimRule::Alike(one?, other?),
            (_, Some(_)) => {
                let message = "ratio: needs `higher` and `lower`";
                return Err(self.source.error(section.span(), message));
            }
        };
        Ok(ClaimTest { metric, rule })
    }

    /// Parses `ratio`: a number above 1, or the lowest and the highest.
    fn size(&self, section: &mut Section<'_, '_>) -> Result<Option<Size>, PlanError> {
        let Some(entry) = section.take("ratio") else {
            return Ok(None);
        };
        let numbers = match entry.value.as_array() {
            None => number(&entry.value).map(|one| vec![one]),
            Some(array) => array.iter().map(|item| number(item.get_ref())).collect(),
        };
        let size = match numbers.as_deref() {
            Some([one]) => Some(Size::from(*one)),
            Some([least, most]) if least < most => Some(Size {
                least: *least,
                most: *most,
            }),
            _ => None,
        };
        let Some(size) = size.filter(|size| size.least > 1.0 && size.most.is_finite()) else {
            let message = "ratio: expected a number above 1, or two, the lower first";
            return Err(self.source.error(&entry.span, message));
        };
        Ok(Some(size))
    }

    /// Parses a cell from a table of levels, in the block that the table or the section names.
    fn cell(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &str,
        blocks: &[Block],
    ) -> Result<Cell, PlanError> {
        let mut cell = Cell {
            block: self.block.clone(),
            at: Vec::new(),
            label: String::new(),
            spot: self.source.spot(section.span()),
        };
        let block = (key == "at").then(|| section.take(BLOCK)).flatten();
        let mut entries: Vec<_> = block.into_iter().chain(section.flat(key)?).collect();
        // The block comes first: factors are looked up in it.
        entries.sort_by_key(|entry| entry.key != BLOCK);
        let mut labels = Vec::new();
        for entry in entries {
            labels.push(self.narrow(&mut cell, &entry, blocks)?);
        }
        cell.label = labels.join(", ");
        Ok(cell)
    }

    /// Adds a level or the block to a cell; returns its label.
    fn narrow(
        &mut self,
        cell: &mut Cell,
        entry: &Entry<'_>,
        blocks: &[Block],
    ) -> Result<String, PlanError> {
        cell.spot = self.source.spot(&entry.span);
        if entry.key == BLOCK {
            let said = entry.value.as_str().unwrap_or_default();
            let name = self.renamed.get(said).map_or(said, String::as_str);
            if !blocks.iter().any(|block| block.name == name) {
                let found = describe(&entry.value);
                let message = format!("there is no block {found}");
                return Err(self.source.error(&entry.span, message));
            }
            cell.block = Some(name.to_owned());
            return Ok(said.to_owned());
        }
        let key = self.key(entry)?;
        let own = blocks
            .iter()
            .filter(|block| cell.block.as_ref().is_none_or(|name| block.name == *name));
        let mut factors = own.flat_map(|block| &block.factors);
        let Some(factor) = factors.find(|factor| factor.key == key) else {
            let message = format!("at: {} is not a factor", key.name);
            return Err(self.source.error(&entry.span, message));
        };
        let value = self.level_value(factor, &entry.value, &entry.span)?;
        let level = factor.levels.iter().find(|level| level.value == value);
        let label = level.map_or_else(|| value.to_string(), |level| level.label.clone());
        cell.at.push((key, value));
        Ok(label)
    }

    fn metric(&self, section: &mut Section<'_, '_>) -> Result<&'static MetricKind, PlanError> {
        let (metric, span) = section.need_text("metric")?;
        MetricKind::named(&metric).ok_or_else(|| {
            self.source
                .error(&span, format!("unknown metric {metric:?}"))
        })
    }

    fn measure(&self, section: &mut Section<'_, '_>) -> Result<Measure, PlanError> {
        let kind = self.metric(section)?;
        let (unit, span) = section.need_any_text("unit")?;
        let scale = metric::scale_of(&unit).filter(|_| metric::measures(&unit, kind.unit));
        let metric = kind.name;
        let wrong = || format!("unit: {unit:?} does not measure {metric}");
        let scale = scale.ok_or_else(|| self.source.error(&span, wrong()))?;
        Ok(Measure {
            metric,
            unit,
            scale,
        })
    }

    fn number(&self, entry: &Entry<'_>) -> Result<f64, PlanError> {
        number(&entry.value)
            .filter(|number| number.is_finite())
            .ok_or_else(|| {
                let found = describe(&entry.value);
                let message = format!("{}: expected a number, found {found}", entry.key);
                self.source.error(&entry.span, message)
            })
    }
}

/// Returns the block that a figure is about which the text says is not run: a plan that takes the
/// figures of another may have one of that name, apart from capitals.
fn block_of(absent: &Absent, blocks: &[Block]) -> Option<String> {
    let mut names = blocks.iter().map(|block| &block.name);
    let name = names.find(|name| absent.label.eq_ignore_ascii_case(name))?;
    Some(name.clone())
}

/// Returns the setting in which two blocks differ, with its value in the second; `None` if they
/// differ in none, in several, or in their factors.
fn changed(one: &Block, other: &Block) -> Option<(&'static str, String)> {
    let keys: BTreeSet<&'static str> = one
        .fixed
        .iter()
        .chain(other.fixed.iter())
        .map(|(key, _)| key)
        .collect();
    let mut changes = keys
        .into_iter()
        .filter(|key| one.fixed.get(key) != other.fixed.get(key));
    let change = changes.next()?;
    let levels = |block: &Block| -> Vec<(&'static str, Vec<String>)> {
        let factors = block.factors.iter();
        factors
            .map(|factor| {
                let levels = factor.levels.iter().map(|level| level.value.to_string());
                (factor.key.name, levels.collect())
            })
            .collect()
    };
    let is_alike = changes.next().is_none() && levels(one) == levels(other);
    let value = other.fixed.get(change).map(ToString::to_string);
    is_alike.then(|| (change, value.unwrap_or_default()))
}

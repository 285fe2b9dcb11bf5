//! [`Draft`]: the settings of a plan, merged with those of its base.
//!
//! | of the base | taken | except |
//! |---|---|---|
//! | `[fixed]`, `[factors]` | all | keys of the plan itself; those of another workload |
//! | `[baseline]` | all | if the plan has one; factors that the plan fixes |
//! | blocks | all, as above | if the plan has blocks, or names one by `base_block` |
//! | the block of `base_block` | its settings, as if in `[fixed]` and `[factors]` | as there |
//! | name, question, seed, numbers of trials | nothing | |
//! | published figures, claims | nothing: see `claims_of` | |

mod written;

use std::collections::BTreeMap;

use super::{Parser, Setting};
use crate::plan::builtin;
use crate::plan::key::{Key, concerns};
use crate::plan::reader::{Entry, Section, Source};
use crate::plan::settings::Settings;
use crate::plan::value::Value;
use crate::plan::{Block, Factor, PlanError};

/// The settings of a plan, before its blocks are put together.
pub(super) struct Draft<'t> {
    fixed: Vec<Setting>,
    factors: Vec<Factor>,
    blocks: Vec<DraftBlock>,
    baseline: Vec<(Entry<'t>, Source<'t>)>,
}

/// A block as its plan defines it.
struct DraftBlock {
    name: String,
    title: String,
    why: String,
    fixed: Vec<Setting>,
    factors: Vec<Factor>,
}

impl<'t> Draft<'t> {
    /// Returns the settings of this draft merged over those of its base.
    pub(super) fn over(self, mut base: Draft<'t>) -> Self {
        let is_said = |key: &Key| {
            self.fixed.iter().any(|(own, ..)| *own == key)
                || self.factors.iter().any(|own| own.key == key)
        };
        let workload = self.fixed.iter().find_map(|(key, value, _)| match value {
            Value::Text(name) if key.name == "workload" => Some(name.clone()),
            _ => None,
        });
        let is_taken = |key: &Key| {
            let concerned = |workload: &String| concerns(key.name, workload);
            !is_said(key) && workload.as_ref().is_none_or(concerned)
        };
        base.fixed.retain(|(key, ..)| is_taken(key));
        for block in &mut base.blocks {
            block.fixed.retain(|(key, ..)| is_taken(key));
            block.factors.retain(|factor| is_taken(factor.key));
        }
        let kept = |factor: &&Factor| {
            let is_own = self.factors.iter().any(|own| own.key == factor.key);
            is_own || is_taken(factor.key)
        };
        let factors: Vec<Factor> = base.factors.iter().filter(kept).cloned().collect();
        let baseline = match self.baseline.is_empty() {
            false => self.baseline,
            true => {
                let is_factor = |name: &str| {
                    let own = self.factors.iter().chain(&factors);
                    let blocks = base.blocks.iter().flat_map(|block| &block.factors);
                    own.chain(blocks).any(|factor| factor.key.name == name)
                };
                let entries = base.baseline.into_iter();
                entries.filter(|(entry, _)| is_factor(&entry.key)).collect()
            }
        };
        Self {
            factors: laid_over(&factors, &self.fixed, &self.factors),
            fixed: [base.fixed, self.fixed].concat(),
            blocks: match self.blocks.is_empty() {
                false => self.blocks,
                true => base.blocks,
            },
            baseline,
        }
    }

    /// Returns the settings with those of the block of this name applied, and no blocks; `None` if
    /// there is no such block.
    fn in_block(mut self, name: &str) -> Option<Self> {
        let index = self.blocks.iter().position(|block| block.name == name)?;
        let block = self.blocks.swap_remove(index);
        let varies = |key: &Key| block.factors.iter().any(|factor| factor.key == key);
        self.fixed.retain(|(key, ..)| !varies(key));
        Some(Self {
            factors: laid_over(&self.factors, &block.fixed, &block.factors),
            fixed: [self.fixed, block.fixed].concat(),
            blocks: Vec::new(),
            baseline: self.baseline,
        })
    }
}

/// Merges factors: drops those that `fixed` sets, replaces those with the same key, appends new
/// ones.
fn laid_over(factors: &[Factor], fixed: &[Setting], own: &[Factor]) -> Vec<Factor> {
    let replaced = |key: &Key| own.iter().find(|factor| factor.key == key);
    let kept = factors
        .iter()
        .filter(|factor| fixed.iter().all(|(key, ..)| *key != factor.key));
    let mut all: Vec<Factor> = kept
        .map(|factor| replaced(factor.key).unwrap_or(factor).clone())
        .collect();
    let added = own
        .iter()
        .filter(|own| factors.iter().all(|factor| factor.key != own.key));
    all.extend(added.cloned());
    all
}

impl<'t> Parser<'t, '_> {
    /// Returns the draft of the plan that `base` in `[plan]` names.
    pub(super) fn base(
        &mut self,
        head: &mut Section<'t, 't>,
    ) -> Result<Option<Draft<'t>>, PlanError> {
        let block = head.take("base_block");
        let Some(entry) = head.take("base") else {
            return match block {
                None => Ok(None),
                Some(entry) => {
                    let message = "base_block: has no effect without base";
                    Err(self.source.error(&entry.span, message))
                }
            };
        };
        let name = entry.value.as_str().unwrap_or_default();
        let Some(base) = builtin::named(name) else {
            let message = format!("base: there is no built-in plan {name:?}");
            return Err(self.source.error(&entry.span, message));
        };
        if self.bases.contains(&base.name) {
            let message = format!("base: {name} is based on itself");
            return Err(self.source.error(&entry.span, message));
        }
        let mut parser = Parser {
            source: Source {
                file: base.file,
                text: base.text,
            },
            notes: &mut *self.notes,
            bases: [&self.bases[..], &[base.name]].concat(),
            renamed: BTreeMap::new(),
            block: None,
        };
        let mut root = parser.root()?;
        let (_, draft) = parser.head_and_draft(&mut root)?;
        let Some(entry) = block else {
            return Ok(Some(draft));
        };
        let own = entry.value.as_str().unwrap_or_default();
        let message = || format!("base_block: {name} has no block {own:?}");
        let error = || self.source.error(&entry.span, message());
        draft.in_block(own).map(Some).ok_or_else(error)
    }

    /// Reads the settings of the plan itself.
    pub(super) fn draft(&mut self, root: &mut Section<'t, 't>) -> Result<Draft<'t>, PlanError> {
        let fixed = self.settings(&root.flat("fixed")?)?;
        let factors = self.factors(&root.flat("factors")?)?;
        self.refuse_fixed_factor(&fixed, &factors)?;
        let mut blocks: Vec<DraftBlock> = Vec::new();
        for section in root.sections("block", "[[block]]")? {
            let block = self.block(section, &blocks)?;
            blocks.push(block);
        }
        let entries = root.flat("baseline")?.into_iter();
        Ok(Draft {
            fixed,
            factors,
            blocks,
            baseline: entries.map(|entry| (entry, self.source)).collect(),
        })
    }

    fn block(
        &mut self,
        mut section: Section<'_, '_>,
        before: &[DraftBlock],
    ) -> Result<DraftBlock, PlanError> {
        let (name, span) = section.need_text("name")?;
        self.check_name(&name, &span)?;
        if before.iter().any(|block| block.name == name) {
            let message = format!("the block {name} is defined twice");
            return Err(self.source.error(&span, message));
        }
        let title = section.text("title")?.unwrap_or_else(|| name.clone());
        let why = section.text("why")?.unwrap_or_default();
        let fixed = self.settings(&section.flat("fixed")?)?;
        let factors = self.factors(&section.flat("factors")?)?;
        section.finish()?;
        self.refuse_fixed_factor(&fixed, &factors)?;
        Ok(DraftBlock {
            name,
            title,
            why,
            fixed,
            factors,
        })
    }

    /// Builds the blocks; a plan without any becomes one block.
    pub(super) fn blocks(&mut self, plan: &str, draft: Draft<'_>) -> Result<Vec<Block>, PlanError> {
        let Draft {
            fixed,
            factors,
            blocks,
            baseline,
        } = draft;
        let mut all: Vec<Block> = blocks
            .into_iter()
            .map(|block| Block {
                fixed: settings([&fixed, &block.fixed]),
                factors: laid_over(&factors, &block.fixed, &block.factors),
                name: block.name,
                title: block.title,
                why: block.why,
                baseline: Vec::new(),
            })
            .collect();
        if all.is_empty() {
            all.push(Block {
                fixed: settings([&fixed, &[]]),
                factors,
                name: String::new(),
                title: plan.to_owned(),
                why: String::new(),
                baseline: Vec::new(),
            });
        }
        all.iter().try_for_each(refuse_twice)?;
        for (entry, source) in &baseline {
            let mut parser = Parser {
                source: *source,
                notes: &mut *self.notes,
                bases: Vec::new(),
                renamed: BTreeMap::new(),
                block: None,
            };
            parser.baseline(entry, &mut all)?;
        }
        Ok(all)
    }

    fn baseline(&mut self, entry: &Entry<'_>, blocks: &mut [Block]) -> Result<(), PlanError> {
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
        if is_used {
            return Ok(());
        }
        let message = format!("baseline: {} is not a factor", key.name);
        Err(self.source.error(&entry.span, message))
    }
}

/// Fails if a level sets a key that is a factor of its block, or that a level of another factor
/// sets, too.
fn refuse_twice(block: &Block) -> Result<(), PlanError> {
    let mut set = BTreeMap::new();
    for factor in &block.factors {
        for level in &factor.levels {
            for (key, _) in &level.with {
                let owner = set.entry(key.name).or_insert(factor.key);
                let is_factor = block.factors.iter().any(|other| other.key == *key);
                if is_factor || *owner != factor.key {
                    let message = match is_factor {
                        true => format!("{} is both a factor and set with a level", key.name),
                        false => format!("{} is set with levels of two factors", key.name),
                    };
                    return Err(PlanError::at(&level.spot, &message));
                }
            }
        }
    }
    Ok(())
}

fn settings(said: [&[Setting]; 2]) -> Settings {
    let mut all = Settings::defaults();
    for (key, value, spot) in said.into_iter().flatten() {
        all.set(key.name, value.clone(), Some(spot.clone()));
    }
    all
}

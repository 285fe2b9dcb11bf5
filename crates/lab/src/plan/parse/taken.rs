//! Parses `claims_of` in `[plan]`, and takes the published figures and claims of other plans.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeValue;

use super::{Parser, Results};
use crate::plan::builtin::{self, Builtin};
use crate::plan::reader::{Section, Source};
use crate::plan::value::describe;
use crate::plan::{Block, PlanError, Taken};

impl Parser<'_, '_> {
    /// Parses `claims_of`: names of built-in plans, or tables that name a plan and blocks.
    pub(super) fn taken(&self, head: &mut Section<'_, '_>) -> Result<Vec<Taken>, PlanError> {
        let Some(entry) = head.take("claims_of") else {
            return Ok(Vec::new());
        };
        let Some(items) = entry.value.as_array() else {
            let found = describe(&entry.value);
            let message = format!("claims_of: expected an array of plans, found {found}");
            return Err(self.source.error(&entry.span, message));
        };
        let mut all = Vec::new();
        for item in items.iter() {
            let span = item.span();
            let Some(table) = item.get_ref().as_table() else {
                all.push(Taken {
                    plan: self.builtin(item.get_ref(), &span)?,
                    blocks: BTreeMap::new(),
                    block: None,
                });
                continue;
            };
            let mut section = Section::new(self.source, "claims_of", span, table);
            let entry = section.need("plan")?;
            let block = section.text("block")?;
            let mut blocks = BTreeMap::new();
            for entry in section.entries("blocks")?.unwrap_or_default() {
                let Some(own) = entry.value.as_str() else {
                    let found = describe(&entry.value);
                    let message = format!("{}: expected a block, found {found}", entry.key);
                    return Err(self.source.error(&entry.span, message));
                };
                blocks.insert(entry.key, own.to_owned());
            }
            section.finish()?;
            all.push(Taken {
                plan: self.builtin(&entry.value, &entry.span)?,
                blocks,
                block,
            });
        }
        Ok(all)
    }

    fn builtin(
        &self,
        value: &DeValue<'_>,
        span: &Range<usize>,
    ) -> Result<&'static Builtin, PlanError> {
        builtin::named(value.as_str().unwrap_or_default()).ok_or_else(|| {
            let found = describe(value);
            let message = format!("claims_of: there is no built-in plan {found}");
            self.source.error(span, message)
        })
    }

    /// Takes the published figures and claims of another plan for blocks and factors of this one.
    pub(super) fn take(
        &mut self,
        taken: &Taken,
        blocks: &[Block],
        results: &mut Results,
    ) -> Result<(), PlanError> {
        let mut parser = Parser {
            source: Source {
                file: taken.plan.file,
                text: taken.plan.text,
            },
            notes: &mut *self.notes,
            bases: Vec::new(),
            renamed: taken.blocks.clone(),
            block: taken.block.clone(),
        };
        let (sets, claims) = (results.sets.len(), results.claims.len());
        let mut root = parser.root()?;
        parser.results(&mut root, blocks, results)?;
        // The reasons are about what the other plan runs.
        for set in &mut results.sets[sets..] {
            set.why = None;
        }
        for claim in &mut results.claims[claims..] {
            claim.why = None;
        }
        Ok(())
    }
}

//! Parses `[[cause]]`.

use super::Parser;
use crate::plan::reader::Section;
use crate::plan::value::describe;
use crate::plan::{Cause, PlanError};

impl<'t> Parser<'t, '_> {
    /// Parses every `[[cause]]`. That its claims are the plan's is checked when all are known.
    pub(super) fn causes(&self, root: &mut Section<'t, 't>) -> Result<Vec<Cause>, PlanError> {
        let sections = root.sections("cause", "[[cause]]")?;
        sections.into_iter().map(|own| self.cause(own)).collect()
    }

    fn cause(&self, mut section: Section<'_, '_>) -> Result<Cause, PlanError> {
        let (text, _) = section.need_text("text")?;
        let entry = section.need("claims")?;
        section.finish()?;
        let wrong = |span, found: String| {
            let message = format!("claims: expected texts or names of claims, found {found}");
            Err(self.source.error(span, message))
        };
        let Some(items) = entry.value.as_array().filter(|items| !items.is_empty()) else {
            return wrong(&entry.span, describe(&entry.value));
        };
        let mut claims = Vec::new();
        for item in items.iter() {
            let Some(name) = item.get_ref().as_str() else {
                return wrong(&item.span(), describe(item.get_ref()));
            };
            claims.push((name.to_owned(), self.source.spot(&item.span())));
        }
        Ok(Cause { text, claims })
    }
}

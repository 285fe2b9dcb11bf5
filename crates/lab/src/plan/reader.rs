//! Reads TOML with line numbers: tables without unknown entries, and flattened dotted keys.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::value::{describe, number, whole};
use super::{PlanError, Spot};

/// The text of a plan.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    /// Returns the line of an offset, from 1.
    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Returns the position of a span's start.
    pub(super) fn spot(&self, span: &Range<usize>) -> Spot {
        Spot {
            file: self.file.into(),
            line: self.line(span.start),
        }
    }

    pub(super) fn error(&self, span: &Range<usize>, message: impl AsRef<str>) -> PlanError {
        PlanError::at(&self.spot(span), message.as_ref())
    }
}

/// A table whose known entries are taken one by one; a remaining entry is unknown.
pub(super) struct Section<'t, 'i> {
    source: Source<'t>,
    name: &'static str,
    span: Range<usize>,
    entries: Vec<Entry<'i>>,
}

/// A key and its value.
#[derive(Clone)]
pub(super) struct Entry<'i> {
    /// The key, dotted if tables were nested.
    pub(super) key: String,
    /// The span of the key.
    pub(super) span: Range<usize>,
    /// The value.
    pub(super) value: DeValue<'i>,
}

impl<'t, 'i> Section<'t, 'i> {
    /// Lists the entries of a table in the order of the text.
    pub(super) fn new(
        source: Source<'t>,
        name: &'static str,
        span: Range<usize>,
        table: &DeTable<'i>,
    ) -> Self {
        Self {
            source,
            name,
            span,
            entries: entries_of(table),
        }
    }

    pub(super) fn span(&self) -> &Range<usize> {
        &self.span
    }

    /// Takes an entry; `None` if it is absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry<'i>> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Takes a required entry.
    pub(super) fn need(&mut self, key: &str) -> Result<Entry<'i>, PlanError> {
        self.must_have(key)?;
        Ok(self.take(key).expect("it was looked for"))
    }

    /// Returns true if there is an entry that has not been taken.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Returns true if there is an entry of this text that has not been taken.
    pub(super) fn has_text(&self, key: &str, text: &str) -> bool {
        let mut all = self.entries.iter();
        all.any(|entry| entry.key == key && entry.value.as_str() == Some(text))
    }

    /// Checks for a required entry that is taken later.
    pub(super) fn must_have(&self, key: &str) -> Result<(), PlanError> {
        if self.has(key) {
            return Ok(());
        }
        let message = format!("{} needs `{key}`", self.name);
        Err(self.source.error(&self.span, message))
    }

    /// Takes a required text, which may be empty.
    pub(super) fn need_any_text(&mut self, key: &str) -> Result<(String, Range<usize>), PlanError> {
        let entry = self.need(key)?;
        match entry.value.as_str() {
            Some(text) => Ok((text.to_owned(), entry.span)),
            None => Err(self.wrong(&entry, "a text")),
        }
    }

    /// Takes an optional boolean.
    pub(super) fn switch(&mut self, key: &str) -> Result<Option<bool>, PlanError> {
        match self.take(key) {
            None => Ok(None),
            Some(entry) => match entry.value.as_bool() {
                Some(on) => Ok(Some(on)),
                None => Err(self.wrong(&entry, "true or false")),
            },
        }
    }

    /// Takes the entries of an optional table.
    pub(super) fn entries(&mut self, key: &str) -> Result<Option<Vec<Entry<'i>>>, PlanError> {
        let Some(entry) = self.take(key) else {
            return Ok(None);
        };
        let Some(table) = entry.value.as_table() else {
            return Err(self.wrong(&entry, "a table"));
        };
        Ok(Some(entries_of(table)))
    }

    /// Takes the entries of a required table.
    pub(super) fn need_entries(&mut self, key: &str) -> Result<Vec<Entry<'i>>, PlanError> {
        self.must_have(key)?;
        Ok(self.entries(key)?.unwrap_or_default())
    }

    /// Takes a required text, which must not be empty.
    pub(super) fn need_text(&mut self, key: &str) -> Result<(String, Range<usize>), PlanError> {
        let entry = self.need(key)?;
        match entry.value.as_str() {
            Some(text) if !text.trim().is_empty() => Ok((text.to_owned(), entry.span)),
            _ => Err(self.wrong(&entry, "a text")),
        }
    }

    /// Takes an optional text.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, PlanError> {
        match self.take(key) {
            None => Ok(None),
            Some(entry) => match entry.value.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(self.wrong(&entry, "a text")),
            },
        }
    }

    /// Takes an optional integer.
    pub(super) fn whole(
        &mut self,
        key: &str,
        limits: Range<i64>,
    ) -> Result<Option<i64>, PlanError> {
        let Some(entry) = self.take(key) else {
            return Ok(None);
        };
        match whole(&entry.value).filter(|number| limits.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, end) = (limits.start, limits.end);
                let expected = format!("a whole number from {least} to {}", end - 1);
                Err(self.wrong(&entry, &expected))
            }
        }
    }

    /// Takes a required number, integer or float.
    pub(super) fn need_number(&mut self, key: &str) -> Result<f64, PlanError> {
        let entry = self.need(key)?;
        number(&entry.value)
            .filter(|number| number.is_finite())
            .ok_or_else(|| self.wrong(&entry, "a number"))
    }

    /// Takes the entries of an optional table, with nested keys flattened to dotted ones.
    pub(super) fn flat(&mut self, key: &str) -> Result<Vec<Entry<'i>>, PlanError> {
        let Some(entry) = self.take(key) else {
            return Ok(Vec::new());
        };
        let Some(table) = entry.value.as_table() else {
            return Err(self.wrong(&entry, "a table"));
        };
        let mut entries = Vec::new();
        flatten("", table, &mut entries);
        entries.sort_by_key(|entry| entry.span.start);
        Ok(entries)
    }

    /// Takes the tables of an optional array of tables.
    pub(super) fn sections(
        &mut self,
        key: &str,
        name: &'static str,
    ) -> Result<Vec<Section<'t, 'i>>, PlanError> {
        let Some(entry) = self.take(key) else {
            return Ok(Vec::new());
        };
        let Some(array) = entry.value.as_array() else {
            return Err(self.wrong(&entry, &format!("[[{key}]]")));
        };
        array
            .iter()
            .map(|item| match item.get_ref().as_table() {
                Some(table) => Ok(Section::new(self.source, name, item.span(), table)),
                None => Err(self
                    .source
                    .error(&item.span(), format!("expected [[{key}]]"))),
            })
            .collect()
    }

    /// Takes a required table.
    pub(super) fn need_section(
        &mut self,
        key: &str,
        name: &'static str,
    ) -> Result<Section<'t, 'i>, PlanError> {
        let entry = self.need(key)?;
        match entry.value.as_table() {
            Some(table) => Ok(Section::new(self.source, name, entry.span, table)),
            None => Err(self.wrong(&entry, "a table")),
        }
    }

    /// Fails if there is an entry that was not taken.
    pub(super) fn finish(self) -> Result<(), PlanError> {
        match self.entries.first() {
            None => Ok(()),
            Some(entry) => {
                let message = format!("unknown key `{}` in {}", entry.key, self.name);
                Err(self.source.error(&entry.span, message))
            }
        }
    }

    fn wrong(&self, entry: &Entry<'_>, expected: &str) -> PlanError {
        let found = describe(&entry.value);
        self.source.error(
            &entry.span,
            format!("{}: expected {expected}, found {found}", entry.key),
        )
    }
}

/// Returns the entries of a table in the order of the text.
fn entries_of<'i>(table: &DeTable<'i>) -> Vec<Entry<'i>> {
    let entry = |(key, value): (&Spanned<DeString<'i>>, &Spanned<DeValue<'i>>)| Entry {
        key: key.get_ref().to_string(),
        span: key.span(),
        value: value.get_ref().clone(),
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries
}

fn flatten<'i>(prefix: &str, table: &DeTable<'i>, entries: &mut Vec<Entry<'i>>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(nested) => flatten(&format!("{name}."), nested, entries),
            other => entries.push(Entry {
                key: name,
                span: key.span(),
                value: other.clone(),
            }),
        }
    }
}

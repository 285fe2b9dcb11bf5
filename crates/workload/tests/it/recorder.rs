//! A console that records its output, with files in memory.

use std::collections::BTreeMap;
use std::io;

use workload::postmark::Console;

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) printed: String,
    pub(crate) errors: String,
    pub(crate) files: BTreeMap<String, String>,
}

impl Console for Recorder {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn error(&mut self, text: &str) {
        self.errors.push_str(text);
    }

    fn append(&mut self, path: &str, text: &str) -> io::Result<()> {
        if path.starts_with("/nowhere/") {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        self.files
            .entry(path.to_owned())
            .or_default()
            .push_str(text);
        Ok(())
    }

    fn load(&mut self, path: &str) -> io::Result<String> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

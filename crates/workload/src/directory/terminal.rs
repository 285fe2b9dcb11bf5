//! A console on the terminal: standard output, standard error, and files of the host.

use std::fs::OpenOptions;
use std::io::{self, Write};

use crate::postmark::Console;

/// Standard output and error, and the host's files by path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal;

impl Console for Terminal {
    fn print(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        // A closed standard output (`| head`) must not stop a benchmark before it has removed its
        // files.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn error(&mut self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    fn append(&mut self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(text.as_bytes())
    }

    fn load(&mut self, path: &str) -> io::Result<String> {
        super::read_text(path)
    }
}

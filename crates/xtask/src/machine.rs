//! Description of the machine on which a benchmark ran.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

const KIB: u64 = 1024;

/// The machine and its kernel.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory_bytes: u64,
    kernel: String,
}

impl Machine {
    /// Reads the description from the kernel.
    pub(crate) fn read() -> Result<Self> {
        let processors = read("/proc/cpuinfo")?;
        let memory = read("/proc/meminfo")?;
        Ok(Self {
            processor: field(&processors, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cores: std::thread::available_parallelism()
                .context("number of cores")?
                .get(),
            memory_bytes: kilobytes(&memory, "MemTotal").unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        })
    }

    /// Returns the description in one line.
    pub(crate) fn text(&self) -> String {
        let gibibytes = self.memory_bytes as f64 / (KIB * KIB * KIB) as f64;
        let Self {
            processor,
            cores,
            kernel,
            ..
        } = self;
        format!("{cores} cores of {processor}, {gibibytes:.1} GiB, Linux {kernel}")
    }

    /// Returns the description as JSON.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "processor": self.processor,
            "cores": self.cores,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
        })
    }
}

/// Returns the number of bytes in a line such as `VmHWM:  1234 kB` of a text.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?.split_whitespace().next()?;
    number.parse::<u64>().ok().map(|count| count * KIB)
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .into_iter()
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "Name:\tjext\nVmHWM:\t    1234 kB\nmodel name\t: A processor\n";
        assert_eq!(kilobytes(text, "VmHWM"), Some(1234 * 1024));
        assert_eq!(field(text, "model name"), Some("A processor"));
        assert_eq!(kilobytes(text, "VmRSS"), None);
    }
}

//! The program and the machine that made a record.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::hash::StableHash;

/// A build of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit that it was built from; `unknown` outside a repository.
    pub commit: String,
    /// The hash of the sources that simulated results depend on: two builds with the same hash give
    /// the same simulated results. Empty in records of old, and in builds outside the workspace.
    #[serde(default)]
    pub source: String,
    /// The hash of the executable file, which results in real time depend on.
    pub fingerprint: String,
}

/// A machine, with the properties that affect figures in real time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system and its version.
    pub system: String,
    /// The processor's architecture.
    pub architecture: String,
    /// The processor's name.
    pub processor: String,
    /// Number of processors that the program may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Further properties that affect figures in real time, if the system reports them: see
    /// [`FACTS`].
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// Properties of a machine, and the files of Linux that contain them.
pub const FACTS: [(&str, &str); 8] = [
    ("kernel_build", "/proc/sys/kernel/version"),
    ("kernel_command_line", "/proc/cmdline"),
    (
        "frequency_governor",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ),
    ("turbo_off", "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    (
        "transparent_huge_pages",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ),
    ("dirty_ratio", "/proc/sys/vm/dirty_ratio"),
    ("swappiness", "/proc/sys/vm/swappiness"),
];

impl Program {
    /// Returns the running program.
    #[must_use]
    pub fn current() -> Self {
        static FINGERPRINT: OnceLock<String> = OnceLock::new();
        let fingerprint = FINGERPRINT.get_or_init(fingerprint);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("LAB_COMMIT").to_owned(),
            source: env!("LAB_SOURCE").to_owned(),
            fingerprint: fingerprint.clone(),
        }
    }

    /// Returns the identity of the build as far as simulated results depend on it: the hash of its
    /// sources, or that of the executable if the sources are unknown.
    #[must_use]
    pub fn build(&self) -> &str {
        match self.source.is_empty() {
            true => &self.fingerprint,
            false => &self.source,
        }
    }
}

impl Machine {
    /// Returns the machine that the program is running on.
    #[must_use]
    pub fn current() -> Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(Self::look).clone()
    }

    /// Returns the load average of the last minute (processes that run or wait), if the system
    /// reports it.
    #[must_use]
    pub fn load() -> Option<f64> {
        let load = fs::read_to_string("/proc/loadavg").ok()?;
        load.split(' ').next()?.parse().ok()
    }

    /// Collects the properties that are constant while the program runs.
    fn look() -> Self {
        let facts = FACTS.iter().filter_map(|(name, path)| {
            let text = fs::read_to_string(path).ok()?;
            Some(((*name).to_owned(), text.trim().to_owned()))
        });
        let line_of = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        };
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = line_of("/proc/meminfo", "MemTotal").and_then(|text| {
            text.split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        });
        Self {
            system: format!("{} {}", std::env::consts::OS, release.trim())
                .trim()
                .to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            processor: line_of("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory.unwrap_or(0),
            facts: facts.collect(),
        }
    }
}

/// Returns the hash of the executable. If it cannot be read, returns a text that is unique to this
/// run, so that no record is reused.
fn fingerprint() -> String {
    let bytes = std::env::current_exe().and_then(fs::read);
    match bytes {
        Ok(bytes) => {
            let mut hash = StableHash::new();
            hash.raw(&bytes);
            hash.number(bytes.len() as u64);
            format!("{:016x}", hash.finish())
        }
        Err(_) => format!(
            "process {} at {:?}",
            std::process::id(),
            std::time::SystemTime::now()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_source_hash_covers_the_lab_and_its_dependencies() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let crates = crates.expect("it lies in crates/");
        let mut open = vec!["lab".to_owned()];
        let mut found = BTreeSet::new();
        while let Some(name) = open.pop() {
            let path = crates.join(&name).join("Cargo.toml");
            let Ok(manifest) = fs::read_to_string(path) else {
                continue;
            };
            let manifest: toml::Table = manifest.parse().expect("TOML");
            let own = manifest.get("dependencies").and_then(toml::Value::as_table);
            let names = own.into_iter().flat_map(toml::Table::keys);
            open.extend(names.filter(|other| !found.contains(*other)).cloned());
            found.insert(name);
        }
        let hashed: BTreeSet<String> = env!("LAB_SOURCE_CRATES")
            .split(' ')
            .map(str::to_owned)
            .collect();
        assert_eq!(hashed, found, "see CRATES in build.rs");
        assert_eq!(env!("LAB_SOURCE").len(), 16);
    }
}

//! Records what the program is built from, for the lab's records: the commit, and the hash of the
//! sources that simulated results depend on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that simulated results depend on: the lab and its dependencies in the workspace.
const CRATES: [&str; 11] = [
    "block",
    "diskmodel",
    "ext",
    "fsck",
    "jbd2",
    "lab",
    "layout",
    "rt",
    "sim",
    "uml",
    "workload",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Absent in a source archive: the commit is then unknown, and there is nothing to watch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=LAB_COMMIT={commit}");
    // Outside the workspace the sources are unknown; records then name the executable only.
    let source = source_hash().unwrap_or_default();
    println!("cargo::rustc-env=LAB_SOURCE={source}");
    println!("cargo::rustc-env=LAB_SOURCE_CRATES={}", CRATES.join(" "));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Returns the hash of the sources, their manifests and the versions of foreign crates: FNV-1a over
/// the path and the contents of each file, with their lengths.
fn source_hash() -> io::Result<String> {
    let root = Path::new("../..");
    let mut files = vec![PathBuf::from("Cargo.lock")];
    for name in CRATES {
        let folder = Path::new("crates").join(name);
        files.push(folder.join("Cargo.toml"));
        add_files(root, &folder.join("src"), &mut files)?;
    }
    files.sort();
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    };
    for file in files {
        let path = root.join(&file);
        println!("cargo::rerun-if-changed={}", path.display());
        add(file.to_string_lossy().as_bytes());
        add(&fs::read(path)?);
    }
    Ok(format!("{hash:016x}"))
}

/// Adds the files below a folder, and lets changes of the folder run this again.
fn add_files(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", root.join(folder).display());
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => add_files(root, &path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

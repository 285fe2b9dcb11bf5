//! `compare-build`: compares `jext build` with `mke2fs -d` on a tree of many files.
//!
//! Both make an image of the same size, with the same number of inodes, from the same tree, which
//! is generated from a seed. Each run is a separate process and starts without an image. Runs are
//! interleaved, so that other load on the machine affects both. A first pair warms the caches and
//! is not counted. Then `jext fsck` and `e2fsck -fn` check jext's image in turns. At the end
//! e2fsck has found both images clean, and two builds are compared byte for byte.
//!
//! On a tmpfs the figures are those of the programs, elsewhere mostly those of the disk.

pub(crate) mod child;
mod report;
pub(crate) mod tree;

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, ensure};
use block::text::Size;
use clap::Args;
use lab::system::tool::{self, Needed};

use crate::compared_type::ComparedType;
use crate::machine::Machine;
use crate::output;
use crate::program;
use crate::progress::Steps;
use crate::scratch::Scratch;
use crate::spans::Spans;
use child::Usage;
use tree::Shape;

/// Fixed UUID and time, so that all builds are identical.
const UUID: &str = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
const EPOCH: &str = "1700000000";
/// Bytes compared at a time.
const COMPARED_BYTES: usize = 1 << 20;
const TOOLS: [Needed; 2] = [("mke2fs", "e2fsprogs"), ("e2fsck", "e2fsprogs")];

/// Compare jext build with mke2fs -d on a tree of many files.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the tree and the images, which are removed afterwards; needs three times the
    /// size.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Type of both images.
    #[arg(short = 't', value_name = "TYPE", default_value = "ext4")]
    file_system: ComparedType,
    /// Number of files in the tree.
    #[arg(long, value_name = "COUNT", default_value_t = 65_000, value_parser = clap::value_parser!(u32).range(1..))]
    files: u32,
    /// Total size of the files.
    #[arg(long, value_name = "SIZE", default_value = "700MB")]
    size: String,
    /// Number of runs of each program.
    #[arg(long, value_name = "COUNT", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Seconds of one program: wall clock, and processor time.
struct Figures {
    wall: Spans,
    processor: Spans,
}

/// Figures of both programs, whose images were checked.
struct Comparison {
    file_system: ComparedType,
    shape: Shape,
    image_bytes: u64,
    mke2fs: Figures,
    jext: Figures,
    /// Checks of jext's image.
    e2fsck: Figures,
    fsck: Figures,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    tool::check(&TOOLS)?;
    let size = Size::parse(&arguments.size)
        .map_err(|expected| anyhow!("--size {}: expected {expected}", arguments.size))?;
    let shape = Shape {
        files: arguments.files,
        bytes: size.bytes(),
    };
    let machine = Machine::read()?;
    let place = Scratch::make(&arguments.folder, "build")?;
    // Ctrl-C reaches the children too, and they exit; dropping `place` then removes the folder.
    ctrlc::set_handler(|| {}).context("Ctrl-C")?;
    tree::make(&place.at("tree"), shape)?;
    let comparison = compare(&place, shape, arguments.file_system, arguments.runs)?;
    if arguments.json {
        output::print_json(&report::json(&machine, &comparison))?;
    } else {
        output::print(&report::text(&machine, &comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(place: &Scratch, shape: Shape, kind: ComparedType, runs: u32) -> Result<Comparison> {
    let mut steps = Steps::new(u64::from(runs) * 4);
    let (ours, theirs) = (place.at("jext.img"), place.at("mke2fs.img"));
    let program = program::find()?;
    let build = |image: &Path| build(&program, place, kind, image);
    run_fresh(&ours, &mut build(&ours))?;
    let image_bytes = fs::metadata(&ours).context("the image")?.len();
    let mut mke2fs = mke2fs(place, &theirs, kind, shape, image_bytes);
    run_fresh(&theirs, &mut mke2fs)?;
    let (mut our_usages, mut their_usages) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        steps.begin("jext build");
        our_usages.push(run_fresh(&ours, &mut build(&ours))?);
        steps.begin("mke2fs -d");
        their_usages.push(run_fresh(&theirs, &mut mke2fs)?);
    }
    let (mut our_checks, mut their_checks) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        steps.begin("jext fsck");
        let mut fsck = Command::new(&program);
        our_checks.push(child::run(fsck.args(["fsck", "-fn"]).arg(&ours))?);
        steps.begin("e2fsck -fn");
        let mut e2fsck = Command::new(tool::find("e2fsck").unwrap_or_default());
        their_checks.push(child::run(e2fsck.arg("-fn").arg(&ours))?);
    }
    for image in [&theirs, &ours] {
        check(image)?;
    }
    // The folder has space for two images only.
    fs::remove_file(&theirs).context("the image of mke2fs")?;
    let again = place.at("again.img");
    run_fresh(&again, &mut build(&again))?;
    ensure!(are_equal(&ours, &again)?, "two builds of one tree differ");
    Ok(Comparison {
        file_system: kind,
        shape,
        image_bytes,
        mke2fs: Figures::of(&their_usages),
        jext: Figures::of(&our_usages),
        e2fsck: Figures::of(&their_checks),
        fsck: Figures::of(&our_checks),
    })
}

impl Figures {
    fn of(usages: &[Usage]) -> Self {
        let spans = |seconds: fn(&Usage) -> f64| Spans::new(usages.iter().map(seconds).collect());
        Self {
            wall: spans(|usage| usage.seconds),
            processor: spans(|usage| usage.processor_seconds),
        }
    }
}

pub(crate) fn build(program: &Path, place: &Scratch, kind: ComparedType, image: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("SOURCE_DATE_EPOCH", EPOCH);
    command.args(["build", "-q", "-t", kind.name(), "-b", "4096", "-U", UUID]);
    command.arg(image).arg(place.at("tree"));
    command
}

/// Returns the command with the number of inodes that `jext build` chooses: those of the tree, a
/// tenth more, and 64.
pub(crate) fn mke2fs(
    place: &Scratch,
    image: &Path,
    kind: ComparedType,
    shape: Shape,
    image_bytes: u64,
) -> Command {
    let mut command = Command::new(tool::find("mke2fs").unwrap_or_default());
    let inodes = u64::from(shape.files) + u64::from(shape.directories());
    let inodes = (inodes + inodes / 10 + 64).to_string();
    command.args([
        "-q",
        "-F",
        "-t",
        kind.name(),
        "-b",
        "4096",
        "-U",
        UUID,
        "-N",
        &inodes,
        "-d",
    ]);
    command.arg(place.at("tree")).arg(image);
    command.arg(format!("{}k", image_bytes >> 10));
    command
}

pub(crate) fn run_fresh(image: &Path, command: &mut Command) -> Result<Usage> {
    if image.exists() {
        fs::remove_file(image).context("the last image")?;
    }
    child::run(command)
}

pub(crate) fn check(image: &Path) -> Result<()> {
    let checked = Command::new(tool::find("e2fsck").unwrap_or_default())
        .arg("-fn")
        .arg(image)
        .output();
    let checked = checked.context("e2fsck")?;
    let said = String::from_utf8_lossy(&checked.stdout);
    ensure!(checked.status.success(), "{}: {said}", image.display());
    Ok(())
}

fn are_equal(one: &Path, other: &Path) -> Result<bool> {
    let open = |path| File::open(path).map(|file| BufReader::with_capacity(COMPARED_BYTES, file));
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        for (file, bytes) in [(&mut one, &mut left), (&mut other, &mut right)] {
            bytes.clear();
            file.take(COMPARED_BYTES as u64).read_to_end(bytes)?;
        }
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_to_their_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let bytes = vec![7; COMPARED_BYTES + 10];
        fs::write(path("one"), &bytes).expect("it is written");
        fs::write(path("same"), &bytes).expect("it is written");
        fs::write(path("longer"), [&bytes[..], b"x"].concat()).expect("it is written");
        assert!(are_equal(&path("one"), &path("same")).expect("both are read"));
        assert!(!are_equal(&path("one"), &path("longer")).expect("both are read"));
    }
}

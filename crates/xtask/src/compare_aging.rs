//! `compare-aging`: compares the fragmentation of files after a long life of the file system, on
//! this engine and on the kernel's ext4.
//!
//! Both images are made by mke2fs with the same options. The kernel's is mounted through a loop
//! device, and aged for the given time by a seeded load that creates, appends to, rewrites and
//! deletes files while the volume stays near a given fill. Then jext's image is aged by the same
//! operations in this process. Both are unmounted, checked by e2fsck and mounted by the kernel,
//! where `filefrag` counts the extents of each file.
//!
//! The command re-executes itself in a private mount namespace and mounts everything there.

mod extents;
mod load;
mod report;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use block::text::Size;
use block::{FileDevice, OpenOptions};
use clap::Args;
use ext::Volume;
use jext::mount_options::ParsedOptions;
use lab::system::tool::{self, Needed};
use lab::system::{Mounted, namespace};
use lab::targets::VolumeTarget;
use workload::Control;
use workload::directory::DirectoryTarget;

use crate::machine::Machine;
use crate::output;
use crate::progress::Steps;
use crate::scratch::Scratch;
use extents::Extents;
use load::{Aged, Limit, Load};

/// Mount options that both sides share.
const MOUNT_OPTIONS: &str = "data=ordered,commit=5";
/// A directory that every system has and that nothing uses; the mounts on it are visible only to
/// this process.
const MOUNT_POINT: &str = "/mnt";
const TOOLS: [Needed; 5] = [
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("filefrag", "e2fsprogs"),
    ("mount", "mount"),
    ("umount", "mount"),
];

/// Compare the fragmentation of files on aged file systems of this engine and of the kernel; needs
/// root.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for both images, which are removed afterwards.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Seconds for which the kernel's file system ages; jext's ages by the same operations.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Number of operations in place of a time.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Size of the images.
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    size: String,
    /// Percentage of the volume that files take.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=90))]
    fill: u64,
    /// Seed of the operations.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

/// An aged file system.
struct Side {
    aged: Aged,
    extents: Extents,
}

/// Both file systems.
struct Comparison {
    size_bytes: u64,
    fill_percent: u64,
    seed: u64,
    kernel: Side,
    jext: Side,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.inside {
        tool::check(&TOOLS)?;
        return Err(namespace::enter("--inside"));
    }
    let size = Size::parse(&arguments.size)
        .map_err(|expected| anyhow!("--size {}: {expected}", arguments.size))?;
    let machine = Machine::read()?;
    let control = Arc::new(Control::new());
    let canceller = Arc::clone(&control);
    ctrlc::set_handler(move || canceller.cancel()).context("Ctrl-C")?;
    let scratch = Scratch::make(&arguments.folder, "aging")?;
    let comparison = compare(arguments, size.bytes(), &scratch, &control)?;
    if arguments.json {
        output::print_json(&report::json(&machine, &comparison))?;
    } else {
        output::print(&report::text(&machine, &comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(
    arguments: &Arguments,
    size_bytes: u64,
    scratch: &Scratch,
    control: &Control,
) -> Result<Comparison> {
    let mut steps = Steps::new(2);
    let wanted = size_bytes / 100 * arguments.fill;
    let load = |limit| Load::new(arguments.seed, wanted, limit);
    let limit = match arguments.operations {
        Some(count) => Limit::Operations(count),
        None => Limit::Time(Duration::from_secs(arguments.seconds)),
    };
    steps.begin("kernel");
    let image = scratch.at("kernel.img");
    format(&image, size_bytes)?;
    let aged = age_on_kernel(&image, load(limit), control)?;
    let kernel = Side::measure(aged, &image)?;
    std::fs::remove_file(&image).context("the kernel's image")?;
    steps.begin("jext");
    let image = scratch.at("jext.img");
    format(&image, size_bytes)?;
    let limit = Limit::Operations(kernel.aged.operations);
    let aged = age_on_engine(&image, load(limit), control)?;
    let jext = Side::measure(aged, &image)?;
    ensure!(
        kernel.aged.digest == jext.aged.digest,
        "the two sides did not do the same operations"
    );
    Ok(Comparison {
        size_bytes,
        fill_percent: arguments.fill,
        seed: arguments.seed,
        kernel,
        jext,
    })
}

fn format(image: &Path, size_bytes: u64) -> Result<()> {
    let file = File::create(image).context("image")?;
    file.set_len(size_bytes).context("image")?;
    let now = "lazy_itable_init=0,lazy_journal_init=0";
    let options = ["-q", "-F", "-t", "ext4", "-b", "4096", "-E", now];
    tool::call("mke2fs", &[&options[..], &[text(image)?]].concat())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

fn age_on_kernel(image: &Path, load: Load, control: &Control) -> Result<Aged> {
    let options = format!("loop,{MOUNT_OPTIONS}");
    let mounted = Mounted::new("ext4", &options, text(image)?, Path::new(MOUNT_POINT))?;
    let target = DirectoryTarget::new(Path::new(MOUNT_POINT))?;
    let aged = load.run(&target, control)?;
    drop(target);
    mounted.unmount()?;
    Ok(aged)
}

fn age_on_engine(image: &Path, load: Load, control: &Control) -> Result<Aged> {
    let device = FileDevice::open(image, &OpenOptions::default()).context("the image")?;
    let mut mount = ParsedOptions::default();
    mount.add(MOUNT_OPTIONS)?;
    // The kernel lets root use the reserved blocks.
    mount.options.privileged = true;
    let volume = Volume::open(Arc::new(device), None, mount.options).context("mount")?;
    let target = VolumeTarget::new(volume, "image");
    let aged = load.run(&target, control)?;
    target.into_volume().close().context("closing")?;
    Ok(aged)
}

impl Side {
    /// Checks an unmounted image, and counts the extents of its files.
    fn measure(aged: Aged, image: &Path) -> Result<Self> {
        let mut command = Command::new(tool::find("e2fsck").context("e2fsck")?);
        let checked = command.arg("-fn").arg(image).output().context("e2fsck")?;
        let said = String::from_utf8_lossy(&checked.stdout);
        ensure!(checked.status.success(), "e2fsck: {said}");
        let mounted = Mounted::new("ext4", "loop,ro", text(image)?, Path::new(MOUNT_POINT))?;
        let extents = Extents::of(Path::new(MOUNT_POINT))?;
        mounted.unmount()?;
        ensure!(
            extents.files() == aged.files,
            "{} files were left, and {} were found",
            aged.files,
            extents.files()
        );
        Ok(Self { aged, extents })
    }
}

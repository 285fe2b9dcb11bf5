//! `jext lab kernel`: installs and builds the kernels of guests.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use uml::Kernel;
use uml::kernel::build;

use crate::{output, progress};

/// Debian's package of a kernel that runs in real time, and of the programs that make file systems.
const PACKAGES: [&str; 6] = [
    "user-mode-linux",
    "e2fsprogs",
    "jfsutils",
    "reiserfsprogs",
    "xfsprogs",
    "btrfs-progs",
];

/// Install or build the kernels of targets such as uml:ext3.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Kernels,
}

#[derive(Debug, Subcommand)]
enum Kernels {
    /// Install Debian's package: guests on files, in real time. Needs root.
    Install,
    /// Build Linux 6.1 from Debian's source package: guests on simulated devices, in virtual time.
    Build {
        /// Number of processes.
        #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        jobs: Option<u32>,
    },
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let kernel = match &arguments.command {
        Kernels::Install => install()?,
        Kernels::Build { jobs } => build_with(*jobs)?,
    };
    output::print(&format!("{}\n", kernel.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn install() -> Result<Kernel> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "installing packages needs root: apt-get install {}",
            PACKAGES.join(" ")
        );
    }
    let status = Command::new("apt-get")
        .args(["install", "-y"])
        .args(PACKAGES)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()
        .context("apt-get")?;
    if !status.success() {
        bail!("apt-get: {status}");
    }
    Ok(Kernel::in_real_time()?)
}

fn build_with(jobs: Option<u32>) -> Result<Kernel> {
    let jobs = match jobs {
        Some(jobs) => jobs as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut bar = Bar(progress::share(1000));
    let kernel = build::build(jobs, &mut bar);
    bar.0.finish_and_clear();
    kernel.context("building the kernel")
}

struct Bar(ProgressBar);

impl build::Progress for Bar {
    fn step(&mut self, name: &str) {
        self.0.set_position(0);
        self.0.set_message(name.to_owned());
    }

    fn advanced(&mut self, share: f64) {
        self.0.set_position((share * 1000.0) as u64);
    }
}

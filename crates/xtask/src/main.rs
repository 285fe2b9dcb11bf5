//! Commands for the developers of jext: comparisons with other programs, whose figures are in
//! `docs/performance.md` and `docs/workloads.md`, instruction counts of the engine's hot paths, the
//! mutant hunts of `docs/mutants.md`, and the checkers on e2fsprogs' images. They are not shipped.
//!
//! ```text
//! cargo xtask compare-kernel           # an alias in .cargo/config.toml, with a release build
//! cargo run -p xtask -- mutants        # only builds with debug assertions can break rules
//! ```

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "commands live in the real world"
)]

mod bench;
mod compare_aging;
mod compare_build;
mod compare_kernel;
mod compare_programs;
mod compare_sync;
mod compared_type;
mod crew;
mod disk_image;
mod e2fsprogs_images;
mod engine;
mod machine;
mod memory;
mod memory_build;
mod mutants;
mod output;
mod peak;
mod postmark;
mod program;
mod progress;
mod ratio;
mod scratch;
mod spans;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure and test the project itself.
#[derive(Debug, Parser)]
#[command(name = "xtask", max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure how fast jext is beside its peers, and count what its hot paths cost.
    Bench(bench::Arguments),
    /// Compare the fragmentation of files on aged file systems of this engine and of the kernel;
    /// needs root.
    CompareAging(compare_aging::Arguments),
    /// Compare jext build with mke2fs -d on a tree of many files.
    CompareBuild(compare_build::Arguments),
    /// Compare PostMark and a large file on this engine and on the kernel's ext3 or ext4; needs
    /// root.
    CompareKernel(compare_kernel::Arguments),
    /// Compare the benchmarks of jext bench with Debian's programs of the same name.
    ComparePrograms(compare_programs::Arguments),
    /// Compare files that are created and synced on this engine and on the kernel's ext4; needs
    /// root.
    CompareSync(compare_sync::Arguments),
    /// Compare jext fsck with e2fsck -fn on the images of e2fsprogs' tests, and give them to the
    /// tools.
    E2fsprogsImages(e2fsprogs_images::Arguments),
    /// Measure the memory of copying a large file into an image and out of it.
    Memory(memory::Arguments),
    /// Measure the memory of building images of millions of files.
    MemoryBuild(memory_build::Arguments),
    /// Break rules of the engine, one at a time, and count the states until the explorer notices.
    Mutants(mutants::Arguments),
}

fn main() -> ExitCode {
    let done = match Line::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::CompareAging(arguments) => compare_aging::run(&arguments),
        Command::CompareBuild(arguments) => compare_build::run(&arguments),
        Command::CompareKernel(arguments) => compare_kernel::run(&arguments),
        Command::ComparePrograms(arguments) => compare_programs::run(&arguments),
        Command::CompareSync(arguments) => compare_sync::run(&arguments),
        Command::E2fsprogsImages(arguments) => e2fsprogs_images::run(&arguments),
        Command::Memory(arguments) => memory::run(&arguments),
        Command::MemoryBuild(arguments) => memory_build::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        output::tell(&format!("xtask: {error:#}"));
        ExitCode::FAILURE
    })
}

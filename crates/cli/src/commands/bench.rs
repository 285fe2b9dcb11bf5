//! `jext bench`: benchmarks on a directory, an image or memory, and those whose figures are in `docs/performance.md`.

mod compare_build;
mod compare_kernel;
mod compare_programs;
mod figures;
mod load;
mod machine;
mod memory;
mod place;
mod postmark;
mod spans;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Run a benchmark.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// PostMark: many small files that live for a short time.
    Postmark(Box<postmark::Arguments>),
    /// synctest: tasks that write, sync, rename and remove small files.
    Synctest(load::Arguments),
    /// make-many-files: a regular tree of small files, made and removed.
    MakeManyFiles(load::Arguments),
    /// Tree copy: cp -r of a tree within one file system.
    TreeCopy(load::Arguments),
    /// fs_mark: making files and syncing them in one of seven ways.
    #[command(name = "fs_mark")]
    FsMark(load::Arguments),
    /// OBLdisk: one file, sequential requests from 2 KiB to 1 MiB.
    Obldisk(load::Arguments),
    /// OBLload: random requests of more and more users, until responses take too long.
    Oblload(load::Arguments),
    /// Mongo: trees made, copied, linked, read, looked at, renamed and removed.
    Mongo(load::Arguments),
    /// IOzone: bandwidths by file size, record size and way of access.
    Iozone(load::Arguments),
    /// Bonnie++: a large file by bytes, chunks and seeks; thousands of files.
    Bonnie(load::Arguments),
    /// dbench: what clients of a file server did, done again.
    Dbench(load::Arguments),
    /// filebench: a mail, file, web or database server.
    Filebench(load::Arguments),
    /// fsx: random operations on one file, compared with a copy in memory.
    Fsx(load::Arguments),
    /// fsstress: random operations on trees, compared with a model.
    Fsstress(load::Arguments),
    /// jext build against mke2fs -d, on a tree of many files.
    CompareBuild(compare_build::Arguments),
    /// PostMark on this engine against PostMark on the kernel's ext3; needs root.
    CompareKernel(compare_kernel::Arguments),
    /// The benchmarks here against Debian's programs of the same name.
    ComparePrograms(compare_programs::Arguments),
    /// The memory of copying a large file into an image and out of it.
    Memory(memory::Arguments),
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.workload {
        Workload::Postmark(arguments) => postmark::run(&arguments),
        Workload::Synctest(arguments) => load::run("synctest", &arguments),
        Workload::MakeManyFiles(arguments) => load::run("make-many-files", &arguments),
        Workload::TreeCopy(arguments) => load::run("tree-copy", &arguments),
        Workload::FsMark(arguments) => load::run("fs_mark", &arguments),
        Workload::Obldisk(arguments) => load::run("obldisk", &arguments),
        Workload::Oblload(arguments) => load::run("oblload", &arguments),
        Workload::Mongo(arguments) => load::run("mongo", &arguments),
        Workload::Iozone(arguments) => load::run("iozone", &arguments),
        Workload::Bonnie(arguments) => load::run("bonnie", &arguments),
        Workload::Dbench(arguments) => load::run("dbench", &arguments),
        Workload::Filebench(arguments) => load::run("filebench", &arguments),
        Workload::Fsx(arguments) => load::run("fsx", &arguments),
        Workload::Fsstress(arguments) => load::run("fsstress", &arguments),
        Workload::CompareBuild(arguments) => compare_build::run(&arguments),
        Workload::CompareKernel(arguments) => compare_kernel::run(&arguments),
        Workload::ComparePrograms(arguments) => compare_programs::run(&arguments),
        Workload::Memory(arguments) => memory::run(&arguments),
    }
}

//! The command line: one file in `commands` for each subcommand.

use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{
    bench, build, cat, completions, cp, crash, defrag, export, fallocate, fsck, info, journal, lab,
    ln, ls, manual, mkdir, mkfs, mount, mv, quota, replay, rm, stat, trim, tune, umount,
};

/// ext2, ext3 and ext4 in user space, and a laboratory for their journals.
///
/// A device is a path or a device text: mem:1GiB, sim:atlas-v-18, nvram:128MiB,
/// slice(DEV,1GiB..2GiB), disk(DEV), raid5(DEV x4), fault(DEV,eio=1e-6). A path inside an image is
/// IMAGE:/path.
#[derive(Debug, Parser)]
#[command(name = "jext", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Log what the engine does; repeat for more. JEXT_LOG filters by module, as in
    /// JEXT_LOG=jbd2=debug.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a file system.
    Mkfs(Box<mkfs::Arguments>),
    /// Make an image of a directory or an archive.
    Build(Box<build::Arguments>),
    /// Export an image to an archive or a directory.
    Export(export::Arguments),
    /// Mount a file system through FUSE.
    Mount(mount::Arguments),
    /// Unmount a file system, and wait until its image is closed.
    Umount(umount::Arguments),
    /// Show a file system's features, sizes and state.
    Info(info::Arguments),
    /// Change a file system's label, UUID, journal and defaults.
    Tune(tune::Arguments),
    /// Check a file system; nothing is written.
    Fsck(fsck::Arguments),
    /// List directories.
    Ls(ls::Arguments),
    /// Print files.
    Cat(cat::Arguments),
    /// Show all attributes of a file.
    Stat(stat::Arguments),
    /// Copy files into, out of and between images.
    Cp(cp::Arguments),
    /// Make directories.
    Mkdir(mkdir::Arguments),
    /// Remove files and directories.
    Rm(rm::Arguments),
    /// Move or rename within an image.
    Mv(mv::Arguments),
    /// Make hard and symbolic links.
    Ln(ln::Arguments),
    /// Allocate, free, remove or insert a range of files.
    Fallocate(fallocate::Arguments),
    /// Give files fewer extents.
    Defrag(defrag::Arguments),
    /// Return an image's free space to its host.
    Trim(trim::Arguments),
    /// Report quotas, and set their limits.
    Quota(quota::Arguments),
    /// Inspect or replay a journal, or make an external one.
    Journal(journal::Arguments),
    /// Run a benchmark on a directory, an image or memory.
    Bench(bench::Arguments),
    /// Run experiments from their plans.
    Lab(lab::Arguments),
    /// Cut the power at every point in simulated worlds, and check each recovery.
    Crash(crash::Arguments),
    /// Repeat a violation that `crash` found.
    Replay(replay::Arguments),
    /// Write man pages.
    Manual(manual::Arguments),
    /// Print completions for a shell.
    Completions(completions::Arguments),
    /// Run the kernel of a guest, in the namespaces of a guest.
    #[command(hide = true)]
    GuestCage,
    /// Be the first process of a guest.
    #[command(hide = true)]
    GuestInit,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

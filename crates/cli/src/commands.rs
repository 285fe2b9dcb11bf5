//! The subcommands, one per file.

pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod crash;
pub(crate) mod defrag;
pub(crate) mod export;
pub(crate) mod fallocate;
mod format_arguments;
pub(crate) mod fsck;
pub(crate) mod info;
pub(crate) mod journal;
pub(crate) mod lab;
pub(crate) mod ln;
pub(crate) mod ls;
pub(crate) mod manual;
pub(crate) mod mkdir;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod mv;
mod new_device;
pub(crate) mod quota;
pub(crate) mod replay;
pub(crate) mod rm;
pub(crate) mod stat;
pub(crate) mod trim;
pub(crate) mod tune;
pub(crate) mod umount;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, Command};

/// Runs a subcommand.
pub(crate) fn run(command: Command, is_verbose: bool) -> Result<ExitCode> {
    match command {
        Command::Mkfs(arguments) => mkfs::run(&arguments),
        Command::Build(arguments) => build::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Umount(arguments) => umount::run(&arguments),
        Command::Fsck(arguments) => fsck::run(&arguments),
        Command::Fallocate(arguments) => fallocate::run(&arguments),
        Command::Defrag(arguments) => defrag::run(&arguments),
        Command::Trim(arguments) => trim::run(&arguments),
        Command::Quota(arguments) => quota::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Cp(arguments) => cp::run(&arguments, is_verbose),
        Command::Mkdir(arguments) => mkdir::run(&arguments),
        Command::Rm(arguments) => rm::run(&arguments),
        Command::Mv(arguments) => mv::run(&arguments),
        Command::Ln(arguments) => ln::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Crash(arguments) => crash::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, Cli::command()),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Command::GuestCage => Ok(uml::cage::enter()?),
        Command::GuestInit => ::lab::guest::init::run().map(|()| ExitCode::SUCCESS),
    }
}

//! The loads of works: each runs once on a side and returns the figures of its work.

mod directory;
mod durable;
mod metadata;
mod programs;
mod random;
mod sequential;
mod tree;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rt::Nanos;
use workload::parameter::Setting;
use workload::{Definition, Load as Workload};

use super::opened::{IMAGE, Opened};
use super::place::Place;
use super::side::Side;
use super::site::Site;
use crate::compare_sync::load::Load as Synced;
use crate::compared_type::ComparedType;
use crate::disk_image::Format;
use crate::postmark::Test;
use crate::spans::Work as Counts;

pub(super) use directory::Directory;
pub(super) use durable::Durable;
pub(super) use metadata::Metadata;
pub(super) use programs::Replay;
pub(super) use random::Random;

/// The load of a run, with its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    PostMark(Test),
    /// Filebench's mail server.
    Varmail {
        threads: u32,
        seconds: u64,
    },
    /// Threads that create files and sync each.
    Synced(Synced),
    Durable(Durable),
    /// A file of so many bytes, written and read in order.
    Sequential(u64),
    Random(Random),
    Metadata(Metadata),
    Directory(Directory),
    /// An image of a tree of files.
    Build(ComparedType),
    /// A check of the image of a tree of files.
    Check(ComparedType),
    Replay(Replay),
}

/// The results of a run.
pub(super) struct Done {
    /// In the order of the work's figures.
    pub(super) values: Vec<f64>,
    /// The work that was done, if it must not depend on the side.
    pub(super) counts: Option<Counts>,
}

impl Done {
    fn of(values: impl Into<Vec<f64>>) -> Self {
        Self {
            values: values.into(),
            counts: None,
        }
    }
}

impl Load {
    /// Runs once on a side.
    pub(super) fn run(self, site: &Site, place: Place, side: Side) -> Result<Done> {
        match (self, side) {
            (Self::Sequential(bytes), Side::Memcpy) => sequential::copy_memory(site, bytes),
            (Self::Durable(load), Side::Raw) => load.run_raw(site),
            (Self::Build(kind), _) => programs::build(site, side, kind),
            (Self::Check(kind), _) => programs::check(site, side, kind),
            (Self::Replay(load), _) => load.run(site, side),
            (load, _) => {
                let opened = Opened::make(site, place, side)?;
                let done = load.run_on(site, &opened)?;
                opened.close()?;
                clean_up(site, place, side)?;
                Ok(done)
            }
        }
    }

    fn run_on(self, site: &Site, opened: &Opened) -> Result<Done> {
        match self {
            Self::PostMark(test) => postmark(test, site, opened),
            Self::Varmail { threads, seconds } => varmail(site, opened, threads, seconds),
            Self::Synced(load) => {
                load.prepare(&**opened.target())?;
                let seconds = load.run(opened.target())?;
                Ok(Done::of([f64::from(load.file_count()) / seconds]))
            }
            Self::Durable(load) => load.run(site, opened),
            Self::Sequential(bytes) => sequential::run(opened, bytes),
            Self::Random(load) => load.run(site, opened),
            Self::Metadata(load) => load.run(site, opened),
            Self::Directory(load) => load.run(site, opened),
            Self::Build(_) | Self::Check(_) | Self::Replay(_) => {
                unreachable!("these have no open file system")
            }
        }
    }
}

/// Checks the image on disk, or removes the image in memory, of a side whose run has ended.
fn clean_up(site: &Site, place: Place, side: Side) -> Result<()> {
    match (place, side.disk_format()) {
        (Place::Disk, Some(format)) if format != Format::Xfs => site.disk_image()?.check(),
        _ if side == Side::JextTmpfs => site.memory.remove(IMAGE),
        _ => Ok(()),
    }
}

fn postmark(test: Test, site: &Site, opened: &Opened) -> Result<Done> {
    let run = match opened.folder() {
        Some(folder) => test.run_program(&folder, &site.memory.at("script"), &site.control)?,
        None => test.run(opened.target(), &site.control)?,
    };
    Ok(Done {
        values: vec![run.seconds],
        counts: Some(run.counts),
    })
}

fn varmail(site: &Site, opened: &Opened, threads: u32, seconds: u64) -> Result<Done> {
    let definition = Definition::named("filebench").context("the workload is gone")?;
    let mut values = definition.defaults();
    let settings = [
        ("filebench.personality", Setting::Text("varmail".into())),
        ("filebench.time", Setting::Time(Nanos::from_secs(seconds))),
        ("filebench.threads", Setting::Number(i64::from(threads))),
        ("bench.latencies", Setting::Switch(false)),
        ("bench.verify", Setting::Switch(false)),
    ];
    for (name, setting) in settings {
        values.set(name, setting);
    }
    let load = Workload::new(definition, values)?;
    let outcome = load.run(opened.target(), &Arc::clone(&site.control))?;
    let rate = outcome.value("operations_rate");
    let rate = rate.context("the run has no rate")?;
    ensure!(rate > 0.0, "no operation was completed");
    Ok(Done::of([rate]))
}

//! A damaged image before a valid commit block of the last transaction, which had been
//! acknowledged.
//!
//! | reader | treatment |
//! |---|---|
//! | the engine | drops the whole transaction, reports it and the cause, records an error |
//! | the kernel | replays the other images of the transaction, then refuses the mount |
//! | e2fsck | replays the other images, then checks everything |
//!
//! After the engine's replay, the volume is consistent and a check is due.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use jbd2::recovery::LoggedBlock;
use layout::Tid;
use testkit::privilege;

use super::log_format::{self, LogFormat, V2, V3};
use super::{readers, writers};
use crate::image::Image;
use crate::rig::device;

/// Returns a log with checksums in which an image of the last transaction is damaged: the image,
/// that transaction, and the block.
fn damaged(format: LogFormat) -> (Image, Tid, LoggedBlock) {
    let image = writers::blank(format, false, false);
    writers::by_engine(&image, ext::options::DataMode::Ordered, |volume| {
        for name in ["/first", "/last"] {
            volume.create_directory(name).expect("mkdir");
            volume.sync().expect("sync");
        }
    });
    let found = log_format::inspect(&image);
    let last = found.transactions.last().expect("the log holds some");
    let logged = last.blocks[last.blocks.len() / 2];
    let place = log_format::location(&image)
        .extents
        .iter()
        .flat_map(|extent| (extent.first.get()..).take(extent.count as usize))
        .nth(logged.log_block as usize)
        .expect("the log is mapped");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&image.path)
        .expect("the image is there");
    let at = place * u64::from(image.block_bytes) + 700;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("readable");
    file.write_all_at(&[byte[0] ^ 4], at).expect("writable");
    (image, last.tid, logged)
}

fn open(image: &Image) -> (Volume, OpenReport) {
    let opened = Volume::open_with_report(image.device(), None, MountOptions::default());
    opened.expect("the volume opens")
}

#[test]
fn a_committed_transaction_is_not_lost_in_silence() {
    for format in [V2, V3] {
        let (dirty, tid, logged) = damaged(format);
        let end = log_format::inspect(&dirty)
            .end
            .expect("the log is not empty");
        assert!(end.is_lost && end.is_torn && !end.is_damaged, "{end:?}");
        let ours = dirty.copy();
        let (volume, report) = open(&ours);
        let lost = report.lost.expect("it is told");
        assert_eq!((lost.tid, lost.log_block), (tid, logged.log_block));
        assert!(report.has_errors);
        volume
            .resolve("/first", true)
            .expect("the ones before it are there");
        volume
            .resolve("/last", true)
            .expect_err("all of it is dropped");
        volume.close().expect("close");
        let (code, said) = readers::e2fsck(&["-fn"], &ours);
        assert_eq!(code, Some(0), "what is left is consistent: {said}");
        let (_, said) = readers::e2fsck(&["-n"], &ours);
        assert!(said.contains("with errors, check forced"), "{said}");
        let (volume, report) = open(&ours);
        assert!(report.has_errors && report.lost.is_none());
        volume.close().expect("close");
    }
}

#[test]
fn e2fsck_and_the_kernel_do_not_lose_it_in_silence_either() {
    for format in [V2, V3] {
        let (dirty, ..) = damaged(format);
        let theirs = dirty.copy();
        let (code, said) = readers::e2fsck(&["-y"], &theirs);
        assert_ne!(code, Some(0), "{said}");
        assert!(said.contains("Pass 1"), "the check is forced: {said}");
        if privilege::is_granted() {
            let theirs = dirty.copy();
            let why = theirs
                .mount("ro,barrier=0")
                .map(drop)
                .expect_err("it is refused");
            assert!(why.contains("error loading journal"), "{why}");
        }
    }
}

#[test]
fn the_loss_is_noted() {
    let (dirty, ..) = damaged(V3);
    let load = |image: &Image| MemoryDevice::load_from_file(&image.path).expect("the image loads");
    let bytes = load(&dirty);
    let run = |mutant| {
        let home = Arc::new(bytes.snapshot());
        let life = move || {
            let options = crate::rig::quiet(ext::options::DataMode::Ordered);
            let volume = Volume::open(device(&home), None, options).expect("the volume opens");
            volume.close().expect("close");
            let superblock = device(&home).read_block(1024, 1024).expect("readable");
            assert_eq!(superblock[0x3A] & 2, 2, "s_state has EXT2_ERROR_FS");
        };
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, life).map(drop)
    };
    run(None).unwrap_or_else(|error| panic!("with nothing broken: {error}"));
    if rt::mutant::IS_POSSIBLE {
        assert!(run(Some("recovery/loss-not-noted")).is_err());
    }
}

//! The contents of files, in pages of 4 KiB.

use anyhow::Result;
use ext::volume::{FileId, SetAttributes};

use super::{OPERATIONS, repeated};
use crate::case::Case;
use crate::rig::{BLOCK_BYTES, Rig, Setup};

const PAGE: [u8; BLOCK_BYTES as usize] = [9; BLOCK_BYTES as usize];
/// Length in bytes of a file that is truncated.
const LONG_BYTES: usize = 64 << 10;

pub(super) fn cases() -> Vec<Case> {
    let reads = Setup::ORDERED.into_iter().map(|setup| {
        repeated("read-4k", setup, one_file, |rig, file, number| {
            let mut page = [0; PAGE.len()];
            let offset = number * PAGE.len() as u64;
            rig.volume.read(*file, offset, &mut page)?;
            Ok(())
        })
    });
    let writes = Setup::WRITING.into_iter().flat_map(writing);
    reads.chain(writes).collect()
}

/// Makes a volume with one file of as many pages as there are operations, and opens it.
fn one_file(setup: Setup) -> Result<(Rig, FileId)> {
    let rig = Rig::new(setup, 1, OPERATIONS as usize * PAGE.len())?;
    let file = rig.open(0)?;
    Ok((rig, file))
}

/// Makes a volume with one empty file, and opens it.
fn empty_file(setup: Setup) -> Result<(Rig, FileId)> {
    let rig = Rig::new(setup, 1, 0)?;
    let file = rig.open(0)?;
    Ok((rig, file))
}

fn write_page(rig: &Rig, file: FileId, number: u64) -> Result<()> {
    let offset = number * PAGE.len() as u64;
    rig.volume.write_all(file, offset, &PAGE)?;
    Ok(())
}

fn writing(setup: Setup) -> Vec<Case> {
    let empty = |setup| Ok((Rig::new(setup, 0, 0)?, ()));
    let long = |setup| {
        let rig = Rig::new(setup, OPERATIONS, LONG_BYTES)?;
        let nodes = rig.nodes(OPERATIONS)?;
        Ok((rig, nodes))
    };
    vec![
        repeated("create-write-close", setup, empty, |rig, (), number| {
            let file = rig.create_open(number)?;
            write_page(rig, file, 0)?;
            rig.volume.release(file)?;
            Ok(())
        }),
        repeated("overwrite-4k", setup, one_file, |rig, file, number| {
            write_page(rig, *file, number)
        }),
        repeated("append-4k", setup, empty_file, |rig, file, number| {
            write_page(rig, *file, number)
        }),
        repeated("append-fsync-4k", setup, empty_file, |rig, file, number| {
            write_page(rig, *file, number)?;
            rig.volume.sync_file(*file, false)?;
            Ok(())
        }),
        repeated("truncate-64k", setup, long, |rig, nodes, number| {
            let change = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            rig.volume.set_attributes(nodes[number as usize], &change)?;
            Ok(())
        }),
    ]
}

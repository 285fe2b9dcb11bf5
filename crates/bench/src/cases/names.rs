//! Names: directories, and the inodes that they name.

use ext::Volume;
use ext::volume::{NewInode, RenameMode};

use super::{OPERATIONS, once, repeated};
use crate::case::Case;
use crate::images::{MANY_NAMES, SOME_NAMES};
use crate::rig::{Rig, Setup, device, name};

/// Distance of the names that are looked up in a large directory: a prime number, so that they
/// spread over it.
const STRIDE: u64 = 1_553;

pub(super) fn cases() -> Vec<Case> {
    Setup::ORDERED.into_iter().flat_map(of_format).collect()
}

fn of_format(setup: Setup) -> Vec<Case> {
    let empty = |setup| Ok((Rig::new(setup, 0, 0)?, ()));
    let filled = |setup| Ok((Rig::new(setup, OPERATIONS, 0)?, ()));
    let known = |setup| {
        let rig = Rig::new(setup, OPERATIONS, 0)?;
        let nodes = rig.nodes(OPERATIONS)?;
        Ok((rig, nodes))
    };
    vec![
        repeated("create", setup, empty, |rig, (), number| {
            let new = NewInode::default();
            rig.volume.create(rig.directory, &name(number), &new)?;
            Ok(())
        }),
        repeated("lookup", setup, filled, |rig, (), number| {
            rig.find(number)?;
            Ok(())
        }),
        repeated("stat", setup, known, |rig, nodes, number| {
            rig.volume.attributes(nodes[number as usize])?;
            Ok(())
        }),
        repeated("rename", setup, filled, |rig, (), number| {
            let (from, to) = (name(number), name(OPERATIONS + number));
            let (directory, mode) = (rig.directory, RenameMode::Replace);
            rig.volume.rename(directory, &from, directory, &to, mode)?;
            Ok(())
        }),
        repeated("unlink", setup, filled, |rig, (), number| {
            rig.volume.unlink(rig.directory, &name(number))?;
            Ok(())
        }),
        in_large_directory(setup),
        listing(setup),
    ]
}

fn in_large_directory(setup: Setup) -> Case {
    let title = format!("lookup-of-{MANY_NAMES}/{setup}");
    Case::new(title, OPERATIONS, move |images| {
        let memory = images.load(setup, MANY_NAMES)?;
        let volume = Volume::open(device(&memory), None, setup.mount())?;
        let directory = volume.resolve("/directory", true)?;
        Ok(once(volume, move |volume| {
            for number in 0..OPERATIONS {
                volume.lookup(directory, &name(number * STRIDE))?;
            }
            Ok(())
        }))
    })
}

fn listing(setup: Setup) -> Case {
    let title = format!("readdir-of-{SOME_NAMES}/{setup}");
    Case::new(title, SOME_NAMES, move |images| {
        let memory = images.load(setup, SOME_NAMES)?;
        let volume = Volume::open(device(&memory), None, setup.mount())?;
        let directory = volume.resolve("/directory", true)?;
        Ok(once(volume, move |volume| {
            let mut count = 0;
            volume.read_directory(directory, 0, &mut |_, _| {
                count += 1;
                true
            })?;
            anyhow::ensure!(count == SOME_NAMES + 2, "{count} entries");
            Ok(())
        }))
    })
}

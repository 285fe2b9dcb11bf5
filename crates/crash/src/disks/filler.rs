//! The filler of a volume: a file in `lost+found`, which is not compared. It leaves few free
//! blocks, so that freed ones are reused at once.

use ext::volume::{NewInode, OpenFlags};
use ext::{Error, Volume};

use super::{Disks, quiet};
use crate::image::BLOCK_BYTES;
use crate::setting::Schedule;
use crate::timetable::MADE_AT;
use crate::world::world;

const PATH: &str = "lost+found/filler";
/// Share of the excess that is written: the rest is for indirect blocks.
const SHARE: (u64, u64) = (15, 16);

/// Leaves approximately this number of free blocks on a volume. The log is unchanged.
///
/// # Errors
/// - Errors of the volume.
pub(super) fn fill(disks: Disks, free_blocks: u64) -> Result<Disks, Error> {
    let before = disks.clone();
    let config = world(Schedule::Fair, MADE_AT, None);
    let run = sim::run(config, move || {
        let devices = disks.devices();
        let options = quiet(crate::mode::DataMode::Ordered);
        let volume = Volume::open(devices.home_device(), devices.log_device(), options)?;
        let written = write(&volume, free_blocks);
        volume.close()?;
        written.map(|()| devices.disks(&disks))
    });
    let full = run.expect("a world that only writes a file ends").value?;
    Ok(full.with_log_of(&before))
}

fn write(volume: &Volume, free_blocks: u64) -> Result<(), Error> {
    let (parent, name) = volume.resolve_parent(PATH)?;
    let nr = volume.create(parent, name, &NewInode::default())?;
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE)?;
    let mut size = 0;
    loop {
        let surplus = volume.usage().blocks_free.saturating_sub(free_blocks);
        if surplus == 0 {
            break;
        }
        let count = (surplus * SHARE.0 / SHARE.1).max(1);
        let bytes = vec![0xF1; count as usize * BLOCK_BYTES];
        volume.write_all(file, size, &bytes)?;
        volume.sync()?;
        size += bytes.len() as u64;
    }
    volume.release(file)
}

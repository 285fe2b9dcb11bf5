//! New owners on a full volume: an entry gets the blocks that a transaction has freed, and those
//! that a trim withholds.

use std::sync::Arc;

use ext::Volume;
use ext::options::DataMode;
use ext::volume::{InodeTime, QuotaKind, QuotaLimits, Restored};
use layout::InodeNr;

use super::{assert_counted, make};
use crate::discard::Slow;
use crate::rig::{device, quiet, take_free_blocks};

/// An owner whose entry needs a block of each level of the tree.
const OWNER: u32 = 0x0102_0304;

/// An operation that adds an entry for [`OWNER`].
type Operation = fn(&Volume, InodeNr) -> ext::Result<()>;

fn set_limits(volume: &Volume, _: InodeNr) -> ext::Result<()> {
    let limits = QuotaLimits {
        space_hard: 1000,
        ..QuotaLimits::default()
    };
    volume.set_quota_limits(QuotaKind::User, OWNER, &limits)
}

fn restore(volume: &Volume, nr: InodeNr) -> ext::Result<()> {
    let restored = Restored {
        permissions: 0o644,
        uid: OWNER,
        gid: 0,
        mtime: InodeTime::new(1_500_000_000, 0),
        other_times: InodeTime::new(1_700_000_000, 0),
    };
    volume.restore(nr, &restored)
}

/// Fills a volume but for the blocks of the file `/gone`, which lie side by side, and runs `check`
/// with it and an empty file.
fn on_full(check: impl Fn(&Arc<Volume>, InodeNr)) {
    let memory = make(1024, "quota");
    let slow = Arc::new(Slow(device(&memory)));
    let opened = Volume::open(slow, None, quiet(DataMode::Ordered));
    let volume = Arc::new(opened.expect("the volume opens"));
    volume.write_file("/mine", b"").expect("create");
    volume.write_file("/gone", &[1; 64 << 10]).expect("write");
    volume.sync().expect("sync");
    take_free_blocks(&volume);
    volume.sync().expect("sync");
    check(&volume, volume.resolve("/mine", true).expect("it is there"));
    let volume = Arc::into_inner(volume).expect("nothing else uses it");
    volume.close().expect("close");
    assert_counted(&memory, "full");
}

#[test]
fn a_new_owner_gets_blocks_that_were_freed() {
    for operation in [set_limits as Operation, restore] {
        on_full(|volume, mine| {
            volume.remove_file("/gone").expect("unlink");
            operation(volume, mine).expect("the freed blocks are enough");
        });
    }
}

#[test]
fn a_new_owner_gets_blocks_that_a_trim_withholds() {
    for operation in [set_limits as Operation, restore] {
        on_full(|volume, mine| {
            volume.remove_file("/gone").expect("unlink");
            volume.sync().expect("sync");
            let trimmed = Arc::clone(volume);
            let trim = rt::spawn("trim", move || trimmed.trim(0).expect("trim"));
            rt::sleep(rt::Nanos::from_millis(10));
            operation(volume, mine).expect("the trim gives them back");
            trim.join().expect("no panic");
        });
    }
}

//! Logs that the kernel left, replayed at a read-only open: block numbers of 64 bits, checksums of
//! version 3.

use std::fs::File;
use std::path::Path;

use layout::feature::Incompatible;
use layout::journal::{JournalIncompatible, JournalSuperblock};
use testkit::{Shutdown, privilege, tool};

use super::*;
use crate::crossing::without_orphans;
use crate::oracle;
use crate::tree::assert_same;

fn change(root: &Path) {
    for number in 0..300 {
        let directory = root.join(format!("directory-{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), vec![number as u8; 5000]).unwrap();
    }
    tool::run_well("sync", &["-f", root.to_str().unwrap()]);
    for number in (0..300).step_by(2) {
        std::fs::remove_dir_all(root.join(format!("directory-{number}"))).unwrap();
    }
    std::fs::write(root.join("last"), b"last").unwrap();
    File::open(root.join("last")).unwrap().sync_all().unwrap();
}

/// Returns the features of the log.
pub fn log_features(image: &Image) -> JournalIncompatible {
    let volume = open(&in_memory(image)).unwrap();
    let block = volume.blocks_of(layout::InodeNr::JOURNAL).unwrap()[0].first;
    volume.close().unwrap();
    let offset = block.get() * u64::from(image.block_bytes);
    let bytes = image.device().read_block(offset, 1024).unwrap();
    let (raw, _) = JournalSuperblock::read_from_prefix(&bytes).unwrap();
    raw.incompatible()
}

#[test]
fn logs_of_the_kernel_are_replayed() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, more, is_64bit, has_v3) in [
        (4096, "", true, true),
        (1024, "", true, true),
        (1024, "-O ^64bit,metadata_csum_seed", false, true),
        (1024, "-O ^metadata_csum", true, false),
        (2048, "-O ^metadata_csum,uninit_bg,^64bit", false, false),
    ] {
        for how in [Shutdown::FlushesLog, Shutdown::CutsLog] {
            println!("blocks of {block_bytes}, {more}, {how:?}");
            let image = without_orphans(|| {
                let image = image(block_bytes, 64 * MIB, more);
                let mounted = mount(&image);
                change(mounted.path());
                mounted.shut_down(how);
                drop(mounted);
                image
            });
            let is_dirty = |image: &Image| {
                let features = superblock(image).features();
                features.incompatible.contains(Incompatible::NEEDS_RECOVERY)
            };
            assert!(is_dirty(&image));
            let features = log_features(&image);
            let is = |bit| features.contains(bit);
            assert_eq!(is(JournalIncompatible::IS_64BIT), is_64bit);
            assert_eq!(is(JournalIncompatible::CHECKSUM_V3), has_v3);
            let (replayed, own) = (image.copy(), in_memory(&image));
            drop(mount(&replayed));
            let expected = oracle::kernel_tree(&replayed).expect("it was mounted before");
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&own);
            let (volume, report) = Volume::open_with_report(device, None, read_only()).unwrap();
            assert!(report.replayed_transactions > 0, "{report:?}");
            assert_same(&expected, &image.own_tree(&volume), "the volume itself");
            volume.close().unwrap();
            own.write_to_file(&image.path).unwrap();
            assert!(!is_dirty(&image));
            assert_same(&expected, &oracle::view_tree(&image), "ext4-view");
            oracle::assert_fsck_clean(&image, "after the replay");
        }
    }
}

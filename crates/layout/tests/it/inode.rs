//! Inodes of every type, created and shown by debugfs.

use layout::device::DeviceNumber;
use layout::inode::{BASE_SIZE, FAST_SYMLINK_MAX, InodeExtra, InodeFlags};
use layout::mode::{self, FileType};
use layout::time::InodeTime;
use zerocopy::{FromBytes, IntoBytes};

use crate::image::Image;

#[test]
fn types_owners_and_times() {
    let image = Image::make(16, "-t ext3 -I 256");
    let target = "t".repeat(FAST_SYMLINK_MAX);
    image.debugfs(&format!(
        "write /dev/null file\nmknod pipe p\nmknod block b 8 1\nmknod character c 300 60000\n\
         symlink link {target}\nmkdir directory\n\
         sif file uid 70001\nsif file gid 131074\nsif file links_count 1\n\
         sif file flags 0x4008\nsif file mtime @3000000000\nsif file mtime_extra 0x1d6f3455\n\
         sif file size 0x500000007\nsif file generation 77\n"
    ));
    let volume = image.read();
    let types = [
        FileType::Regular,
        FileType::Fifo,
        FileType::BlockDevice,
        FileType::CharacterDevice,
        FileType::Symlink,
        FileType::Directory,
    ];
    for (nr, expect) in (12..).zip(types) {
        assert_eq!(
            FileType::from_mode(volume.inode(nr).mode.get()),
            expect,
            "inode {nr}"
        );
    }

    let file = volume.inode(12);
    assert_eq!(file.mode.get() & mode::TYPE_MASK, mode::REGULAR);
    assert_eq!((file.uid(), file.gid()), (70001, 131_074));
    assert_eq!(file.flags(), InodeFlags::JOURNAL_DATA | InodeFlags::SYNC);
    assert_eq!(file.size(false), 0x5_0000_0007);
    assert_eq!(file.generation.get(), 77);

    let device = |nr| {
        let words = volume.inode(nr).map();
        DeviceNumber::decode(words[0], words[1])
    };
    assert_eq!(device(14), DeviceNumber { major: 8, minor: 1 });
    assert_eq!(device(14).encode().unwrap(), volume.inode(14).map()[..2]);
    assert_eq!(
        device(15),
        DeviceNumber {
            major: 300,
            minor: 60_000
        }
    );
    assert_eq!(device(15).encode().unwrap(), volume.inode(15).map()[..2]);

    let link = volume.inode(16);
    assert_eq!(link.size(false), FAST_SYMLINK_MAX as u64);
    assert_eq!(
        &link.map_words.as_bytes()[..FAST_SYMLINK_MAX],
        target.as_bytes()
    );
    assert_eq!(link.sectors(false, 1024), 0);

    let (extra, _) = InodeExtra::ref_from_prefix(&volume.inode_bytes(12)[BASE_SIZE..]).unwrap();
    assert_eq!(extra.extra_size.get(), 32);
    let time = InodeTime::decode_extra(
        file.modification_time.get(),
        extra.modification_time_extra.get(),
    );
    let expect = InodeTime::new(3_000_000_000, 0x1d6f_3455 >> 2);
    assert_eq!((time.seconds, time.nanos), (expect.seconds, expect.nanos));
    assert_eq!(
        expect.encode_extra(),
        (
            file.modification_time.get(),
            extra.modification_time_extra.get()
        )
    );
}

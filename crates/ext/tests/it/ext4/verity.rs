//! Files with verity: their contents are read and not changed, and the blocks behind their end,
//! which hold hashes, stay until the file is deleted. The kernel of the tests lacks
//! CONFIG_FS_VERITY: debugfs makes the files.

use ext::options::DataMode;
use ext::volume::{
    Durability, InodeFlags, NewInode, OpenFlags, RangeChange, SetAttributes, SetMode, Writer,
};
use layout::InodeNr;
use testkit::tool;

use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::rig::quiet;

/// Formats: with checksums of all metadata and without, by extents and by indirect blocks.
const FORMATS: [(u32, &str); 3] = [
    (1024, "-O verity,^orphan_file"),
    (4096, "-O verity,^orphan_file"),
    (1024, "-O verity,^extent,^64bit,^metadata_csum"),
];
/// Size of the contents, and of the file with its hashes.
const SIZE: usize = 5000;
const WHOLE: usize = 140_000;

fn debugfs(image: &Image, requests: &[String]) {
    for request in requests {
        let path = image.path.to_str().unwrap();
        tool::run_well("debugfs", &["-w", "-R", request, path]);
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 13 % 251) as u8).collect()
}

/// Makes an image with the file `sealed`: contents, and behind them what stands for the hashes.
fn sealed(block_bytes: u32, more: &str) -> Image {
    let image = image(block_bytes, 16 * MIB, more);
    let source = image.path.with_extension("contents");
    std::fs::write(&source, bytes(WHOLE)).unwrap();
    let has_extents = !more.contains("^extent");
    let flags = if has_extents { 0x18_0000 } else { 0x10_0000 };
    let requests = [
        format!("write {} sealed", source.display()),
        format!("set_inode_field sealed size {SIZE}"),
        format!("set_inode_field sealed flags {flags:#x}"),
        "mkdir d".to_owned(),
    ];
    debugfs(&image, &requests);
    image
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, quiet(DataMode::Ordered)).expect("the volume opens")
}

fn is_refused<T>(what: &str, result: Result<T>) {
    let Err(error) = result else {
        panic!("{what}: it is done");
    };
    assert!(matches!(error, Error::Verity), "{what}: {error}");
    assert_eq!(error.raw_os_error(), 1, "{what}");
}

/// Returns the blocks of the file and their contents, the hashes included.
fn blocks(image: &Image, volume: &Volume, nr: InodeNr) -> (Vec<BlockNr>, Vec<u8>) {
    let mut blocks = Vec::new();
    for extent in volume.blocks_of(nr).unwrap() {
        let is_data = extent.file_block.is_some();
        let run = (0..u64::from(extent.count)).map(|step| extent.first + step);
        blocks.extend(run.filter(|_| is_data));
    }
    let device = look_at(&image.path);
    let read = |block: &BlockNr| {
        let at = block.get() * u64::from(image.block_bytes);
        device.read_block(at, image.block_bytes).unwrap().to_vec()
    };
    let contents = blocks.iter().flat_map(read).collect();
    (blocks, contents)
}

fn try_all_writes(volume: &Volume, nr: InodeNr) {
    let open = |flags| volume.open_inode(nr, flags);
    is_refused("open", open(OpenFlags::READ_WRITE));
    let truncate = OpenFlags {
        truncate: true,
        ..OpenFlags::READ
    };
    is_refused("open to truncate", open(truncate));
    let later = Durability::Later;
    is_refused(
        "write",
        volume.write_node(nr, 0, b"x", false, later, Writer::Unknown),
    );
    let size = |size| SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    for length in [0, 1, SIZE as u64, WHOLE as u64] {
        is_refused("truncate", volume.set_attributes(nr, &size(length)));
    }
    for what in [
        RangeChange::Allocate,
        RangeChange::PunchHole,
        RangeChange::Zero,
        RangeChange::Collapse,
        RangeChange::Insert,
    ] {
        for keeps in [false, true] {
            let changed = volume.change_range(nr, 0, 10_000, what, keeps);
            is_refused("fallocate", changed);
        }
    }
    let created = volume.create_file("/sealed", &NewInode::default());
    is_refused("create over it", created);
    volume.write_file("/other", &[9; 4096]).unwrap();
    let other = volume.resolve("/other", true).unwrap();
    let exchanged = volume.exchange_range([nr, other], [0; 2], 4096);
    is_refused("exchange", exchanged);
    volume.remove_file("/other").unwrap();
}

#[test]
fn contents_are_read_and_everything_but_them_is_changed() {
    for (block_bytes, more) in FORMATS {
        let image = sealed(block_bytes, more);
        oracle::assert_fsck_clean(&image, more);
        let volume = open_on(&image);
        assert!(!volume.is_read_only());
        let nr = volume.resolve("/sealed", false).unwrap();
        let before = blocks(&image, &volume, nr);
        assert_eq!(before.0.len(), WHOLE.div_ceil(block_bytes as usize));
        assert!(before.1.starts_with(&bytes(WHOLE)));
        assert_eq!(volume.read_file("/sealed").unwrap(), bytes(SIZE));
        try_all_writes(&volume, nr);
        let change = SetAttributes {
            permissions: Some(0o400),
            uid: Some(7),
            flags: Some(volume.attributes(nr).unwrap().flags | InodeFlags::NO_DUMP),
            ..SetAttributes::default()
        };
        volume.set_attributes(nr, &change).unwrap();
        volume
            .set_attribute(nr, b"user.a", &[1; 300], SetMode::Any)
            .unwrap();
        volume.rename_path("/sealed", "/d/moved").unwrap();
        volume.hard_link("/d/moved", "/linked").unwrap();
        volume.remove_file("/d/moved").unwrap();
        let open = volume.open_inode(nr, OpenFlags::READ).unwrap();
        volume.sync_file(open, false).unwrap();
        volume.release(open).unwrap();
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, more);
        let volume = open_on(&image);
        assert!(
            blocks(&image, &volume, nr) == before,
            "{more}: the hashes are others"
        );
        let flags = volume.attributes(nr).unwrap().flags;
        assert!(flags.contains(InodeFlags::VERITY), "{more}");
        volume.close().unwrap();
        let path = image.path.to_str().unwrap();
        let theirs = tool::run("debugfs", &["-R", "cat /linked", path]).stdout;
        assert_eq!(theirs, bytes(SIZE), "{more}");
        let view = ext4_view::Ext4::load_from_path(&image.path).unwrap();
        assert_eq!(view.read("/linked").unwrap(), bytes(SIZE), "{more}");
    }
}

#[test]
fn hashes_are_freed_with_the_file() {
    for (block_bytes, more) in FORMATS {
        let image = sealed(block_bytes, more);
        let volume = open_on(&image);
        let before = volume.usage().blocks_free;
        volume.remove_file("/sealed").unwrap();
        let freed = volume.usage().blocks_free - before;
        assert!(freed >= WHOLE as u64 / u64::from(block_bytes), "{freed}");
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, more);
    }
}

/// Recovery truncates an orphan with a name to its size: not one with hashes behind it.
#[test]
fn an_orphan_with_a_name_keeps_its_hashes() {
    let image = sealed(1024, FORMATS[0].1);
    let volume = open_on(&image);
    let nr = volume.resolve("/sealed", false).unwrap();
    let before = blocks(&image, &volume, nr);
    volume.close().unwrap();
    debugfs(&image, &[format!("set_super_value last_orphan {nr}")]);
    let volume = open_on(&image);
    assert!(blocks(&image, &volume, nr) == before);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after recovery");
}

#[test]
fn mutants_are_noticed() {
    assert_notices(
        "verity/hashes-freed",
        an_orphan_with_a_name_keeps_its_hashes,
    );
}

//! Logs that have to be replayed, written by debugfs. A replay would write, so that a volume is
//! refused until e2fsck has replayed its log; only changes that stay in memory are made.

use ext::MountOptions;
use layout::journal;

use super::*;
use crate::oracle::assert_fsck_clean;

/// Makes an image with a file of one block, whose newer contents are in the log alone. Returns it
/// with them. They start as a block of the log does, so that the log has them in another form.
fn dirty(kind: &'static str, block_bytes: u32, open: &str) -> (Image, Vec<u8>) {
    let source = tempfile::tempdir().unwrap();
    let old = vec![b'a'; block_bytes as usize];
    std::fs::write(source.path().join("f"), &old).unwrap();
    let from = source.path().to_str().unwrap();
    let image = image(kind, block_bytes, &format!("-d {from}"));
    let block = debugfs(&image, "bmap /f 0");
    let block = block.lines().last().expect("it is mapped").to_owned();
    let mut newer = vec![b'b'; block_bytes as usize];
    newer[..4].copy_from_slice(&journal::MAGIC.to_be_bytes());
    let file = image.path.with_file_name("newer");
    std::fs::write(&file, &newer).unwrap();
    let write = format!("{open}\njw -b {block} {}\njc\n", file.display());
    debugfs(&image, &write);
    (image, newer)
}

fn options(read_only: bool) -> MountOptions {
    MountOptions {
        read_only,
        ..quiet(DataMode::Ordered)
    }
}

fn assert_refused(image: &Image) {
    let memory = in_memory(image);
    let before = memory.snapshot();
    let fixed = memory.snapshot().with_geometry(|geometry| {
        geometry.is_read_only = true;
    });
    let bytes = image.block_bytes;
    for device in [device(&memory), Arc::new(fixed)] {
        for read_only in [false, true] {
            let opened = Volume::open(Arc::clone(&device), None, options(read_only));
            let Err(Error::Unsupported(why)) = opened.map(drop) else {
                panic!("it is refused");
            };
            let cause = format!("replayed, but blocks of {bytes} bytes are only read");
            assert!(why.contains(&cause), "{why}");
        }
    }
    assert_eq!(memory.first_difference(&before), None, "nothing is written");
}

fn contents(memory: &Arc<MemoryDevice>, options: MountOptions) -> Vec<u8> {
    let volume = Volume::open(device(memory), None, options).unwrap();
    let contents = volume.read_file("/f").unwrap();
    volume.close().unwrap();
    contents
}

fn compare(kind: &'static str, block_bytes: u32, open: &str) {
    let (image, newer) = dirty(kind, block_bytes, open);
    assert_refused(&image);
    let unreplayed = MountOptions {
        no_recovery: true,
        ..options(true)
    };
    let old = contents(&in_memory(&image), unreplayed);
    assert!(old == vec![b'a'; block_bytes as usize]);
    let in_view = MountOptions {
        is_private: true,
        ..options(true)
    };
    let view = in_memory(&image);
    assert!(contents(&view, in_view) == newer, "replayed in memory");
    let replayed = image.path.with_file_name("replayed");
    view.write_to_file(&replayed).unwrap();
    let path = image.path.to_str().unwrap();
    tool::run("e2fsck", &["-p", path]);
    assert_fsck_clean(&image, "after e2fsck -p");
    look_at(&image, |_, volume| {
        assert!(volume.read_file("/f").unwrap() == newer, "replayed");
    });
    std::fs::rename(replayed, &image.path).unwrap();
    assert_fsck_clean(&image, "after the replay in memory");
}

#[test]
fn logs_without_checksums() {
    for block_bytes in SIZES {
        compare("ext3", block_bytes, "jo");
    }
}

#[test]
fn logs_with_checksums() {
    for block_bytes in SIZES {
        compare("ext4", block_bytes, "jo -c -v 3");
    }
}

/// Multiple mount protection: the node is noted in a block of the volume, which is not written.
#[test]
fn a_volume_that_other_nodes_may_use_is_not_taken() {
    let (image, _) = dirty("ext4", 16_384, "jo");
    tool::run_well("e2fsck", &["-p", image.path.to_str().unwrap()]);
    tool::run_well("tune2fs", &["-O", "mmp", image.path.to_str().unwrap()]);
    let (file, block) = (
        image.path.with_file_name("newer"),
        debugfs(&image, "bmap /f 0"),
    );
    let block = block.lines().last().expect("it is mapped").to_owned();
    debugfs(
        &image,
        &format!("jo\njw -b {block} {}\njc\n", file.display()),
    );
    assert_refused(&image);
}

//! Hash trees are those of `veritysetup`, to the byte.

use std::fs::{self, File};
use std::path::Path;

use envelope::verity::{self, Options, Part};
use envelope::{Tree, Wrapping};
use testkit::{Random, tool};

const UUID: &str = "6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
const UUID_BYTES: [u8; 16] = [
    0x6e, 0x0a, 0xa8, 0xd8, 0x4a, 0x3e, 0x4b, 0x9c, 0x9a, 0x8e, 0x3f, 0x5c, 0x0f, 0xfe, 0xe0, 0,
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true);
    options.truncate(false).open(path).unwrap()
}

/// Writes data of which every third block is zero.
fn write_data(path: &Path, blocks: u64, block_bytes: u32) {
    let mut bytes = Random::new(blocks).bytes(blocks as usize * block_bytes as usize);
    for block in bytes.chunks_mut(block_bytes as usize).step_by(3) {
        block.fill(0);
    }
    fs::write(path, bytes).unwrap();
}

/// Compares the tree of data with the one that `veritysetup` makes.
fn check(blocks: u64, data_block: u32, hash_block: u32, salt: &[u8], has_superblock: bool) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_data(&at("data"), blocks, data_block);
    let options = Options {
        data_block_bytes: data_block,
        hash_block_bytes: hash_block,
        salt: salt.to_vec(),
        superblock: has_superblock.then_some(UUID_BYTES),
    };
    let bytes = blocks * u64::from(data_block);
    let (data, hashes) = (open(&at("data")), open(&at("ours")));
    let part = |file| Part { file, offset: 0 };
    let root = verity::format(part(&data), bytes, part(&hashes), &options).unwrap();
    let salt_text = match salt {
        [] => "-".to_owned(),
        salt => hex(salt),
    };
    let paths = [at("data"), at("theirs")].map(|path| path.display().to_string());
    let (data_text, hash_text) = (data_block.to_string(), hash_block.to_string());
    let mut arguments = vec![
        "format",
        &paths[0],
        &paths[1],
        "--salt",
        &salt_text,
        "--data-block-size",
        &data_text,
        "--hash-block-size",
        &hash_text,
    ];
    match has_superblock {
        true => arguments.extend(["--uuid", UUID]),
        false => arguments.push("--no-superblock"),
    }
    let said = tool::run_well("veritysetup", &arguments);
    let theirs = said
        .lines()
        .find_map(|line| line.strip_prefix("Root hash:"));
    let case = format!("{blocks} of {data_block}, {hash_block}, {has_superblock}");
    assert_eq!(theirs.map(str::trim), Some(&*hex(&root)), "{case}");
    let (ours, theirs) = (
        fs::read(at("ours")).unwrap(),
        fs::read(at("theirs")).unwrap(),
    );
    assert!(ours == theirs, "{case}");
    let expected = options.hash_bytes(bytes).unwrap();
    // A single data block without a superblock needs no hash block.
    assert_eq!(ours.len() as u64, expected, "{case}");
}

#[test]
fn trees_are_those_of_veritysetup() {
    for (blocks, data_block, hash_block, salt, has_superblock) in [
        // Numbers of blocks on both sides of a full level.
        (2, 4096, 4096, &[7; 32][..], true),
        (127, 4096, 4096, &[7; 32], true),
        (128, 4096, 4096, &[7; 32], true),
        (129, 4096, 4096, &[7; 32], true),
        (3 * 128, 4096, 4096, &[], true),
        (16_385, 512, 4096, &[1; 256], true),
        (1000, 1024, 512, &[9; 5], true),
        (300, 4096, 1024, &[0; 32], false),
    ] {
        check(blocks, data_block, hash_block, salt, has_superblock);
    }
}

#[test]
fn an_appended_tree_verifies_until_a_bit_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for (blocks, is_partitioned) in [(300, false), (1, false), (2000, true)] {
        // The image is no whole number of blocks of dm-verity.
        let image_bytes = blocks * 4096 + 1024;
        let wrapping = Wrapping {
            verity: Some(Tree::Appended),
            is_partitioned,
        };
        let file = File::create_new(&path).unwrap();
        drop(file);
        let file = open(&path);
        let start = wrapping.image_offset();
        let bytes = Random::new(blocks).bytes(image_bytes as usize);
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, start).unwrap();
        let wrapped = wrapping
            .finish(&file, None, image_bytes, UUID_BYTES, &|| false)
            .unwrap();
        let expected = wrapping.file_bytes(image_bytes).unwrap();
        assert_eq!(file.metadata().unwrap().len(), expected);
        let again = wrapping
            .finish(&file, None, image_bytes, UUID_BYTES, &|| false)
            .unwrap();
        assert_eq!(wrapped, again);
        let verity = wrapped.verity.unwrap();
        // Cut out of the partition, since veritysetup knows no offset of the data.
        let whole = fs::read(&path).unwrap();
        let part = folder.path().join("part");
        let verify = |flipped: Option<usize>| {
            let mut bytes = whole[start as usize..].to_vec();
            if let Some(at) = flipped {
                bytes[at] ^= 1;
            }
            fs::write(&part, bytes).unwrap();
            let part = part.display().to_string();
            let (root, offset) = (hex(&verity.root_hash), verity.hash_offset.to_string());
            let arguments = ["verify", &part, &part, &root, "--hash-offset", &offset];
            tool::run("veritysetup", &arguments).status.success()
        };
        assert!(verify(None));
        for at in [
            0,
            image_bytes as usize - 1,
            verity.hash_offset as usize + 5000,
        ] {
            assert!(!verify(Some(at)), "{blocks}: {at}");
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    let sound = Options {
        data_block_bytes: 4096,
        hash_block_bytes: 4096,
        salt: Vec::new(),
        superblock: None,
    };
    assert_eq!(sound.hash_bytes(4096 * 129).unwrap(), 4096 * 3);
    let refused = |options: Options, bytes| options.hash_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        refused(sound.clone(), 4097),
        "the data has no whole number of blocks"
    );
    assert_eq!(
        refused(sound.clone(), 0),
        "the data has no whole number of blocks"
    );
    let salt = vec![0; 257];
    assert_eq!(
        refused(
            Options {
                salt,
                ..sound.clone()
            },
            4096
        ),
        "a salt has at most 256 bytes"
    );
    for hash_block_bytes in [0, 256, 4095, 1 << 20] {
        let options = Options {
            hash_block_bytes,
            ..sound.clone()
        };
        assert!(refused(options, 4096).starts_with("blocks of dm-verity have a power of two"));
    }
}

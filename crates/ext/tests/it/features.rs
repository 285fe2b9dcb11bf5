//! Every feature bit: volumes with it are opened as `layout::feature::table` says, and accepted by
//! the programs that the table names.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::options::DataMode;
use ext::tune::{self, Changes};
use ext::{Error, MountOptions, Volume};
use layout::feature::table::{FEATURES, Feature, Oracles, Outcome, outcome};
use layout::feature::{Word, word_names};
use testkit::{privilege, tool};

use crate::image::Image;
use crate::oracle;
use crate::rig::{Place, Rig, device, quiet};

const WORDS: [(Word, usize); 3] = [
    (Word::Compatible, 0x5C),
    (Word::Incompatible, 0x60),
    (Word::ReadOnlyCompatible, 0x64),
];
const SUPERBLOCK: usize = 1024;
const IMAGE_BYTES: u64 = 16 << 20;

/// Features that mke2fs makes only with others, and its arguments.
const RECIPES: &[(&str, &str)] = &[
    ("meta_bg", "meta_bg,^resize_inode"),
    ("uninit_bg", "^metadata_csum,uninit_bg"),
    ("project", "quota,project"),
];
/// Features that mke2fs does not make: the bit is set on an ext3.
const NOT_MADE: &[&str] = &[
    "dir_prealloc",
    "imagic_inodes",
    "lazy_bg",
    "snapshot_bitmap",
    "compression",
    "journal_dev",
    "dirdata",
    "FEATURE_R2",
    "FEATURE_R7",
    "replica",
    "read-only",
    "shared_blocks",
    "needs_recovery",
];
/// Features that mark a state of the volume, which a set bit alone is not.
const MARKS: &[&str] = &["orphan_present"];

fn set_bit(bytes: &mut [u8], word: Word, bit: u32) {
    let offset = WORDS.iter().find(|(found, _)| *found == word).unwrap().1;
    let at = SUPERBLOCK + offset;
    let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(old | bit).to_le_bytes());
}

/// Opens a volume for writing and returns the outcome, after a check that a volume that is not
/// written has not changed and that the feature is named.
fn opened(memory: &Arc<MemoryDevice>, name: &str) -> Outcome {
    let before = memory.snapshot();
    let options = quiet(DataMode::Ordered);
    let found = match Volume::open_with_report(device(memory), None, options) {
        Err(Error::Unsupported(text)) => {
            let name = if name == "journal_dev" {
                "journal device"
            } else {
                name
            };
            assert!(text.contains(name), "{name}: {text}");
            let options = MountOptions {
                read_only: true,
                ..quiet(DataMode::Ordered)
            };
            let read = Volume::open(device(memory), None, options).map(drop);
            assert!(
                matches!(read, Err(Error::Unsupported(_))),
                "{name}: {read:?}"
            );
            Outcome::Refused
        }
        Err(error) => panic!("{name}: {error}"),
        Ok((volume, report)) => {
            let made = volume.create_directory("/made");
            volume.list("/").expect("the root can be read");
            volume.close().expect("close");
            match report.read_only_because {
                Some(why) => {
                    assert!(why.contains(name), "{name}: {why}");
                    assert!(matches!(made, Err(Error::ReadOnly)), "{name}: {made:?}");
                    Outcome::ReadOnly
                }
                None => {
                    made.unwrap_or_else(|error| panic!("{name}: {error}"));
                    return Outcome::Written;
                }
            }
        }
    };
    let difference = memory.first_difference(&before);
    assert_eq!(difference, None, "{name}: something was written");
    found
}

/// Returns true if the outcomes are the same for a caller.
fn is_alike(found: Outcome, expected: Outcome) -> bool {
    let plain = |outcome| match outcome {
        Outcome::Ignored => Outcome::Written,
        outcome => outcome,
    };
    plain(found) == plain(expected)
}

#[test]
fn every_unsupported_bit_has_the_outcome_of_the_table() {
    let good = Rig::new(Place::Internal, 4096, IMAGE_BYTES).home.to_bytes();
    for (word, _) in WORDS {
        for bit in (0..u32::BITS).map(|number| 1 << number) {
            let expected = outcome(word, bit);
            let name = &word_names(word, bit)[0];
            if expected == Outcome::Written {
                continue;
            }
            let mut bytes = good.clone();
            set_bit(&mut bytes, word, bit);
            let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
            let found = opened(&memory, name);
            assert!(is_alike(found, expected), "{name}: {found:?}");
        }
    }
}

/// Makes an image with a feature.
fn image(feature: &Feature) -> Image {
    if NOT_MADE.contains(&feature.name) {
        let image = Image::with_arguments("ext3", 1024, IMAGE_BYTES, false, &[]);
        let mut bytes = std::fs::read(&image.path).unwrap();
        set_bit(&mut bytes, feature.word, feature.bit);
        let file = std::fs::File::options().write(true).open(&image.path);
        let file = file.unwrap();
        file.write_all_at(&bytes[..2 * SUPERBLOCK], 0).unwrap();
        return image;
    }
    let recipe = RECIPES.iter().find(|(name, _)| *name == feature.name);
    let features = recipe.map_or(feature.name, |(_, features)| features);
    Image::with_arguments("ext4", 1024, IMAGE_BYTES, false, &["-O", features])
}

/// Returns the programs that accept an image.
fn accepting(image: &Image) -> Oracles {
    let mut found = Oracles::empty();
    let path = image.path.to_str().unwrap();
    let is_clean = |program: &str| tool::run(program, &["-fn", path]).status.success();
    found.set(Oracles::E2FSCK_1_47_0, is_clean("e2fsck"));
    if let Some(newer) = oracle::newer_e2fsck() {
        found.set(Oracles::E2FSCK_1_47_2, is_clean(&newer));
    }
    let view = ext4_view::Ext4::load_from_path(&image.path);
    found.set(Oracles::EXT4_VIEW, view.is_ok());
    if privilege::is_granted() {
        let copy = image.copy();
        found.set(
            Oracles::LINUX_READS,
            copy.mount_as("ext4", "ro,noload").is_ok(),
        );
        let written = copy.mount_as("ext4", "rw").is_ok_and(|mount| {
            let made = std::fs::create_dir(mount.at("made"));
            made.is_ok()
        });
        found.set(Oracles::LINUX_WRITES, written);
    }
    found
}

/// Returns the programs of which a test can say something on this machine.
fn programs() -> Oracles {
    let mut programs = Oracles::all();
    programs.set(Oracles::E2FSCK_1_47_2, oracle::newer_e2fsck().is_some());
    let linux = Oracles::LINUX_WRITES | Oracles::LINUX_READS;
    programs.set(linux, privilege::is_granted());
    programs
}

#[test]
fn every_feature_is_accepted_by_the_programs_of_the_table() {
    let programs = programs();
    let mut differences = Vec::new();
    for feature in FEATURES {
        if MARKS.contains(&feature.name) {
            continue;
        }
        let image = image(feature);
        let bytes = std::fs::read(&image.path).unwrap();
        let accepting = accepting(&image);
        if accepting != feature.oracles & programs {
            differences.push(format!("{}: {accepting:?}", feature.name));
        }
        let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
        let found = opened(&memory, feature.name);
        if !is_alike(found, feature.outcome) {
            differences.push(format!("{}: {found:?}", feature.name));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn volumes_that_mkfs_makes_have_the_feature() {
    use ext::mkfs::{self, FeatureEdits, FileSystemType, Options};
    use layout::feature::table::Uses;
    for feature in FEATURES {
        let edits = FeatureEdits::parse(feature.name);
        if !feature.uses.contains(Uses::MADE) {
            let error = edits.expect_err(feature.name).to_string();
            assert!(error.contains(feature.name), "{error}");
            continue;
        }
        let recipe = RECIPES.iter().find(|(name, _)| *name == feature.name);
        let features = recipe.map_or(feature.name, |(_, features)| features);
        let memory = Arc::new(MemoryDevice::new(IMAGE_BYTES));
        let home: Arc<dyn BlockDevice> = memory;
        let options = Options {
            file_system: FileSystemType::Ext4,
            features: FeatureEdits::parse(features).unwrap(),
            ..Options::default()
        };
        mkfs::format(&home, &options).unwrap_or_else(|error| panic!("{features}: {error}"));
        let volume = Volume::open(home, None, quiet(DataMode::Ordered)).unwrap();
        assert!(!volume.is_read_only(), "{features}");
        volume.close().unwrap();
    }
}

#[test]
fn a_volume_with_stable_inodes_keeps_its_uuid() {
    let image = Image::with_arguments(
        "ext4",
        1024,
        IMAGE_BYTES,
        false,
        &["-O", "stable_inodes,metadata_csum_seed"],
    );
    let bytes = std::fs::read(&image.path).unwrap();
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let changes = Changes {
        uuid: Some([7; 16]),
        ..Changes::default()
    };
    let error = tune::apply(&device(&memory), None, &changes).unwrap_err();
    assert!(error.to_string().contains("stable_inodes"), "{error}");
}

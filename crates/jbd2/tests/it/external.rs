//! External journal devices: made, found, refused; and made by mke2fs.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use jbd2::format::{
    ExternalOptions, Users, add_user, announce_user, check_user, create_external, open_external,
    remove_user, rename_user, users_of_empty,
};
use jbd2::{Config, Corrupt, Error, Journal};
use testkit::tool;

use crate::harness::Notes;

const UUID: [u8; 16] = [0x11; 16];
const USER: [u8; 16] = [0x22; 16];

fn create(device: &Arc<dyn BlockDevice>, block_bytes: u32, blocks: u64) -> Result<(), Error> {
    let options = ExternalOptions {
        block_bytes,
        uuid: UUID,
        blocks,
        label: *b"a label         ",
        seconds: 1_700_000_000,
    };
    create_external(device, &options)
}

fn device(blocks: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(blocks))
}

#[test]
fn a_journal_device_is_found_by_its_uuid() {
    for block_bytes in [1024u32, 2048, 4096] {
        let device = device(1100 * u64::from(block_bytes));
        create(&device, block_bytes, 1100).unwrap();
        let open = |uuid| open_external(Arc::clone(&device), block_bytes, uuid);
        let log = open(UUID).unwrap();
        assert_eq!(log.block_count(), 1100);
        let wrong = open(USER).map(drop);
        assert_eq!(
            wrong,
            Err(Error::WrongJournal {
                found: UUID,
                wanted: USER
            })
        );
        let other_size = open_external(Arc::clone(&device), block_bytes * 2, UUID).map(drop);
        assert!(matches!(
            other_size,
            Err(Error::Corrupt(Corrupt::SuperblockField {
                field: "block size",
                ..
            }))
        ));
    }
}

fn users(present: Option<[u8; 16]>, announced: Option<[u8; 16]>) -> Result<Users, Error> {
    Ok(Users { present, announced })
}

#[test]
fn a_journal_device_has_one_user() {
    let device = device(2 << 20);
    create(&device, 1024, 2048).unwrap();
    let nobody = check_user(&device, 1024, USER);
    assert_eq!(
        nobody,
        Err(Error::WrongUser {
            found: None,
            wanted: USER
        })
    );
    assert_eq!(users_of_empty(&device, 1024), users(None, None));
    add_user(&device, 1024, USER).unwrap();
    add_user(&device, 1024, USER).unwrap();
    assert_eq!(users_of_empty(&device, 1024), users(Some(USER), None));
    check_user(&device, 1024, USER).unwrap();
    let taken = Err(Error::Taken { user: USER });
    assert_eq!(add_user(&device, 1024, UUID), taken);
    let foreign = check_user(&device, 1024, UUID);
    assert_eq!(
        foreign,
        Err(Error::WrongUser {
            found: Some(USER),
            wanted: UUID
        })
    );
}

#[test]
fn users_are_renamed_and_taken_off() {
    let device = device(2 << 20);
    create(&device, 1024, 2048).unwrap();
    add_user(&device, 1024, USER).unwrap();
    let new = [0x33; 16];
    let rename = |names| rename_user(&device, 1024, UUID, names);
    rename([USER, new]).unwrap();
    rename([USER, new]).unwrap();
    check_user(&device, 1024, new).unwrap();
    assert_eq!(rename([USER, [0x44; 16]]), Err(Error::Taken { user: new }));
    let wrong = remove_user(&device, 1024, USER, new);
    assert!(
        matches!(wrong, Err(Error::WrongJournal { .. })),
        "{wrong:?}"
    );
    remove_user(&device, 1024, UUID, USER).unwrap();
    check_user(&device, 1024, new).unwrap();
    remove_user(&device, 1024, UUID, new).unwrap();
    remove_user(&device, 1024, UUID, new).unwrap();
    add_user(&device, 1024, USER).unwrap();
}

/// An image and the journal's user cannot change in one step.
#[test]
fn a_user_that_is_announced_takes_nothing_away() {
    let device = device(2 << 20);
    create(&device, 1024, 2048).unwrap();
    let new = [0x33; 16];
    let announce = |user| announce_user(&device, 1024, UUID, user).unwrap();
    let all = || users_of_empty(&device, 1024);
    announce(Some(new));
    assert_eq!(all(), users(None, Some(new)));
    add_user(&device, 1024, USER).unwrap();
    assert_eq!(all(), users(Some(USER), None));
    announce(Some(new));
    assert_eq!(all(), users(Some(USER), Some(new)));
    check_user(&device, 1024, USER).unwrap();
    open_external(Arc::clone(&device), 1024, UUID).unwrap();
    announce(None);
    assert_eq!(all(), users(Some(USER), None));
    announce(Some(new));
    rename_user(&device, 1024, UUID, [USER, new]).unwrap();
    assert_eq!(all(), users(Some(new), None));
}

/// The log belongs to the blocks of another file system.
#[test]
fn a_journal_that_was_never_replayed_gets_no_new_user() {
    let device = device(2 << 20);
    create(&device, 1024, 2048).unwrap();
    let mut superblock = device.read_block(2048, 1024).unwrap();
    let bytes: &mut layout::Block = Arc::make_mut(&mut superblock);
    bytes[0x1C..0x20].copy_from_slice(&3_u32.to_be_bytes());
    device.write_blocks(2048, vec![superblock]).unwrap();
    assert_eq!(add_user(&device, 1024, USER), Err(Error::NotEmpty));
    assert_eq!(users_of_empty(&device, 1024), Err(Error::NotEmpty));
}

#[test]
fn something_else_is_refused() {
    let empty = open_external(device(1 << 20), 1024, UUID).map(drop);
    assert!(matches!(
        empty,
        Err(Error::Corrupt(Corrupt::NoJournalDevice { .. }))
    ));
    let tiny = open_external(device(1024), 1024, UUID).map(drop);
    assert!(matches!(
        tiny,
        Err(Error::Corrupt(Corrupt::NoJournalDevice { .. }))
    ));
    let small = create(&device(1 << 20), 1024, 18);
    assert!(matches!(small, Err(Error::TooSmall { blocks: 18, .. })));
}

#[test]
fn it_is_what_mke2fs_makes() {
    for block_bytes in [1024u32, 4096] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.img");
        let size = 2048 * u64::from(block_bytes);
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        let uuid = "11111111-1111-1111-1111-111111111111";
        let block_text = block_bytes.to_string();
        let place = path.to_str().unwrap();
        let made = [
            "-q",
            "-F",
            "-O",
            "journal_dev",
            "-U",
            uuid,
            "-b",
            &block_text,
            place,
        ];
        tool::run_well("mke2fs", &made);
        let theirs: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::load_from_file(&path).unwrap());
        let log = open_external(Arc::clone(&theirs), block_bytes, UUID).unwrap();

        let ours = device(size);
        create(&ours, block_bytes, 2048).unwrap();
        let our_log = open_external(Arc::clone(&ours), block_bytes, UUID).unwrap();
        assert_eq!(our_log.extents, log.extents);
        let place = log.extents[0].first.get() * u64::from(block_bytes);
        let superblock = |device: &Arc<dyn BlockDevice>| device.read_block(place, 1024).unwrap();
        assert_eq!(
            superblock(&ours)[..],
            superblock(&theirs)[..],
            "byte for byte"
        );

        let home = device(1 << 20);
        let config = Config {
            is_external: true,
            ..Config::default()
        };
        let journal = Journal::open(log, home, config, Notes::new()).unwrap();
        assert!(journal.max_credits() > 400);
        journal.close().unwrap();
    }
}

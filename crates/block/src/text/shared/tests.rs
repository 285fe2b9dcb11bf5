//! Tests of shared disks: what is one device, what overlaps, and what is opened once.

use core::cell::RefCell;

use layout::Block;

use super::super::{Simulated, no_simulation};
use super::*;
use crate::file::OpenOptions;
use crate::memory::MemoryDevice;

fn parsed(text: &str) -> DeviceText {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Opens texts one after another with the same disks.
fn open_all(texts: &[&str]) -> Result<Vec<Arc<dyn BlockDevice>>, DeviceError> {
    let mut disks = SharedDisks::default();
    let options = OpenOptions::default();
    let opened = texts
        .iter()
        .map(|text| disks.open(&parsed(text), &options, &no_simulation));
    opened.collect()
}

fn write(device: &Arc<dyn BlockDevice>, offset: u64, byte: u8) {
    let mut block = Block::zeroed(4096);
    block[0] = byte;
    device
        .write_blocks(offset, vec![block.into_arc()])
        .expect("it does not fail");
}

fn read(device: &Arc<dyn BlockDevice>, offset: u64) -> u8 {
    device.read_block(offset, 4096).expect("it does not fail")[0]
}

/// Two partitions, and a third text whose partition contains a byte of each.
#[test]
fn one_text_is_one_device() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(1 << 20).expect("a size");
    let file = format!("{:?}", file.path());
    for disk in [
        "mem:1MiB",
        &file,
        "raid0(mem:512KiB x2,chunk=4KiB)",
        "mem:1MiB+cache(64KiB)",
        "fault(mem:1MiB,seed=1)",
        "disk(mem:1MiB)",
        "slice(disk(mem:4MiB),1MiB..2MiB)",
    ] {
        let [home, log, whole] = [
            format!("slice(disk({disk}),0..512KiB)"),
            format!("slice(disk({disk}),512KiB..)"),
            disk.to_owned(),
        ];
        let mut disks = SharedDisks::default();
        let options = OpenOptions::default();
        let mut open = |text: &str| disks.open(&parsed(text), &options, &no_simulation);
        let (home, log) = (open(&home).expect(disk), open(&log).expect(disk));
        let whole = disks.open_disk(&parsed(&whole), &options, &no_simulation);
        let whole = whole.expect(disk);
        write(&home, 4096, 7);
        write(&log, 0, 8);
        assert_eq!((read(&whole, 4096), read(&whole, 512 << 10)), (7, 8));
        assert_eq!((read(&home, 0), read(&log, 4096)), (0, 0), "{disk}");
    }
}

#[test]
fn without_disk_each_text_is_a_device_of_its_own() {
    for other in ["slice(mem:1MiB,512KiB..)", "slice(disk(mem:2MiB),512KiB..)"] {
        let devices = open_all(&["disk(mem:1MiB)", other]).expect("two disks");
        write(&devices[0], 512 << 10, 9);
        assert_eq!(read(&devices[1], 0), 0, "{other}");
    }
}

#[test]
fn parts_that_overlap_are_refused() {
    let first = "slice(disk(mem:8MiB),1MiB..4MiB)";
    let cases = [
        (
            "slice(disk(mem:8192KiB),3MiB..5MiB)",
            "slice(disk(mem:8192KiB),3MiB..5MiB)",
        ),
        ("slice(disk(mem:8MiB),0..)", "disk(mem:8MiB)"),
        ("disk(mem:8MiB)", "disk(mem:8MiB)"),
        ("raid1(mem:1MiB,disk(mem:8MiB))", "disk(mem:8MiB)"),
        (
            "slice(slice(disk(mem:8MiB),2MiB..)+cache(8k),1MiB..)",
            "slice(disk(mem:8MiB),3MiB..)",
        ),
        (
            "disk(slice(disk(mem:8MiB),2MiB..3MiB))",
            "slice(disk(mem:8MiB),2MiB..3MiB)",
        ),
    ];
    for (other, named) in cases {
        let error = open_all(&[first, other]).expect_err(other).to_string();
        let expected = format!("{named}: overlaps {first}, which is in use already");
        assert_eq!(error, expected);
    }
    let one = "raid1(slice(disk(mem:8MiB),0..2MiB),slice(disk(mem:8MiB),1MiB..3MiB))";
    assert!(open_all(&[one]).is_err(), "members of one array");
    for other in [
        "slice(disk(mem:8MiB),4MiB..)",
        "slice(disk(mem:8MiB),0..1MiB)",
        "slice(slice(disk(mem:8MiB),4MiB..8MiB),0..1MiB)",
        "raid1(slice(disk(mem:8MiB),0..1MiB),slice(disk(mem:8MiB),4MiB..))",
    ] {
        open_all(&[first, other]).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_factory_makes_a_shared_disk_once() {
    let asked = RefCell::new(Vec::new());
    let factory = |wanted: Simulated<'_>| -> Result<Arc<dyn BlockDevice>, _> {
        asked.borrow_mut().push(wanted.name());
        Ok(Arc::new(MemoryDevice::new(1 << 20)))
    };
    let mut disks = SharedDisks::default();
    for text in [
        "slice(disk(sim:a),0..64KiB)",
        "raid0(slice(disk(sim:a),64KiB..128KiB),slice(disk(sim:b),64KiB..128KiB))",
        "slice(disk(bbu(disk(nvram:1MiB))),0..64KiB)",
        "slice(disk(bbu(disk(nvram:1MiB))),64KiB..128KiB)",
        "sim:a",
    ] {
        let opened = disks.open(&parsed(text), &OpenOptions::default(), &factory);
        opened.unwrap_or_else(|error| panic!("{error}"));
    }
    let made = [
        "sim:a",
        "sim:b",
        "nvram:1048576",
        "bbu(mem:1048576)",
        "sim:a",
    ];
    assert_eq!(asked.into_inner(), made);
}

#[test]
fn shared_disks_are_listed_innermost_first() {
    let cases: [(&str, &[&str]); 4] = [
        ("slice(sim:x,0..4k)", &[]),
        ("slice(disk(sim:x),0..4k)", &["sim:x"]),
        (
            "raid0(disk(sim:x),slice(disk(sim:y),0..4k),disk(sim:x))",
            &["sim:x", "sim:y"],
        ),
        ("disk(bbu(disk(sim:x)))", &["sim:x", "bbu(disk(sim:x))"]),
    ];
    for (text, expected) in cases {
        let text = parsed(text);
        let found: Vec<String> = text
            .shared_disks()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, expected);
    }
}

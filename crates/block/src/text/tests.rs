//! Tests of device texts: texts that are parsed, errors with their columns, and devices that are
//! opened.

use std::sync::Arc;

use super::*;
use crate::device::BlockDevice;
use crate::file::OpenOptions;
use crate::memory::MemoryDevice;

fn parsed(text: &str) -> DeviceText {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn texts_are_read_and_written_back() {
    let cases = [
        ("/dev/sda1", "/dev/sda1"),
        ("./disk.img", "./disk.img"),
        ("../disk.img", "../disk.img"),
        ("disk.img", "\"disk.img\""),
        ("disk", "\"disk\""),
        ("raid1(disk,mem.img)", "raid1(\"disk\",\"mem.img\")"),
        ("/odd,name(1).img", "\"/odd,name(1).img\""),
        ("/a+b.img", "\"/a+b.img\""),
        ("\"a \\\"b\\\" \\\\\"", "\"a \\\"b\\\" \\\\\""),
        ("mem:1GiB", "mem:1GiB"),
        ("mem(64k)", "mem:64k"),
        ("sim:atlas-v-18", "sim:atlas-v-18"),
        (
            "sim( atlas-v-18 , wcache=off )",
            "sim(atlas-v-18,wcache=off)",
        ),
        ("nvram:128MiB", "nvram:128MiB"),
        (
            "slice(/dev/sda, 2.65GiB..3.95GiB)",
            "slice(/dev/sda,2.65GiB..3.95GiB)",
        ),
        ("slice(mem:8MiB,4MiB..)", "slice(mem:8MiB,4MiB..)"),
        (
            "slice( disk( sim( x , tcq=1 ) ),0..4MiB)",
            "slice(disk(sim(x,tcq=1)),0..4MiB)",
        ),
        (
            "disk(raid5(sim:x x4))+cache(8k)",
            "disk(raid5(sim:x x4))+cache(8k)",
        ),
        ("disk(/a b.img)", "disk(\"/a b.img\")"),
        ("raid5(sim:atlas-v-18 x4)", "raid5(sim:atlas-v-18 x4)"),
        ("raid0(/a,/b,chunk=16KiB)", "raid0(/a,/b,chunk=16KiB)"),
        ("raid1(\"a,b\",/c(d,e))", "raid1(\"a,b\",\"/c(d,e)\")"),
        (
            "raid10(mem:1MiB x2,mem:2MiB x2)",
            "raid10(mem:1MiB x2,mem:2MiB x2)",
        ),
        (
            "raid50( /a,/b,/c,/d,/e,/f, groups=2,chunk=16KiB)",
            "raid50(/a,/b,/c,/d,/e,/f,chunk=16KiB,groups=2)",
        ),
        (
            "raid50(sim:x x9,groups=3)+cache(8k)",
            "raid50(sim:x x9,groups=3)+cache(8k)",
        ),
        (
            "bbu( raid5(sim:x x4), cache=64MiB ,high=50)",
            "bbu(raid5(sim:x x4),cache=64MiB,high=50)",
        ),
        ("bbu(sim:x)", "bbu(sim:x)"),
        (
            "fault(mem:1MiB,seed=7,eio=1e-6)",
            "fault(mem:1MiB,seed=7,eio=1e-6)",
        ),
        (
            "fault(/x,write=5+,bad=8..16)",
            "fault(/x,write=5+,bad=8..16)",
        ),
        ("sim:x+cache(128MiB)", "sim:x+cache(128MiB)"),
        ("/a.img+cache(1M)+cache(2M)", "/a.img+cache(1M)+cache(2M)"),
        (
            "raid1(mem:1MiB+cache(4k) x2)+cache(8k)",
            "raid1(mem:1MiB+cache(4k) x2)+cache(8k)",
        ),
        ("file(./x,direct=on)", "file(./x,direct=on)"),
        ("file(\"x y\")", "\"x y\""),
        ("  mem:4k  ", "mem:4k"),
    ];
    for (text, expected) in cases {
        let device = parsed(text);
        assert_eq!(device.to_string(), expected);
        assert_eq!(parsed(expected), device, "{text}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let cases = [
        ("", 1, "a device", "the end"),
        ("foo:bar", 1, "one of mem", "`foo:bar`"),
        ("foo(bar)", 1, "one of mem", "`foo`"),
        ("mem", 4, "`:` or `(` after `mem`", "the end"),
        ("mem:", 5, "a size", "the end"),
        ("mem:12XB", 5, "a unit", "`12XB`"),
        ("slice:/x", 6, "`(` after `slice`", "`:/x`"),
        ("slice(/x)", 9, "`,`", "`)`"),
        ("slice(/x,1M)", 12, "`..`", "`)`"),
        ("slice(/x,1M..2M", 16, "`)`", "the end"),
        (
            "raid5(mem:1M x2)",
            16,
            "3 members of raid5 or more, not 2",
            "`)`",
        ),
        (
            "raid10(mem:1M x5)",
            17,
            "an even number of members of raid10, not 5",
            "`)`",
        ),
        (
            "raid50(mem:1M x8,groups=3)",
            26,
            "3 groups of 3 members of raid50 or more, all of one size, not 8",
            "`)`",
        ),
        ("raid50(mem:1M x6,groups=1)", 25, "2 to 64 groups", "`1`"),
        ("disk:/x", 5, "`(` after `disk`", "`:/x`"),
        ("disk()", 6, "a device", "`)`"),
        ("disk(/x,a=1)", 8, "`)`", "`,a=1`"),
        ("bbu:/x", 4, "`(` after `bbu`", "`:/x`"),
        ("bbu(/x,cache)", 13, "`key=value`", "`)`"),
        ("raid0(/a x2)", 10, "each file and disk(...) on", "`x2`"),
        (
            "raid0(slice(disk(sim:x),0..1M) x2)",
            32,
            "each file and disk(...) on",
            "`x2`",
        ),
        ("raid0(mem:1M x99)", 14, "a count from x1 to x64", "`x99`"),
        ("raid0(mem:1M,)", 14, "a device", "`)`"),
        (
            "raid0(mem:1M,mem:1M,chunk=100)",
            27,
            "a chunk of 4KiB or more",
            "`100`",
        ),
        ("fault(/x,frob=1)", 10, "a fault setting", "`frob=1`"),
        ("fault(/x,eio=2)", 10, "a rate", "`eio=2`"),
        ("fault(/x,eio)", 13, "`key=value`", "`)`"),
        ("file(/x,direct=maybe)", 9, "on or off", "`direct=maybe`"),
        ("mem:1M+frob(2)", 8, "`cache(SIZE)`", "`frob`"),
        ("mem:1M x", 8, "the end or", "`x`"),
        ("\"abc", 5, "a closing quote", "the end"),
        ("\"a\\n\"", 4, "`\\\"` or `\\\\`", "`n\"`"),
        ("\"\"", 1, "a path in the quotes", "`\"\"`"),
        ("sim:", 5, "the name of a model", "the end"),
    ];
    for (text, column, expected, found) in cases {
        let error = text.parse::<DeviceText>().expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
        assert_eq!(error.found, found, "{text}: {error}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let text = format!("{}/x{}", "fault(".repeat(16), ")".repeat(16));
    assert!(text.parse::<DeviceText>().is_ok());
    let text = format!("{}/x{}", "fault(".repeat(17), ")".repeat(17));
    assert!(text.parse::<DeviceText>().is_err());
}

#[test]
fn memory_and_simulation_are_ephemeral_wherever_they_are() {
    let cases = [
        ("/x", false, false),
        ("raid1(/x,/y)+cache(4k)", false, false),
        ("mem:1M", true, false),
        ("raid1(/x,slice(mem:1M,0..4k))", true, false),
        ("nvram:1M", true, true),
        ("fault(sim:x)", true, true),
        ("slice(disk(sim:x),0..4k)", true, true),
        ("disk(mem:1M)", true, false),
        ("disk(/x)", false, false),
        ("bbu(/x)", true, true),
    ];
    for (text, is_ephemeral, is_simulated) in cases {
        let device = parsed(text);
        let found = (device.is_ephemeral(), device.is_simulated());
        assert_eq!(found, (is_ephemeral, is_simulated), "{text}");
    }
}

#[test]
fn rounding_is_noted() {
    assert!(parsed("mem:1GiB").notes().is_empty());
    let notes = parsed("slice(mem:5000,0..2.65GiB)+cache(4097)").notes();
    let starts = [
        "5000 is 5000 bytes, rounded down to 4096",
        "2.65GiB is",
        "4097 is",
    ];
    assert_eq!(notes.len(), starts.len());
    assert!(
        notes
            .iter()
            .zip(starts)
            .all(|(note, start)| note.starts_with(start)),
        "{notes:?}"
    );
}

fn open_here(text: &str) -> Result<Arc<dyn BlockDevice>, crate::error::DeviceError> {
    open(&parsed(text), &OpenOptions::default(), &no_simulation)
}

#[test]
fn texts_become_devices_of_the_right_size() {
    let cases = [
        ("mem:1MiB", 1 << 20),
        ("mem:5000", 4096),
        ("slice(mem:1MiB,4KiB..12KiB)", 8192),
        ("slice(mem:1MiB,4KiB..)", (1 << 20) - 4096),
        ("disk(mem:1MiB)", 1 << 20),
        ("slice(disk(mem:1MiB),4KiB..)", (1 << 20) - 4096),
        ("raid0(mem:1MiB x3)", 3 << 20),
        ("raid1(mem:1MiB,mem:2MiB)", 1 << 20),
        ("raid5(mem:1MiB x4,chunk=4KiB)", 3 << 20),
        ("raid6(mem:1MiB x4,chunk=4KiB)", 2 << 20),
        ("raid10(mem:1MiB x4)", 2 << 20),
        ("raid50(mem:1MiB x6)", 4 << 20),
        ("raid50(mem:1MiB x9,groups=3,chunk=4KiB)", 6 << 20),
        ("fault(mem:1MiB,seed=1)", 1 << 20),
        ("mem:1MiB+cache(64KiB)", 1 << 20),
    ];
    for (text, size) in cases {
        let device = open_here(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(device.geometry().size_bytes, size, "{text}");
    }
    for text in [
        "sim:x",
        "nvram:1MiB",
        "bbu(mem:1MiB)",
        "/nonexistent/x",
        "slice(mem:1MiB,0..2MiB)",
    ] {
        assert!(open_here(text).is_err(), "{text}");
    }
}

#[test]
fn the_factory_makes_each_simulated_device() {
    let asked = core::cell::RefCell::new(Vec::new());
    let factory = |wanted: Simulated<'_>| -> Result<Arc<dyn BlockDevice>, _> {
        asked.borrow_mut().push(match wanted {
            Simulated::Model { settings, .. }
            | Simulated::Nvram { settings, .. }
            | Simulated::Controller { settings, .. } => {
                format!("{} {settings:?}", wanted.name())
            }
        });
        Ok(Arc::new(MemoryDevice::new(1 << 20)))
    };
    let text = parsed("raid0(sim(a,wcache=on) x2,bbu(nvram:1MiB,cache=4k))");
    open(&text, &OpenOptions::default(), &factory).expect("the factory makes everything");
    let asked = asked.into_inner();
    assert_eq!(asked.len(), 4);
    assert!(
        asked[1].contains("sim:a") && asked[1].contains("wcache"),
        "{asked:?}"
    );
    assert!(asked[2].contains("1048576"), "{asked:?}");
    assert!(
        asked[3].starts_with("bbu(mem") && asked[3].contains("cache"),
        "{asked:?}"
    );
}

//! Recordings of guests: each has everything that reached the devices, and can be replayed.

use std::fs::File;

use crate::guests::{IMAGE_BYTES, SMALL, has_built_kernel, with_image};
use crate::support::Folder;

fn bench(folder: &Folder, line: &str) -> String {
    let output = folder
        .command(&format!("bench postmark {line} --json"))
        .args(SMALL)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn with_empty(folder: &Folder, name: &str, bytes: u64) {
    let image = File::create(folder.path().join(name)).unwrap();
    image.set_len(bytes).unwrap();
}

/// The image that a replay leaves equals the one that the guest left, and e2fsck finds nothing.
#[test]
fn a_recording_in_real_time_leads_to_the_same_image() {
    let folder = with_image();
    for kind in ["ext3", "xfs"] {
        with_empty(&folder, "disk.img", IMAGE_BYTES);
        with_empty(&folder, "copy.img", IMAGE_BYTES);
        let record = format!("{kind}.recording");
        bench(
            &folder,
            &format!("uml:{kind} --device disk.img --record {record}"),
        );
        folder.good(&format!(
            "lab replay {record} --device copy.img --no-pauses"
        ));
        assert!(folder.read("disk.img") == folder.read("copy.img"), "{kind}");
    }
    folder.renew("copy.img");
    let again = "lab replay ext3.recording --device sim:atlas-v-18 --json";
    let figures = folder.json(again);
    assert_eq!(figures, folder.json(again));
    let requests = &figures["devices"][0]["requests"];
    for kind in ["read", "write", "flush"] {
        assert!(requests[kind]["count"].as_u64().unwrap() > 0, "{figures}");
    }
    let error = folder.bad("bench postmark uml:ext3 --device disk.img --record ext3.recording");
    assert!(
        error.contains("ext3.recording: is there already"),
        "{error}"
    );
    with_empty(&folder, "disk.img", IMAGE_BYTES);
    folder.good("lab replay ext3.recording --device disk.img --no-pauses --overwrite");
    folder.check("disk.img");
}

#[test]
fn a_recording_in_virtual_time_is_replayed_to_the_nanosecond() {
    if !has_built_kernel() {
        return;
    }
    let folder = Folder::new();
    let disk = "slice(sim(atlas-v-18,elevator=noop),1GiB..1800MiB)";
    let log = "nvram:32MiB";
    let line = format!("uml:ext3 --device {disk} --key journal={log} --key host=p4-2.66-2003");
    // The hash of all events of the world covers the recording's own.
    let figures_of = |line: &str| {
        let mut figures: serde_json::Value = serde_json::from_str(&bench(&folder, line)).unwrap();
        figures["measured"]["trace_hash"].take();
        figures
    };
    let without = figures_of(&line);
    let with = figures_of(&format!("{line} --record recording"));
    assert_eq!(with, without, "recording changes no figure");
    let replay = format!("lab replay recording --device {disk} --device {log} --json");
    let figures = folder.json(&replay);
    assert_eq!(figures["recorded_ns"], figures["replayed_ns"], "{figures}");
    // The volume as the guest left it.
    with_empty(&folder, "disk.img", 776 << 20);
    with_empty(&folder, "log.img", 32 << 20);
    folder.good("lab replay recording --device disk.img --device log.img --no-pauses");
    folder.good("fsck -n disk.img --journal log.img");
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = with_image();
    for (line, expected) in [
        ("lab replay disk.img --device nvram:1MiB", "not a recording"),
        ("lab replay none --device nvram:1MiB", "No such file"),
        (
            "bench postmark mem:64MiB --record recording",
            "--record and -F are for uml:TYPE",
        ),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
    assert!(!folder.path().join("recording").exists());
}

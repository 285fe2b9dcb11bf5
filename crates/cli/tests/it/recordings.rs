//! Recordings of guests: each has everything that reached the devices, and can be replayed.

use std::fs::File;

use crate::guests::{IMAGE_BYTES, SMALL, with_image};
use crate::support::Folder;

pub(crate) fn bench(folder: &Folder, line: &str) -> String {
    let output = folder
        .command(&format!("bench postmark {line} --json"))
        .args(SMALL)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn with_empty(folder: &Folder, name: &str, bytes: u64) {
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
    let error = folder.bad("crash --recording xfs.recording");
    assert!(error.contains("others are not judged"), "{error}");
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

/// Power cuts in the run of a kernel's ext4: at all of them the volume is recovered and sound.
#[test]
fn power_cuts_in_a_recording_of_ext4_are_recovered() {
    let folder = with_image();
    bench(
        &folder,
        "uml:ext4 --device disk.img --record ext4.recording",
    );
    let report = folder.json("crash --recording ext4.recording --states 40 --json");
    assert_eq!(report["violation_count"], 0, "{report}");
    for count in ["flushes", "explored", "start", "e2fsck"] {
        assert!(report[count].as_u64().unwrap() > 0, "{count}: {report}");
    }
    let start = report["start"].as_u64().unwrap();
    let cut = format!("crash --recording ext4.recording --replay {start}-kept --output cut.img");
    let text = folder.good(&cut);
    assert!(text.contains("no violation"), "{text}");
    folder.good("fsck -n cut.img");
    let error = folder.bad(&cut);
    assert!(error.contains("cut.img: is there already"), "{error}");
    std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
    let error = folder.bad(&cut.replace("cut.img", "link"));
    assert!(error.contains("link: is there already"), "{error}");
    assert!(!folder.path().join("elsewhere").exists());
    let error = folder.bad(&format!(
        "{} --output twice",
        cut.replace("cut.img", "twice")
    ));
    assert!(error.contains("twice: is there already"), "{error}");
    let error = folder.bad("crash --recording ext4.recording --states 0");
    assert!(error.contains("nothing was explored"), "{error}");
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = with_image();
    for (line, expected) in [
        ("lab replay disk.img --device nvram:1MiB", "not a recording"),
        ("lab replay none --device nvram:1MiB", "No such file"),
        (
            "crash --recording disk.img",
            "disk.img: not a recording: it does not start with JEXTREC1",
        ),
        ("crash --recording none", "none: No such file"),
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

//! Guests in virtual time. They need the kernel of `jext lab kernel build`, so that the feature
//! `built-kernel` has them; `scripts/kernel-suite` runs them.

use crate::guests::{self, KINDS};
use crate::recordings::{bench, with_empty};
use crate::support::Folder;
use crate::torture::{IMAGE, from_environment, kill};

/// A part of a simulated disk.
const DISK: &str = "slice(sim(atlas-v-18,elevator=noop),1GiB..1320MiB)";

#[test]
fn every_file_system_repeats_itself_in_virtual_time() {
    let folder = Folder::new();
    let device = "slice(sim(atlas-v-18,elevator=noop),1GiB..1800MiB)";
    for kind in KINDS {
        let has_journal = !matches!(kind, "ext2" | "btrfs");
        let journals = match has_journal {
            true => &["internal", "sim(ramdisk,capacity=80MiB)"][..],
            false => &["none"],
        };
        for journal in journals {
            let journal = format!("journal={journal}");
            let more = [
                "--device",
                device,
                "--key",
                "host=p4-2.66-2003",
                "--key",
                &journal,
            ];
            let first = guests::bench(&folder, kind, &more);
            assert_eq!(first["measured"]["metrics"]["transactions"], 50.0);
            assert_eq!(
                first,
                guests::bench(&folder, kind, &more),
                "{kind}, {journal}"
            );
        }
    }
}

#[test]
fn a_recording_in_virtual_time_is_replayed_to_the_nanosecond() {
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

/// Power cuts in runs of ext3 and ext4 on a disk with a volatile cache, the second with an external
/// journal, until no instant is left.
#[test]
fn every_instant_of_a_recording_in_virtual_time_is_recovered() {
    let folder = Folder::new();
    for (number, line) in [
        "uml:ext3",
        "uml:ext4 --key journal=sim(ramdisk,capacity=80MiB)",
    ]
    .iter()
    .enumerate()
    {
        let line = format!("{line} --device {DISK} --key host=p4-2.66-2003");
        bench(&folder, &format!("{line} --record recording{number}"));
        let explore = format!("crash --recording recording{number} --json");
        let report = folder.json(&explore);
        assert_eq!(report["violation_count"], 0, "{line}: {report}");
        assert_eq!(report["complete"], true, "{line}: {report}");
    }
}

#[test]
fn a_program_that_is_killed_in_virtual_time_leaves_neither_process_nor_file() {
    kill(from_environment("JEXT_TEST_KILLS", 5), &[DISK, IMAGE]);
}

/// A kernel whose processor takes no time charges each phase what its host work costs.
#[test]
fn short_phases_take_time_in_virtual_time() {
    let folder = Folder::new();
    let line = "bench iozone uml:ext2 --json --set record=64KiB --key host=xeon-5130 --key bench.latencies=false";
    let rates = ["64KiB", "512KiB"].map(|size| {
        let output = folder
            .command(line)
            .args(["--set", &format!("size={size}"), "--set", "tests=0 1 2"])
            .args(["--device", "sim(atlas-10k,elevator=noop)"])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let metrics = &result["measured"]["metrics"];
        ["write_rate", "read_rate", "random_read_rate"].map(|name| metrics[name].as_f64().unwrap())
    });
    // Both fit into the cache of the processor. Before, 64 KiB had 20 times the rate.
    for (small, large) in rates[0].iter().zip(&rates[1]) {
        assert!(*small < 3.0 * large, "{rates:?}");
    }
}

//! lab run, list and report.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{privilege, tool};

use crate::support::Folder;

const PLAN: &str = "\
[plan]
name = \"tiny\"
question = \"Does it run?\"
[fixed]
device = \"slice(sim:atlas-v-18,1GiB..1056MiB)\"
memory.host = \"32MiB\"
postmark.number = 50
postmark.transactions = 100
postmark.final_sync = \"end\"
[factors]
journal = [\"internal\", { label = \"NVRAM\", value = \"nvram:4MiB\" }]
[baseline]
journal = \"internal\"
";

#[test]
fn shards_are_merged_to_what_one_run_gives() {
    let folder = Folder::new();
    let plan = PLAN.replace("question", "repetitions = 4\nquestion");
    folder.write("tiny.toml", plan.as_bytes());
    let whole = folder.good("lab run tiny.toml --results whole");
    let mut files = Vec::new();
    for number in 1..=3 {
        let said = folder.good(&format!("lab run tiny.toml --shard {number}/3"));
        let path = said.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(path.ends_with(&format!("-{number}-of-3.jsonl")), "{said}");
        files.push(path);
    }
    let merged = folder.good(&format!("lab merge {}", files.join(" ")));
    assert!(merged.starts_with("8 trials of 3 files"), "{merged}");
    let bytes = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    let path = merged.trim().rsplit(' ').next().unwrap();
    let once = bytes(path);
    files.reverse();
    folder.good(&format!("lab merge {}", files.join(" ")));
    assert_eq!(bytes(path), once, "in any order, and again");
    let again = folder.good("lab run tiny.toml");
    assert!(again.contains("0 trials run, 8 recorded before"), "{again}");
    let table = |text: &str| text.split("\n\n").next().unwrap().to_owned();
    assert_eq!(table(&again), table(&whole), "to the digit");
    let output = folder
        .command("lab run tiny.toml --shard 4/3")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("is not a shard: write I/N"), "{error}");
    folder.write("tiny.toml", plan.replace("= 100", "= 101").as_bytes());
    folder.good("lab run tiny.toml --shard 1/1 --results other");
    let hash = std::fs::read_dir(folder.path().join("other/tiny")).unwrap();
    let other = hash.map(|entry| entry.unwrap().file_name()).next().unwrap();
    let other = format!("other/tiny/{}", other.to_str().unwrap());
    let error = folder.bad(&format!("lab merge {path} {other}"));
    assert!(error.contains("is of plan tiny ("), "{error}");
}

#[test]
fn a_shard_that_is_killed_goes_on() {
    let folder = Folder::new();
    let plan = PLAN.replace("question", "repetitions = 40\nquestion");
    folder.write("tiny.toml", plan.as_bytes());
    folder.good("lab run tiny.toml --shard 1-3/4 --results whole");
    let records = |results: &str| {
        let folder = folder.path().join(results).join("tiny");
        let mut files = std::fs::read_dir(folder).ok()?;
        files.next().map(|entry| entry.unwrap().path())
    };
    let whole = records("whole").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_jext"))
        .current_dir(folder.path())
        .args(["lab", "run", "tiny.toml", "--shard", "1-3/4", "--jobs", "1"])
        .args(["--results", "killed"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = loop {
        let some = |path: &PathBuf| std::fs::read_to_string(path).unwrap().lines().count() > 4;
        if let Some(path) = records("killed").filter(some) {
            break path;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    // As if the kill had come in the middle of a line.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let said = folder.good("lab run tiny.toml --shard 1-3/4 --results killed");
    assert!(said.contains("recorded before"), "{said}");
    assert!(!said.contains("\n0 trials run"), "{said}");
    let canonical = |path: &Path| folder.good(&format!("lab canonical {}", path.display()));
    assert_eq!(canonical(&path), canonical(&whole));
}

#[test]
fn trials_are_listed_with_their_shards() {
    let folder = Folder::new();
    let plan = PLAN.replace("question", "repetitions = 4\nquestion");
    folder.write("tiny.toml", plan.as_bytes());
    let json = folder.json("lab trials tiny.toml --shards 3 --json");
    assert_eq!(json["plan"], "tiny");
    assert_eq!(json["is_simulated"], true);
    assert_eq!(json["build"], json["program"]["source"]);
    let trials = json["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 8);
    let text = folder.good("lab trials tiny.toml --shards 3");
    for (line, trial) in text.lines().zip(trials) {
        let (shard, id) = (&trial["shard"], trial["id"].as_str().unwrap());
        assert_eq!(line, format!("{shard}/3  {id}"));
    }
    for shard in 1..=3 {
        folder.good(&format!(
            "lab run tiny.toml --shard {shard}/3 --results r{shard}"
        ));
        let wanted = trials.iter().filter(|trial| trial["shard"] == shard);
        let hash = json["plan_hash"].as_str().unwrap();
        let path = format!("r{shard}/tiny/{hash}-{shard}-of-3.jsonl");
        let found = folder.good(&format!("lab canonical {path}"));
        assert_eq!(found.lines().count(), wanted.count(), "{shard}");
    }
    assert_eq!(
        folder.json("lab trials mount --json")["is_simulated"],
        false
    );
}

#[test]
fn a_build_is_chosen_and_others_are_refused() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    folder.good("lab run tiny.toml --results one");
    let path = std::fs::read_dir(folder.path().join("one/tiny")).unwrap();
    let path = path.last().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    let build = folder.json("lab trials tiny.toml --json")["build"].clone();
    let build = build.as_str().unwrap();
    folder.write(
        "other.jsonl",
        text.replace(build, "0000000000000000").as_bytes(),
    );
    let both = format!("{} other.jsonl", path.display());
    let error = folder.bad(&format!("lab merge {both}"));
    assert!(error.contains("choose one with `--build`"), "{error}");
    let merged = folder.good(&format!(
        "lab merge {both} --build {build} --output own.jsonl"
    ));
    assert!(
        merged.starts_with("2 trials of 2 files; records in own.jsonl"),
        "{merged}"
    );
    let other = folder.good("lab canonical other.jsonl own.jsonl --build 0000");
    assert_eq!(other, folder.good("lab canonical other.jsonl"));
    let error = folder.bad(&format!("lab merge {both} --build ffff --output own.jsonl"));
    assert_eq!(error, "no record in these files is of build ffff");
    let error = folder.bad("lab canonical nothing.jsonl");
    assert!(error.starts_with("nothing.jsonl: "), "{error}");
}

#[test]
fn keys_are_listed_with_values_and_defaults() {
    let folder = Folder::new();
    let all = folder.good("lab keys");
    assert!(
        all.contains("fs.data = ordered: ") && all.contains("\n    \"ordered\", "),
        "{all}"
    );
    let some = folder.good("lab keys postmark.");
    assert!(
        some.lines()
            .step_by(2)
            .all(|line| line.starts_with("postmark.")),
        "{some}"
    );
    let json = folder.json("lab keys --json journal");
    assert_eq!(json[0]["name"], "journal");
    assert!(
        folder
            .bad("lab keys nonsense")
            .contains("no key has this in its name")
    );
}

#[test]
fn a_plan_is_run_once_and_reported_again() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    assert!(
        folder
            .bad("lab report tiny.toml")
            .contains("`jext lab run tiny.toml` makes them")
    );
    let first = folder.good("lab run tiny.toml");
    assert!(
        first.contains("tiny: Does it run?") && first.contains("NVRAM"),
        "{first}"
    );
    assert!(
        first.contains("2 trials run; records in lab-results/tiny/"),
        "{first}"
    );
    let again = folder.good("lab run tiny.toml --jobs 1");
    assert!(again.contains("0 trials run, 2 recorded before"), "{again}");
    let table = |text: &str| {
        text.split("\n\n")
            .filter(|part| !part.contains("trials run"))
            .collect::<String>()
    };
    assert_eq!(table(&first), table(&again), "to the digit");
    let report = folder.good("lab report tiny.toml");
    assert!(first.starts_with(report.trim_end()), "{report}");
    let summary = folder.good("lab summary tiny.toml");
    assert!(summary.starts_with("tiny: Does it run?"), "{summary}");
    let summary = folder.json("lab summary --json tiny.toml");
    assert_eq!(summary["plans"][0]["plan"], "tiny");
    let error = folder.bad("lab summary tiny.toml --loss tiny.toml");
    assert!(error.contains("not a plan of power cuts"), "{error}");
    let error = folder.bad("lab summary tiny.toml --results nowhere");
    assert!(
        error.contains("`jext lab run tiny.toml` makes them"),
        "{error}"
    );
    let fresh = folder.good("lab run tiny.toml --fresh");
    assert_eq!(table(&first), table(&fresh));
    let json = folder.json("lab report --json tiny.toml");
    assert_eq!(
        json["blocks"][0]["groups"][0]["rows"][1]["labels"][0],
        "NVRAM"
    );
}

#[test]
fn plans_are_listed_and_errors_have_their_line() {
    let folder = Folder::new();
    let list = folder.json("lab list --json");
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| &plan["name"])
        .collect();
    assert_eq!(names[0], "external-journal");
    assert!(list[0]["seconds"].as_f64().unwrap() > 0.0);
    let text = folder.good("lab list");
    let line = text.lines().next().unwrap();
    assert!(line.starts_with("external-journal "), "{line}");
    assert!(
        line.contains(" trials  ") && (line.contains(" s  ") || line.contains(" min  ")),
        "{line}"
    );
    assert!(
        folder
            .bad("lab run external-jurnal")
            .contains("`jext lab list` shows them")
    );
    folder.write(
        "bad.toml",
        PLAN.replace("postmark.number", "postmark.nunber")
            .as_bytes(),
    );
    let error = folder.bad("lab run bad.toml");
    assert_eq!(
        error,
        "bad.toml:7: unknown key `postmark.nunber` (did you mean `postmark.number`?)"
    );
    assert!(
        !folder.path().join("lab-results").exists(),
        "nothing was touched"
    );
}

#[test]
fn a_run_is_resumed_only_where_there_is_one() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    let error = folder.bad("lab run tiny.toml --resume");
    assert!(error.contains("nothing to resume"), "{error}");
    folder.good("lab run tiny.toml");
    let again = folder.good("lab run tiny.toml --resume");
    assert!(again.contains("0 trials run, 2 recorded before"), "{again}");
    let mut both = folder.command("lab run tiny.toml --resume --fresh");
    let both = both.output().unwrap();
    let error = String::from_utf8_lossy(&both.stderr).into_owned();
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn a_run_that_was_interrupted_or_killed_is_resumed_by_the_same_command() {
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let folder = Folder::new();
        let plan = PLAN.replace("question", "repetitions = 10\nquestion");
        folder.write("tiny.toml", plan.as_bytes());
        let mut child = Command::new(env!("CARGO_BIN_EXE_jext"))
            .args(["lab", "run", "tiny.toml", "--jobs", "1"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let records = || -> usize {
            let Ok(mut files) = std::fs::read_dir(folder.path().join("lab-results/tiny")) else {
                return 0;
            };
            let file = files.next().map(|file| file.unwrap().path());
            let text = file.map(|path| std::fs::read_to_string(path).unwrap());
            text.map_or(0, |text| text.matches("\"trace_hash\"").count())
        };
        while records() < 3 {
            assert!(child.try_wait().unwrap().is_none(), "it ended early");
            std::thread::sleep(Duration::from_millis(5));
        }
        tool::run_well("kill", &["-s", signal, &child.id().to_string()]);
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        let kept = records();
        assert!((3..20).contains(&kept), "{signal}: {kept}");
        let again = folder.good("lab run tiny.toml");
        let rest = 20 - kept;
        let expected = format!("{rest} trials run, {kept} recorded before");
        assert!(again.contains(&expected), "{signal}: {again}");
        let whole = folder.good("lab run tiny.toml --results whole");
        let table = |text: &str| text.split("\n\n").next().unwrap().to_owned();
        assert_eq!(table(&again), table(&whole), "{signal}: to the digit");
    }
}

#[test]
fn all_plans_run_one_after_another_until_they_are_interrupted() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    for wrong in ["lab run", "lab run tiny.toml --all", "lab run --all --json"] {
        let output = folder.command(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
    let child = Command::new(env!("CARGO_BIN_EXE_jext"))
        .current_dir(folder.path())
        .args(["lab", "run", "--all", "--jobs", "1"])
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let first = folder.path().join("lab-results/external-journal");
    while !first.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // As a terminal does it: to the whole group.
    let group = format!("-{}", child.id());
    tool::run_well("kill", &["-s", "INT", "--", &group]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    let count = lab::plan::builtin::ALL.len();
    for expected in [
        format!("== external-journal (1 of {count})"),
        "not complete, exit code 130".to_owned(),
        format!("0 of {count} plans complete"),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
}

#[test]
fn records_become_a_page_a_table_and_a_comparison() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    folder.good("lab run tiny.toml");
    let csv = folder.good("lab report tiny.toml --csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("plan,plan_hash,block,repetition,"), "{csv}");
    assert_eq!(
        folder.good("lab report tiny.toml --html page.html"),
        "page.html\n"
    );
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<h1>Does it run?</h1>") && page.contains("jext lab run tiny.toml"));
    let records = std::fs::read_dir(folder.path().join("lab-results/tiny")).unwrap();
    let path = records.last().unwrap().unwrap().path();
    std::fs::copy(&path, folder.path().join("first.jsonl")).unwrap();
    folder.good("lab run tiny.toml --fresh");
    std::fs::copy(&path, folder.path().join("second.jsonl")).unwrap();
    let same = folder.good("lab compare first.jsonl second.jsonl");
    assert!(
        same.contains("0 of 2 trials differ: 0 better, 0 worse."),
        "{same}"
    );
    let json = folder.json("lab compare first.jsonl second.jsonl --metric read_rate --json");
    assert_eq!(json["rows"][0]["gain"]["share"], 0.0);
    assert!(
        folder
            .bad("lab compare first.jsonl third.jsonl")
            .contains("no such file")
    );
    assert!(
        folder
            .bad("lab compare first.jsonl second.jsonl --metric sped")
            .contains("no figure")
    );
}

#[test]
fn what_the_machine_lacks_is_said_before_anything_is_touched() {
    let folder = Folder::new();
    let text = PLAN.replace("slice(sim:atlas-v-18,1GiB..1056MiB)", "sim:atlas-v-19");
    folder.write("bad.toml", text.as_bytes());
    let error = folder.bad("lab run bad.toml");
    assert!(error.starts_with("bad.toml:5: device: "), "{error}");
    assert_eq!(error.lines().count(), 1);
    assert!(!folder.path().join("lab-results").exists());
}

#[test]
fn devices_that_cannot_be_are_refused_with_their_line() {
    let folder = Folder::new();
    for (device, reason) in [
        (
            "raid5(sim:atlas-v-18 x2)",
            "3 members of raid5 or more, not 2",
        ),
        (
            "raid10(sim:atlas-v-18 x5)",
            "an even number of members of raid10, not 5",
        ),
        (
            "raid50(sim:atlas-v-18 x8,groups=3)",
            "3 groups of 3 members of raid50 or more",
        ),
        (
            "raid5(sim:atlas-v-18 x3,chunk=2GiB)",
            "not a multiple of 4096",
        ),
        (
            "raid1(sim(atlas-v-18,capacity=36GB) x2)",
            "capacity=36GB: expected 4096 to",
        ),
        ("slice(sim:atlas-v-18,1GiB..20GiB)", "20GiB"),
        ("bbu(sim:atlas-v-18,cache=64)", "at least 4096 bytes"),
        (
            "bbu(sim:atlas-v-18,wcache=on)",
            "has no option wcache; it takes cache",
        ),
    ] {
        let text = PLAN.replace("slice(sim:atlas-v-18,1GiB..1056MiB)", device);
        folder.write("bad.toml", text.as_bytes());
        let error = folder.bad("lab run bad.toml");
        assert!(error.starts_with("bad.toml:5: "), "{device}: {error}");
        assert!(error.contains(reason), "{device}: {error}");
        assert_eq!(error.lines().count(), 1, "{device}: {error}");
        assert!(!folder.path().join("lab-results").exists(), "{device}");
    }
}

#[test]
fn a_plan_on_an_array_behind_a_controller_runs() {
    let folder = Folder::new();
    let device = "bbu(raid5(sim(barracuda,capacity=64MiB) x4),cache=8KiB)";
    let text = PLAN.replace("slice(sim:atlas-v-18,1GiB..1056MiB)", device);
    folder.write("array.toml", text.as_bytes());
    let first = folder.good("lab run array.toml --counters");
    assert!(first.contains("2 trials run"), "{first}");
    assert!(first.contains("destages"), "{first}");
    let report = folder.json("lab report array.toml --json");
    let rows = &report["blocks"][0]["groups"][0]["rows"];
    let destaged = rows.as_array().unwrap().iter().map(|row| {
        let figure = &row["figures"]["controller_bytes_destaged"]["mean"];
        figure.as_f64().unwrap()
    });
    // With its journal in NVRAM the file system writes nothing in the time of this load.
    assert!(
        destaged.clone().count() == 2 && destaged.sum::<f64>() > 0.0,
        "{rows}"
    );
    let records = std::fs::read_dir(folder.path().join("lab-results/tiny")).unwrap();
    let records = std::fs::read_to_string(records.last().unwrap().unwrap().path()).unwrap();
    assert_eq!(records.matches("\"controller\":{").count(), 2, "{records}");
    assert!(!records.contains("log_controller"), "NVRAM has none");
}

#[test]
fn devices_are_listed_with_their_sources_and_measured() {
    let folder = Folder::new();
    let list = folder.json("lab devices --json");
    let names = |kind: &str| -> Vec<String> {
        let all = list[kind].as_array().expect("a list");
        for entry in all {
            for key in ["description", "source"] {
                assert!(
                    entry[key].as_str().is_some_and(|text| text.len() > 10),
                    "{entry}"
                );
            }
        }
        let name = |entry: &serde_json::Value| entry["name"].as_str().unwrap().to_owned();
        all.iter().map(name).collect()
    };
    let (devices, hosts) = (names("devices"), names("hosts"));
    for name in [
        "atlas-v-18",
        "constellation-es3",
        "nvme",
        "pmem",
        "ramdisk",
        "bbu",
    ] {
        assert!(
            devices.iter().any(|device| device == name),
            "{name}: {devices:?}"
        );
    }
    assert_eq!(hosts, ["p4-2.66-2003", "xeon-5130", "cloud-vm", "zero"]);
    let text = folder.good("lab devices");
    assert!(
        devices.iter().chain(&hosts).all(|name| text.contains(name)),
        "{text}"
    );

    let disk = folder.json("lab devices atlas-v-18 --json");
    assert_eq!(disk["parameters"]["rpm"], 7200);
    assert!(disk["measured"]["random_read_ns"].as_u64().unwrap() > 8_000_000);
    let text = folder.good("lab devices nvram");
    assert!(
        text.contains("latency_ns") && text.contains("sequential read, outer"),
        "{text}"
    );
    assert!(folder.good("lab devices cloud-vm").contains("syscall_ns"));
    let array =
        folder.json("lab devices --json bbu(raid5(sim:barracuda,sim:barracuda,sim:barracuda))");
    assert_eq!(array["measured"]["durable_write_ns"], 120_480);
    assert!(
        folder
            .bad("lab devices floppy")
            .contains("`jext lab devices` lists")
    );
    assert!(folder.bad("lab devices ./disk:img").contains("overwrites"));
}

#[test]
fn many_records_are_measured_and_removed() {
    let folder = Folder::new();
    let json = folder.json("lab measure . --records 1000 --json");
    assert_eq!(json["records"], 1000);
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(
        folder
            .bad("lab measure . --records 150")
            .contains("not a multiple of 100")
    );
}

#[test]
fn a_plan_that_mounts_is_looked_at_once() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    // A size that is rounded is noted.
    let text = "[plan]\nname = \"mounted\"\nquestion = \"Does it run?\"\n[fixed]\n\
                target = \"kernel:ext3\"\ndevice = \"mem:67108865\"\n\
                postmark.number = 20\npostmark.transactions = 50\n";
    folder.write("mounted.toml", text.as_bytes());
    let output = folder.command("lab run mounted.toml").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("rounded down").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    folder.write(
        "bad.toml",
        text.replace("67108865", "64MiB")
            .replace("ext3", "nofs")
            .as_bytes(),
    );
    assert_eq!(
        folder.bad("lab run bad.toml"),
        "bad.toml:5: target: mkfs.nofs is missing"
    );
}

#[test]
fn a_comparison_is_by_the_figure_of_the_workload() {
    let folder = Folder::new();
    let text = "[plan]\nname = \"served\"\nquestion = \"Does it run?\"\n[fixed]\nworkload = \"dbench\"\n\
                device = \"slice(sim:atlas-v-18,1GiB..1100MiB)\"\nmemory.host = \"64MiB\"\n\
                dbench.clients = 2\ndbench.time = \"2s\"\n";
    folder.write("served.toml", text.as_bytes());
    let table = folder.good("lab run served.toml");
    assert!(table.contains("throughput"), "{table}");
    let records = std::fs::read_dir(folder.path().join("lab-results/served")).unwrap();
    let path = records.last().unwrap().unwrap().path();
    let line = format!("lab compare {0} {0} --json", path.display());
    assert_eq!(folder.json(&line)["metric"], "throughput");
}

//! lab: what is wrong with a plan, a place or records is one line with its file and line, before
//! anything is touched.

use std::fs;

use testkit::privilege;

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
[factors]
journal = [\"internal\", \"nvram:4MiB\"]
";

#[test]
fn a_plan_that_cannot_be_run_is_refused_with_its_line() {
    let device = "device = \"slice(sim:atlas-v-18,1GiB..1056MiB)\"";
    let journals = "[\"internal\", \"nvram:4MiB\"]";
    let large = "target = \"process\"\ndevice = \"mem:900TiB\"";
    for (from, to, expected) in [
        (
            "postmark.number",
            "postmark.nunber",
            "bad.toml:7: unknown key `postmark.nunber`",
        ),
        ("[factors]", "[factor]", "bad.toml:9: unknown key `factor`"),
        ("number = 50", "number = = 50", "bad.toml:7: "),
        (
            "number = 50",
            "number = \"many\"",
            "bad.toml:7: postmark.number: expected",
        ),
        (
            journals,
            "[]",
            "bad.toml:10: journal: expected an array of levels, found an array without any",
        ),
        (
            journals,
            "[\"internal\", \"internal\"]",
            "bad.toml:10: journal: the level internal is listed twice",
        ),
        (
            device,
            "device = \"sim:atlas-v-19\"",
            "bad.toml:5: device: ",
        ),
        (
            device,
            "device = \"raid5(sim:atlas-v-18 x2)\"",
            "bad.toml:5: ",
        ),
        (device, "", "device: a file system needs one"),
        (
            "32MiB",
            "3MiB",
            "bad.toml:6: memory: 3MiB of 3MiB remain for caching",
        ),
        (device, large, "bad.toml:6: device: "),
        ("\"nvram:4MiB\"", "\"none\"", "bad.toml:"),
        (PLAN, "", "bad.toml:1: the plan needs `plan`"),
    ] {
        let folder = Folder::new();
        let mut text = PLAN.replace(from, to);
        if to == large {
            text = text.replace("\"nvram:4MiB\"", "\"mem:8MiB\"");
        }
        folder.write("bad.toml", text.as_bytes());
        let error = folder.bad("lab run bad.toml");
        assert!(
            error.contains(expected),
            "{to}\n found: {error}\nwanted: {expected}"
        );
        assert!(error.starts_with("bad.toml:"), "{error}");
        assert!(
            !folder.path().join("lab-results").exists(),
            "{to}: nothing is touched"
        );
    }
}

#[test]
fn too_little_space_is_said_with_its_line() {
    let folder = Folder::new();
    let text = "[plan]\nname = \"x\"\nquestion = \"?\"\n[fixed]\ntarget = \"directory:.\"\n\
                postmark.number = 1000000000\npostmark.size = [1000000, 2000000]\n";
    folder.write("bad.toml", text.as_bytes());
    let error = folder.bad("lab run bad.toml");
    assert!(
        error.starts_with("bad.toml:5: target: .: the workload needs about"),
        "{error}"
    );
}

#[test]
fn a_plan_that_is_not_there_is_said() {
    let folder = Folder::new();
    folder.write("bytes.toml", &[0xff, 0xfe, 0]);
    folder.write("mine.toml", b"");
    folder.write("file", b"");
    fs::create_dir(folder.path().join("records")).unwrap();
    for (plan, expected) in [
        (
            "nope",
            "nope: no plan of that name is built in; `jext lab list` shows them",
        ),
        ("./nope.toml", "./nope.toml: No such file"),
        ("./", "./: is a directory, and not a plan"),
        (
            "records",
            "records: is a directory, and not a plan; a folder of records is named by --results, after the plan",
        ),
        (
            "mine",
            "mine: no plan of that name is built in; `jext lab list` shows them; the file here is mine.toml",
        ),
        (
            "file",
            "file: no plan of that name is built in; `jext lab list` shows them; the file here is ./file",
        ),
        ("bytes.toml", "bytes.toml: "),
    ] {
        for command in ["run", "report"] {
            let error = folder.bad(&format!("lab {command} {plan}"));
            assert!(error.starts_with(expected), "{error}");
        }
    }
    assert_eq!(
        folder.bad("lab report external-journal --results file"),
        "file: is a file; --results takes the folder of the records"
    );
}

#[test]
fn records_that_cannot_be_kept_are_said_before_a_trial_is_run() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    folder.write("file", b"");
    for place in ["file", "file/below", "/proc/results"] {
        let error = folder.bad(&format!("lab run tiny.toml --results {place}"));
        let expected = format!("records cannot be kept: {place}/tiny/");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = folder.bad("lab reproductions --results nowhere");
    assert!(
        error.starts_with("nowhere: no such folder of records"),
        "{error}"
    );
    let error = folder.bad("lab report tiny.toml --results nowhere");
    assert!(
        error.contains("no records of this plan in nowhere"),
        "{error}"
    );
}

#[test]
fn damaged_records_are_named_with_their_line() {
    let folder = Folder::new();
    folder.write("tiny.toml", PLAN.as_bytes());
    folder.good("lab run tiny.toml --jobs 1");
    let records = folder.path().join("lab-results/tiny");
    let path = fs::read_dir(&records)
        .unwrap()
        .last()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let file = path.strip_prefix(folder.path()).unwrap().display();
    let cut = |line: usize| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let half = lines[line].len() / 2;
        lines[line].truncate(half);
        lines.join("\n") + "\n"
    };
    for (text, expected) in [
        (cut(0), format!("{file}:1: not a record: column ")),
        (cut(1), format!("{file}:2: not a record: column ")),
        (
            format!("{{}}\n{whole}"),
            format!("{file}:1: not a record: "),
        ),
        (
            format!("\u{1}\u{2}\n{whole}"),
            format!("{file}:1: not a record: column 1: "),
        ),
        (
            lines[1..].join("\n") + "\n",
            format!("{file}: no line defines the context "),
        ),
    ] {
        fs::write(&path, &text).unwrap();
        for command in [
            "run tiny.toml",
            "report tiny.toml",
            "report tiny.toml --csv",
            "run tiny.toml --resume",
        ] {
            let error = folder.bad(&format!("lab {command}"));
            assert!(
                error.contains(&expected),
                "{command}\n found: {error}\nwanted: {expected}"
            );
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            text,
            "it is left as it is"
        );
    }
    // What a run leaves that was killed while it wrote.
    fs::write(&path, &whole[..whole.len() - 100]).unwrap();
    let output = folder.command("lab report tiny.toml").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let expected = format!("{file}:{}: the last record was cut off", lines.len());
    assert!(said.contains(&expected), "{said}");
    assert!(
        folder
            .good("lab run tiny.toml")
            .contains("1 trials run, 1 recorded before")
    );
}

#[test]
fn without_root_nothing_is_mounted_and_that_is_said_with_its_line() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let text = "[plan]\nname = \"x\"\nquestion = \"?\"\n[fixed]\ntarget = \"kernel:ext3\"\ndevice = \"mem:64MiB\"\n";
    folder.write("kernel.toml", text.as_bytes());
    // A place that users without root privileges can read.
    let program = folder.path().join("jext");
    fs::copy(assert_cmd::cargo::cargo_bin("jext"), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["lab", "run", "kernel.toml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "jext: kernel.toml:5: target: creating and mounting a file system requires root\n"
    );
    assert!(!folder.path().join("lab-results").exists());
}

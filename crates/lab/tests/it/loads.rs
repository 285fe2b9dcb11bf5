//! Every workload of the catalogue from a plan, in simulated worlds: time advances, contents are
//! verified, and the same seed gives the same figures.

use std::sync::Arc;

use lab::Plan;
use lab::runner::{self, NoProgress, RunOptions, RunOutcome};
use workload::WORKLOADS;

/// Returns parameters with which a workload ends soon.
fn small(name: &str) -> &'static str {
    match name {
        "postmark" => {
            "postmark.number = 50\npostmark.transactions = 200\npostmark.latencies = true"
        }
        "synctest" => "synctest.tasks = 6\nsynctest.tasks_per_directory = 3\nsynctest.files = 8",
        "make-many-files" => {
            "make-many-files.preset = \"custom\"\nmake-many-files.levels = 2\nmake-many-files.files = 2"
        }
        "tree-copy" => {
            "tree-copy.files = 60\ntree-copy.directories = 9\ntree-copy.bytes = \"2MiB\""
        }
        "fs_mark" => "fs_mark.threads = 2\nfs_mark.files = 10",
        "obldisk" => "obldisk.size = \"4MiB\"\nobldisk.threads = 2",
        "oblload" => {
            "oblload.size = \"8MiB\"\noblload.level = \"1s\"\noblload.users_max = 60\noblload.step = 20"
        }
        "mongo" => "mongo.bytes = 300000\nmongo.repetitions = 2\nmongo.processes = 2",
        "iozone" => "iozone.size = \"256KiB\"\niozone.with_fsync = true",
        "bonnie" => {
            "bonnie.size = \"256KiB\"\nbonnie.seeks = 20\nbonnie.files = 1\nbonnie.file_max = 200"
        }
        "filebench" => {
            "filebench.time = \"2s\"\nfilebench.files = 60\nfilebench.threads = 4\nfilebench.mean_size = 4096"
        }
        "fsx" => "fsx.operations = 400\nfsx.tasks = 3",
        "fsstress" => "fsstress.operations = 300\nfsstress.tasks = 3",
        "dbench" => "dbench.clients = 3\ndbench.time = \"5s\"",
        other => panic!("{other} has no small parameters"),
    }
}

fn plan(name: &str) -> Plan {
    let text = format!(
        "[plan]\nname = \"load\"\nquestion = \"Does it run?\"\n[fixed]\nworkload = \"{name}\"\n\
         device = \"slice(sim:atlas-v-18,1GiB..1100MiB)\"\nhost = \"p4-2.66-2003\"\nmemory.host = \"64MiB\"\n\
         {}\n[factors]\njournal = [\"internal\", {{ label = \"NVRAM\", value = \"nvram:8MiB\" }}]\n",
        small(name)
    );
    Plan::parse("plan.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn run(plan: &Plan) -> RunOutcome {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        folder: folder.path().to_owned(),
        jobs: 2,
        ..RunOptions::default()
    };
    let progress: Arc<dyn lab::Progress> = Arc::new(NoProgress);
    let outcome = runner::run(plan, &options, &progress).unwrap();
    assert_eq!(outcome.failures, [], "{}", plan.name);
    outcome
}

#[test]
fn every_workload_runs_in_a_simulated_world_and_repeats() {
    for definition in WORKLOADS {
        let plan = plan(definition.name);
        let (first, second) = (run(&plan), run(&plan));
        for (a, b) in first.records.iter().zip(&second.records) {
            let name = definition.name;
            assert_eq!(a.measured, b.measured, "{name} {}", a.trial());
            assert!(
                a.metric("elapsed").is_some_and(|elapsed| elapsed > 0.0),
                "{name}"
            );
            let is_mapped = a
                .metric("fragmentation")
                .is_some_and(|extents| extents >= 1.0);
            assert_eq!(is_mapped, name == "mongo", "only Mongo counts extents");
            assert!(!a.measured.latencies.is_empty(), "{name}");
            for (key, owner) in [("postmark.size", "postmark"), ("fsx.tasks", "fsx")] {
                let is_recorded = a.context.settings.contains_key(key);
                assert_eq!(is_recorded, name == owner, "{name}: {key}");
            }
        }
    }
}

#[test]
fn parameters_that_make_no_sense_have_a_line() {
    for (name, line, expected) in [
        ("obldisk", "obldisk.size = 1000", "no multiple of 1 MiB"),
        ("synctest", "synctest.size_mean = 1", "between the smallest"),
        ("oblload", "oblload.request = 0", "not from 1 to"),
        ("fs_mark", "fs_mark.sync = 7", "from 0 to 6"),
        ("fs_mark", "fs_mark.snyc = 1", "fs_mark.sync"),
        ("iozone", "iozone.tests = \"1 2\"", "with 0 in it"),
        ("mongo", "mongo.median = 0", "between 1 and"),
    ] {
        let text = format!(
            "[plan]\nname = \"x\"\nquestion = \"?\"\n[fixed]\nworkload = \"{name}\"\n\
             device = \"sim:atlas-v-18\"\n{line}\n"
        );
        let error = Plan::parse("x.toml", &text).expect_err(line).to_string();
        assert!(error.contains(expected), "{line}: {error}");
        assert!(error.contains(":7:") || error.contains("line 7"), "{error}");
    }
}

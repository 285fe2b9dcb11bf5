//! The built-in plans.

/// A built-in plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its file, relative to the root of the repository.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),+ $(,)?) => {
        /// All built-in plans, in listing order.
        pub const ALL: &[Builtin] = &[
            $(Builtin {
                name: $name,
                file: concat!("plans/", $name, ".toml"),
                text: include_str!(concat!("../../plans/", $name, ".toml")),
            }),+
        ];
    };
}

builtin!(
    "external-journal",
    "external-journal-confounded",
    "external-journal-test2",
    "external-journal-test3",
    "external-journal-sensitivity",
    "external-journal-ablation",
    "external-journal-kernel",
    "external-journal-kernel-6.1",
    "calibration-kernel-6.1",
    "external-journal-variance",
    "external-journal-calibration",
    "synctest",
    "synctest-kernel-6.1",
    "make-many-files",
    "make-many-files-kernel-6.1",
    "linuxinsight",
    "mount",
    "tree-copy",
    "tree-copy-kernel",
    "tree-copy-kernel-6.1",
    "obldisk",
    "obldisk-kernel-6.1",
    "oblload",
    "oblload-kernel-6.1",
    "bonnie-2001",
    "bonnie-2001-kernel",
    "bonnie-2001-kernel-6.1",
    "bonnie-2007",
    "bonnie-2007-kernel-6.1",
    "iozone-2007",
    "iozone-2007-kernel",
    "iozone-2007-kernel-6.1",
    "mongo",
    "mongo-kernel",
    "mongo-kernel-6.1",
    "mongo-nvram",
    "dbench",
    "fs-mark",
    "filebench",
    "postmark-phoronix",
    "memory-transition",
    "correctness",
    "journal-place",
    "journal-place-2009",
    "journal-mail",
    "journal-database",
    "journal-build",
    "journal-fast-commit",
    "journal-2026-mail",
    "journal-2026-mail-kernel-6.1",
    "journal-2026-database",
    "journal-2026-database-kernel-6.1",
    "journal-2026-build",
    "journal-2026-build-kernel-6.1",
    "journal-2026-objects",
    "journal-2026-objects-kernel-6.1",
    "journal-2026-lost",
    "recovery-time",
    "what-is-lost",
);

/// The mean real seconds of a trial of each plan, as measured by a run of all.
const DURATIONS: &str = include_str!("../../plans/durations.tsv");

/// Returns the mean real seconds that a trial of a built-in plan took; `None` if that was not
/// measured.
#[must_use]
pub fn seconds_of_trial(name: &str) -> Option<f64> {
    let mut lines = DURATIONS.lines().filter_map(|line| line.split_once('\t'));
    let (_, seconds) = lines.find(|(plan, _)| *plan == name)?;
    seconds.parse().ok()
}

/// Returns the built-in plan with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|plan| plan.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::hash::StableHash;
    use crate::plan::Shard;

    /// Returns a digest of every trial of a plan: its name, its seed, and every explicit setting.
    fn digest(plan: &Plan) -> String {
        let mut hash = StableHash::new();
        for trial in plan.trials() {
            hash.text(&trial.id());
            hash.number(trial.replica.seed);
            for key in trial.settings.said() {
                hash.text(key);
                hash.text(&trial.settings.get(key).expect("said").to_string());
            }
        }
        format!("{:016x}", hash.finish())
    }

    /// Guards the trials of these plans against changes of the format.
    #[test]
    fn the_trials_of_the_external_journal_experiment_are_what_they_were() {
        let expected = [
            ("external-journal", "02bf3d1036ee091c"),
            ("external-journal-confounded", "53a43387673b0a3c"),
            ("external-journal-test2", "143c107ed071fff2"),
            ("external-journal-test3", "7fc588b020b2224c"),
            ("external-journal-sensitivity", "5237b77eb99bd8da"),
            ("external-journal-ablation", "98d9bbc9f6599dad"),
            ("external-journal-kernel", "c51a71a1af4d0a72"),
        ];
        let found = expected.map(|(name, _)| {
            let plan = named(name).expect("built in").plan().expect("right");
            (name, digest(&plan))
        });
        assert_eq!(
            found,
            expected.map(|(name, digest)| (name, digest.to_owned()))
        );
    }

    /// Checks that the documents of results are of the present plans.
    #[test]
    fn documents_of_results_are_of_these_plans() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.extension().is_none_or(|kind| kind != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a document is UTF-8");
            let Some((_, stamp)) = text.split_once("Written by `scripts/lab-results ") else {
                continue;
            };
            let (name, rest) = stamp.split_once("`: plan ").expect("a name");
            let (hash, _) = rest.split_once(',').expect("a hash");
            let plan = named(name).expect("built in").plan().expect("right");
            let expected = format!("{:016x}", plan.hash());
            assert_eq!(
                hash,
                expected,
                "{}: scripts/lab-results {name}",
                path.display()
            );
            count += 1;
        }
        assert!(count > 0, "no document of results in {folder}");
    }

    /// Checks that the summary of several plans is of the present ones.
    #[test]
    fn the_summary_is_of_these_plans() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/results/journal-2026.md"
        );
        let text = std::fs::read_to_string(path).expect("the document is there");
        let (_, stamp) = text
            .split_once("by `scripts/lab-results --summary`: ")
            .expect("a stamp");
        let (plans, _) = stamp.split_once(';').expect("an end");
        assert!(plans.split(", ").count() >= 4, "{plans}");
        for plan in plans.split(", ") {
            let (name, hash) = plan.split_once(' ').expect("a name and a hash");
            let plan = named(name).expect("built in").plan().expect("right");
            let expected = format!("{:016x}", plan.hash());
            assert_eq!(hash, expected, "{name}: scripts/lab-results --summary");
        }
    }

    #[test]
    fn durations_are_of_plans() {
        let mut count = 0;
        for line in DURATIONS.lines().filter(|line| !line.starts_with('#')) {
            let (name, _) = line.split_once('\t').expect("a name and seconds");
            assert!(named(name).is_some(), "{name}");
            assert!(
                seconds_of_trial(name).is_some_and(|seconds| seconds > 0.0),
                "{line}"
            );
            count += 1;
        }
        assert!(count > 5, "{count}");
        assert_eq!(seconds_of_trial("none"), None);
    }

    /// Checks that the documents of reproductions are of the present plans and claims.
    #[test]
    fn the_documents_of_reproductions_are_of_these_plans() {
        let read = |name: &str| {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).expect("the document is there")
        };
        let plans = ALL.iter().map(|builtin| builtin.plan().expect("right"));
        let plans: Vec<Plan> = plans.collect();
        let stamps = crate::reproduction::stamps(&plans);
        let [others, guests] = stamps.map(|stamp| stamp.expect("there are plans of both kinds"));
        let (all, of_guests) = (
            read("reproductions.md"),
            read("reproductions-kernel-6.1.md"),
        );
        assert!(
            all.contains(&others),
            "docs/reproductions.md: no \"{others}\"; scripts/lab-results --all-simulated"
        );
        assert!(
            of_guests.contains(&guests),
            "docs/reproductions-kernel-6.1.md: no \"{guests}\"; scripts/lab-results --guests"
        );
        // The document of all is made without the records of guests where there are none.
        let (what, _) = guests.split_once(':').expect("a sentence");
        assert!(
            !all.contains(what) || all.contains(&guests),
            "docs/reproductions.md: {guests}"
        );
    }

    #[test]
    fn a_plan_that_is_written_out_is_the_same_plan() {
        let mut count = 0;
        for builtin in ALL {
            let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
            let Some(text) = &plan.written_out else {
                continue;
            };
            let again = Plan::parse(builtin.file, text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(again.hash(), plan.hash(), "{text}");
            assert_eq!(digest(&again), digest(&plan), "{text}");
            assert_eq!(again.stopping_rule(), plan.stopping_rule(), "{text}");
            assert!(
                again.written_out.is_none() && !text.contains("\nbase "),
                "{text}"
            );
            count += 1;
        }
        assert!(count > 5, "{count}");
        let oblload = named("oblload").expect("built in").plan().expect("right");
        let text = oblload.written_out.expect("it is based on tree-copy");
        for line in [
            "device = \"bbu(",
            "  # plans/tree-copy.toml:",
            "  # plans/external-journal.toml:",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("# plans/oblload.toml"), "{text}");
    }

    #[test]
    fn every_trial_of_every_plan_is_in_one_shard() {
        let shards = ["1/3", "2/3", "3/3"].map(|text| text.parse::<Shard>().expect("a shard"));
        for builtin in ALL {
            let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
            for trial in plan.trials() {
                let count = shards.iter().filter(|shard| shard.has(&trial)).count();
                assert_eq!(count, 1, "{}: {}", builtin.name, trial.name());
            }
        }
    }

    #[test]
    fn every_plan_that_is_built_in_is_right_and_has_its_name() {
        for builtin in ALL {
            let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.name, builtin.name);
            assert!(!plan.trials().is_empty());
        }
    }
}

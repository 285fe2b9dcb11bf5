//! Replays all of `fuzz/corpus`, and checks that the seeds are valid.

use std::path::Path;

use fuzzing::TARGETS;

#[test]
fn seeds_and_corpus_are_harmless() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        for seed in (target.seeds)() {
            (target.run)(&seed);
        }
        let folder = corpus.join(target.name);
        let files = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for file in files {
            let path = file.expect("a readable folder").path();
            println!("{}", path.display());
            (target.run)(&std::fs::read(&path).expect("a readable file"));
        }
    }
}

/// Runs inputs that are empty or truncated.
#[test]
fn short_inputs_are_harmless() {
    for target in TARGETS {
        for seed in (target.seeds)() {
            for length in [0, 1, 3, seed.len() / 2] {
                (target.run)(&seed[..length.min(seed.len())]);
            }
        }
    }
}

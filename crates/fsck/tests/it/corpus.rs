//! Runs every recipe: the findings are those of the recipe, and those of e2fsck, kind by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fsck::{Options, ProblemKind, Severity};
use tempfile::TempDir;
use testkit::e2fsck::{self, ERROR, GAVE_UP, Message};

use crate::recipe::{self, Recipe};
use crate::{maker, tools};

/// Number of recipes run at the same time: most of the time other programs run.
const THREADS: usize = 4;
/// Minimum number of recipes in the corpus.
const RECIPES_MIN: usize = 850;
/// Minimum number of distinct pairs of a kind of problem and a damaged field of ext4.
const PAIRS_MIN: usize = 700;

fn options() -> Options {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Options {
        now: Some(now.as_secs() as i64),
    }
}

fn is_note(kind: &str) -> bool {
    ProblemKind::named(kind).is_some_and(|known| known.severity() == Severity::Note)
}

fn ours(image: &[u8]) -> BTreeSet<String> {
    match fsck::check_bytes(image, None, &options()) {
        Ok(report) => report.kinds().iter().map(|k| k.name().to_owned()).collect(),
        Err(_) => BTreeSet::from([ERROR.to_owned()]),
    }
}

/// Returns the differences from a recipe, if any.
fn disagreements(
    recipe: &Recipe,
    kinds: &BTreeSet<String>,
    status: i32,
    said: &[&Message],
) -> Vec<String> {
    let mut found = Vec::new();
    let expected: BTreeSet<String> = recipe.kinds.iter().cloned().collect();
    if *kinds != expected {
        found.push(format!("we find {kinds:?}"));
    }
    let is_clean = kinds.iter().all(|kind| is_note(kind));
    let has_gone_beyond = !recipe.beyond.is_empty();
    if is_clean != e2fsck::is_content(status, said, is_note) && !has_gone_beyond {
        found.push(format!("clean: we say {is_clean}, e2fsck {status}"));
    }
    let (missing, beyond) = e2fsck::differences(kinds, status, said, is_note);
    for Message { text, kinds } in missing {
        let is_excepted = |kind: &&str| recipe.missing.iter().any(|missing| missing == kind);
        if !kinds.iter().any(is_excepted) {
            found.push(format!("only e2fsck: {text} {kinds:?}"));
        }
    }
    for kind in beyond {
        // An aborted check does not reach the remaining problems.
        if status & GAVE_UP == 0 && !recipe.beyond.iter().any(|beyond| beyond == kind) {
            found.push(format!("only we: {kind}"));
        }
    }
    found
}

fn check(bases: &BTreeMap<String, Vec<u8>>, table: &[Message], recipe: &Recipe) -> Option<String> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    maker::make(bases, recipe, &path);
    let kinds = ours(&std::fs::read(&path).unwrap());
    let (status, output) = tools::e2fsck(&path);
    let said = e2fsck::said(table, &output);
    let mut found = disagreements(recipe, &kinds, status, &said);
    let name = path.to_str().unwrap();
    if status & GAVE_UP == 0 {
        let unknown = e2fsck::unknown(table, &output, name);
        found.extend(
            unknown
                .iter()
                .map(|line| format!("not in the table: {line}")),
        );
    }
    let Recipe { name, base, .. } = recipe;
    (!found.is_empty()).then(|| format!("{name} {base}\n  {}", found.join("\n  ")))
}

/// Runs `work` on every item, in a few threads. Returns the results in no particular order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut results = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push(work(item));
        }
        results
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flatten().collect()
    })
}

#[test]
fn we_agree_with_e2fsck_on_every_recipe() {
    let definitions: Vec<_> = recipe::bases().into_iter().collect();
    let bases = in_parallel(&definitions, |(name, base)| {
        (name.clone(), maker::make_base(base))
    });
    let bases: BTreeMap<String, Vec<u8>> = bases.into_iter().collect();
    let folder = TempDir::new().unwrap();
    for (name, image) in &bases {
        let kinds = ours(image);
        assert!(
            kinds.iter().all(|kind| is_note(kind)),
            "base {name}: {kinds:?}"
        );
        let path = folder.path().join(name);
        std::fs::write(&path, image).unwrap();
        assert_eq!(tools::e2fsck(&path).0, 0, "base {name}");
    }
    let (recipes, table) = (recipe::recipes(), e2fsck::messages());
    assert!(recipes.len() >= RECIPES_MIN, "{} recipes", recipes.len());
    let mut failures: Vec<String> = in_parallel(&recipes, |recipe| check(&bases, &table, recipe))
        .into_iter()
        .flatten()
        .collect();
    failures.sort();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the structure that a step damages, and the field's offset in it.
fn field_of(step: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = step.strip_prefix("poke ")?.split(' ').collect();
    let at = match words[0] {
        "super" => 1,
        "group" | "inode" | "block" | "attributes" => 2,
        _ => 3,
    };
    Some((words[0], words[at]))
}

#[test]
fn the_recipes_of_ext4_have_many_pairs_of_kind_and_field() {
    let mut pairs = BTreeSet::new();
    let recipes = recipe::recipes_of_ext4();
    for recipe in &recipes {
        for field in recipe.steps.iter().filter_map(|step| field_of(step)) {
            pairs.extend(recipe.kinds.iter().map(|kind| (kind, field)));
        }
    }
    assert!(pairs.len() >= PAIRS_MIN, "{} pairs", pairs.len());
}

#[test]
fn kinds_of_the_corpus_are_kinds() {
    let of_recipes = recipe::recipes().into_iter().flat_map(|recipe| {
        let mut kinds = recipe.kinds;
        kinds.extend(recipe.missing);
        kinds.extend(recipe.beyond);
        kinds
    });
    let of_messages = e2fsck::messages();
    let of_messages = of_messages.iter().flat_map(|m| m.kinds.iter().copied());
    for kind in of_recipes.chain(of_messages.map(str::to_owned)) {
        assert!(
            kind == ERROR || ProblemKind::named(&kind).is_some(),
            "{kind}"
        );
    }
}

//! Images created from recipes, with mke2fs, debugfs and edits of bytes.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use testkit::tool::{run, run_well};

use crate::place::Bytes;
use crate::recipe::{Base, Recipe};
use crate::tools::debugfs;

/// UUID of the images, the same in every run.
const UUID: &str = "11111111-2222-3333-4444-555555555555";

/// Replaces `@N` by the path of a file of N bytes, and `~N` by that of a file of N KiB of which
/// every second one is a hole.
fn with_files(folder: &Path, step: &str) -> String {
    let words = step.split(' ').map(|word| {
        let (count, has_holes) = match word.split_at_checked(1) {
            Some(("@", count)) => (count.parse().unwrap(), false),
            Some(("~", count)) => (count.parse::<usize>().unwrap() << 10, true),
            _ => return word.to_owned(),
        };
        let path = folder.join(format!("file-{word}"));
        let contents: Vec<u8> = (0..count)
            .map(|i| {
                let is_hole = has_holes && (i >> 10) % 2 == 1;
                if is_hole {
                    0
                } else {
                    ((i * 7 + i / 256) % 251) as u8
                }
            })
            .collect();
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Creates a base image.
pub(crate) fn make_base(base: &Base) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(base.size_bytes).unwrap();
    let name = path.to_str().unwrap();
    let seed = format!("hash_seed={UUID}");
    let mut arguments = vec!["-q", "-F", "-U", UUID, "-E", &seed];
    arguments.extend(base.mke2fs.iter().map(String::as_str));
    arguments.push(name);
    run_well("mke2fs", &arguments);
    let mut script = Vec::new();
    for step in &base.steps {
        if is_edit(step) {
            if !script.is_empty() {
                debugfs(&path, &std::mem::take(&mut script));
            }
            edit(&path, &[step]);
        } else if let Some(repeated) = step.strip_prefix('%') {
            let (count, command) = repeated.split_once(' ').unwrap();
            let count: u32 = count.parse().unwrap();
            script.extend((0..count).map(|index| command.replace("%d", &index.to_string())));
        } else if step == "!index" {
            debugfs(&path, &std::mem::take(&mut script));
            run("e2fsck", &["-fyD", name]);
        } else {
            script.push(with_files(folder.path(), step));
        }
    }
    if !script.is_empty() {
        debugfs(&path, &script);
    }
    std::fs::read(path).unwrap()
}

/// True for edits of bytes, which need no debugfs.
fn is_edit(step: &str) -> bool {
    step.starts_with("poke ") || step.starts_with("seal ")
}

/// Makes edits of an image.
fn edit(path: &Path, edits: &[&String]) {
    let mut image = Bytes::new(std::fs::read(path).unwrap());
    for step in edits {
        match step.split_once(' ').unwrap() {
            ("poke", edit) => image.poke(edit),
            (_, place) => image.seal(place),
        }
    }
    std::fs::write(path, image.bytes).unwrap();
}

/// Creates a damaged image at a path.
pub(crate) fn make(bases: &BTreeMap<String, Vec<u8>>, recipe: &Recipe, path: &Path) {
    let base = bases.get(&recipe.base).expect("the recipe's base is there");
    std::fs::write(path, base).unwrap();
    let folder = path.parent().unwrap();
    let mut steps = recipe.steps.iter().peekable();
    while let Some(first) = steps.peek() {
        if is_edit(first) {
            let mut edits = Vec::new();
            while let Some(step) = steps.next_if(|step| is_edit(step)) {
                edits.push(step);
            }
            edit(path, &edits);
        } else {
            let mut script = Vec::new();
            while let Some(step) = steps.next_if(|step| !is_edit(step)) {
                script.push(with_files(folder, step));
            }
            debugfs(path, &script);
        }
    }
}

//! Recipes for images, in the format described in the files of `tests/corpus`.

use std::collections::BTreeMap;

/// An image that recipes damage.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) size_bytes: u64,
    pub(crate) mke2fs: Vec<String>,
    pub(crate) steps: Vec<String>,
}

/// A damaged image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) base: String,
    pub(crate) steps: Vec<String>,
    /// Kinds of problems that are found, notes included.
    pub(crate) kinds: Vec<String>,
    /// Kinds that only e2fsck finds, and why.
    pub(crate) missing: Vec<String>,
    /// Kinds that only this checker finds, and why.
    pub(crate) beyond: Vec<String>,
}

const BASES: &str = include_str!("../corpus/bases.txt");
const FILES: [&str; 7] = [
    include_str!("../corpus/superblock.txt"),
    include_str!("../corpus/groups.txt"),
    include_str!("../corpus/inodes.txt"),
    include_str!("../corpus/maps.txt"),
    include_str!("../corpus/directories.txt"),
    include_str!("../corpus/htree.txt"),
    include_str!("../corpus/journal.txt"),
];
const FILES_OF_EXT4: [&str; 14] = [
    include_str!("../corpus/ext4-superblock.txt"),
    include_str!("../corpus/ext4-groups.txt"),
    include_str!("../corpus/ext4-bitmaps.txt"),
    include_str!("../corpus/ext4-inodes.txt"),
    include_str!("../corpus/ext4-extents.txt"),
    include_str!("../corpus/ext4-directories.txt"),
    include_str!("../corpus/ext4-meta-groups.txt"),
    include_str!("../corpus/ext4-orphans.txt"),
    include_str!("../corpus/ext4-quotas.txt"),
    include_str!("../corpus/ext4-multi-mount.txt"),
    include_str!("../corpus/ext4-values.txt"),
    include_str!("../corpus/ext4-inline.txt"),
    include_str!("../corpus/ext4-clusters.txt"),
    include_str!("../corpus/ext4-protected.txt"),
];

/// Returns the lines that are neither comments nor empty.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

/// Returns all bases by name.
pub(crate) fn bases() -> BTreeMap<String, Base> {
    let mut bases = BTreeMap::new();
    let mut name = String::new();
    for line in lines(BASES) {
        if let Some(head) = line.strip_prefix("base ") {
            let words: Vec<String> = head.split_whitespace().map(str::to_owned).collect();
            let mebibytes: u64 = words[1].trim_end_matches('M').parse().unwrap();
            name = words[0].clone();
            let base = Base {
                size_bytes: mebibytes << 20,
                mke2fs: words[2..].to_vec(),
                steps: Vec::new(),
            };
            bases.insert(name.clone(), base);
        } else {
            let base = bases.get_mut(&name).unwrap();
            base.steps.push(line.trim().to_owned());
        }
    }
    bases
}

/// Returns all recipes, in order.
pub(crate) fn recipes() -> Vec<Recipe> {
    let mut recipes = parse(&FILES);
    recipes.extend(recipes_of_ext4());
    recipes
}

/// Returns the recipes for images of ext4, in order.
pub(crate) fn recipes_of_ext4() -> Vec<Recipe> {
    parse(&FILES_OF_EXT4)
}

fn parse(files: &[&str]) -> Vec<Recipe> {
    let mut recipes: Vec<Recipe> = Vec::new();
    for line in files.iter().flat_map(|text| lines(text)) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let Some(line) = line.strip_prefix("  ") else {
            let (name, base) = line.split_once(' ').unwrap();
            recipes.push(Recipe {
                name: name.to_owned(),
                base: base.to_owned(),
                ..Recipe::default()
            });
            continue;
        };
        let recipe = recipes.last_mut().unwrap();
        let reasoned = |text: &str| {
            let (kinds, reason) = text.split_once(": ").expect("an exception says why");
            assert!(!reason.is_empty());
            words(kinds)
        };
        if let Some(kinds) = line.strip_prefix('=') {
            recipe.kinds = words(kinds);
        } else if let Some(text) = line.strip_prefix("- ") {
            recipe.missing = reasoned(text);
        } else if let Some(text) = line.strip_prefix("+ ") {
            recipe.beyond = reasoned(text);
        } else {
            recipe.steps.push(line.to_owned());
        }
    }
    recipes
}

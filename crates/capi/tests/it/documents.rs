//! The guide: its code is that of the examples, which another test compiles and runs.

use std::fs;

use crate::compiler::here;

#[test]
fn the_guide_shows_the_examples() {
    let guide = fs::read_to_string(here("../../docs/how-to/c.md")).expect("the guide is there");
    let examples = ["image.c", "device.c"]
        .map(|name| fs::read_to_string(here("examples").join(name)).expect("the example is there"));
    let blocks: Vec<&str> = guide
        .split("```c\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() > 3, "{blocks:?}");
    for block in blocks {
        for part in block.split("/* ... */\n") {
            let is_shown = examples.iter().any(|example| example.contains(part));
            assert!(
                is_shown,
                "no example has this part of docs/how-to/c.md:\n{part}"
            );
        }
    }
}

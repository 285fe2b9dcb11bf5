//! The page of the times of plans beside `jext lab list`.

use crate::support::Folder;

const PAGE: &str = include_str!("../../../../docs/how-to/plan-times.md");

#[test]
fn the_page_has_every_plan_with_its_time() {
    let list = Folder::new().good("lab list");
    let rows: Vec<&str> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let mut count = 0;
    for line in list.lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        let (trials, rest) = rest.trim_start().split_once(" trials").unwrap();
        let takes: Vec<&str> = rest.trim_start().splitn(3, ' ').collect();
        let takes = match takes[..] {
            ["-", ..] => "-".to_owned(),
            [number, unit, _] => format!("{number} {unit}"),
            _ => panic!("{line}"),
        };
        let row = format!("| `{name}` | {trials} | {takes} |");
        let is_there = rows.iter().any(|line| line.starts_with(&row));
        assert!(is_there, "docs/how-to/plan-times.md lacks {row}");
        count += 1;
    }
    let plans = rows.iter().filter(|row| row.matches('|').count() == 5);
    let plans = plans.filter(|row| !row.contains("--"));
    assert_eq!(plans.count(), count, "a row of the page is no plan");
}

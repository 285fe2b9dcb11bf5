//! The page of a report in a real browser.

use std::path::Path;

use lab::record::{LatencyRecord, Measured};
use lab::{Plan, Record, Report};
use testkit::tool;

/// Fifty combinations, ten times each: 500 trials.
fn plan() -> Plan {
    let text = "[plan]\nname = \"page\"\nquestion = \"does it <open>?\"\nrepetitions = 10\n[fixed]\n\
                device = \"sim:atlas-v-18\"\n[factors]\nfs.data = [\"ordered\", \"writeback\"]\n\
                fs.commit = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 30]\n\
                [baseline]\nfs.commit = 1\n";
    Plan::parse("page.toml", text).unwrap()
}

/// A page of made-up records: the longer the commit interval, the shorter the time.
fn page(plan: &Plan) -> String {
    let trials = plan.trials();
    let records: Vec<Record> = trials
        .iter()
        .enumerate()
        .map(|(index, trial)| {
            let level = (index / 10 % 25) as f64;
            let elapsed = 50.0 + 100.0 / (1.0 + level) + (index % 10) as f64 / 10.0;
            let latency = LatencyRecord {
                count: 100,
                mean_ns: 2e5,
                deviation_ns: 1e5,
                max_ns: 9_000_000,
                buckets_ns: vec![(100_000, 90), (1_000_000, 9), (9_000_000, 1)],
            };
            let measured = Measured {
                metrics: [
                    ("elapsed".to_owned(), elapsed),
                    ("commits".to_owned(), level),
                ]
                .into(),
                latencies: [("write".to_owned(), latency)].into(),
                ..Measured::default()
            };
            Record::new(plan, trial, 0, 0.0, measured)
        })
        .collect();
    Report::new(plan, &records).html("jext lab run page.toml", "the plan")
}

/// What a browser makes of a page, as text, once its script has ended. Its own profile goes into `folder`.
fn opened(folder: &Path, page: &str) -> String {
    let path = folder.join("page.html");
    std::fs::write(&path, page).unwrap();
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let address = format!("file://{}", path.display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        &profile,
        "--virtual-time-budget=10000",
        "--dump-dom",
        &address,
    ];
    tool::run_well("chromium", &arguments)
}

#[test]
fn a_browser_draws_every_chart() {
    let folder = tempfile::tempdir().unwrap();
    let seen = opened(folder.path(), &page(&plan()));
    assert!(
        seen.contains("data-ready=\"true\""),
        "the script came to its end"
    );
    assert_eq!(
        seen.matches("<svg").count(),
        4,
        "figures and latencies of two groups"
    );
    // 24 points and the line of the baseline, and 25 curves, in each group.
    assert_eq!(seen.matches("class=\"mark\"").count(), 2 * (25 + 25));
    assert!(
        seen.contains("aria-label=\"2s: 100"),
        "a mark says what it is"
    );
    assert!(seen.contains("fs.commit that beats 1s: +"), "{seen}");
    assert!(seen.contains("Does it &lt;open&gt;?"));
}

#[test]
fn a_click_sorts_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let click = "<script>document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[3]\
                 .querySelector('button').click();</script></body>";
    let seen = opened(folder.path(), &page(&plan()).replace("</body>", click));
    assert!(seen.contains("aria-sort=\"ascending\""));
    let rows = seen.split("<tbody>").nth(1).unwrap();
    assert!(
        rows.trim_start()
            .starts_with("<tr><td data-value=\"24\">30s</td>"),
        "the shortest time first: {}",
        &rows[..200]
    );
}

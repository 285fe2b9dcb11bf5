//! Tests the page of a report in a real browser.

use std::path::Path;

use lab::record::{LatencyRecord, Measured};
use lab::timeline::{PhaseMark, Timeline};
use lab::{Plan, Record, Report};
use testkit::tool;

/// Returns a plan of fifty combinations, ten repetitions each: 500 trials.
fn plan() -> Plan {
    let text = "[plan]\nname = \"page\"\nquestion = \"does it <open>?\"\nrepetitions = 10\n[fixed]\n\
                device = \"sim:atlas-v-18\"\n[factors]\nfs.data = [\"ordered\", \"writeback\"]\n\
                fs.commit = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 30]\n\
                [baseline]\nfs.commit = 1\n";
    Plan::parse("page.toml", text).unwrap()
}

/// Returns a page of artificial records: the longer the commit interval, the shorter the time.
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
            let timeline = (trial.repetition == 0).then(timeline);
            let measured = Measured {
                timeline,
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

/// Returns a timeline of full length, with a commit in every tenth interval, and a stall.
fn timeline() -> Timeline {
    let mut stalled = vec![0; 300];
    stalled[150..160].fill(500_000_000);
    let commits = (0..300).map(|at| u64::from(at % 10 == 9));
    Timeline {
        interval_ns: 500_000_000,
        calls: (0..300).map(|at| 100 + at % 17).collect(),
        counters: [
            ("commits".to_owned(), commits.collect()),
            ("stalled_log_space_ns".to_owned(), stalled),
        ]
        .into(),
        phases: vec![PhaseMark {
            name: "transactions".to_owned(),
            began_ns: 0,
            took_ns: 150_000_000_000,
        }],
    }
}

/// Returns the text of a page's DOM in a browser after its script has run. The browser's profile is
/// in `folder`.
fn opened(folder: &Path, page: &str) -> String {
    opened_with(folder, page, &["--virtual-time-budget=10000"])
}

fn opened_with(folder: &Path, page: &str, more: &[&str]) -> String {
    let path = folder.join("page.html");
    std::fs::write(&path, page).unwrap();
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let address = format!("file://{}", path.display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        &profile,
        "--dump-dom",
        &address,
    ];
    tool::run_well("chromium", &[more, &arguments].concat())
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
        6,
        "figures, latencies and timelines of two groups"
    );
    // In each group: 24 points, the line of the baseline, and 6 curves.
    assert_eq!(seen.matches("class=\"mark\"").count(), 2 * (25 + 6));
    assert_eq!(seen.matches("class=\"mark cursor\"").count(), 2);
    assert!(seen.contains("waited for 5 s: log space"), "{seen}");
    assert!(seen.contains(">commits: 30<"));
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
    let click = "<script>{ const heads = [...document.querySelector('table.sortable').tHead.rows[0].cells]; \
                 heads.find((head) => head.textContent === 'elapsed s').querySelector('button').click(); }</script></body>";
    let seen = opened(folder.path(), &page(&plan()).replace("</body>", click));
    assert!(seen.contains("aria-sort=\"ascending\""));
    let rows = seen.split("<tbody>").nth(1).unwrap();
    assert!(
        rows.trim_start()
            .starts_with("<tr><th scope=\"row\" data-value=\"24\">30s</th>"),
        "the shortest time first: {}",
        &rows[..200]
    );
}

/// Maximum time to load, draw and lay out a page, in milliseconds since the navigation started.
const OPEN_MILLIS_MAX: f64 = 2000.0;

#[test]
fn a_report_of_500_trials_opens_in_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let clock = "<script>addEventListener('load', () => { document.body.getBoundingClientRect(); \
                 document.documentElement.dataset.took = performance.now(); });</script></body>";
    let page = page(&plan()).replace("</body>", clock);
    let seen = opened_with(folder.path(), &page, &[]);
    let took = seen.split("data-took=\"").nth(1).unwrap();
    let took: f64 = took.split('"').next().unwrap().parse().unwrap();
    assert!(took < OPEN_MILLIS_MAX, "{took} ms");
}

#[test]
fn a_timeline_is_read_with_the_keyboard() {
    let folder = tempfile::tempdir().unwrap();
    let press = "<script>{ const slider = document.querySelector('[role=slider]'); slider.focus(); \
                 for (const key of ['End', 'ArrowLeft', 'Home', 'PageUp', 'ArrowRight']) \
                 slider.dispatchEvent(new KeyboardEvent('keydown', { key })); }</script></body>";
    let seen = opened(folder.path(), &page(&plan()).replace("</body>", press));
    assert!(seen.contains("aria-valuenow=\"21\""), "{seen}");
    assert!(
        seen.contains("aria-valuetext=\"10.5 to 11 s, transactions: 208 calls a second\""),
        "{seen}"
    );
}

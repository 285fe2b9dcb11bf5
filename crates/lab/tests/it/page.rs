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
        seen.matches("<svg viewBox=\"0 0 ").count() - seen.matches("class=\"sample\"").count(),
        6,
        "figures, latencies and timelines of two groups"
    );
    // In each group: 25 rows, whose names do not fit below a curve, and 6 curves.
    assert_eq!(seen.matches("class=\"mark\"").count(), 2 * (25 + 6));
    assert_eq!(seen.matches("class=\"mark cursor\"").count(), 2);
    assert!(seen.contains("waited for 5 s: log space"), "{seen}");
    assert!(seen.contains(">commits: 30<"));
    assert!(
        seen.contains("aria-label=\"2s: 100"),
        "a mark says what it is"
    );
    assert!(
        seen.contains("<p class=\"advice\"><b>fs.data = ordered:</b> Take 30s: +"),
        "{seen}"
    );
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

/// Loads a page in a frame as wide as a phone, opens everything in it, and collects faults: names
/// that lie over each other, leave their chart, are cut or missing; and tables that are wider than
/// their place without a hint.
const PHONE: &str = r#"<!DOCTYPE html><meta charset="utf-8"><iframe id="phone" style="width:390px;height:3000px;border:0"></iframe>
<script>
const frame = document.getElementById("phone");
frame.addEventListener("load", () => {
  frame.contentDocument.querySelectorAll("details").forEach((details) => { details.open = true; });
  setTimeout(check, 500);
});
function check() {
  const inner = frame.contentDocument, faults = [];
  const box = (text) => text.getBoundingClientRect();
  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  inner.querySelectorAll("figure > svg").forEach((svg) => {
    const name = svg.getAttribute("aria-label"), texts = [...svg.querySelectorAll("text")], around = box(svg);
    texts.forEach((text, at) => {
      const own = box(text);
      if (own.left < around.left - 1 || own.right > around.right + 1) faults.push(`${name}: "${text.textContent}" leaves the chart`);
      if (text.textContent.includes("\u2026")) faults.push(`${name}: "${text.textContent}" is cut`);
      texts.slice(at + 1).filter((other) => meets(own, box(other)))
        .forEach((other) => faults.push(`${name}: "${text.textContent}" lies over "${other.textContent}"`));
    });
  });
  const data = JSON.parse(inner.getElementById("data").textContent);
  inner.querySelectorAll("figure[data-chart=figures]").forEach((figure) => {
    const names = [...figure.querySelectorAll("text.name")].map((text) => text.textContent);
    const isCurve = figure.querySelector("polyline") !== null;
    for (const row of data.groups[Number(figure.dataset.group)].rows)
      if (!names.includes(row.label) && !(isCurve && row.baseline)) faults.push(`no name of ${row.label}`);
  });
  inner.querySelectorAll(".scroll").forEach((scroll) => {
    const hint = scroll.previousElementSibling, isWide = scroll.scrollWidth > scroll.clientWidth + 1;
    if (isWide !== (hint.classList.contains("more") && !hint.hidden)) faults.push("a wide table without a hint, or a hint for nothing");
  });
  inner.querySelectorAll("th").forEach((head) => {
    if (head.scrollWidth > head.clientWidth + 1) faults.push(`the head "${head.textContent}" leaves its column`);
  });
  if (inner.documentElement.scrollWidth > 390) faults.push(`the page is ${inner.documentElement.scrollWidth} wide`);
  document.documentElement.dataset.texts = String(inner.querySelectorAll("svg text").length);
  document.documentElement.dataset.calls = [...inner.querySelectorAll("figure[data-chart=latencies] select")].map((select) => select.value).join();
  document.documentElement.dataset.faults = faults.join("; ");
}
frame.srcdoc = PAGE;
</script>"#;

/// Returns an attribute of the root element of a page opened on a phone.
fn on_a_phone(folder: &Path, page: &str) -> impl Fn(&str) -> String + use<> {
    let page = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
    let seen = opened(folder, &PHONE.replace("PAGE", &page));
    move |name: &str| {
        let rest = seen.split(&format!("data-{name}=\"")).nth(1);
        let rest = rest.unwrap_or_else(|| panic!("no {name}: {}", &seen[..seen.len().min(400)]));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Returns a page of a plan with two factors, whose names are long, and with latencies: most calls
/// are writes, and most of the time is in fsync.
fn two_factors() -> String {
    let text = "[plan]\nname = \"two\"\nquestion = \"which?\"\nrepetitions = 3\n[fixed]\ndevice = \"sim:atlas-v-18\"\n\
                workload = \"synctest\"\n[factors]\njournal = [\"internal\", { label = \"another disk of the same kind\", value = \"sim(atlas-v-18)\" }]\n\
                synctest.tasks_per_directory = [50, 10, 1]\n[baseline]\njournal = \"internal\"\nsynctest.tasks_per_directory = 50\n";
    let plan = Plan::parse("two.toml", text).unwrap();
    let latency = |nanos: u64, count: u64| LatencyRecord {
        count,
        mean_ns: nanos as f64,
        deviation_ns: 0.0,
        max_ns: nanos,
        buckets_ns: vec![(nanos, count)],
    };
    let records = plan.trials();
    let records = records.iter().enumerate().map(|(index, trial)| {
        let measured = Measured {
            metrics: [("elapsed".to_owned(), 50.0 + index as f64)].into(),
            latencies: [
                ("append".to_owned(), latency(10_000, 5000)),
                ("fsync".to_owned(), latency(8_000_000, 100)),
                ("write".to_owned(), latency(20_000, 5000)),
            ]
            .into(),
            timeline: Some(timeline()),
            ..Measured::default()
        };
        Record::new(&plan, trial, 0, 0.0, measured)
    });
    let records: Vec<Record> = records.collect();
    Report::new(&plan, &records).html("jext lab run two.toml", text)
}

#[test]
fn a_phone_shows_every_name() {
    let folder = tempfile::tempdir().unwrap();
    for page in [page(&plan()), two_factors()] {
        let shown = on_a_phone(folder.path(), &page);
        assert_eq!(shown("faults"), "");
        assert!(shown("texts").parse::<u32>().unwrap() > 20);
    }
    let shown = on_a_phone(folder.path(), &two_factors());
    assert_eq!(
        shown("calls"),
        "fsync",
        "the call that takes most of the time"
    );
}

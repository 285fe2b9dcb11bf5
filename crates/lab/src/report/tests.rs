//! Reports of small artificial records.

mod advice;
mod counterpart;
mod notes;
mod summary;

use super::*;
use crate::plan::Trial;
use crate::record::Measured;
use crate::statistics::paired::LogRatio;
use crate::statistics::rank::holm;

const PLAN: &str = r#"
[plan]
name = "sizes"
question = "How large?"
[fixed]
device = "sim:atlas-v-18"
memory.ballast = "128MiB"
[factors]
journal = ["internal", { label = "4 MB", value = "nvram:4MiB" }, { label = "8 MB", value = "nvram:8MiB" },
           { label = "16 MB", value = "nvram:16MiB" }]
[baseline]
journal = "internal"
[[published]]
at = { journal = "internal" }
metric = "elapsed"
value = 100
unit = "s"
source = "a test"
[[published]]
at = { journal = "4 MB" }
metric = "elapsed"
value = 120
unit = "s"
source = "a test"
[[published]]
at = { journal = "8 MB" }
metric = "elapsed"
value = 90
unit = "s"
source = "a test"
[[published]]
at = { journal = "16 MB" }
metric = "elapsed"
value = 89
unit = "s"
source = "a test"
"#;

fn records(plan: &Plan, times: &[f64]) -> Vec<Record> {
    let trials = plan.trials();
    let record = |(trial, elapsed): (&Trial, &f64)| {
        let rate = 1_048_576.0 * 1000.0 / elapsed;
        let metrics = [
            ("elapsed", *elapsed),
            ("read_rate", rate),
            ("write_rate", rate),
            ("commits", 7.0),
        ];
        let metrics = metrics
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Record::new(
            plan,
            trial,
            0,
            0.0,
            Measured {
                metrics,
                ..Measured::default()
            },
        )
    };
    trials.iter().zip(times).map(record).collect()
}

/// Reports three repetitions of each trial. What differs between repetitions is the same in all
/// rows, so that every difference of rows is certain.
fn report(times: &[f64]) -> Report {
    let text = PLAN.replace("question", "repetitions = 3\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    Report::new(&plan, &records(&plan, &spread(times)))
}

fn spread(values: &[f64]) -> Vec<f64> {
    let all = values.iter();
    all.flat_map(|value| [0.98, 1.0, 1.02].map(|factor| value * factor))
        .collect()
}

#[test]
fn findings_follow_the_published_rules() {
    let report = report(&[100.0, 110.0, 95.0, 80.0]);
    let findings = &report.blocks[0].groups[0].findings;
    let mark = |mark: &Option<Mark>| mark.as_ref().map(|mark| mark.label.clone());
    assert_eq!(mark(&findings.ours.first_gain).as_deref(), Some("8 MB"));
    assert_eq!(mark(&findings.ours.saturation), None, "16 MB still gains");
    assert_eq!(
        mark(&findings.published.first_gain).as_deref(),
        Some("8 MB")
    );
    assert_eq!(
        mark(&findings.published.saturation).as_deref(),
        Some("8 MB")
    );
    assert_eq!(
        (findings.order.pairs, findings.order.kept()),
        (5, 5),
        "8 and 16 MB are a tie"
    );
    let (label, share) = findings.furthest.clone().expect("there are errors");
    assert_eq!(label, "16 MB");
    assert!((share + 9.0 / 89.0).abs() < 1e-12);
}

#[test]
fn rows_in_another_order_are_named() {
    let report = report(&[100.0, 99.0, 95.0, 80.0]);
    let findings = &report.blocks[0].groups[0].findings;
    assert_eq!(
        findings.order.reversed,
        [("internal".to_owned(), "4 MB".to_owned())]
    );
    assert!(
        report.text(false).contains(
            "4 are in that order here, 1 reversed\n    (internal and 4 MB), none undecided"
        )
    );
}

#[test]
fn the_table_is_what_it_is() {
    let text = report(&[100.0, 110.0, 95.0, 80.0]).text(true);
    let expected = "\
sizes: How large?

sizes
┌──────────┬─────────────┬───────────────┬───────────┬───────────┬──────────────────────┐
│ journal  │     elapsed │  95 % of runs │ published │     error │                 gain │
│          │           s │    lie within │           │           │                      │
╞══════════╪═════════════╪═══════════════╪═══════════╪═══════════╪══════════════════════╡
│ internal │ 100.0 ± 5.0 │ 90.5 to 110.4 │     100.0 │     0.0 % │                    - │
│ 4 MB     │ 110.0 ± 5.5 │ 99.6 to 121.5 │     120.0 │    -8.3 % │  -9.1 % [-9.1, -9.1] │
│ 8 MB     │  95.0 ± 4.7 │ 86.0 to 104.9 │      90.0 │    +5.6 % │    +5.3 % [5.3, 5.3] │
│ 16 MB    │  80.0 ± 4.0 │  72.4 to 88.3 │      89.0 │ -10.1 % * │ +25.0 % [25.0, 25.0] │
└──────────┴─────────────┴───────────────┴───────────┴───────────┴──────────────────────┘
┌──────────┬──────────────┬──────────────┐
│ journal  │         read │        write │
│          │        MiB/s │        MiB/s │
╞══════════╪══════════════╪══════════════╡
│ internal │ 10.00 ± 0.50 │ 10.00 ± 0.50 │
│ 4 MB     │  9.09 ± 0.45 │  9.09 ± 0.45 │
│ 8 MB     │ 10.53 ± 0.52 │ 10.53 ± 0.52 │
│ 16 MB    │ 12.50 ± 0.62 │ 12.50 ± 0.62 │
└──────────┴──────────────┴──────────────┘
┌──────────┬─────────┐
│ journal  │ commits │
╞══════════╪═════════╡
│ internal │       7 │
│ 4 MB     │       7 │
│ 8 MB     │       7 │
│ 16 MB    │       7 │
└──────────┴─────────┘
  Take 16 MB: +25.0 % [25.0, 25.0] (p < 0.001) over internal. It rests on 12 trials, 3 of each
    row.
  First that beats internal: 8 MB, by +5.3 %; published: 8 MB, +11.1 %.
  No saturation, where the next one gains less than 5 %; published: 8 MB, +1.1 %.
  8 MB is the smallest journal that beats internal: +5.3 % [5.3, 5.3] (p < 0.001).
  The highest mean gain is that of 16 MB: +25.0 % [25.0, 25.0] (p < 0.001).
  The last level still gains: more may help.
  Furthest from its published figure: 16 MB, -10.1 %.
  Of 5 pairs that differ by more than 2 % where published, 5 are in that order here, none
    reversed, none undecided; Kendall's tau +1.00.
  Published: a test.

*  the published run lies outside of 95 % of runs here
";
    assert_eq!(text.replace('┆', "│"), expected);
}

#[test]
fn missing_records_are_said() {
    let report = report(&[100.0, 110.0]);
    assert_eq!(report.missing, 6);
    assert!(report.text(false).contains("6 trials have no record yet."));
}

#[test]
fn repetitions_have_intervals() {
    let text = PLAN.replace("question", "repetitions = 2\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let report = Report::new(&plan, &records(&plan, &[99.0, 101.0]));
    let row = &report.blocks[0].groups[0].rows[0];
    assert_eq!((row.count, row.value("elapsed")), (2, Some(100.0)));
    // 12.706 x sqrt(2) / sqrt(2)
    assert!(report.text(false).contains("100.0 ± 12.7"));
}

#[test]
fn a_ballast_that_follows_the_journal_is_warned_of() {
    let text = PLAN.replace(
        "memory.ballast = \"128MiB\"",
        "memory.ballast = \"journal\"",
    );
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let warnings = Warning::of(&plan);
    assert!(
        matches!(
            &warnings[..],
            [
                Warning::MemoryVaries {
                    factor: "journal",
                    ..
                },
                Warning::NotRepeated
            ]
        ),
        "{warnings:?}"
    );
    let said = Report::new(&plan, &[]).text(false);
    assert!(
        said.contains("warning: the factor journal changes the memory that remains for caching"),
        "{said}"
    );
    let good = Plan::parse("p.toml", PLAN).expect("the plan is right");
    assert_eq!(Warning::of(&good), [Warning::NotRepeated]);
}

/// The file system and the journal as texts, the warnings in words.
#[test]
fn one_disk_or_two_is_said() {
    let said = |device: &str, journal: &str| {
        let text = format!(
            "[plan]\nname = \"p\"\nquestion = \"?\"\nrepetitions = 2\n[fixed]\ndevice = \"{device}\"\n\
             [factors]\njournal = [\"internal\", {{ label = \"beside\", value = \"{journal}\" }}]\n"
        );
        let plan = Plan::parse("p.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let warnings = Warning::of(&plan);
        let texts = warnings.iter().map(ToString::to_string);
        texts.collect::<Vec<String>>().join("\n")
    };
    let two = "beside: the file system and the journal are on two disks, each sim:atlas-v-18; write \
               disk(sim:atlas-v-18) in both for one disk, or in one of them for two";
    let one =
        "the journal is on the disk of the file system in beside: disk busy is the work for both";
    let cases = [
        (
            "slice(sim:atlas-v-18,0..1GiB)",
            "slice(sim:atlas-v-18,1GiB..2GiB)",
            two,
        ),
        (
            "slice(sim:atlas-v-18,0..1GiB)",
            "slice(slice(sim(atlas-v-18),1GiB..),0..1GiB)",
            two,
        ),
        (
            "slice(disk(sim:atlas-v-18),0..1GiB)",
            "slice(disk(sim:atlas-v-18),1GiB..2GiB)",
            one,
        ),
        (
            "slice(disk(sim:atlas-v-18),0..1GiB)",
            "slice(sim:atlas-v-18,1GiB..2GiB)",
            "",
        ),
        (
            "slice(sim:atlas-v-18,0..1GiB)",
            "slice(disk(sim:atlas-v-18),1GiB..2GiB)",
            "",
        ),
        (
            "slice(sim:atlas-v-18,0..1GiB)",
            "slice(sim:atlas-v-9,1GiB..2GiB)",
            "",
        ),
        ("sim:atlas-v-18", "slice(sim:atlas-v-18,1GiB..2GiB)", ""),
        ("sim:atlas-v-18", "nvram:32MiB", ""),
    ];
    for (device, journal, expected) in cases {
        assert_eq!(said(device, journal), expected, "{device} {journal}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let json = report(&[100.0, 110.0, 95.0, 80.0]).json();
    let row = &json["blocks"][0]["groups"][0]["rows"][2];
    assert_eq!(row["labels"][0], "8 MB");
    assert_eq!(row["figures"]["elapsed"]["mean"], 95.0);
    assert_eq!(row["figures"]["elapsed"]["published"], 90.0);
    assert_eq!(
        json["blocks"][0]["groups"][0]["findings"]["ours"]["first_gain"]["row"],
        "8 MB"
    );
}

/// Returns times of five repetitions each: internal 100, 4 MB equal, 8 MB a fifth faster, 16 MB
/// equal to 8 MB.
fn repeated() -> (Plan, Vec<Record>) {
    let text = PLAN.replace("question", "repetitions = 5\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let times: Vec<f64> = [100.0, 100.5, 80.0, 79.0]
        .iter()
        .flat_map(|time| [-1.0, 0.4, 0.2, -0.6, 1.0].map(|off| time + off))
        .collect();
    let records = records(&plan, &times);
    (plan, records)
}

#[test]
fn the_answer_is_said_in_words_with_intervals() {
    let (plan, records) = repeated();
    let report = Report::new(&plan, &records);
    let said = answer::sentences(&report.blocks[0].groups[0]);
    assert!(
        said[0].starts_with("8 MB is the smallest journal that beats internal: +25.0 % [24."),
        "{said:?}"
    );
    assert!(said[0].contains("(p < 0.001"), "{said:?}");
    assert!(
        said[1].starts_with("The highest mean gain is that of 16 MB: +26.6 % ["),
        "{said:?}"
    );
    assert_eq!(said[2], "More than 8 MB gains less than 5 %.");
    assert_eq!(said[3], "The curve bends at 8 MB.");
    assert!(
        report.text(false).contains(&said[0]),
        "the terminal has them too"
    );
    assert_eq!(report.warnings, []);
}

#[test]
fn a_published_run_is_compared_with_single_runs() {
    // 12.706 x sqrt(1 + 1/2) x the deviation of ln 99 and ln 101 is 0.22.
    let text = PLAN.replace("question", "repetitions = 2\nquestion");
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let times = [99.0, 101.0, 99.0, 101.0, 99.0, 101.0, 150.0, 150.1];
    let report = Report::new(&plan, &records(&plan, &times));
    let rows = &report.blocks[0].groups[0].rows;
    let predicted: Vec<_> = rows.iter().map(|row| row.is_predicted("elapsed")).collect();
    assert_eq!(predicted, [Some(true), Some(true), Some(true), Some(false)]);
    let text = report.text(false);
    assert!(text.contains("80.2 to 124.6"), "{text}");
    assert!(
        text.contains("+68.6 % *") && text.contains("*  the published run"),
        "{text}"
    );
}

#[test]
fn trials_without_commits_or_reads_are_warned_of() {
    let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
    let mut records = records(&plan, &[100.0, 110.0, 95.0, 80.0]);
    for record in &mut records[2..] {
        record.measured.metrics.insert("commits".to_owned(), 0.0);
    }
    records[0]
        .measured
        .metrics
        .insert("home_reads".to_owned(), 0.0);
    let warnings = Report::new(&plan, &records).warnings;
    let levels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = [
        Warning::NotRepeated,
        Warning::NoCommit {
            levels: levels(&["8 MB", "16 MB"]),
        },
        Warning::AllInCache {
            levels: levels(&["internal"]),
        },
    ];
    assert_eq!(warnings, expected);
    assert!(
        warnings[1]
            .to_string()
            .starts_with("8 MB; 16 MB: no transaction was committed")
    );
}

#[test]
fn without_a_journal_no_commit_is_no_warning() {
    let text = "[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\ndevice = \"sim:atlas-v-18\"\n\
                fs.type = \"ext2\"\njournal = \"none\"\n";
    let plan = Plan::parse("p.toml", text).expect("the plan is right");
    let mut records = records(&plan, &[100.0]);
    let metrics = &mut records[0].measured.metrics;
    metrics.insert("commits".to_owned(), 0.0);
    let warnings = Report::new(&plan, &records).warnings;
    assert_eq!(warnings, [Warning::NotRepeated]);
}

#[test]
fn effects_are_corrected_for_being_several() {
    let (plan, records) = repeated();
    let report = Report::new(&plan, &records);
    let rows = &report.blocks[0].groups[0].rows;
    let alone: Vec<f64> = rows[1..]
        .iter()
        .map(|row| LogRatio::of(&row.trials, &rows[0].trials))
        .map(|ratio| ratio.and_then(|ratio| ratio.p).expect("five pairs"))
        .collect();
    let corrected: Vec<f64> = rows[1..]
        .iter()
        .map(|row| row.effect.and_then(|effect| effect.p).expect("five pairs"))
        .collect();
    assert_eq!(corrected, holm(&alone));
    assert!(corrected[1] > alone[1], "{corrected:?}");
}

#[test]
fn the_page_is_complete_in_itself_and_escapes_what_it_is_given() {
    let text = PLAN.replace(
        "How large?",
        "is <script>alert(1)</script> & \\\"this\\\" safe?",
    );
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let plan = Plan {
        repetitions: 3,
        repetitions_max: 3,
        ..plan
    };
    let report = Report::new(&plan, &records(&plan, &spread(&[100.0, 110.0, 95.0, 80.0])));
    let page = report.html("jext lab run p.toml", &text);
    assert!(
        !page.contains("<script>alert"),
        "markup in a plan stays text"
    );
    assert!(page.contains("Is &lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;this&quot; safe?"));
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{outside} needs a network");
    }
    assert!(
        page.contains(
            "<p class=\"advice\">Take 16 MB: +25.0 % [25.0, 25.0] (p &lt; 0.001) over internal.</p>"
        ),
        "{page}"
    );
    assert_eq!(
        page.matches("<details").count(),
        page.matches("</details>").count()
    );
    assert!(page.contains(
        "8 MB is the smallest journal that beats internal: +5.3 % [5.3, 5.3] (p &lt; 0.001)."
    ));
    assert!(page.contains("jext lab run p.toml"));
    assert!(page.contains("memory.ballast"));
    assert_eq!(
        page.matches("<table").count(),
        page.matches("</table>").count()
    );
    assert_eq!(
        page.matches("<section").count(),
        page.matches("</section>").count()
    );
}

#[test]
fn real_trials_that_are_suspicious_are_warned_of() {
    let text = "[plan]\nname = \"real\"\nquestion = \"?\"\nrepetitions = 12\n[fixed]\n\
                target = \"process\"\ndevice = \"mem:64MiB\"\n";
    let plan = Plan::parse("p.toml", text).expect("the plan is right");
    let said = |times: [f64; 12]| {
        let mut records = records(&plan, &times);
        for (index, record) in records.iter_mut().enumerate() {
            record.started = index as u64;
        }
        let warnings = Report::new(&plan, &records).warnings;
        warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let steady = [
        10.0, 10.2, 9.9, 10.1, 9.8, 10.05, 10.15, 9.85, 9.95, 10.0, 10.1, 9.9,
    ];
    assert_eq!(said(steady), "");
    let mut one_off = steady;
    one_off[7] = 19.0;
    assert!(
        said(one_off).contains("repetition 7 differs widely from the others"),
        "{}",
        said(one_off)
    );
    let mut cold = steady;
    (cold[0], cold[1]) = (30.0, 29.0);
    assert!(
        said(cold).contains("the first 2 repetitions differ"),
        "{}",
        said(cold)
    );
    let mut rising = steady;
    rising
        .iter_mut()
        .enumerate()
        .for_each(|(index, time)| *time += index as f64 / 4.0);
    assert!(
        said(rising).contains("trials were slower the later they were run"),
        "{}",
        said(rising)
    );
}

#[test]
fn an_interval_that_stays_wide_is_warned_of() {
    let head = "repetitions = 2\nprecision = 0.01\nrepetitions_max = 2\nquestion";
    let plan = Plan::parse("p.toml", &PLAN.replace("question", head)).expect("the plan is right");
    let report = Report::new(&plan, &records(&plan, &[99.0, 101.0]));
    assert!(
        report
            .text(false)
            .contains("internal: after 2 trials the 95 % interval of elapsed is still 12.7 %"),
        "{}",
        report.text(false)
    );
}

/// Returns records of dbench, which has a fixed time: these throughputs in MiB/s.
fn throughputs(factors: &str, values: &[f64]) -> Report {
    let text = format!(
        "[plan]\nname = \"load\"\nquestion = \"?\"\nrepetitions = 3\n[fixed]\nworkload = \"dbench\"\n\
         device = \"sim:atlas-v-18\"\n[factors]\n{factors}\n"
    );
    let plan = Plan::parse("p.toml", &text).expect("the plan is right");
    let values = spread(values);
    let mut records = records(&plan, &vec![600.0; values.len()]);
    for (record, value) in records.iter_mut().zip(values) {
        let metrics = &mut record.measured.metrics;
        metrics.insert("throughput".to_owned(), value * 1_048_576.0);
    }
    Report::new(&plan, &records)
}

#[test]
fn where_the_time_is_given_a_rate_is_compared() {
    let factor = "journal = [\"internal\", { label = \"NVRAM\", value = \"nvram:8MiB\" }]";
    let report = throughputs(
        &format!("{factor}\n[baseline]\njournal = \"internal\""),
        &[10.0, 12.0],
    );
    let group = &report.blocks[0].groups[0];
    assert_eq!(group.primary.name, "throughput");
    let mark = group.findings.ours.first_gain.clone();
    let mark = mark.expect("more is better");
    assert_eq!(mark.label, "NVRAM");
    assert!((mark.share - 0.2).abs() < 1e-12);
    assert_eq!(
        answer::sentences(group),
        ["NVRAM beats internal: +20.0 % [20.0, 20.0] (p < 0.001)."]
    );
    let text = report.text(false);
    assert!(
        text.contains("throughput") && text.contains("12.00") && !text.contains("write"),
        "only what the workload gives: {text}"
    );
    assert!(
        report
            .html("", "")
            .contains("A gain is in throughput, over the baseline&#39;s.")
    );
    let modes = "fs.data = [\"ordered\", \"writeback\", \"journal\"]";
    let baseline = "[baseline]\nfs.data = \"ordered\"";
    let modes = throughputs(&format!("{modes}\n{baseline}"), &[10.0, 12.0, 9.0]);
    assert!(
        !modes.text(false).contains("aturation"),
        "modes have no order: {}",
        modes.text(false)
    );
    let alone = throughputs(factor, &[10.0, 12.0]);
    assert_eq!(
        answer::sentences(&alone.blocks[0].groups[0]),
        ["NVRAM has the highest throughput, internal the lowest: a factor of 1.20."]
    );
    let clients = throughputs("dbench.clients = [1, 10]", &[10.0, 12.0]);
    assert_eq!(
        answer::sentences(&clients.blocks[0].groups[0]),
        [
            "dbench.clients = 10 has the highest throughput, dbench.clients = 1 the lowest: a factor of 1.20."
        ]
    );
    let single = alone.blocks[0].groups[0].clone();
    let rows = single.rows.into_iter().map(|row| Row { count: 1, ..row });
    let single = Group {
        rows: rows.collect(),
        ..alone.blocks[0].groups[0].clone()
    };
    assert_eq!(
        answer::sentences(&single),
        [
            "One trial each decides nothing; in it NVRAM has the highest throughput, internal the \
             lowest: a factor of 1.20."
        ]
    );
}

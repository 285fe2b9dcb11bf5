//! Sessions on a target without data: scripts, files, and the differences from the original.

use std::sync::Arc;

use workload::counting::CountingTarget;
use workload::postmark::{Options, Session};
use workload::{Control, Target};

use crate::recorder::Recorder;

fn session(target: CountingTarget, options: Options, console: &mut Recorder) -> Session<'_> {
    let target: Arc<dyn Target> = Arc::new(target);
    Session::new(target, options, Arc::new(Control::new()), console)
}

fn with_files(files: &[(&str, &str)]) -> Recorder {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Recorder {
        files: files.collect(),
        ..Recorder::default()
    }
}

#[test]
fn a_script_is_read_at_the_start() {
    for (script, files, number, errors) in [
        (None, &[][..], 500, ""),
        (None, &[(".pmrc", "set number 7\n")], 7, ""),
        (
            Some("x.pm"),
            &[(".pmrc", "set number 7\n"), ("x.pm", "set number 8\n")],
            8,
            "",
        ),
        (
            Some("x.pm"),
            &[],
            500,
            "Error: cannot read configuration file 'x.pm'\n",
        ),
    ] {
        let mut console = with_files(files);
        let mut session = session(CountingTarget::new(), Options::compat(), &mut console);
        session.start(script);
        assert_eq!(session.parameters().number, number, "{script:?} {files:?}");
        assert_eq!(console.errors, errors, "{script:?} {files:?}");
    }
}

#[test]
fn quit_in_a_loaded_file_ends_everything() {
    let mut console = with_files(&[("a", "set seed 2\nload b\nset seed 9\n"), ("b", "quit\n")]);
    let mut session = session(CountingTarget::new(), Options::compat(), &mut console);
    session.converse(["load a", "set seed 8"].map(str::to_owned));
    assert_eq!(session.parameters().seed, 2);
}

#[test]
fn files_that_load_each_other_end() {
    let mut console = with_files(&[("a", "load a\n")]);
    let mut session = session(CountingTarget::new(), Options::compat(), &mut console);
    session.execute("load a");
    assert!(
        console
            .errors
            .ends_with("'a' is loaded from too many others\n")
    );
}

#[test]
fn reports_are_added_to_files() {
    let mut console = Recorder::default();
    let script = "set report terse\nrun my results\nrun my results\nshow shown\nrun /nowhere/x";
    let mut session = session(CountingTarget::new(), Options::compat(), &mut console);
    session.converse(script.lines().map(str::to_owned));
    assert_eq!(session.runs().len(), 3);
    let reports: Vec<&str> = console.files["my results"].lines().collect();
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0].split(' ').count(), 13);
    assert!(console.files["shown"].starts_with("Current configuration is:\n"));
    assert_eq!(
        console.errors,
        "Error: Cannot direct output to file '/nowhere/x'\n"
    );
    assert!(
        console.printed.contains(reports[0]),
        "what cannot go to the file is printed"
    );
}

#[test]
fn fewer_than_ten_transactions_have_a_dot_each() {
    let mut console = Recorder::default();
    let mut session = session(CountingTarget::new(), Options::compat(), &mut console);
    session.converse(["set transactions 3", "run"].map(str::to_owned));
    assert!(
        console.printed.contains("Performing transactions...Done\n"),
        "{}",
        console.printed
    );
}

#[test]
fn a_full_target_is_an_error_and_leaves_nothing() {
    for buffered in [true, false] {
        let mut console = Recorder::default();
        let target = Arc::new(CountingTarget::with_capacity(1_000_000));
        let shared: Arc<dyn Target> = Arc::clone(&target) as Arc<dyn Target>;
        let control = Arc::new(Control::new());
        let mut session = Session::new(shared, Options::compat(), control, &mut console);
        let buffering = format!("set buffering {buffered}");
        session.converse([
            buffering,
            "set subdirectories 2".to_owned(),
            "run".to_owned(),
        ]);
        assert_eq!((session.failures(), session.runs().len()), (1, 0));
        assert!(
            console.errors.contains("no space left on target"),
            "{}",
            console.errors
        );
        assert_eq!(target.names(), 0);
    }
}

#[test]
fn the_lab_form_reports_a_run_that_ran_out_of_files() {
    let script = ["set number 5", "set bias create 0", "run"].map(str::to_owned);
    for (options, reported) in [(Options::compat(), false), (Options::lab(), true)] {
        let mut console = Recorder::default();
        let mut session = session(CountingTarget::new(), options, &mut console);
        session.converse(script.clone());
        assert!(session.runs()[0].is_out_of_files());
        let text = "out of files: 5 of 500 transactions done";
        assert_eq!(
            console.printed.contains(text),
            reported,
            "{}",
            console.printed
        );
        assert_eq!(console.printed.contains("seconds total"), reported);
    }
}

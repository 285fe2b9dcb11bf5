//! The lab mode: latencies, syncing, threads, progress and cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use workload::counting::CountingTarget;
use workload::postmark::{FinalSync, Fsync, NoObserver, Options, Parameters, run};
use workload::{Control, Operation, Outcome, ParameterError, RunError, Target};

use crate::figures::{count, reported};

fn run_with(options: &Options) -> (Outcome, Arc<CountingTarget>) {
    run_both(&Parameters::default(), options)
}

fn run_both(parameters: &Parameters, options: &Options) -> (Outcome, Arc<CountingTarget>) {
    let counting = Arc::new(CountingTarget::new());
    let target: Arc<dyn Target> = Arc::clone(&counting) as Arc<dyn Target>;
    let control = Arc::new(Control::new());
    let outcome = run(parameters, options, &target, &control, &mut NoObserver);
    (outcome.expect("the target has no limit"), counting)
}

#[test]
fn every_call_has_a_latency() {
    for threads in [1, 3] {
        let options = Options {
            threads,
            fsync: Fsync::Close,
            ..Options::lab()
        };
        let (outcome, target) = run_with(&options);
        let latencies = outcome.latencies.as_ref().expect("it was asked for");
        let timed = |label| latencies.summary(label).map_or(0, |summary| summary.count);
        let own = |name| count(&outcome, name);
        assert_eq!(timed("create"), own("created"));
        assert_eq!(timed("open"), own("read") + own("appended"));
        assert_eq!(timed("delete"), own("deleted"));
        assert_eq!(timed("read"), target.calls(Operation::Read));
        assert_eq!(
            timed("write") + timed("append"),
            target.calls(Operation::Write)
        );
        assert_eq!(timed("close"), target.calls(Operation::Close));
        assert_eq!(timed("close"), target.calls(Operation::Open));
        assert_eq!(timed("fsync"), own("created") + own("appended"));
        assert_eq!(timed("transaction"), 500);
        assert_eq!(target.names(), 0);
    }
}

#[test]
fn what_is_not_asked_for_is_not_measured() {
    assert!(run_with(&Options::compat()).0.latencies.is_none());
    assert!(
        run_with(&Options {
            latencies: false,
            ..Options::lab()
        })
        .0
        .latencies
        .is_none()
    );
}

#[test]
fn syncing() {
    let calls = |fsync, final_sync| {
        let (outcome, target) = run_with(&Options {
            fsync,
            final_sync,
            ..Options::lab()
        });
        let written = count(&outcome, "created") + count(&outcome, "appended");
        let writes = target.calls(Operation::Write);
        (
            written,
            writes,
            target.calls(Operation::Fsync),
            target.calls(Operation::Sync),
        )
    };
    let (_, _, fsyncs, syncs) = calls(Fsync::None, FinalSync::None);
    assert_eq!((fsyncs, syncs), (0, 0));
    let (written, _, fsyncs, syncs) = calls(Fsync::Close, FinalSync::End);
    assert_eq!((fsyncs, syncs), (written, 1));
    let (_, writes, fsyncs, syncs) = calls(Fsync::EveryWrite, FinalSync::EachPhase);
    assert_eq!((fsyncs, syncs), (writes, 3));
}

#[test]
fn threads_share_the_work_and_repeat_it() {
    let parameters = Parameters {
        number: 1000,
        transactions: 1001,
        ..Parameters::default()
    };
    for threads in [2, 7] {
        let options = Options {
            threads,
            ..Options::lab()
        };
        let (first, _) = run_both(&parameters, &options);
        let (second, target) = run_both(&parameters, &options);
        for name in ["created", "read", "appended", "bytes_read", "bytes_written"] {
            let [first, second] = [&first, &second].map(|outcome| count(outcome, name));
            assert_eq!(first, second, "the same seed does the same: {name}");
        }
        assert_eq!(reported(&first, "Creation alone"), 1000);
        assert_eq!(count(&first, "transactions"), 1001);
        assert_eq!(count(&first, "created"), count(&first, "deleted"));
        assert_eq!(target.names(), 0);
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let refusal = |options: &Options| {
        let target: Arc<dyn Target> = Arc::new(CountingTarget::new());
        let control = Arc::new(Control::new());
        run(
            &Parameters::default(),
            options,
            &target,
            &control,
            &mut NoObserver,
        )
        .expect_err("it does not fit")
    };
    let refused = |name, message: &str| RunError::from(ParameterError::new(name, message));
    for (threads, message) in [
        (0, "0 threads cannot share 500 files"),
        (501, "501 threads cannot share 500 files"),
    ] {
        let options = Options {
            threads,
            ..Options::lab()
        };
        assert_eq!(refusal(&options), refused("postmark.threads", message));
    }
    assert_eq!(
        refusal(&Options {
            stdio_buffer: 0,
            ..Options::lab()
        }),
        refused("postmark.buffering", "the stdio buffer has no bytes")
    );
    for options in [
        Options {
            threads: 2,
            ..Options::compat()
        },
        Options {
            fsync: Fsync::Close,
            ..Options::compat()
        },
        Options {
            final_sync: FinalSync::End,
            ..Options::compat()
        },
    ] {
        let message = "the original neither syncs nor has threads: use the lab form";
        assert_eq!(refusal(&options), refused("postmark", message));
    }
}

#[test]
fn the_times_of_the_phases_add_up_and_all_figures_are_there() {
    let (outcome, _) = run_with(&Options {
        final_sync: FinalSync::End,
        ..Options::lab()
    });
    let elapsed = outcome.value("elapsed").expect("a time");
    let phases: rt::Nanos = outcome.phases.iter().map(|phase| phase.took).sum();
    assert_eq!(phases.as_secs_f64(), elapsed);
    let rate = count(&outcome, "bytes_read") as f64 / elapsed;
    assert_eq!(outcome.value("read_rate"), Some(rate));
    assert_eq!(outcome.value("transactions"), Some(500.0));
    let mut metrics = outcome.metrics.iter();
    assert!(metrics.all(|metric| metric.value.is_finite()));
}

#[test]
fn cancelling_stops_and_leaves_nothing() {
    for threads in [1, 4] {
        let counting = Arc::new(CountingTarget::new());
        let target: Arc<dyn Target> = Arc::clone(&counting) as Arc<dyn Target>;
        // The callback cancels the run in the middle of the transactions.
        let seen = Arc::new(AtomicU64::new(0));
        let sink = Arc::clone(&seen);
        let slot: Arc<rt::Mutex<Option<Arc<Control>>>> = Arc::new(rt::Mutex::new(None));
        let inside = Arc::clone(&slot);
        let control = Arc::new(Control::with_progress(move |fraction| {
            sink.fetch_add(1, Ordering::Relaxed);
            if fraction > 0.5
                && let Some(control) = inside.lock().take()
            {
                control.cancel();
            }
        }));
        *slot.lock() = Some(Arc::clone(&control));
        let options = Options {
            threads,
            ..Options::lab()
        };
        let result = run(
            &Parameters::default(),
            &options,
            &target,
            &control,
            &mut NoObserver,
        );
        assert_eq!(result.expect_err("it was cancelled"), RunError::Cancelled);
        assert_eq!(counting.names(), 0);
        assert!(seen.load(Ordering::Relaxed) > 100);
    }
}

#[test]
fn a_file_that_was_cut_is_noticed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let host = workload::directory::DirectoryTarget::new(directory.path()).expect("it exists");
    let target: Arc<dyn Target> = Arc::new(host);
    for buffered in [true, false] {
        let parameters = Parameters {
            number: 3,
            transactions: 50,
            buffered,
            create_bias: workload::postmark::Bias::DISABLED,
            read_bias: workload::postmark::Bias::new(10).expect("it is at most 10"),
            ..Parameters::default()
        };
        let root = directory.path().to_owned();
        // After the pool is created, another program truncates its files.
        let control = Arc::new(Control::with_progress(move |fraction| {
            if fraction > 0.3 {
                for entry in std::fs::read_dir(&root).expect("it is there").flatten() {
                    std::fs::write(entry.path(), b"short").expect("it can be written");
                }
            }
        }));
        let result = run(
            &parameters,
            &Options::lab(),
            &target,
            &control,
            &mut NoObserver,
        );
        let error = result.expect_err("files are short");
        assert!(
            matches!(error, RunError::ShortFile { got: 5, .. }),
            "{error}"
        );
        let left = std::fs::read_dir(directory.path())
            .expect("it is there")
            .count();
        assert_eq!(left, 0);
    }
}

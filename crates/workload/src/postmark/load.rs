//! PostMark in the catalogue: its parameters, and their conversion for a run.

use std::sync::Arc;

use super::console::NoObserver;
use super::options::{FinalSync, Fsync, Options};
use super::parameters::{Bias, LARGEST, ParameterError as Refusal, Parameters};
use super::run::run;
use crate::definition::{Definition, Footprint, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

const POSITIVE: (i64, i64) = (1, LARGEST as i64);
const BIAS: (i64, i64) = (-1, 10);

/// Definition of the workload. Its rates are over the whole run, as in the original's report.
pub const DEFINITION: Definition = Definition {
    name: "postmark",
    title: "PostMark: many short-lived small files",
    parameters: &[
        Parameter::range("postmark.size", LARGEST, (500, 10_000), "set size"),
        Parameter::number("postmark.number", POSITIVE, 500, "set number"),
        Parameter::number("postmark.transactions", POSITIVE, 500, "set transactions"),
        Parameter::number("postmark.seed", POSITIVE, 42, "set seed"),
        Parameter::number(
            "postmark.subdirectories",
            (0, LARGEST as i64),
            0,
            "set subdirectories",
        ),
        Parameter::number("postmark.read", POSITIVE, 512, "set read"),
        Parameter::number("postmark.write", POSITIVE, 512, "set write"),
        Parameter::switch("postmark.buffering", true, "set buffering"),
        Parameter::number("postmark.bias_read", BIAS, 5, "set bias read"),
        Parameter::number("postmark.bias_create", BIAS, 5, "set bias create"),
        Parameter::number(
            "postmark.threads",
            (1, 1024),
            1,
            "number of threads that share the work",
        ),
        Parameter::word(
            "postmark.fsync",
            &["none", "close", "every-write"],
            "when files are synced",
        ),
        Parameter::word(
            "postmark.final_sync",
            &["none", "end", "each-phase"],
            "whether the time includes a sync",
        ),
        Parameter::switch(
            "postmark.latencies",
            false,
            "whether a latency is measured for every call",
        ),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &["read_rate", "write_rate", "elapsed"],
    },
    frame: Frame::Original,
    footprint: |values| {
        let (low, high) = values.range("postmark.size");
        let mean = u64::from(low).midpoint(u64::from(high));
        Footprint::of_bytes(u64::from(values.number("postmark.number")).checked_mul(mean))
    },
    read: |values| Ok(Arc::new(Load::read(values)?)),
};

/// A run with its parameters.
#[derive(Debug)]
struct Load {
    parameters: Parameters,
    options: Options,
}

impl Load {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let (size_low, size_high) = values.range("postmark.size");
        let parameters = Parameters {
            size_low,
            size_high,
            number: values.number("postmark.number"),
            transactions: values.number("postmark.transactions"),
            seed: values.number("postmark.seed"),
            subdirectories: values.number("postmark.subdirectories"),
            read_block: values.number("postmark.read"),
            write_block: values.number("postmark.write"),
            buffered: values.switch("postmark.buffering"),
            read_bias: bias(values, "postmark.bias_read")?,
            create_bias: bias(values, "postmark.bias_create")?,
            ..Parameters::default()
        };
        let options = Options {
            fsync: match values.text("postmark.fsync") {
                "close" => Fsync::Close,
                "every-write" => Fsync::EveryWrite,
                _ => Fsync::None,
            },
            final_sync: match values.text("postmark.final_sync") {
                "end" => FinalSync::End,
                "each-phase" => FinalSync::EachPhase,
                _ => FinalSync::None,
            },
            threads: values.number("postmark.threads"),
            latencies: values.switch("postmark.latencies"),
            ..Options::lab()
        };
        parameters.check()?;
        options.check(&parameters)?;
        Ok(Self {
            parameters,
            options,
        })
    }
}

impl Workload for Load {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        run(
            &self.parameters,
            &self.options,
            stage.target(),
            stage.control(),
            &mut NoObserver,
        )
    }
}

/// Returns the bias of this name; a negative one is disabled.
fn bias(values: &Values, name: &'static str) -> Result<Bias, ParameterError> {
    let Ok(tenths) = u8::try_from(values.signed(name)) else {
        return Ok(Bias::DISABLED);
    };
    Bias::new(tenths).ok_or_else(|| ParameterError::new(name, Refusal::Bias.to_string()))
}

//! The program: reads commands, keeps the parameters, runs the benchmark and prints as the original
//! does.
//!
//! An unknown command is answered with `Eh?`. Empty lines and lines that start with `#` are
//! ignored.

use std::fmt::Write;
use std::sync::Arc;

use super::command::{Flow, Verb, assign, help, parse};
use super::console::{Announcer, Console, NoObserver};
use super::options::{Mode, Options};
use super::parameters::{ParameterError, Parameters};
use super::report;
use super::run::run;
use crate::control::Control;
use crate::outcome::Outcome;
use crate::target::Target;

/// Script that is read at the start if none is given and this one exists.
pub const DEFAULT_SCRIPT: &str = ".pmrc";
/// Prompt for a command.
const PROMPT: &str = "pm>";
/// First line of the output.
const BANNER: &str = "PostMark, as versions 1.51 to 1.53\n";
/// Maximum nesting depth of command files.
const LOAD_DEPTH: u32 = 16;
const INFALLIBLE: &str = "writing to a string does not fail";

/// A run of a session.
#[derive(Debug, Clone)]
pub struct SessionRun {
    /// Parameters of the run.
    pub parameters: Parameters,
    /// Outcome of the run.
    pub outcome: Outcome,
}

impl SessionRun {
    /// Returns true if the files ran out before all transactions were done.
    #[must_use]
    pub fn is_out_of_files(&self) -> bool {
        self.outcome.value("transactions") != Some(f64::from(self.parameters.transactions))
    }
}

/// A session of commands on one target.
pub struct Session<'a> {
    parameters: Parameters,
    options: Options,
    target: Arc<dyn Target>,
    control: Arc<Control>,
    console: &'a mut dyn Console,
    runs: Vec<SessionRun>,
    failures: u32,
    load_depth: u32,
}

impl<'a> Session<'a> {
    /// Returns a session with the default parameters.
    pub fn new(
        target: Arc<dyn Target>,
        options: Options,
        control: Arc<Control>,
        console: &'a mut dyn Console,
    ) -> Self {
        Self {
            parameters: Parameters::default(),
            options,
            target,
            control,
            console,
            runs: Vec::new(),
            failures: 0,
            load_depth: 0,
        }
    }

    /// Returns the current parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the current parameters for modification.
    pub fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// Returns all runs that succeeded.
    #[must_use]
    pub fn runs(&self) -> &[SessionRun] {
        &self.runs
    }

    /// Returns the number of failed runs.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Sets a parameter as the command `set` does.
    ///
    /// # Errors
    /// Fails if there is no such parameter, or if its value is invalid.
    pub fn set(&mut self, parameter: &str) -> Result<(), ParameterError> {
        self.parameters.set(parameter)
    }

    /// Starts as the program does: prints the banner, then executes the commands of `script`, or of
    /// `.pmrc` if no script is given and it exists.
    pub fn start(&mut self, script: Option<&str>) -> Flow {
        self.console.print(BANNER);
        match script {
            Some(script) => self.load(script),
            None => match self.console.load(DEFAULT_SCRIPT) {
                Ok(text) => self.commands(DEFAULT_SCRIPT, &text),
                Err(_) => Flow::Continue,
            },
        }
    }

    /// Prompts for commands and executes them until the input ends or a command quits.
    pub fn converse(&mut self, lines: impl IntoIterator<Item = String>) {
        self.console.print(PROMPT);
        for line in lines {
            if self.execute(&line) == Flow::Quit {
                return;
            }
            self.console.print(PROMPT);
        }
        self.console.print("\n");
    }

    /// Executes one command.
    pub fn execute(&mut self, line: &str) -> Flow {
        let line = line.trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() || line.starts_with('#') {
            return Flow::Continue;
        }
        let Some((verb, argument)) = parse(line) else {
            self.console.print("Eh?\n");
            return Flow::Continue;
        };
        match verb {
            Verb::Set(setting) => {
                if let Err(error) = assign(&mut self.parameters, setting, argument) {
                    self.complain(&error.to_string());
                }
            }
            Verb::Run => self.run(argument),
            Verb::Show => {
                let text = self.configuration();
                self.output(argument, &text);
            }
            Verb::Help => self.console.print(&help(argument)),
            Verb::Load if argument.is_empty() => self.complain("no configuration file specified"),
            Verb::Load => return self.load(argument),
            Verb::Quit => return Flow::Quit,
        }
        Flow::Continue
    }

    fn load(&mut self, path: &str) -> Flow {
        if self.load_depth == LOAD_DEPTH {
            self.complain(&format!(
                "configuration file '{path}' is loaded from too many others"
            ));
            return Flow::Continue;
        }
        match self.console.load(path) {
            Ok(text) => {
                self.load_depth += 1;
                let flow = self.commands(path, &text);
                self.load_depth -= 1;
                flow
            }
            Err(_) => {
                self.complain(&format!("cannot read configuration file '{path}'"));
                Flow::Continue
            }
        }
    }

    fn commands(&mut self, path: &str, text: &str) -> Flow {
        self.console
            .print(&format!("Reading configuration from file '{path}'\n"));
        for line in text.lines() {
            if self.execute(line) == Flow::Quit {
                return Flow::Quit;
            }
        }
        Flow::Continue
    }

    fn run(&mut self, file: &str) {
        match self.run_once() {
            Ok(outcome) => {
                let name = self.parameters.report.name();
                let report = outcome.documents.iter().find(|report| report.name == name);
                if let Some(report) = report {
                    self.output(file, &report.text);
                }
                self.runs.push(SessionRun {
                    parameters: self.parameters.clone(),
                    outcome,
                });
            }
            Err(message) => {
                self.failures += 1;
                if self.options.mode == Mode::Compat {
                    self.console.print("\n");
                }
                self.complain(&message);
            }
        }
    }

    /// Runs the benchmark. On failure returns the message to print; for parameters it is the
    /// original's.
    fn run_once(&mut self) -> Result<Outcome, String> {
        self.parameters.check().map_err(|error| error.to_string())?;
        let mut silent = NoObserver;
        let mut announcer = Announcer(&mut *self.console);
        let observer: &mut dyn super::Observer = match self.options.mode {
            Mode::Compat => &mut announcer,
            Mode::Lab => &mut silent,
        };
        let outcome = run(
            &self.parameters,
            &self.options,
            &self.target,
            &self.control,
            observer,
        );
        outcome.map_err(|error| error.to_string())
    }

    fn complain(&mut self, message: &str) {
        self.console.error(&format!("Error: {message}\n"));
    }

    /// Appends text to a file, or prints it if there is no file or it cannot be written.
    fn output(&mut self, file: &str, text: &str) {
        if !file.is_empty() {
            if self.console.append(file, text).is_ok() {
                return;
            }
            self.complain(&format!("Cannot direct output to file '{file}'"));
        }
        self.console.print(text);
    }

    /// Returns the text of `show`.
    fn configuration(&self) -> String {
        let p = &self.parameters;
        let mut text = String::from("Current configuration is:\n");
        let sizes = if p.size_low == p.size_high {
            format!("are {}", block(p.size_low))
        } else {
            format!(
                "range between {} and {}",
                block(p.size_low),
                block(p.size_high)
            )
        };
        let plural = if p.locations.len() > 1 { "ies" } else { "y" };
        let place = if p.locations.is_empty() {
            self.target.name()
        } else {
            String::new()
        };
        write!(
            text,
            "The base number of files is {}\nTransactions: {}\nFiles {sizes} in size\n\
             Working director{plural}: {place}\n",
            p.number, p.transactions
        )
        .expect(INFALLIBLE);
        for location in &p.locations {
            writeln!(text, "\t{} (weight={})", location.path, location.weight).expect(INFALLIBLE);
        }
        if p.subdirectories > 0 {
            let plural = if p.subdirectories > 1 { "ies" } else { "y" };
            writeln!(
                text,
                "{} subdirector{plural} will be used",
                p.subdirectories
            )
            .expect(INFALLIBLE);
        }
        write!(
            text,
            "Block sizes are: read={}, write={}\n\
             Biases are: read/append={}, create/delete={}\n\
             {}sing Unix buffered file I/O\n\
             Random number generator seed is {}\n\
             Report format is {}.\n",
            block(p.read_block),
            block(p.write_block),
            p.read_bias,
            p.create_bias,
            if p.buffered { "U" } else { "Not u" },
            p.seed,
            p.report
        )
        .expect(INFALLIBLE);
        text
    }
}

/// Returns a number of bytes in the format of `show`.
fn block(bytes: u32) -> String {
    report::large_amount(f64::from(bytes)).unwrap_or_else(|| format!("{bytes} bytes"))
}

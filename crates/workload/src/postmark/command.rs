//! The command language of the original: its commands and settings.
//!
//! Numbers are parsed as in the original: the leading digits count, the rest is ignored, and no
//! digits mean 0. A number above 2^31 - 1 is refused; the original lets it wrap around.

use super::parameters::{Bias, LARGEST, Location, ParameterError, Parameters, ReportFormat};

/// Result of a command for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The session continues with the next command.
    Continue,
    /// The session stops.
    Quit,
}

/// Action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Set(Setting),
    Run,
    Load,
    Show,
    Help,
    Quit,
}

/// Parameter of a `set` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    Size,
    Number,
    Seed,
    Transactions,
    Location,
    Subdirectories,
    Read,
    Write,
    Buffering,
    ReadBias,
    CreateBias,
    Report,
}

const VERBS: [Verb; 17] = [
    Verb::Set(Setting::Size),
    Verb::Set(Setting::Number),
    Verb::Set(Setting::Seed),
    Verb::Set(Setting::Transactions),
    Verb::Set(Setting::Location),
    Verb::Set(Setting::Subdirectories),
    Verb::Set(Setting::Read),
    Verb::Set(Setting::Write),
    Verb::Set(Setting::Buffering),
    Verb::Set(Setting::ReadBias),
    Verb::Set(Setting::CreateBias),
    Verb::Set(Setting::Report),
    Verb::Run,
    Verb::Load,
    Verb::Show,
    Verb::Help,
    Verb::Quit,
];

/// All commands with the sentences of `help`, in its order.
pub const COMMANDS: [(&str, &str); 17] = [
    ("set size", "Sets low and high bounds of files"),
    ("set number", "Sets number of simultaneous files"),
    ("set seed", "Sets seed for random number generator"),
    ("set transactions", "Sets number of transactions"),
    ("set location", "Sets location of working files"),
    ("set subdirectories", "Sets number of subdirectories"),
    ("set read", "Sets read block size"),
    ("set write", "Sets write block size"),
    ("set buffering", "Sets usage of buffered I/O"),
    (
        "set bias read",
        "Sets the chance of choosing read over append",
    ),
    (
        "set bias create",
        "Sets the chance of choosing create over delete",
    ),
    ("set report", "Choose verbose or terse report format"),
    ("run", "Runs one iteration of benchmark"),
    ("load", "Read configuration file"),
    ("show", "Displays current configuration"),
    ("help", "Prints out available commands"),
    ("quit", "Exit program"),
];

/// Splits a line into its action and its argument.
pub(super) fn parse(line: &str) -> Option<(Verb, &str)> {
    let line = line.trim_end();
    if line == "exit" {
        return Some((Verb::Quit, ""));
    }
    COMMANDS.iter().zip(VERBS).find_map(|((name, _), verb)| {
        let rest = line.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| (verb, rest.trim()))
    })
}

/// Returns the text of `help`: all commands that start with `prefix`, or all commands if none does.
pub(super) fn help(prefix: &str) -> String {
    let matching = |prefix: &str| {
        let lines = COMMANDS.iter().filter(|(name, _)| name.starts_with(prefix));
        lines
            .map(|(name, sentence)| format!("{name} - {sentence}\n"))
            .collect::<String>()
    };
    let some = matching(prefix);
    if some.is_empty() { matching("") } else { some }
}

impl Parameters {
    /// Sets a parameter as the command `set` does, from its name and value: "number 500".
    ///
    /// # Errors
    /// Fails if there is no such parameter, or if its value is invalid.
    pub fn set(&mut self, parameter: &str) -> Result<(), ParameterError> {
        match parse(&format!("set {parameter}")) {
            Some((Verb::Set(setting), argument)) => assign(self, setting, argument),
            _ => Err(ParameterError::Unknown),
        }
    }
}

/// Sets a parameter; on an error the parameter keeps its value.
///
/// The exception is an invalid weight: the location gets weight 1, and the error reports that the
/// weight was ignored.
pub(super) fn assign(
    parameters: &mut Parameters,
    setting: Setting,
    argument: &str,
) -> Result<(), ParameterError> {
    let positive = |error| positive(argument).ok_or(error);
    match setting {
        Setting::Size => return assign_size(parameters, argument),
        Setting::Location => return assign_location(&mut parameters.locations, argument),
        Setting::Number => parameters.number = positive(ParameterError::Number)?,
        Setting::Seed => parameters.seed = positive(ParameterError::Seed)?,
        Setting::Transactions => {
            parameters.transactions = positive(ParameterError::Transactions)?;
        }
        Setting::Subdirectories => {
            parameters.subdirectories = positive(ParameterError::Subdirectories)?;
        }
        Setting::Read => parameters.read_block = positive(ParameterError::ReadBlock)?,
        Setting::Write => parameters.write_block = positive(ParameterError::WriteBlock)?,
        Setting::ReadBias => parameters.read_bias = bias(argument)?,
        Setting::CreateBias => parameters.create_bias = bias(argument)?,
        Setting::Buffering => {
            parameters.buffered = match argument {
                "true" => true,
                "false" => false,
                _ => return Err(ParameterError::Buffering),
            };
        }
        Setting::Report => {
            parameters.report = match argument {
                "verbose" => ReportFormat::Verbose,
                "terse" => ReportFormat::Terse,
                _ => return Err(ParameterError::Report),
            };
        }
    }
    Ok(())
}

fn assign_size(parameters: &mut Parameters, argument: &str) -> Result<(), ParameterError> {
    let mut numbers = argument.split_whitespace();
    let low = numbers
        .next()
        .and_then(positive)
        .ok_or(ParameterError::Size)?;
    parameters.size_low = low;
    parameters.size_high = numbers
        .next()
        .and_then(positive)
        .map_or(low, |high| high.max(low));
    Ok(())
}

fn assign_location(locations: &mut Vec<Location>, argument: &str) -> Result<(), ParameterError> {
    let mut words = argument.splitn(2, char::is_whitespace);
    let word = words.next().unwrap_or_default();
    let weight = words.next().map(str::trim);
    let (sign, path) = match word.chars().next() {
        Some(sign @ ('+' | '-')) => (Some(sign), &word[1..]),
        _ => (None, word),
    };
    if path.is_empty() {
        return Err(ParameterError::NoLocation);
    }
    if sign == Some('-') {
        let index = locations.iter().position(|location| location.path == path);
        let index = index.ok_or_else(|| ParameterError::UnknownLocation(path.to_owned()))?;
        locations.remove(index);
        return Ok(());
    }
    if sign.is_none() {
        locations.clear();
    }
    let valid = weight.map_or(Some(1), positive);
    locations.push(Location {
        path: path.to_owned(),
        weight: valid.unwrap_or(1),
    });
    match (valid, weight) {
        (None, Some(text)) => Err(ParameterError::IgnoredWeight(text.to_owned())),
        _ => Ok(()),
    }
}

fn bias(argument: &str) -> Result<Bias, ParameterError> {
    let bias = match number(argument) {
        Some(-1) => Some(Bias::DISABLED),
        Some(tenths) => u8::try_from(tenths).ok().and_then(Bias::new),
        None => None,
    };
    bias.ok_or(ParameterError::Bias)
}

fn positive(text: &str) -> Option<u32> {
    let value = number(text)?;
    u32::try_from(value)
        .ok()
        .filter(|value| (1..=LARGEST).contains(value))
}

/// Parses the number at the start of a text. Returns none if there is none that fits.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    text[..text.len() - digits.len() + length].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> (Parameters, Vec<String>) {
        let mut parameters = Parameters::default();
        let mut errors = Vec::new();
        for line in lines {
            let Some((Verb::Set(setting), argument)) = parse(line) else {
                panic!("{line:?} sets nothing")
            };
            if let Err(error) = assign(&mut parameters, setting, argument) {
                errors.push(error.to_string());
            }
        }
        (parameters, errors)
    }

    #[test]
    fn what_is_refused_leaves_the_old_value() {
        for (line, message) in [
            ("set size", "no file size low or high bounds specified"),
            ("set size 0 50", "no file size low or high bounds specified"),
            ("set size abc", "no file size low or high bounds specified"),
            ("set number 0", "invalid number of files"),
            ("set number -3", "invalid number of files"),
            ("set number 5000000000", "invalid number of files"),
            ("set seed -1", "invalid seed for random numbers"),
            ("set transactions", "no transactions specified"),
            ("set subdirectories 0", "invalid number of subdirectories"),
            ("set read 0", "invalid read block size"),
            ("set write x", "invalid write block size"),
            (
                "set bias read",
                "no bias specified (0-10 for greater chance,-1 to disable)",
            ),
            (
                "set bias read 11",
                "no bias specified (0-10 for greater chance,-1 to disable)",
            ),
            (
                "set bias create -2",
                "no bias specified (0-10 for greater chance,-1 to disable)",
            ),
            (
                "set buffering TRUE",
                "no buffering mode (true/false) specified",
            ),
            ("set report tersely", "either 'verbose' or 'terse' required"),
            ("set location", "no directory name specified"),
            ("set location -/zz", "cannot find location '/zz'"),
        ] {
            let (parameters, errors) = after(&[line]);
            assert_eq!(errors, [message], "{line}");
            assert_eq!(parameters, Parameters::default(), "{line}");
        }
    }

    #[test]
    fn sizes() {
        for (line, low, high) in [
            ("set size 10 20 30", 10, 20),
            ("set size 100", 100, 100),
            ("set size 100 50", 100, 100),
            ("set size 100 -5", 100, 100),
            ("set size  7  9", 7, 9),
        ] {
            let (parameters, errors) = after(&[line]);
            assert_eq!(
                (parameters.size_low, parameters.size_high),
                (low, high),
                "{line}"
            );
            assert!(errors.is_empty(), "{line}");
        }
    }

    #[test]
    fn locations() {
        for (lines, list, errors) in [
            (&["set location /a 5"][..], "/a=5", ""),
            (&["set location /a", "set location /b"], "/b=1", ""),
            (&["set location +/a", "set location +/b 2"], "/a=1 /b=2", ""),
            (&["set location /a", "set location -/a"], "", ""),
            (&["set location /a", "set location +/a"], "/a=1 /a=1", ""),
            (
                &["set location /a 0"],
                "/a=1",
                "ignoring invalid weight '0'",
            ),
            (
                &["set location /a x"],
                "/a=1",
                "ignoring invalid weight 'x'",
            ),
        ] {
            let (parameters, found) = after(lines);
            let text = parameters
                .locations
                .iter()
                .map(|l| format!("{}={}", l.path, l.weight));
            assert_eq!(text.collect::<Vec<_>>().join(" "), list, "{lines:?}");
            assert_eq!(found.join(" "), errors, "{lines:?}");
        }
    }

    #[test]
    fn biases_and_words() {
        let (parameters, errors) = after(&[
            "set bias read -1",
            "set bias create 10",
            "set buffering false",
            "set report terse",
        ]);
        assert!(errors.is_empty());
        assert_eq!(parameters.read_bias, Bias::DISABLED);
        assert_eq!(parameters.create_bias.tenths(), Some(10));
        assert!(!parameters.buffered);
        assert_eq!(parameters.report, ReportFormat::Terse);
    }

    #[test]
    fn lines_that_are_no_command() {
        for line in [
            "",
            "set",
            "set bias",
            "SET READ 9",
            "q",
            "ru",
            "running",
            "!echo",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
        assert_eq!(parse("run a b "), Some((Verb::Run, "a b")));
        assert_eq!(parse("exit"), Some((Verb::Quit, "")));
    }

    #[test]
    fn help_by_prefix() {
        assert_eq!(help("h"), "help - Prints out available commands\n");
        assert_eq!(help("set bias").lines().count(), 2);
        assert_eq!(help("zz"), help(""));
        assert_eq!(help("").lines().count(), COMMANDS.len());
    }
}

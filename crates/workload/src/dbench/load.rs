//! Parses a load: one request per line, in the format of dbench's `client.txt`.
//!
//! ```text
//! NTCreateX "/clients/client1/~dmtmp/WORD/A.DOC" 0x0 0x2 10001 SUCCESS
//! WriteX 10001 0 4096 4096 SUCCESS
//! Close 10001 SUCCESS
//! ```
//!
//! A line may start with a time stamp: the earliest time of the request, in seconds from the start
//! of the pass. The last word is the status from the recorded server: `SUCCESS`, `NT_STATUS_OK` or
//! 0, else a failure. Backslashes in names mean slashes. Lines that start with `#` are
//! comments.
//!
//! | request | words |
//! |---|---|
//! | `NTCreateX` | name, options (1: a directory), disposition, handle |
//! | `Close`, `Flush` | handle |
//! | `ReadX`, `WriteX`, `Write` | handle, offset, bytes requested, bytes transferred |
//! | `Rename` | old name, new name |
//! | `Unlink`, `Deltree`, `Rmdir`, `Mkdir`, `QUERY_PATH_INFORMATION` | name |
//! | `FIND_FIRST` | name with a pattern as its last part |
//! | `QUERY_FILE_INFORMATION`, `SET_FILE_INFORMATION` | handle |
//! | `Sleep` | microseconds |
//! | `QUERY_FS_INFORMATION`, `LockX`, `UnlockX` | not used |
//!
//! Most failed requests of a load are lookups of missing names, which are work like any other: they
//! are executed, and must fail. Other failed requests are omitted.

use rt::Nanos;

/// A parsed load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    steps: Vec<Step>,
}

/// A request and its earliest time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Earliest time of the request, from the start of the pass; 0 for no limit.
    pub not_before: Nanos,
    /// The request.
    pub request: Request,
}

/// A request that succeeded on the recorded server, or a lookup of a missing name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Opens or creates a file, or creates a directory.
    Create {
        /// Path of the file.
        path: String,
        /// True for a directory.
        is_directory: bool,
        /// Behaviour if the file exists, and if it does not.
        disposition: Disposition,
        /// Handle of the file from now on.
        handle: u64,
    },
    /// Closes a file.
    Close(u64),
    /// Makes a file durable.
    Flush(u64),
    /// Reads from a file.
    Read(Transfer),
    /// Writes to a file.
    Write(Transfer),
    /// Renames a file.
    Rename(String, String),
    /// Removes a file.
    Unlink(String),
    /// Removes a tree.
    RemoveTree(String),
    /// Removes a directory.
    RemoveDirectory(String),
    /// Creates a directory.
    MakeDirectory(String),
    /// Stats a name that exists.
    Stat(String),
    /// Stats an open file.
    StatOpen(u64),
    /// Sets the times of an open file.
    SetTimes(u64),
    /// Lists the directory of a pattern.
    List(String),
    /// Stats a name that does not exist.
    StatMissing(String),
    /// Opens a file that does not exist.
    OpenMissing(String),
    /// Queries the free space.
    Space,
    /// Sleeps.
    Sleep(Nanos),
    /// A request without a call to the file system.
    Nothing,
}

/// Behaviour of an open if the file exists, and if it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The file must exist.
    Open,
    /// The file is created if it does not exist.
    OpenOrCreate,
    /// The file is created or truncated.
    CreateOrTruncate,
}

/// A read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Handle of the file.
    pub handle: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of bytes.
    pub length: usize,
}

/// Error for an invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LoadError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

/// Maximum size of a transfer in bytes.
const TRANSFER_MAX: u64 = 1 << 20;
/// NT's codes for the disposition of an open.
const FILE_OPEN: u64 = 1;
const FILE_CREATE: u64 = 2;
const FILE_OPEN_IF: u64 = 3;
const DIRECTORY_OPTION: u64 = 1;
/// Status words for a request that succeeded.
const SUCCESSES: [&str; 5] = ["SUCCESS", "NT_STATUS_OK", "0", "0x0", "0x00000000"];
/// Status words for a missing name.
const MISSING: [&str; 3] = [
    "NT_STATUS_OBJECT_NAME_NOT_FOUND",
    "NT_STATUS_OBJECT_PATH_NOT_FOUND",
    "NT_STATUS_NO_SUCH_FILE",
];

impl Load {
    /// Returns a load of requests without time stamps.
    pub(super) fn new(requests: Vec<Request>) -> Self {
        let step = |request| Step {
            not_before: Nanos::ZERO,
            request,
        };
        Self {
            steps: requests.into_iter().map(step).collect(),
        }
    }

    /// Parses a load.
    ///
    /// # Errors
    /// Fails with the first invalid line, or if no request is left.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let mut steps = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let failed = |message| LoadError { line, message };
            steps.extend(parse_line(content).map_err(failed)?);
        }
        if steps.is_empty() {
            let message = "there is no request that succeeded".to_owned();
            return Err(LoadError { line: 1, message });
        }
        Ok(Self { steps })
    }

    /// Returns all requests in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the size of the largest transfer, at least 1.
    #[must_use]
    pub fn transfer_max(&self) -> usize {
        let lengths = self.steps.iter().map(|step| match &step.request {
            Request::Read(transfer) | Request::Write(transfer) => transfer.length,
            _ => 1,
        });
        lengths.max().unwrap_or(1).max(1)
    }
}

/// Returns the request of a line, unless the line has none or is omitted.
fn parse_line(line: &str) -> Result<Option<Step>, String> {
    let mut words = split(line)?;
    let stamp = words.first().and_then(|word| word.parse::<f64>().ok());
    if stamp.is_some() {
        words.remove(0);
    }
    let Some((name, rest)) = words.split_first() else {
        return Ok(None);
    };
    if name.starts_with('#') {
        return Ok(None);
    }
    let request = request(&Words { name, rest })?;
    let status = rest.last().map_or("", String::as_str);
    let done = match status {
        _ if SUCCESSES.contains(&status) => Some(request),
        _ if MISSING.contains(&status) => request.where_missing(),
        _ => None,
    };
    let micros = (stamp.unwrap_or(0.0) * 1e6).max(0.0) as u64;
    Ok(done.map(|request| Step {
        not_before: Nanos::from_micros(micros),
        request,
    }))
}

impl Request {
    /// Returns the request to execute if the name was missing.
    fn where_missing(self) -> Option<Self> {
        match self {
            Self::Create { path, .. } => Some(Self::OpenMissing(path)),
            Self::Stat(path) | Self::Unlink(path) => Some(Self::StatMissing(path)),
            // A pattern without a match, in a directory that exists.
            Self::List(pattern) => Some(Self::List(pattern)),
            _ => None,
        }
    }
}

fn request(words: &Words<'_>) -> Result<Request, String> {
    Ok(match words.name {
        "NTCreateX" => Request::Create {
            path: words.text(0)?,
            is_directory: words.number(1)? & DIRECTORY_OPTION != 0,
            disposition: match words.number(2)? {
                FILE_OPEN => Disposition::Open,
                FILE_CREATE | FILE_OPEN_IF => Disposition::OpenOrCreate,
                _ => Disposition::CreateOrTruncate,
            },
            handle: words.number(3)?,
        },
        "Close" => Request::Close(words.number(0)?),
        "Flush" => Request::Flush(words.number(0)?),
        "ReadX" => Request::Read(words.transfer()?),
        "WriteX" | "Write" => Request::Write(words.transfer()?),
        "Rename" => Request::Rename(words.text(0)?, words.text(1)?),
        "Unlink" => Request::Unlink(words.text(0)?),
        "Deltree" => Request::RemoveTree(words.text(0)?),
        "Rmdir" => Request::RemoveDirectory(words.text(0)?),
        "Mkdir" => Request::MakeDirectory(words.text(0)?),
        "QUERY_PATH_INFORMATION" => Request::Stat(words.text(0)?),
        "QUERY_FILE_INFORMATION" => Request::StatOpen(words.number(0)?),
        "SET_FILE_INFORMATION" => Request::SetTimes(words.number(0)?),
        "FIND_FIRST" => Request::List(words.text(0)?),
        "Sleep" => Request::Sleep(Nanos::from_micros(words.number(0)?)),
        "QUERY_FS_INFORMATION" => Request::Space,
        "LockX" | "UnlockX" => Request::Nothing,
        other => return Err(format!("{other:?} is not a request")),
    })
}

/// The name of a request and its arguments.
struct Words<'l> {
    name: &'l str,
    rest: &'l [String],
}

impl Words<'_> {
    fn text(&self, at: usize) -> Result<String, String> {
        let word = self.rest.get(at);
        let word = word.ok_or_else(|| format!("{} needs more words", self.name))?;
        Ok(word.replace('\\', "/"))
    }

    fn number(&self, at: usize) -> Result<u64, String> {
        let word = self.text(at)?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        parsed.map_err(|_| format!("{}: {word:?} is not a number", self.name))
    }

    /// Parses a transfer. Its length is the number of bytes transferred, if the line has it.
    fn transfer(&self) -> Result<Transfer, String> {
        let length = self.number(if self.rest.len() > 4 { 3 } else { 2 })?;
        if length > TRANSFER_MAX {
            let name = self.name;
            return Err(format!(
                "{name}: {length} bytes are more than {TRANSFER_MAX}"
            ));
        }
        Ok(Transfer {
            handle: self.number(0)?,
            offset: self.number(1)?,
            length: length as usize,
        })
    }
}

/// Splits a line into words; a quoted string is one word.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, left) = match rest.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or("a quotation mark is missing")?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = left.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let text = "# a comment\n\n\
            0.125 NTCreateX \"\\clients\\client1\\A B.DOC\" 0x0 0x2 10001 SUCCESS\n\
            NTCreateX \"/clients/client1/C\" 0x0 0x1 10002 NT_STATUS_OBJECT_NAME_NOT_FOUND\n\
            NTCreateX \"/clients/client1/D\" 0x0 0x1 10003 NT_STATUS_ACCESS_DENIED\n\
            QUERY_PATH_INFORMATION \"/E\" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND\n\
            FIND_FIRST \"/F*\" 260 1366 0 NT_STATUS_NO_SUCH_FILE\n\
            SET_FILE_INFORMATION 10001 1004 NT_STATUS_OK\nSleep 250 NT_STATUS_OK\n\
            WriteX 10001 512 4096 100 NT_STATUS_OK\n\
            Rename \"/a\" \"/b\" SUCCESS\nQUERY_FS_INFORMATION 259 SUCCESS\nLockX 10001 0 1 SUCCESS\n";
        let load = Load::parse(text).expect("it is a load");
        let found: Vec<&Request> = load.steps().iter().map(|step| &step.request).collect();
        assert_eq!(
            found,
            [
                &Request::Create {
                    path: "/clients/client1/A B.DOC".to_owned(),
                    is_directory: false,
                    disposition: Disposition::OpenOrCreate,
                    handle: 10001,
                },
                &Request::OpenMissing("/clients/client1/C".to_owned()),
                &Request::StatMissing("/E".to_owned()),
                &Request::List("/F*".to_owned()),
                &Request::SetTimes(10001),
                &Request::Sleep(Nanos::from_micros(250)),
                &Request::Write(Transfer {
                    handle: 10001,
                    offset: 512,
                    length: 100,
                }),
                &Request::Rename("/a".to_owned(), "/b".to_owned()),
                &Request::Space,
                &Request::Nothing,
            ]
        );
        assert_eq!(load.transfer_max(), 100);
        assert_eq!(load.steps()[0].not_before, Nanos::from_millis(125));
        assert_eq!(load.steps()[1].not_before, Nanos::ZERO);
    }

    #[test]
    fn what_is_no_request_has_its_line() {
        for (text, expected) in [
            ("", "line 1: there is no request"),
            ("\nDance 1 SUCCESS", "line 2: \"Dance\" is not a request"),
            ("Close x SUCCESS", "line 1: Close: \"x\" is not a number"),
            ("Close", "line 1: Close needs more words"),
            ("Mkdir \"a SUCCESS", "line 1: a quotation mark is missing"),
            (
                "ReadX 1 0 9999999 SUCCESS",
                "line 1: ReadX: 9999999 bytes are more",
            ),
        ] {
            let error = Load::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}

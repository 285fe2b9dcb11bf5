//! The text of a load: one request a line, as dbench's `client.txt` has it.
//!
//! ```text
//! NTCreateX "/clients/client1/~dmtmp/WORD/A.DOC" 0x0 0x2 10001 SUCCESS
//! WriteX 10001 0 4096 4096 SUCCESS
//! Close 10001 SUCCESS
//! ```
//!
//! A line may begin with a time stamp: the second of the pass before which it is not done. The last word is the status
//! that the recorded server gave: `SUCCESS`, `NT_STATUS_OK` or 0, else a failure. Backslashes in names are slashes. Lines
//! that begin with `#` are comments.
//!
//! | request | words |
//! |---|---|
//! | `NTCreateX` | name, options (1: a directory), disposition, handle |
//! | `Close`, `Flush` | handle |
//! | `ReadX`, `WriteX`, `Write` | handle, offset, bytes, bytes that were transferred |
//! | `Rename` | old name, new name |
//! | `Unlink`, `Deltree`, `Rmdir`, `Mkdir`, `QUERY_PATH_INFORMATION` | name |
//! | `FIND_FIRST` | name with a pattern as its last part |
//! | `QUERY_FILE_INFORMATION`, `SET_FILE_INFORMATION` | handle |
//! | `Sleep` | microseconds |
//! | `QUERY_FS_INFORMATION`, `LockX`, `UnlockX` | not used |
//!
//! Most failures of a load are names that the server did not have, and looking for them is work like any other: they are
//! done, and must fail. Other requests that failed are left out.

use rt::Nanos;

/// A load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    steps: Vec<Step>,
}

/// A request and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// From the beginning of the pass: it is not done before; 0 for at once.
    pub not_before: Nanos,
    /// What is done.
    pub request: Request,
}

/// A request that the recorded server did, or a name that it did not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Opens or makes a file, or makes a directory.
    Create {
        /// Its name.
        path: String,
        /// Whether it is a directory.
        is_directory: bool,
        /// What if it is there, or is not.
        disposition: Disposition,
        /// What it is called from now on.
        handle: u64,
    },
    /// Closes a file.
    Close(u64),
    /// Makes a file durable.
    Flush(u64),
    /// Reads.
    Read(Transfer),
    /// Writes.
    Write(Transfer),
    /// Renames.
    Rename(String, String),
    /// Removes a file.
    Unlink(String),
    /// Removes a tree.
    RemoveTree(String),
    /// Removes a directory.
    RemoveDirectory(String),
    /// Makes a directory.
    MakeDirectory(String),
    /// Looks at a name.
    Stat(String),
    /// Looks at an open file.
    StatOpen(u64),
    /// Sets the times of an open file.
    SetTimes(u64),
    /// Lists the directory of a pattern.
    List(String),
    /// Looks at a name that is not there.
    StatMissing(String),
    /// Opens a file that is not there.
    OpenMissing(String),
    /// Asks how much space there is.
    Space,
    /// Waits.
    Sleep(Nanos),
    /// Something that a file system does not see.
    Nothing,
}

/// What opening does if the file is there, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It must be there.
    Open,
    /// It is made if it is not there.
    OpenOrCreate,
    /// It is made, or emptied.
    CreateOrTruncate,
}

/// A read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Of which file.
    pub handle: u64,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
}

/// A line that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LoadError {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// The largest transfer that is taken.
const TRANSFER_MAX: u64 = 1 << 20;
/// NT's codes of what to do with a file that is there.
const FILE_OPEN: u64 = 1;
const FILE_CREATE: u64 = 2;
const FILE_OPEN_IF: u64 = 3;
const DIRECTORY_OPTION: u64 = 1;
/// What a recorded server said where it did what was asked.
const SUCCESSES: [&str; 5] = ["SUCCESS", "NT_STATUS_OK", "0", "0x0", "0x00000000"];
/// What it said where a name was not there.
const MISSING: [&str; 3] = [
    "NT_STATUS_OBJECT_NAME_NOT_FOUND",
    "NT_STATUS_OBJECT_PATH_NOT_FOUND",
    "NT_STATUS_NO_SUCH_FILE",
];

impl Load {
    /// A load of requests that follow one another at once.
    pub(super) fn new(requests: Vec<Request>) -> Self {
        let step = |request| Step {
            not_before: Nanos::ZERO,
            request,
        };
        Self {
            steps: requests.into_iter().map(step).collect(),
        }
    }

    /// Reads a load.
    ///
    /// # Errors
    /// The first line that is no request, or a load without one.
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

    /// All requests in their order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The largest transfer, at least a byte.
    #[must_use]
    pub fn transfer_max(&self) -> usize {
        let lengths = self.steps.iter().map(|step| match &step.request {
            Request::Read(transfer) | Request::Write(transfer) => transfer.length,
            _ => 1,
        });
        lengths.max().unwrap_or(1).max(1)
    }
}

/// A line's request, if it has one that is done.
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
    /// What is done of a request whose name was not there.
    fn where_missing(self) -> Option<Self> {
        match self {
            Self::Create { path, .. } => Some(Self::OpenMissing(path)),
            Self::Stat(path) | Self::Unlink(path) => Some(Self::StatMissing(path)),
            // A pattern that nothing matches, in a directory that is there.
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

/// A request's name and what follows it.
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

    /// What was transferred, where the line says it, is what is done.
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

/// The words of a line; what stands between quotation marks is one.
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

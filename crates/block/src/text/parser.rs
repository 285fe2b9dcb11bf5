//! The parser of device texts: recursive descent over characters, with columns for errors.

use super::settings::{FileSettings, Setting, add_fault};
use super::size::Size;
use super::{DeviceText, MemberText, TextError};
use crate::fault::FaultPlan;
use crate::raid::RaidLevel;

const KINDS: [&str; 14] = [
    "mem", "sim", "nvram", "file", "slice", "disk", "raid0", "raid1", "raid5", "raid6", "raid10",
    "raid50", "bbu", "fault",
];

/// Maximum nesting depth of devices.
const DEPTH_MAX: usize = 16;

/// Maximum number of members given by `xN`.
const COUNT_MAX: u32 = 64;

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<DeviceText, TextError> {
    let mut parser = Parser {
        letters: text.chars().collect(),
        at: 0,
        depth: 0,
    };
    let device = parser.device()?;
    parser.skip_spaces();
    if parser.at < parser.letters.len() {
        return Err(parser.error("the end or `+cache(SIZE)`"));
    }
    Ok(device)
}

struct Parser {
    letters: Vec<char>,
    at: usize,
    /// Number of enclosing parentheses.
    depth: usize,
}

impl Parser {
    fn device(&mut self) -> Result<DeviceText, TextError> {
        self.skip_spaces();
        let mut device = self.base()?;
        while self.starts_with("+") {
            self.at += 1;
            if !self.starts_with("cache(") {
                return Err(self.error("`cache(SIZE)`"));
            }
            self.at += "cache(".len();
            let size = self.size()?;
            self.expect(')')?;
            device = DeviceText::Cached {
                device: Box::new(device),
                size,
            };
        }
        Ok(device)
    }

    fn base(&mut self) -> Result<DeviceText, TextError> {
        match self.peek() {
            Some('"') => return Ok(DeviceText::path(self.quoted()?)),
            Some('.' | '/') => return self.bare_path(),
            None | Some(',' | ')') => return Err(self.error("a device")),
            Some(_) => {}
        }
        let start = self.at;
        let word = self.word(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
        let is_kind = KINDS.contains(&word.as_str());
        match self.peek() {
            Some(':') if is_kind => self.with_colon(&word),
            Some('(') if is_kind => self.with_parentheses(&word),
            Some(':' | '(') => Err(self.error_at(start, &expected_kind())),
            None | Some(',' | ')') if is_kind && !is_file_name(&word) => {
                Err(self.error(&format!("`:` or `(` after `{word}`")))
            }
            _ => {
                self.at = start;
                self.bare_path()
            }
        }
    }

    fn with_colon(&mut self, kind: &str) -> Result<DeviceText, TextError> {
        self.at += 1;
        match kind {
            "mem" => Ok(DeviceText::Memory { size: self.size()? }),
            "nvram" => Ok(DeviceText::Nvram {
                size: self.size()?,
                settings: Vec::new(),
            }),
            "sim" => Ok(DeviceText::Simulated {
                model: self.model()?,
                settings: Vec::new(),
            }),
            _ => Err(self.error_at(self.at - 1, &format!("`(` after `{kind}`"))),
        }
    }

    fn with_parentheses(&mut self, kind: &str) -> Result<DeviceText, TextError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(&format!("devices nested at most {DEPTH_MAX} deep")));
        }
        self.at += 1;
        self.depth += 1;
        let level = RaidLevel::ALL
            .into_iter()
            .find(|level| level.to_string() == kind);
        let device = match (kind, level) {
            (_, Some(level)) => self.raid(level)?,
            ("mem", _) => DeviceText::Memory { size: self.size()? },
            ("nvram", _) => DeviceText::Nvram {
                size: self.size()?,
                settings: self.settings(|_| Ok(()))?,
            },
            ("sim", _) => DeviceText::Simulated {
                model: self.model()?,
                settings: self.settings(|_| Ok(()))?,
            },
            ("file", _) => self.file()?,
            ("slice", _) => self.slice()?,
            ("disk", _) => DeviceText::Shared {
                device: Box::new(self.device()?),
            },
            ("bbu", _) => DeviceText::Controller {
                device: Box::new(self.device()?),
                settings: self.settings(|_| Ok(()))?,
            },
            _ => {
                let device = Box::new(self.device()?);
                let mut plan = FaultPlan::default();
                let settings = self.settings(|setting| add_fault(&mut plan, setting))?;
                DeviceText::Fault { device, settings }
            }
        };
        self.expect(')')?;
        self.depth -= 1;
        Ok(device)
    }

    fn file(&mut self) -> Result<DeviceText, TextError> {
        self.skip_spaces();
        let path = match self.peek() {
            Some('"') => self.quoted()?,
            _ => self.bare()?,
        };
        let mut settings = FileSettings::default();
        self.settings(|setting| settings.set(setting))?;
        Ok(DeviceText::File { path, settings })
    }

    fn slice(&mut self) -> Result<DeviceText, TextError> {
        let device = Box::new(self.device()?);
        self.expect(',')?;
        let from = self.size()?;
        self.skip_spaces();
        if !self.starts_with("..") {
            return Err(self.error("`..`"));
        }
        self.at += 2;
        self.skip_spaces();
        let to = if self.peek() == Some(')') {
            None
        } else {
            Some(self.size()?)
        };
        Ok(DeviceText::Slice { device, from, to })
    }

    fn raid(&mut self, level: RaidLevel) -> Result<DeviceText, TextError> {
        let mut members = Vec::new();
        let (mut chunk, mut groups) = (None, None);
        loop {
            self.skip_spaces();
            if self.starts_with("chunk=") {
                self.at += "chunk=".len();
                let start = self.at;
                let size = self.size()?;
                if size.bytes() == 0 {
                    return Err(self.error_at(start, "a chunk of 4KiB or more"));
                }
                chunk = Some(size);
            } else if level == RaidLevel::Raid50 && self.starts_with("groups=") {
                self.at += "groups=".len();
                groups = Some(self.groups()?);
            } else {
                members.push(self.member()?);
            }
            self.skip_spaces();
            if self.peek() != Some(',') {
                break;
            }
            self.at += 1;
        }
        let count: u32 = members.iter().map(|member: &MemberText| member.count).sum();
        let count = count as usize;
        if count < level.members_min() {
            let least = level.members_min();
            return Err(self.error(&format!("{least} members of {level} or more, not {count}")));
        }
        if let Err(expected) = level.check_groups(count, groups) {
            return Err(self.error(&format!("{expected}, not {count}")));
        }
        Ok(DeviceText::Raid {
            level,
            members,
            chunk,
            groups,
        })
    }

    fn groups(&mut self) -> Result<u32, TextError> {
        let start = self.at;
        let digits = self.word(|letter| letter.is_ascii_digit());
        match digits.parse() {
            Ok(groups) if (2..=COUNT_MAX).contains(&groups) => Ok(groups),
            _ => Err(self.error_at(start, &format!("2 to {COUNT_MAX} groups"))),
        }
    }

    fn member(&mut self) -> Result<MemberText, TextError> {
        let device = self.device()?;
        self.skip_spaces();
        if !self.is_at_count() {
            return Ok(MemberText { device, count: 1 });
        }
        let start = self.at;
        self.at += 1;
        let digits = self.word(|letter| letter.is_ascii_digit());
        match digits.parse() {
            Ok(count) if count > 1 && !names_one_device(&device) && count <= COUNT_MAX => {
                Ok(MemberText { device, count })
            }
            Ok(1) => Ok(MemberText { device, count: 1 }),
            Ok(2..=COUNT_MAX) => {
                Err(self.error_at(start, "each file and disk(...) on its own, since it is one"))
            }
            _ => Err(self.error_at(start, &format!("a count from x1 to x{COUNT_MAX}"))),
        }
    }

    /// True if `xN` follows.
    fn is_at_count(&self) -> bool {
        let next = self.letters.get(self.at + 1);
        self.peek() == Some('x') && next.is_some_and(char::is_ascii_digit)
    }

    /// Parses any number of `,key=value`. The error of `accept` is the expected text.
    fn settings(
        &mut self,
        mut accept: impl FnMut(&Setting) -> Result<(), &'static str>,
    ) -> Result<Vec<Setting>, TextError> {
        let mut settings = Vec::new();
        loop {
            self.skip_spaces();
            if self.peek() != Some(',') {
                return Ok(settings);
            }
            self.at += 1;
            self.skip_spaces();
            let start = self.at;
            let key = self.word(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
            if key.is_empty() || self.peek() != Some('=') {
                return Err(self.error("`key=value`"));
            }
            self.at += 1;
            let value = self.word(|letter| !",()\"".contains(letter) && !letter.is_whitespace());
            if value.is_empty() {
                return Err(self.error(&format!("a value of `{key}`")));
            }
            let setting = Setting { key, value };
            accept(&setting).map_err(|expected| self.error_at(start, expected))?;
            settings.push(setting);
        }
    }

    fn model(&mut self) -> Result<String, TextError> {
        self.skip_spaces();
        let model = self.word(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
        if model.is_empty() {
            Err(self.error("the name of a model"))
        } else {
            Ok(model)
        }
    }

    fn size(&mut self) -> Result<Size, TextError> {
        self.skip_spaces();
        let start = self.at;
        while self
            .peek()
            .is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '.')
            && !self.starts_with("..")
        {
            self.at += 1;
        }
        let text: String = self.letters[start..self.at].iter().collect();
        if text.is_empty() {
            return Err(self.error_at(start, "a size such as 128MiB"));
        }
        Size::parse(&text).map_err(|expected| self.error_at(start, expected))
    }

    fn quoted(&mut self) -> Result<String, TextError> {
        let start = self.at;
        self.at += 1;
        let mut path = String::new();
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '"' if path.is_empty() => return Err(self.error_at(start, "a path in the quotes")),
                '"' => return Ok(path),
                '\\' => {
                    let escaped = self.peek().filter(|letter| "\\\"".contains(*letter));
                    path.push(escaped.ok_or_else(|| self.error("`\\\"` or `\\\\`"))?);
                    self.at += 1;
                }
                letter => path.push(letter),
            }
        }
        Err(self.error("a closing quote"))
    }

    fn bare_path(&mut self) -> Result<DeviceText, TextError> {
        self.bare().map(DeviceText::path)
    }

    /// Parses a path without quotes: to the end, or within parentheses to the comma, the closing
    /// parenthesis or ` xN`.
    fn bare(&mut self) -> Result<String, TextError> {
        let start = self.at;
        let mut open = 0_usize;
        while let Some(letter) = self.peek() {
            let is_nested = self.depth > 0;
            match letter {
                '+' if self.starts_with("+cache(") => break,
                ',' if is_nested && open == 0 => break,
                ')' if is_nested && open == 0 => break,
                letter if is_nested && letter.is_whitespace() && self.count_follows() => break,
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        let path: String = self.letters[start..self.at].iter().collect();
        let path = path.trim_end();
        if path.is_empty() {
            Err(self.error("a path"))
        } else {
            Ok(path.to_owned())
        }
    }

    /// True if `xN` follows the current space, and a comma or the closing parenthesis follows that.
    fn count_follows(&self) -> bool {
        let rest: String = self.letters[self.at..].iter().collect();
        let Some(rest) = rest.trim_start().strip_prefix('x') else {
            return false;
        };
        let after = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        after.len() < rest.len() && after.trim_start().starts_with([',', ')'])
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
        self.letters[start..self.at].iter().collect()
    }

    fn expect(&mut self, letter: char) -> Result<(), TextError> {
        self.skip_spaces();
        if self.peek() != Some(letter) {
            return Err(self.error(&format!("`{letter}`")));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        self.letters[self.at..]
            .iter()
            .copied()
            .take(text.chars().count())
            .eq(text.chars())
    }

    fn error(&self, expected: &str) -> TextError {
        self.error_at(self.at, expected)
    }

    fn error_at(&self, at: usize, expected: &str) -> TextError {
        let found: String = self.letters[at..]
            .iter()
            .enumerate()
            .take_while(|(index, letter)| *index == 0 || !",()+".contains(**letter))
            .map(|(_, letter)| letter)
            .collect();
        let found = if found.is_empty() {
            "the end".to_owned()
        } else {
            format!("`{found}`")
        };
        TextError {
            column: at + 1,
            expected: expected.to_owned(),
            found,
        }
    }
}

fn expected_kind() -> String {
    format!("one of {} (or `./` before a path)", KINDS.join(", "))
}

/// True for a kind that is a file's name if no parenthesis follows: many images are called `disk`.
fn is_file_name(kind: &str) -> bool {
    kind == "disk"
}

/// True if the text contains a path or a shared disk, so that two devices of it would be the same.
fn names_one_device(device: &DeviceText) -> bool {
    match device {
        DeviceText::File { .. } | DeviceText::Shared { .. } => true,
        _ => device.below().into_iter().any(names_one_device),
    }
}

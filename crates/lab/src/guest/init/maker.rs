//! The commands that make a file system, and what a maker refuses unless it is told otherwise.
//!
//! `mkfs.xfs` from 5.19 on makes no volume below 300 MB and no log below 64 MB. The option
//! `--unsupported`, which is meant for tests of XFS, lifts that. Earlier versions have neither, so
//! the option is given only to a maker that refuses.

use anyhow::{Context, Result, bail};

use super::output;

/// The maker that refuses small volumes, and the option with which it does not.
const MAKER: &str = "mkfs.xfs";
const OPTION: &str = "--unsupported";
/// Parts of its refusals.
const REFUSALS: [&str; 3] = [
    "Filesystem must be larger than",
    "Log size must be at least",
    "Filesystem must have at least 2 superblocks",
];
/// Start of its list of options, which follows its message.
const USAGE: &str = "Usage:";

/// Runs the commands that make a file system, and returns what a reader of its figures must know.
///
/// # Errors
/// Fails if a command does.
pub(super) fn make(commands: &[Vec<String>]) -> Result<Vec<String>> {
    make_with(commands, |command| {
        let output = output(command)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(match output.status.success() {
            true => Ok(()),
            false => Err((said, output.status.to_string())),
        })
    })
}

/// The result of a command: its messages and its status if it failed.
type Made = std::result::Result<(), (String, String)>;

fn make_with(
    commands: &[Vec<String>],
    run: impl Fn(&[String]) -> Result<Made>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for command in commands {
        let Err((said, status)) = run(command)? else {
            continue;
        };
        let is_refused = REFUSALS.iter().any(|refusal| said.contains(refusal));
        if command.first().is_none_or(|first| first != MAKER) || !is_refused {
            bail!(failure(command, &said, &status));
        }
        let mut again = command.clone();
        again.insert(1, OPTION.to_owned());
        if let Err((said, status)) = run(&again).with_context(|| again.join(" "))? {
            bail!(failure(&again, &said, &status));
        }
        notes.push(format!(
            "made with {OPTION}: {MAKER} refuses it otherwise ({})",
            message(&said).trim_end_matches('.')
        ));
    }
    Ok(notes)
}

fn failure(command: &[String], said: &str, status: &str) -> String {
    format!("{}: {} ({status})", command.join(" "), message(said))
}

/// Returns a maker's message without its list of options.
fn message(said: &str) -> &str {
    said.split(USAGE).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// Makes a file system with a maker that refuses, unless the option is there, with a message.
    fn made(text: &str, refusal: &str, with_option: Made) -> Result<Vec<String>> {
        make_with(&[command("true"), command(text)], |command| {
            let has_option = command.get(1).is_some_and(|word| word == OPTION);
            Ok(match (command[0].as_str(), has_option) {
                ("true", _) => Ok(()),
                (_, true) => with_option.clone(),
                (_, false) if refusal.is_empty() => Ok(()),
                (_, false) => {
                    let said =
                        format!("{refusal}\nUsage: mkfs.xfs\n/* blocksize */ [-b size=num]\n");
                    Err((said, "exit status: 1".to_owned()))
                }
            })
        })
    }

    #[test]
    fn a_small_volume_of_xfs_is_made_with_the_option_and_noted() {
        let make = "mkfs.xfs -q -f /dev/vda";
        for (refusal, note) in [
            (
                "Log size must be at least 64MB.",
                "made with --unsupported: mkfs.xfs refuses it otherwise (Log size must be at least 64MB)",
            ),
            (
                "Filesystem must be larger than 300MB.",
                "made with --unsupported: mkfs.xfs refuses it otherwise (Filesystem must be larger than 300MB)",
            ),
        ] {
            assert_eq!(made(make, refusal, Ok(())).expect("it is made"), [note]);
        }
        assert!(made(make, "", Ok(())).expect("it is made").is_empty());
    }

    #[test]
    fn an_error_of_a_maker_is_its_message_without_its_options() {
        let fail = |make: &str, refusal: &str, with_option: Made| {
            let error = made(make, refusal, with_option).expect_err("it is refused");
            error.to_string()
        };
        assert_eq!(
            fail("mkfs.xfs -q /dev/vda", "cannot open /dev/vda", Ok(())),
            "mkfs.xfs -q /dev/vda: cannot open /dev/vda (exit status: 1)"
        );
        let refusal = "Log size must be at least 64MB.";
        let small = "external log device size 512 blocks too small, must be at least 1368 blocks";
        let still = Err((
            format!("{small}\nUsage: mkfs.xfs\n"),
            "exit status: 1".to_owned(),
        ));
        assert_eq!(
            fail("mkfs.xfs -q /dev/vda", refusal, still),
            format!("mkfs.xfs --unsupported -q /dev/vda: {small} (exit status: 1)")
        );
        // The option is of this maker only.
        assert_eq!(
            fail("mke2fs /dev/vda", refusal, Ok(())),
            format!("mke2fs /dev/vda: {refusal} (exit status: 1)")
        );
    }
}

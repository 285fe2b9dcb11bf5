//! Error texts of the command: the library's messages address programs; these add advice for users.

use std::error::Error as StdError;

use block::DeviceError;
use block::text::ONLY_SIMULATED;
use ext::{Corrupt, Error};
use transfer::Error as TreeError;

/// Advice for a damaged file system.
const REPAIR: &str = "e2fsck -f repairs what is damaged";
/// Advice for an image that is shorter than its file system.
const CUT_SHORT: &str = "it is cut short: copy it again from where it came from, since nothing can repair what is missing";

/// Returns an error and its causes in one line.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(of_cause).collect();
    causes.join(": ")
}

fn of_cause(cause: &(dyn StdError + 'static)) -> String {
    let known = cause.downcast_ref().and_then(of_library);
    let known = known.or_else(|| cause.downcast_ref().and_then(of_tree));
    let known = known.or_else(|| cause.downcast_ref().and_then(of_check));
    let known = known.or_else(|| cause.downcast_ref().and_then(of_device));
    known.unwrap_or_else(|| cause.to_string())
}

/// Returns the text for a library error whose own message advises programs.
fn of_library(error: &Error) -> Option<String> {
    Some(match error {
        Error::UnmarkedLog { transactions } => format!(
            "the superblock does not call for the transactions ({transactions}) that the log holds (needs_recovery is clear): `jext \
             journal replay` replays them, as e2fsck does; `jext journal discard` drops them, as a mount of Linux does"
        ),
        Error::NeedsRecovery { device } => format!(
            "the journal has to be replayed, but {device} is read-only; copy the image, or -o ro,noload shows the file system \
             without the transactions in its log"
        ),
        Error::NoJournalDevice => {
            "the journal is on another device: name it with --journal, or -o journal_path=".to_owned()
        }
        Error::CannotFlush { device } => format!(
            "{device} cannot flush, so that nothing would be durable; -o ro opens it all the same, and so does -o force"
        ),
        Error::InUse(user) if user.is_checking => user.to_string().replace(
            "tune::clear_multi_mount releases it",
            "jext tune --clear-mmp releases it",
        ),
        Error::NotClean => {
            "the volume was not closed cleanly: run jext journal replay, or e2fsck, and try again"
                .to_owned()
        }
        Error::NoInodes => {
            "no inode is left on the volume; remove files, or make it anew with more inodes (mkfs -N)"
                .to_owned()
        }
        _ => return None,
    })
}

/// Returns the text, with advice, for an error of a tree.
fn of_tree(error: &TreeError) -> Option<String> {
    let advice = match error {
        TreeError::EnteredTwice(_) => ": e2fsck -f repairs that",
        TreeError::InodeNotInUse(_) => {
            "; jext fsck tells what else is wrong, and e2fsck -f repairs it"
        }
        TreeError::EmptyArchive => ": jext mkfs makes an empty file system",
        TreeError::NotEmpty(_) => "; export to a new directory",
        _ => return None,
    };
    Some(format!("{error}{advice}"))
}

/// Returns the text, with advice, for a check that could not run.
fn of_check(error: &fsck::Error) -> Option<String> {
    match error {
        fsck::Error::Features { .. } => {
            Some(format!("{error}; e2fsck -fn checks such a file system"))
        }
        _ => None,
    }
}

/// Returns the text, with advice, for a device that exists only in simulated worlds.
fn of_device(error: &DeviceError) -> Option<String> {
    match error {
        DeviceError::Open { cause, .. } if cause == ONLY_SIMULATED => {
            Some(format!("{error}; jext lab and jext crash take them"))
        }
        _ => None,
    }
}

/// Returns advice if the file system's on-disk state is invalid.
pub(crate) fn of_damage(error: &anyhow::Error) -> Option<&'static str> {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<Error>());
    causes.find_map(|cause| match cause {
        Error::Corrupt(Corrupt::Truncated { .. }) => Some(CUT_SHORT),
        Error::Corrupt(_) => Some(REPAIR),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn said(error: Error) -> String {
        let failed: Result<(), Error> = Err(error);
        text(&failed.context("disk.img").expect_err("it failed"))
    }

    #[test]
    fn advice_is_what_can_be_typed() {
        let device = || "/dev/sr0".to_owned();
        for (error, typed) in [
            (
                Error::UnmarkedLog { transactions: 2 },
                "jext journal replay",
            ),
            (Error::NeedsRecovery { device: device() }, "-o ro,noload"),
            (Error::NoJournalDevice, "-o journal_path="),
            (Error::CannotFlush { device: device() }, "-o force"),
            (Error::NotClean, "jext journal replay"),
            (Error::NoInodes, "mkfs -N"),
        ] {
            let library = error.to_string();
            for word in ["jext ", "noload", "-o ", "mkfs -N", "journal_path"] {
                assert!(!library.contains(word), "{word:?} in {library:?}");
            }
            let command = said(error);
            assert!(command.starts_with("disk.img: "), "{command}");
            assert!(command.contains(typed), "{typed:?} in {command:?}");
            for word in ["MountOptions", "::"] {
                assert!(!command.contains(word), "{word:?} in {command:?}");
            }
        }
        assert_eq!(said(Error::NotFound), "disk.img: no such file or directory");
    }
}

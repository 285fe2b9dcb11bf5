//! Tests of the text form of mount options.

use super::*;

fn parse(list: &str) -> Result<ParsedOptions, String> {
    let mut parsed = ParsedOptions::default();
    parsed.add(list).map_err(|error| error.to_string())?;
    Ok(parsed)
}

#[test]
fn options_are_read() {
    let parsed = parse(
        "data=writeback,commit=30,barrier=0,noatime,journal_path=slice(a.img,0..8MiB),ro,noload",
    );
    let ParsedOptions {
        options,
        journal_path,
        ..
    } = parsed.expect("they are right");
    assert_eq!(options.data, DataMode::Writeback);
    assert_eq!(options.commit_interval, Nanos::from_secs(30));
    assert!(!options.barrier && options.read_only && options.no_recovery);
    assert_eq!(options.access_time, AccessTime::Never);
    assert_eq!(journal_path.as_deref(), Some("slice(a.img,0..8MiB)"));
    let mixed = parse("log_policy=linux24:checkpointer=daemon").expect("it is right");
    assert_eq!(
        Some(mixed.options.tuning.log_policy),
        jbd2::LogPolicy::LINUX24.with("checkpointer", "daemon")
    );
    let striped = parse("stripe=96,alloc=multiblock").expect("right").options;
    assert_eq!(striped.stripe_blocks, Some(96));
    assert_eq!(striped.tuning.allocation, AllocationProfile::MultiBlock);
    let reserve = parse("resuid=7,resgid=8").expect("right").options;
    assert_eq!(
        (reserve.reserved_uid, reserve.reserved_gid),
        (Some(7), Some(8))
    );
    assert_eq!(parse("").expect("nothing"), ParsedOptions::default());
    assert_eq!(
        parse("defaults,acl,user_xattr,").expect("nothing"),
        ParsedOptions::default()
    );
    assert_eq!(
        parse("memory=1GiB")
            .expect("right")
            .options
            .memory
            .budget_bytes,
        1 << 30
    );
}

#[test]
fn delayed_allocation_is_switched() {
    let options = |list: &str| parse(list).expect(list).options;
    let flags = |list: &str| {
        let options = options(list);
        (options.delayed_allocation, options.auto_da_alloc)
    };
    assert_eq!(flags(""), (true, true));
    assert_eq!(flags("nodelalloc,auto_da_alloc=0"), (false, false));
    assert_eq!(
        flags("noauto_da_alloc,auto_da_alloc,delalloc"),
        (true, true)
    );
}

#[test]
fn wrong_options_say_what_was_expected() {
    let error = |list: &str| parse(list).expect_err(list);
    assert_eq!(
        error("data=fast"),
        "mount option \"data=fast\": expected data=journal, ordered or writeback"
    );
    assert!(error("nonsense").starts_with("mount option \"nonsense\": expected one of ro, noload"));
    assert_eq!(
        error("noacl"),
        "mount option \"noacl\": not supported: access control lists and attributes are always on"
    );
    assert!(error("commit=86401").ends_with("seconds from 0 to 86400"));
    assert!(error("stripe=wide").ends_with("expected a number of blocks"));
    assert!(error("log_policy=linux24:checkpointer=me").contains("parts behind colons"));
    assert!(error("dirty=30").ends_with("no more than dirty="));
}

/// Returns an option of the table with a value in the place of `N` and `TEXT`.
fn example(option: &str) -> String {
    let number = option.strip_suffix("=N").map(|name| format!("{name}=1"));
    let text = option
        .strip_suffix("=TEXT")
        .map(|name| format!("{name}=text"));
    number.or(text).unwrap_or_else(|| option.to_owned())
}

#[test]
fn every_option_of_the_table_is_treated_as_it_says() {
    for row in table::OPTIONS {
        for option in row.options.iter().map(|option| example(option)) {
            let parsed = parse(&option);
            match row.treatment {
                Treatment::Honoured => drop(parsed.expect(&option)),
                Treatment::NoEffect => {
                    assert_eq!(parsed, Ok(ParsedOptions::default()), "{option}");
                }
                Treatment::Refused => {
                    let error = parsed.expect_err(&option);
                    assert!(
                        error.contains(&option) && error.ends_with(row.note),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// Returns the rows of the tables in a section of a document.
fn rows<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = document.split_once(heading).expect(heading);
    let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect()
}

#[test]
fn the_document_has_the_tables() {
    let document = include_str!("../../../../docs/how-to/mount-options.md");
    for (treatment, heading) in [
        (Treatment::Honoured, "## Options of a volume"),
        (Treatment::NoEffect, "## Options without effect"),
        (Treatment::Refused, "## Options that are refused"),
    ] {
        let found = rows(document, heading);
        for row in table::OPTIONS {
            let names = row.options.iter().map(|option| format!("`{option}`"));
            let names = names.collect::<Vec<_>>().join(", ");
            let (start, end) = (format!("| {names} | "), format!("| {} |", row.note));
            let is_there = found
                .iter()
                .any(|line| line.starts_with(&start) && line.ends_with(&end));
            assert_eq!(
                is_there,
                row.treatment == treatment,
                "{heading}: {start}{end}"
            );
        }
    }
    let found = rows(document, "## Options in the superblock");
    for (bits, option) in table::DEFAULTS {
        let name = bits.names()[0];
        let effect = option.map_or("no effect: owners have 32 bits".to_owned(), |option| {
            format!("`{option}`")
        });
        let row = format!("| `{name}` | {effect} |");
        assert!(found.contains(&row.as_str()), "{row}");
    }
}

fn superblock(bits: DefaultMountOptions, list: &[u8]) -> Superblock {
    let mut raw = <Superblock as zerocopy::FromZeros>::new_zeroed();
    raw.compatible_bits.set(Compatible::HAS_JOURNAL.bits());
    raw.default_mount_option_bits.set(bits.bits());
    raw.mount_options[..list.len()].copy_from_slice(list);
    raw
}

#[test]
fn what_was_not_given_comes_from_the_superblock() {
    let bits = DefaultMountOptions::JOURNAL_DATA
        | DefaultMountOptions::NO_BARRIER
        | DefaultMountOptions::BSD_GROUPS
        | DefaultMountOptions::UID16;
    let raw = superblock(bits, b"commit=30,nouid32,errors=panic,discard,nobarrier");
    let mut parsed = parse("barrier=1,commit=7").expect("right");
    let refused = parsed.for_volume(&raw);
    let options = &parsed.options;
    assert_eq!(options.data, DataMode::Journal);
    assert_eq!(options.on_error, OnError::Panic);
    assert_eq!(options.commit_interval, Nanos::from_secs(7));
    assert!(options.barrier && options.discard && options.directory_groups);
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        refused,
        ["mount option \"nouid32\": not supported: owners have 32 bits"]
    );
}

#[test]
fn every_bit_of_the_superblock_is_taken() {
    for (bits, option) in table::DEFAULTS {
        let mut parsed = ParsedOptions::default();
        assert_eq!(parsed.for_volume(&superblock(*bits, b"")), []);
        let mut expected = ParsedOptions::default();
        expected.add(option.unwrap_or("defaults")).expect("right");
        assert_eq!(parsed.options, expected.options, "{bits:?}");
        let names = bits.names();
        assert_eq!(names.len(), 1, "{names:?}");
    }
    assert_eq!(
        table::DEFAULTS.len(),
        DefaultMountOptions::NAMES.len(),
        "all bits"
    );
    let mut without = superblock(DefaultMountOptions::JOURNAL_DATA, b"");
    without.compatible_bits.set(0);
    let mut parsed = ParsedOptions::default();
    parsed.for_volume(&without);
    assert_eq!(parsed, ParsedOptions::default());
}

/// Of the superblock's options, those that are not supported are left out: the volume opens.
#[test]
fn asynchronous_commits_of_the_superblock_that_do_not_fit_are_left_out() {
    let raw = superblock(DefaultMountOptions::empty(), b"journal_async_commit");
    let taken = |given: &str| {
        let mut parsed = parse(given).expect("right");
        let refused = parsed.for_volume(&raw).len();
        (parsed.options.async_commit, refused)
    };
    assert_eq!(taken("data=journal"), (true, 0));
    assert_eq!(taken(""), (false, 1));
    // What is given is left to the open, which refuses it.
    assert_eq!(taken("journal_async_commit"), (true, 0));
}

//! Conversion of settings, and rejection of invalid ones.

use ext::MountOptions;
use ext::tuning::MemoryAccounting;

use super::*;
use crate::plan::Spot;
use crate::plan::key::Key;

fn spot() -> Spot {
    Spot {
        file: "plan.toml".into(),
        line: 1,
    }
}

fn settings(changes: &[(&'static str, Value)]) -> Settings {
    let mut settings = Settings::defaults();
    settings.set("device", text("sim:atlas-v-18"), Some(spot()));
    for (key, value) in changes {
        let key = Key::named(key).expect("a key");
        settings.set(key.name, value.clone(), Some(spot()));
    }
    settings
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn ext_setup(changes: &[(&'static str, Value)]) -> ExtSetup {
    let settings = settings(changes);
    let reader = Reader {
        settings: &settings,
    };
    reader.ext(true).expect("nothing is wrong")
}

fn error(changes: &[(&'static str, Value)]) -> String {
    Setup::of(&settings(changes))
        .expect_err("it cannot be")
        .message
}

#[test]
fn defaults_and_a_device_are_enough() {
    let setup = Setup::of(&settings(&[])).expect("nothing is wrong");
    let file_system = setup.file_system().expect("a file system");
    assert!(setup.is_simulated());
    assert_eq!(*file_system.journal(), JournalPlace::Internal);
    assert_eq!(file_system.cache_bytes(), 512 << 20);
    let volume = ext_setup(&[]);
    assert_eq!(volume.mount.memory.budget_bytes, 512 << 20);
    // The kernel of a simulated host accounts for the overhead of blocks in its own memory.
    let mut default = MountOptions::default();
    default.tuning.memory_accounting = MemoryAccounting::Contents;
    let mount = MountOptions {
        memory: default.memory,
        privileged: default.privileged,
        ..volume.mount.clone()
    };
    assert_eq!(mount, default, "the keys' defaults are jext's own");
    assert!(volume.mount.privileged, "benchmarks run as root");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let mut nowhere = Settings::defaults();
    nowhere.set("target", text("process"), Some(spot()));
    assert!(
        Setup::of(&nowhere)
            .expect_err("no device")
            .message
            .contains("needs one")
    );
    let cases: &[(&[(&'static str, Value)], &str)] = &[
        (
            &[("fs.type", text("ext2")), ("journal", text("internal"))],
            "ext2 has none",
        ),
        (&[("journal", text("none"))], "ext3 needs one"),
        (&[("device", text("/dev/sda"))], "runs in real time"),
        (&[("target", text("process"))], "in a simulated world only"),
        (
            &[
                ("device", text("slice(disk(sim:atlas-v-18),0..4GiB)")),
                ("journal", text("slice(disk(sim:atlas-v-18),4095MiB..5GiB)")),
            ],
            "journal: slice(disk(sim:atlas-v-18),4095MiB..5GiB) overlaps \
             slice(disk(sim:atlas-v-18),0..4GiB), which is the file system's",
        ),
        (
            &[("target", text("directory:/mnt"))],
            "has no effect for a directory",
        ),
        (&[("memory.kernel", Value::Bytes(511 << 20))], "for caching"),
        (
            &[("cache.dirty_background", Value::Number(70))],
            "more than cache.dirty",
        ),
        (&[("fs.commit", Value::Time(0))], "greater than zero"),
        (
            &[("fs.block_size", Value::Bytes(8192))],
            "not 1024, 2048 or 4096",
        ),
        (
            &[("postmark.threads", Value::Number(1000))],
            "threads cannot share",
        ),
    ];
    for (changes, expected) in cases {
        let message = error(changes);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn the_ballast_is_a_size_or_the_journals() {
    let left = |changes: &[(&'static str, Value)]| {
        let setup = Setup::of(&settings(changes)).expect("nothing is wrong");
        setup.file_system().expect("a file system").cache_bytes() >> 20
    };
    let nvram = || ("journal", text("nvram:32MiB"));
    assert_eq!(
        left(&[("memory.ballast", Value::Bytes(128 << 20)), nvram()]),
        384
    );
    assert_eq!(left(&[("memory.ballast", Value::Bytes(128 << 20))]), 384);
    assert_eq!(left(&[("memory.ballast", text("journal")), nvram()]), 480);
    assert_eq!(left(&[("memory.ballast", text("journal"))]), 512);
    assert_eq!(
        left(&[("memory.kernel", Value::Bytes(64 << 20)), nvram()]),
        448
    );
}

#[test]
fn a_log_policy_is_a_name_and_parts() {
    let policy = |changes: &[(&'static str, Value)]| ext_setup(changes).mount.tuning.log_policy;
    let linux24 = ("fs.log_policy", text("linux24"));
    let changed = ("fs.log.log_io", text("copy"));
    assert_eq!(policy(&[]), jbd2::LogPolicy::DEFAULT);
    assert_eq!(
        policy(std::slice::from_ref(&linux24)),
        jbd2::LogPolicy::LINUX24
    );
    assert_eq!(
        Some(policy(&[changed, linux24])),
        jbd2::LogPolicy::LINUX24.with("log_io", "copy")
    );
}

fn mounted(changes: &[(&'static str, Value)]) -> Result<MountedSetup, String> {
    let mut all = vec![("device", text("mem:64MiB"))];
    all.extend_from_slice(changes);
    match Setup::of(&settings(&all))
        .map_err(|error| error.message)?
        .place
    {
        Environment::Mounted { file_system } => Ok(*file_system),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_become_arguments_of_mkfs_and_mount() {
    let large = 1 << 30;
    let ext3 = mounted(&[
        ("target", text("kernel:ext3")),
        ("journal", text("mem:16MiB")),
        ("fs.data", text("journal")),
        ("fs.commit", Value::Time(30_000_000_000)),
        ("fs.dirsync", Value::Switch(true)),
    ]);
    let ext3 = ext3.expect("nothing is wrong");
    let words = |words: Vec<String>| words.join(" ");
    assert_eq!(ext3.maker().as_deref(), Some("mke2fs"));
    assert_eq!(
        words(ext3.maker_arguments(large, "HOME", Some("LOG"))),
        "-q -F -t ext3 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard -m 5 -b 4096 -J device=LOG HOME"
    );
    assert_eq!(
        ext3.journal_arguments(64 << 20, "LOG")
            .map(words)
            .as_deref(),
        Some("-q -F -O journal_dev -b 1024 LOG")
    );
    assert_eq!(
        ext3.mount_options(Some("LOG")),
        "relatime,data=journal,commit=30,barrier=1,dirsync,journal_path=LOG"
    );
    let xfs = mounted(&[
        ("target", text("kernel:xfs")),
        ("fs.access_time", text("noatime")),
    ]);
    let xfs = xfs.expect("nothing is wrong");
    assert_eq!(xfs.maker().as_deref(), Some("mkfs.xfs"));
    assert_eq!(
        words(xfs.maker_arguments(large, "HOME", Some("LOG"))),
        "-q -f -K -l logdev=LOG HOME"
    );
    assert_eq!(xfs.journal_arguments(large, "LOG"), None);
    assert_eq!(xfs.mount_options(None), "noatime");
}

/// Returns the arguments of mkfs for a type.
fn maker_arguments(kind: &str) -> String {
    let made = mounted(&[("target", text(&format!("kernel:{kind}")))]);
    let made = made.expect("nothing is wrong");
    made.maker_arguments(1 << 30, "HOME", None).join(" ")
}

#[test]
fn programs_that_make_file_systems_ask_and_print_nothing() {
    assert_eq!(maker_arguments("jfs"), "-q HOME");
    assert_eq!(maker_arguments("reiserfs"), "-q -ff HOME");
    assert_eq!(maker_arguments("f2fs"), "-q -f HOME");
    assert_eq!(maker_arguments("btrfs"), "-q -f -K HOME");
    assert_eq!(maker_arguments("minix"), "HOME");
}

#[test]
fn file_systems_in_memory_are_not_made() {
    let tmpfs = mounted(&[
        ("target", text("kernel:tmpfs")),
        ("device", text("mem:8MiB")),
    ]);
    let tmpfs = tmpfs.expect("nothing is wrong");
    assert_eq!(tmpfs.maker(), None);
    assert_eq!(tmpfs.mount_options(None), "relatime,size=8388608");
    let ramfs = mounted(&[("target", text("kernel:ramfs"))]).expect("nothing is wrong");
    assert_eq!(
        (ramfs.maker(), &*ramfs.mount_options(None)),
        (None, "relatime")
    );
    let on_disk = mounted(&[
        ("target", text("kernel:tmpfs")),
        ("device", text("/dev/sda")),
    ]);
    let error = on_disk.expect_err("a disk is not used");
    assert!(
        error.contains("kernel:tmpfs keeps files in memory"),
        "{error}"
    );
}

#[test]
fn a_journal_of_a_guest_has_a_size_that_its_maker_makes() {
    let parse = |kind: &str, size: &str| {
        let text = format!(
            "[plan]\nname = \"p\"\nquestion = \"q\"\n[fixed]\ntarget = \"uml:{kind}\"\n\
             device = \"sim:atlas-v-18\"\nfs.journal_size = \"{size}\"\n"
        );
        crate::plan::Plan::parse("p.toml", &text).map_err(|error| error.to_string())
    };
    for (kind, size, error) in [
        ("reiserfs", "128MiB", "reiserfs takes 2101248 to 134139904"),
        ("reiserfs", "2MiB", "reiserfs takes 2101248 to 134139904"),
        ("jfs", "512KiB", "jfs takes 1048576 or more"),
        ("btrfs", "16MiB", "has no effect for uml:btrfs"),
        ("ext2", "16MiB", "has no effect for uml:ext2"),
    ] {
        let found = parse(kind, size).err().unwrap_or_default();
        assert!(found.contains(error), "{kind}: {found}");
    }
    for kind in ["ext3", "ext4", "jfs", "reiserfs", "xfs"] {
        assert!(parse(kind, "16MiB").is_ok(), "{kind}");
    }
}

/// A size with the place counts more than the key, which is for journals without one.
#[test]
fn an_internal_journal_may_have_its_size_with_its_place() {
    let own = || ("journal", text("internal:64MiB"));
    let fixed = || ("fs.journal_size", Value::Bytes(32 << 20));
    for (changes, bytes) in [
        (vec![own()], 64 << 20),
        (vec![own(), fixed()], 64 << 20),
        (vec![fixed()], 32 << 20),
    ] {
        let setup = ext_setup(&changes);
        assert_eq!(setup.journal, JournalPlace::Internal);
        assert_eq!(setup.format.journal_bytes, Some(bytes));
    }
    let of_guest = |kind: &str| {
        let text = format!(
            "[plan]\nname = \"p\"\nquestion = \"q\"\n[fixed]\ntarget = \"uml:{kind}\"\n\
             device = \"sim:atlas-v-18\"\njournal = \"internal:2MiB\"\n"
        );
        crate::plan::Plan::parse("p.toml", &text).map_err(|error| error.to_string())
    };
    assert!(of_guest("ext4").is_ok());
    for (kind, error) in [
        ("btrfs", "btrfs has none"),
        (
            "reiserfs",
            "journal: 2097152 bytes; reiserfs takes 2101248 to",
        ),
    ] {
        let found = of_guest(kind).err().unwrap_or_default();
        assert!(found.contains(error), "{kind}: {found}");
    }
}

#[test]
fn what_means_nothing_to_a_mounted_file_system_is_refused() {
    let kernel = |kind: &str| ("target", text(&format!("kernel:{kind}")));
    let cases: [(&[(&'static str, Value)], &str); 11] = [
        (
            &[kernel("xfs"), ("journal", text("internal:64MiB"))],
            "journal: has no effect for kernel:xfs",
        ),
        (
            &[kernel("ext3"), ("memory.host", Value::Bytes(1 << 30))],
            "memory.host: has no effect for kernel:ext3",
        ),
        (
            &[kernel("ext2"), ("fs.data", text("journal"))],
            "fs.data: has no effect for kernel:ext2",
        ),
        (
            &[kernel("btrfs"), ("fs.commit", Value::Time(5))],
            "fs.commit: has no effect for kernel:btrfs",
        ),
        (
            &[
                ("target", text("fuse:fuse2fs")),
                ("fs.data", text("journal")),
            ],
            "fs.data: has no effect for fuse:fuse2fs",
        ),
        (
            &[
                ("target", text("fuse:passthrough")),
                ("fs.sync", Value::Switch(true)),
            ],
            "fs.sync: has no effect for fuse:passthrough",
        ),
        (
            &[
                ("target", text("fuse:passthrough")),
                ("device", text("/nowhere/image")),
            ],
            "fuse:passthrough keeps files in memory; use mem:SIZE",
        ),
        (
            &[kernel("xfs"), ("fs.type", text("ext3"))],
            "fs.type: ext3, but the target is kernel:xfs",
        ),
        (
            &[kernel("btrfs"), ("journal", text("mem:16MiB"))],
            "kernel:btrfs does not support a separate journal device",
        ),
        (
            &[kernel("ext3"), ("journal", text("none"))],
            "without a journal it is kernel:ext2",
        ),
        (
            &[kernel("ext3"), ("device", text("sim:atlas-v-18"))],
            "is not a kernel device",
        ),
    ];
    for (changes, expected) in cases {
        let error = mounted(changes).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn ext4_has_keys_of_its_own() {
    use ext::mkfs::FileSystemType;
    use ext::tuning::AllocationProfile;

    let ext4 = || ("fs.type", text("ext4"));
    let plain = ext_setup(&[ext4()]);
    assert_eq!(plain.file_system, FileSystemType::Ext4);
    assert_eq!(
        (&*plain.format.features, &plain.journal),
        ("", &JournalPlace::Internal)
    );
    assert!(plain.mount.delayed_allocation);
    let fast = ext_setup(&[
        ext4(),
        ("fs.ext4.commits", text("fast")),
        ("fs.ext4.features", text("^metadata_csum")),
        ("fs.ext4.delayed_allocation", Value::Switch(false)),
        ("fs.profile", text("windows")),
    ]);
    assert_eq!(fast.format.features, "fast_commit,^metadata_csum");
    assert!(!fast.mount.delayed_allocation);
    assert_eq!(fast.mount.tuning.allocation, AllocationProfile::Modern);
    for without in [("fs.ext4.commits", text("none")), ("journal", text("none"))] {
        let none = ext_setup(&[ext4(), without]);
        assert_eq!(none.journal, JournalPlace::None);
        assert_eq!(none.format.features, "^has_journal");
    }
    let nvram = || ("journal", text("nvram:32MiB"));
    let external = ext_setup(&[ext4(), nvram()]);
    assert!(matches!(external.journal, JournalPlace::External(_)));
    let fast = || ("fs.ext4.commits", text("fast"));
    let cases: &[(&[(&'static str, Value)], &str)] = &[
        (&[fast()], "fs.ext4.commits: has no effect for ext3"),
        (
            &[ext4(), fast(), nvram()],
            "only an internal journal gets fast commits",
        ),
        (
            &[ext4(), fast(), ("journal", text("none"))],
            "only an internal journal gets fast commits",
        ),
        (
            &[ext4(), fast(), ("fs.data", text("journal"))],
            "there are no fast commits with fs.data = \"journal\"",
        ),
        (
            &[ext4(), ("fs.ext4.commits", text("none")), nvram()],
            "without a journal, and journal is a device",
        ),
        (
            &[ext4(), ("fs.ext4.features", text("casefolds"))],
            "fs.ext4.features: ",
        ),
        (
            &[ext4(), ("mkfs", text("classic2002"))],
            "there was no ext4 in 2002",
        ),
    ];
    for (changes, expected) in cases {
        let message = error(changes);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_kernel_gets_the_keys_of_ext4() {
    let made = |changes: &[(&'static str, Value)]| {
        let mut all = vec![("target", text("kernel:ext4"))];
        all.extend_from_slice(changes);
        mounted(&all).expect("nothing is wrong")
    };
    let arguments = |own: &MountedSetup| own.maker_arguments(1 << 30, "HOME", None).join(" ");
    let fast = made(&[
        ("fs.ext4.commits", text("fast")),
        ("fs.ext4.lazy_init", Value::Switch(true)),
        ("fs.ext4.delayed_allocation", Value::Switch(false)),
    ]);
    assert_eq!(
        arguments(&fast),
        "-q -F -t ext4 -E lazy_itable_init=1,lazy_journal_init=0,nodiscard -O fast_commit -m 5 HOME"
    );
    assert_eq!(
        fast.mount_options(None),
        "relatime,nodelalloc,data=ordered,commit=5,barrier=1"
    );
    let none = made(&[("fs.ext4.commits", text("none"))]);
    assert_eq!(
        arguments(&none),
        "-q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard -O ^has_journal -m 5 HOME"
    );
    assert_eq!(none.mount_options(None), "relatime");
    let jext = mounted(&[("target", text("fuse:jext")), ("fs.type", text("ext4"))]);
    assert_eq!(jext.expect("nothing is wrong").kind, "ext4");
    let lazy = mounted(&[
        ("target", text("fuse:jext")),
        ("fs.type", text("ext4")),
        ("fs.ext4.lazy_init", Value::Switch(true)),
    ]);
    let error = lazy.expect_err("jext does not initialise");
    assert!(error.contains("has no effect for fuse:jext"), "{error}");
}

#[test]
fn tables_may_be_initialised_after_the_mount() {
    let ext4 = ("fs.type", text("ext4"));
    let lazy = ("fs.ext4.lazy_init", Value::Switch(true));
    let setup = ext_setup(&[ext4.clone(), lazy]);
    assert!(setup.format.is_lazy);
    assert_eq!(setup.mount.init_tables, Some(10));
    assert_eq!(ext_setup(&[ext4]).mount.init_tables, None);
}

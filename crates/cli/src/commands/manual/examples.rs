//! The examples of the man pages.

/// A purpose, and the lines of a shell that serve it.
pub(super) type Example = (&'static str, &'static str);

/// Returns the examples of a page.
pub(super) fn of(name: &str) -> &'static [Example] {
    let found = ALL.iter().find(|(page, _)| *page == name);
    found.map_or(&[], |(_, examples)| examples)
}

/// The examples of all pages.
pub(super) const ALL: &[(&str, &[Example])] = &[
    (
        "jext",
        &[
            (
                "Make an image and put a file in it",
                "jext mkfs disk.img 64M\njext cp letter disk.img:/letter\njext ls -l disk.img",
            ),
            (
                "Mount an image without root, with all files shown as yours",
                "jext mount -o uid=1000,gid=1000 disk.img mnt\njext umount mnt",
            ),
        ],
    ),
    (
        "jext-mkfs",
        &[
            ("Make an ext4 image of 1 GiB", "jext mkfs disk.img 1G"),
            (
                "Make an ext3 image whose root directory is yours",
                "jext mkfs -t ext3 -E root_owner -L post disk.img 64M",
            ),
            (
                "Make an ext4 with the features that Debian 12 would choose",
                "jext mkfs --for debian-12 disk.img 4G",
            ),
        ],
    ),
    (
        "jext-build",
        &[
            ("Build an image of a directory", "jext build disk.img tree"),
            (
                "Build an image of a compressed archive, 2 GiB in size",
                "jext build --size 2G root.img root.tar.zst",
            ),
            (
                "Read the archive from standard input",
                "zcat root.tar.gz | jext build root.img -",
            ),
        ],
    ),
    (
        "jext-export",
        &[
            (
                "Write all files to an archive",
                "jext export disk.img disk.tar.zst",
            ),
            ("List them with tar", "jext export disk.img - | tar -tf -"),
        ],
    ),
    (
        "jext-mount",
        &[
            ("Mount an image", "mkdir mnt\njext mount disk.img mnt"),
            (
                "Show all files as yours, without root",
                "jext mount -o uid=1000,gid=1000 disk.img mnt",
            ),
            (
                "Read an image without replaying its journal",
                "jext mount -o ro,noload disk.img mnt",
            ),
            (
                "Keep the messages of the mount in a file",
                "jext mount --log mount.log disk.img mnt",
            ),
        ],
    ),
    (
        "jext-umount",
        &[(
            "Unmount, and wait until the image is closed",
            "jext umount mnt",
        )],
    ),
    (
        "jext-info",
        &[
            ("Show the superblock", "jext info disk.img"),
            (
                "Ask if Debian 12 accepts the file system",
                "jext info --for debian-12 disk.img",
            ),
        ],
    ),
    (
        "jext-tune",
        &[
            ("Change the label", "jext tune -L letters disk.img"),
            (
                "Add checksums to all metadata",
                "jext tune -O metadata_csum disk.img",
            ),
            ("Turn an ext2 into an ext3", "jext tune -j disk.img"),
        ],
    ),
    (
        "jext-fsck",
        &[
            ("Check an image", "jext fsck disk.img"),
            (
                "Check a file system whose journal is on another device",
                "jext fsck --journal-device log.img disk.img",
            ),
        ],
    ),
    (
        "jext-ls",
        &[
            ("List the root directory", "jext ls -l disk.img"),
            (
                "List everything below a directory",
                "jext ls -R disk.img:/mail",
            ),
        ],
    ),
    (
        "jext-cat",
        &[("Print a file", "jext cat disk.img:/mail/first")],
    ),
    (
        "jext-stat",
        &[(
            "Show the attributes of a file, and its blocks",
            "jext stat --blocks disk.img:/mail/first",
        )],
    ),
    (
        "jext-cp",
        &[
            (
                "Copy a file into an image",
                "jext cp letter disk.img:/mail/",
            ),
            (
                "Copy a tree out of an image, with owners and times",
                "jext cp -a disk.img:/mail mail",
            ),
        ],
    ),
    (
        "jext-mkdir",
        &[(
            "Make a directory and its parents",
            "jext mkdir -p disk.img:/var/mail",
        )],
    ),
    (
        "jext-rm",
        &[(
            "Remove a directory with its contents",
            "jext rm -r disk.img:/mail",
        )],
    ),
    (
        "jext-mv",
        &[(
            "Rename a file",
            "jext mv disk.img:/mail/first disk.img:/mail/read",
        )],
    ),
    (
        "jext-ln",
        &[
            (
                "Make a hard link",
                "jext ln disk.img:/mail/first disk.img:/mail/second",
            ),
            (
                "Make a symbolic link",
                "jext ln -s mail/first disk.img:/newest",
            ),
        ],
    ),
    (
        "jext-fallocate",
        &[
            (
                "Allocate the blocks of a file of 1 GiB",
                "jext fallocate -l 1G disk.img:/file",
            ),
            (
                "Free 64 KiB in the middle of a file",
                "jext fallocate -p --offset 1M -l 64K disk.img:/file",
            ),
        ],
    ),
    (
        "jext-defrag",
        &[("Give a file fewer extents", "jext defrag disk.img:/file")],
    ),
    (
        "jext-trim",
        &[("Make a sparse image small again", "jext trim disk.img")],
    ),
    (
        "jext-quota-report",
        &[("Show the space of each owner", "jext quota report disk.img")],
    ),
    (
        "jext-quota-set",
        &[(
            "Set limits of 1 GiB and 2 GiB for a user",
            "jext quota set -u 1000 disk.img 1048576 2097152 0 0",
        )],
    ),
    (
        "jext-journal-show",
        &[
            (
                "Show the transactions in the log",
                "jext journal show disk.img",
            ),
            ("List their blocks", "jext journal show --blocks disk.img"),
        ],
    ),
    (
        "jext-journal-replay",
        &[
            (
                "Recover an image after a power cut",
                "cp --sparse=always disk.img copy.img\njext journal replay copy.img",
            ),
            (
                "The same with an external journal",
                "jext journal replay --journal log.img disk.img",
            ),
        ],
    ),
    (
        "jext-journal-discard",
        &[(
            "Empty a log that the superblock does not mark for replay",
            "jext journal discard disk.img",
        )],
    ),
    (
        "jext-journal-create",
        &[(
            "Make an external journal and a file system that uses it",
            "jext journal create log.img 32M\njext mkfs -J device=log.img disk.img 1G",
        )],
    ),
    (
        "jext-bench-postmark",
        &[(
            "Run PostMark in memory",
            "jext bench postmark mem:1GiB --set 'number 2000' --set 'transactions 10000'",
        )],
    ),
    (
        "jext-bench-synctest",
        &[("Run it in memory", "jext bench synctest mem:1GiB")],
    ),
    (
        "jext-bench-make-many-files",
        &[("Run it in memory", "jext bench make-many-files mem:1GiB")],
    ),
    (
        "jext-bench-tree-copy",
        &[
            ("Run it in a directory", "jext bench tree-copy mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench tree-copy --parameters",
            ),
        ],
    ),
    (
        "jext-bench-fs_mark",
        &[
            ("Run it in memory", "jext bench fs_mark mem:1GiB"),
            (
                "Print its parameters, and run nothing",
                "jext bench fs_mark --parameters",
            ),
        ],
    ),
    (
        "jext-bench-obldisk",
        &[
            ("Run it in a directory", "jext bench obldisk mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench obldisk --parameters",
            ),
        ],
    ),
    (
        "jext-bench-oblload",
        &[
            ("Run it in a directory", "jext bench oblload mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench oblload --parameters",
            ),
        ],
    ),
    (
        "jext-bench-mongo",
        &[
            ("Run it in a directory", "jext bench mongo mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench mongo --parameters",
            ),
        ],
    ),
    (
        "jext-bench-iozone",
        &[
            ("Run it in a directory", "jext bench iozone mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench iozone --parameters",
            ),
        ],
    ),
    (
        "jext-bench-bonnie",
        &[
            ("Run it in a directory", "jext bench bonnie mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench bonnie --parameters",
            ),
        ],
    ),
    (
        "jext-bench-dbench",
        &[
            ("Run it in a directory", "jext bench dbench mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench dbench --parameters",
            ),
        ],
    ),
    (
        "jext-bench-filebench",
        &[
            ("Run it in a directory", "jext bench filebench mnt"),
            (
                "Print its parameters, and run nothing",
                "jext bench filebench --parameters",
            ),
        ],
    ),
    (
        "jext-bench-fsx",
        &[("Run it in memory", "jext bench fsx mem:256MiB")],
    ),
    (
        "jext-bench-fsstress",
        &[("Run it in memory", "jext bench fsstress mem:1GiB")],
    ),
    (
        "jext-lab-run",
        &[
            ("Run a built-in plan", "jext lab run fs-mark"),
            (
                "Run a plan of your own, each trial once",
                "jext lab run mine.toml --repetitions 1",
            ),
        ],
    ),
    (
        "jext-lab-list",
        &[("List the built-in plans with their times", "jext lab list")],
    ),
    (
        "jext-lab-report",
        &[(
            "Print the tables of a plan that was run, and write its page",
            "jext lab report mine.toml\njext lab report mine.toml --html mine.html",
        )],
    ),
    (
        "jext-lab-summary",
        &[(
            "Show on one page which journal suits mail and databases",
            "jext lab summary journal-mail journal-database",
        )],
    ),
    (
        "jext-lab-compare",
        &[(
            "Compare the records of two builds",
            "jext lab compare before.jsonl after.jsonl",
        )],
    ),
    (
        "jext-lab-devices",
        &[("List the models of devices and hosts", "jext lab devices")],
    ),
    (
        "jext-lab-kernel-install",
        &[(
            "Install a kernel for guests on files",
            "sudo jext lab kernel install",
        )],
    ),
    (
        "jext-lab-kernel-build",
        &[(
            "Build a kernel for guests on simulated disks",
            "jext lab kernel build --jobs 2",
        )],
    ),
    (
        "jext-lab-keys",
        &[(
            "List the keys of plans about the journal",
            "jext lab keys journal",
        )],
    ),
    (
        "jext-lab-trials",
        &[(
            "List the trials of a plan in 8 shards",
            "jext lab trials external-journal --shards 8",
        )],
    ),
    (
        "jext-lab-merge",
        &[(
            "Merge the records of two shards",
            "jext lab merge 1-of-2.jsonl 2-of-2.jsonl",
        )],
    ),
    (
        "jext-lab-canonical",
        &[(
            "Compare two runs of the same plan",
            "jext lab canonical first.jsonl > first\njext lab canonical second.jsonl > second\ncmp first second",
        )],
    ),
    (
        "jext-lab-replay",
        &[(
            "Record a benchmark, and replay it on another disk",
            "jext bench postmark uml:ext3 --device sim:atlas-v-18 --record requests\njext lab replay --device sim:atlas-10k requests",
        )],
    ),
    (
        "jext-lab-reproductions",
        &[(
            "Compare published figures with the records",
            "jext lab reproductions --table",
        )],
    ),
    (
        "jext-lab-measure",
        &[(
            "Measure how long 100,000 records take",
            "jext lab measure --records 100000 scratch",
        )],
    ),
    (
        "jext-crash",
        &[
            (
                "Cut the power in short workloads, for a minute",
                "jext crash --all --minutes 1",
            ),
            (
                "Explore one configuration thoroughly",
                "jext crash --cell ordered,internal --generator exhaustive --length 2",
            ),
        ],
    ),
    (
        "jext-replay",
        &[(
            "Repeat a violation by the line that jext crash printed",
            "jext replay 'crash2:ordered,internal:1:mkdir(d0);create(d0/f0);fsync(d0/f0):57-kept,0.120=0'",
        )],
    ),
    (
        "jext-manual",
        &[(
            "Write the man pages and read one",
            "jext manual man1\nman man1/jext-mkfs.1",
        )],
    ),
    (
        "jext-completions",
        &[(
            "Complete commands in this bash",
            "source <(jext completions bash)",
        )],
    ),
];

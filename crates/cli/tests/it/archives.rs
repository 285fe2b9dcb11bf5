//! Archives as other programs write them, and as other programs read ours.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use testkit::tool;

use crate::support::Folder;

/// Runs a program of the host in a folder.
fn run(folder: &Folder, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let output = command.args(words).current_dir(folder.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{line}: {}", tool::said(&output));
}

/// Returns the output of a program for its input.
fn filtered(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}");
    output.stdout
}

/// Bytes that cannot be packed.
fn noise(count: usize) -> Vec<u8> {
    testkit::Random::new(5).bytes(count)
}

#[test]
fn a_packed_archive_whose_checksum_is_wrong_is_refused() {
    let folder = Folder::new();
    folder.write("noise", &noise(200_000));
    run(&folder, "tar -cf plain.tar noise");
    let plain = folder.read("plain.tar");
    for (program, arguments, ending) in [
        ("gzip", &["-1"][..], "gz"),
        ("zstd", &["-q", "--check"][..], "zst"),
    ] {
        let packed = filtered(program, arguments, &plain);
        let name = format!("good.tar.{ending}");
        folder.write(&name, &packed);
        folder.good(&format!("build -q -F out.img {name}"));
        // What is told twice is an archive and what follows it.
        folder.write(&name, &packed.repeat(2));
        folder.good(&format!("build -q -F out.img {name}"));
        let mut damaged = packed.clone();
        damaged[100_000] ^= 0x40;
        let cut = packed[..packed.len() - 2].to_vec();
        for (what, bytes) in [("damaged", damaged), ("cut", cut)] {
            let name = format!("{what}.tar.{ending}");
            folder.write(&name, &bytes);
            let error = folder.bad(&format!("build none.img {name}"));
            assert!(error.starts_with(&name), "{error}");
            assert!(!folder.path().join("none.img").exists());
        }
    }
    // As gzip, which leaves out the zeroes of a tape.
    let mut tape = filtered("gzip", &["-1"], &plain);
    tape.resize(tape.len() + 10_240, 0);
    folder.write("tape.tgz", &tape);
    folder.good("build -q tape.img tape.tgz");
}

#[test]
fn times_before_1970_come_and_go_with_tar() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("tree")).unwrap();
    let times = [
        "1960-01-01 00:00:00.25",
        "1969-12-31 23:59:59.75",
        "1901-12-14 00:00:00",
    ];
    for (number, time) in times.iter().enumerate() {
        let path = folder.path().join(format!("tree/{number}"));
        fs::write(&path, "x").unwrap();
        let path = path.display().to_string();
        tool::run_well("touch", &["-d", &format!("{time} UTC"), &path]);
    }
    let time = |path: &str| {
        let found = fs::metadata(folder.path().join(path)).unwrap();
        (found.mtime(), found.mtime_nsec())
    };
    for format in ["gnu", "posix"] {
        run(
            &folder,
            &format!("tar --format={format} -cf {format}.tar tree"),
        );
        run(&folder, &format!("mkdir {format}"));
        run(&folder, &format!("tar -xf {format}.tar -C {format}"));
        folder.good(&format!("build -q {format}.img {format}.tar"));
        folder.good(&format!("export {format}.img own-{format}"));
        folder.good(&format!("export {format}.img again-{format}.tar"));
        run(&folder, &format!("mkdir again-{format}"));
        run(
            &folder,
            &format!("tar -xf again-{format}.tar -C again-{format}"),
        );
        for number in 0..times.len() {
            let expected = time(&format!("{format}/tree/{number}"));
            for place in ["own", "again"] {
                let found = time(&format!("{place}-{format}/tree/{number}"));
                assert_eq!(found, expected, "{place}, {format}, {number}");
            }
        }
    }
    assert_eq!(time("posix/tree/1"), time("tree/1"));
}

/// GNU tar escapes what would end a key.
#[test]
fn names_of_attributes_may_hold_what_separates_them() {
    let folder = Folder::new();
    let at = |path: &str| folder.path().join(path);
    let names: [&[u8]; 3] = [b"user.a=b%c", b"user.100%", b"user.\xFF\xFE"];
    fs::create_dir(at("tree")).unwrap();
    folder.write("tree/file", b"x");
    for name in names {
        lsetxattr(at("tree/file"), name, b"value", XattrFlags::empty()).unwrap();
    }
    run(&folder, "tar --xattrs --format=posix -cf gnu.tar -C tree .");
    folder.good("build -q gnu.img gnu.tar");
    folder.check("gnu.img");
    folder.good("export gnu.img own.tar");
    folder.good("export gnu.img own");
    fs::create_dir(at("back")).unwrap();
    run(&folder, "tar --xattrs -xf own.tar -C back");
    for place in ["own/file", "back/file"] {
        for name in names {
            let mut value = [0; 16];
            let count = lgetxattr(at(place), name, &mut value).unwrap();
            assert_eq!(&value[..count], b"value", "{place}");
        }
    }
}

/// The form that GNU tar writes when a file of several names is given twice, and that of programs
/// that gave links a size.
#[test]
fn links_that_say_little_are_read_as_gnu_tar_reads_them() {
    let folder = Folder::new();
    folder.write("one", b"contents");
    fs::hard_link(folder.path().join("one"), folder.path().join("two")).unwrap();
    run(&folder, "tar -cf twice.tar one one two");
    folder.good("build -q twice.img twice.tar");
    folder.check("twice.img");
    assert_eq!(folder.good("cat twice.img:/one"), "contents");
    assert_eq!(folder.good("cat twice.img:/two"), "contents");
    // The size of the link to the first file, and the sum of the header's bytes.
    run(&folder, "tar --format=ustar -cf sized.tar one two");
    let path = folder.path().join("sized.tar");
    let archive = fs::File::options().read(true).write(true).open(path);
    let archive = archive.unwrap();
    let mut header = [0; 512];
    archive.read_exact_at(&mut header, 1024).unwrap();
    assert_eq!(header[156], b'1');
    header[124..136].copy_from_slice(b"00000000010\0");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.write_all_at(&header, 1024).unwrap();
    run(&folder, "tar -tf sized.tar");
    folder.good("build -q sized.img sized.tar");
    folder.check("sized.img");
    assert_eq!(folder.good("cat sized.img:/two"), "contents");
}

/// Returns an entry of an archive: its header, and its data filled up to whole blocks. The header
/// may have another size.
fn entry(kind: u8, name: &str, size: usize, data: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, name);
    for (at, text) in [
        (100, "0000640"),
        (108, "0000005"),
        (116, "0000006"),
        (124, &format!("{size:011o}")),
        (136, "00000001750"),
        (257, "ustar"),
        (263, "00"),
        (329, "0000001"),
        (337, "0000003"),
    ] {
        put(at, text);
    }
    if matches!(kind, b'1' | b'2') {
        put(157, "base");
    }
    header[156] = kind;
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, data: &str) -> Vec<u8> {
    entry(b'0', name, data.len(), data.as_bytes())
}

/// Returns an extended header for the next entry.
fn extended(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in lines {
        let rest = key.len() + value.len() + 3;
        let digits = (1..5).find(|digits| (rest + digits).to_string().len() == *digits);
        text += &format!("{} {key}={value}\n", rest + digits.unwrap());
    }
    entry(b'x', "extended", text.len(), text.as_bytes())
}

/// Builds an image of entries and the end of an archive.
fn build(folder: &Folder, image: &str, entries: &[Vec<u8>]) {
    let name = format!("{image}.tar");
    folder.write(&name, &[&entries.concat()[..], &[0; 1024]].concat());
    build_from(folder, image, &name);
}

/// Builds an image of sources, always with the same times.
fn build_from(folder: &Folder, image: &str, sources: &str) {
    let line = format!("build -q -F {image} {sources}");
    let mut command = folder.command(&line);
    let output = command.env("SOURCE_DATE_EPOCH", "2000000000").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", tool::said(&output));
    folder.check(image);
}

const KINDS: &[u8] = b"0123456";

#[test]
fn the_last_entry_of_a_name_counts() {
    let folder = Folder::new();
    let base = file("base", "base");
    for first in KINDS {
        for last in KINDS {
            let data = |text: &'static str, kind: u8| match kind {
                b'0' => entry(kind, "name", text.len(), text.as_bytes()),
                kind => entry(kind, "name", 0, b""),
            };
            let old = [
                extended(&[
                    ("SCHILY.xattr.trusted.old", "1"),
                    ("SCHILY.xattr.trusted.both", "1"),
                    ("uid", "77"),
                    ("mtime", "5.5"),
                ]),
                data("old contents", *first),
            ];
            let new = [
                extended(&[
                    ("SCHILY.xattr.trusted.both", "2"),
                    ("SCHILY.xattr.trusted.new", "2"),
                ]),
                data("new", *last),
            ];
            build(
                &folder,
                "one.img",
                &[vec![base.clone()], new.to_vec()].concat(),
            );
            let all = [vec![base.clone()], old.to_vec(), new.to_vec()].concat();
            build(&folder, "two.img", &all);
            build_from(&folder, "three.img", "two.img.tar one.img.tar");
            let trees = ["one", "two", "three"].map(|image| {
                folder.good(&format!("export {image}.img tree.tar"));
                let tree = folder.read("tree.tar");
                fs::remove_file(folder.path().join("tree.tar")).unwrap();
                tree
            });
            let kinds = [char::from(*first), char::from(*last)];
            assert!(trees[0] == trees[1], "{kinds:?} in one archive");
            assert!(trees[0] == trees[2], "{kinds:?} in two archives");
        }
    }
}

/// As GNU tar's extraction: the size of what has no data is ignored.
#[test]
fn a_size_without_data_is_ignored() {
    let folder = Folder::new();
    let (base, behind) = (file("base", "base"), file("behind", "behind"));
    let size = extended(&[("size", "600")]);
    let time = extended(&[("mtime", "5")]);
    for kind in *b"23456" {
        for header in [Vec::new(), size.clone(), time.clone()] {
            let entry = entry(kind, "name", 600, b"");
            build(
                &folder,
                "out.img",
                &[base.clone(), header, entry, behind.clone()],
            );
            assert_eq!(folder.good("cat out.img:/behind"), "behind");
        }
    }
    // A hard link may have data behind it, if it has an extended header.
    for (header, data) in [
        (Vec::new(), &b""[..]),
        (time, &[b'x'; 600]),
        (size, &[b'x'; 600]),
    ] {
        let link = entry(b'1', "name", 600, data);
        build(
            &folder,
            "out.img",
            &[base.clone(), header, link, behind.clone()],
        );
        assert_eq!(folder.good("cat out.img:/name"), "base");
        assert_eq!(folder.good("cat out.img:/behind"), "behind");
    }
}

#[test]
fn an_empty_value_in_an_extended_header_is_none() {
    let folder = Folder::new();
    let header = extended(&[
        ("path", "elsewhere"),
        ("path", ""),
        ("linkpath", ""),
        ("size", ""),
        ("uid", "7"),
        ("uid", ""),
        ("gid", ""),
        ("mtime", ""),
        ("SCHILY.acl.access", ""),
        ("SCHILY.xattr.trusted.empty", ""),
    ]);
    let again = extended(&[("path", ""), ("path", "again")]);
    build(
        &folder,
        "out.img",
        &[header.clone(), file("name", "text"), again, file("x", "y")],
    );
    assert_eq!(folder.good("cat out.img:/name"), "text");
    assert_eq!(folder.good("cat out.img:/again"), "y");
    let stat = folder.good("stat out.img:/name");
    assert!(stat.contains("uid 5, gid 6"), "{stat}");
    assert!(stat.contains("1970-01-01T00:16:40"), "{stat}");
    build(
        &folder,
        "out.img",
        &[file("base", "text"), header, entry(b'2', "name", 0, b"")],
    );
    assert_eq!(folder.good("cat out.img:/name"), "text");
}

/// A compression that jext does not read is named, with the program that decompresses it.
#[test]
fn other_compressions_are_named() {
    let folder = Folder::new();
    for (program, first) in [
        ("xz", &b"\xFD7zXZ\0\0\x04"[..]),
        ("bzip2", b"BZh91AY&SY"),
        ("lz4", b"\x04\x22\x4D\x18"),
        ("lz4", b"\x02\x21\x4C\x18"),
        ("lzip", b"LZIP\x01"),
    ] {
        folder.write("packed", &[first, &noise(2000)].concat());
        let error = folder.bad("build none.img packed");
        let wanted = format!("packed: is compressed with {program}, ");
        assert!(error.contains(&wanted), "{error}");
        let advice = format!("{program} -dc FILE | jext build IMAGE -");
        assert!(error.ends_with(&advice), "{error}");
    }
    // A file whose name begins as the header of bzip2.
    build(&folder, "out.img", &[file("BZh9", "text")]);
    // The window of zstd that `--long=31` takes.
    folder.write("packed", b"\x28\xB5\x2F\xFD\x00\xA8\x00\x00\x00\x00");
    let error = folder.bad("build none.img packed");
    assert!(error.contains("its window of zstd has 2048 MiB"), "{error}");
    assert!(error.contains("zstd -dc --long=31"), "{error}");
    // `--long=26` still works.
    let archive = [
        file("large", "x"),
        entry(b'0', "noise", 9 << 20, &noise(9 << 20)),
    ];
    let packed = filtered("zstd", &["-q", "--long=26"], &archive.concat());
    folder.write("packed", &packed);
    folder.good("build -q -F out.img packed");
    folder.check("out.img");
}

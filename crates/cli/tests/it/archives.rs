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

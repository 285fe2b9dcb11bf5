//! Shell scripts that run on the kernel's ext3 or ext4 and on a mount: both must print the same.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ext::mkfs::{self, FileSystemType};
use fuse::Settings;
use testkit::tool;

use super::support::{IMAGE_BYTES, KINDS, Place};

/// Block size on both sides, equal to the page size.
const BLOCK_BYTES: u32 = 4096;

/// Functions for the scripts. `as_user UID GID GROUPS LINE` runs a line without privileges; a
/// GROUPS of `-` means none.
const PRELUDE: &str = r#"
as_user() {
  local groups=--clear-groups
  [ "$3" = - ] || groups="--groups=$3"
  setpriv --reuid "$1" --regid "$2" "$groups" --bounding-set=-all --inh-caps=-all bash -c "$4" 2>&1
}
mode() { stat -c '%a' "$@"; }
handle() { perl "$HANDLE" "$@"; }
"#;

/// Prints a file handle in hexadecimal digits (`make PATH`), or the object that it opens: the
/// contents of a file, the names of a directory, or the error (`open HANDLE`).
const HANDLE: &str = r#"
use strict; use warnings;
my $is_arm = `uname -m` =~ /aarch64/;
my ($make, $open) = $is_arm ? (264, 265) : (303, 304);
my ($what, $name) = @ARGV;
if ($what eq "make") {
  my ($raw, $mount) = (pack("Ii x128", 128, 0), pack("i", 0));
  syscall($make, -100, $name, $raw, $mount, 0) == 0 or die "name_to_handle_at: $!\n";
  print unpack("H*", $raw), "\n";
} else {
  opendir(my $here, ".") or die;
  my $raw = pack("H*", $name);
  my $number = syscall($open, fileno($here), $raw, 0);
  if ($number < 0) { print "$!\n"; exit }
  if (-d "/proc/self/fd/$number") {
    opendir(my $directory, "/proc/self/fd/$number") or die "$!";
    print join(" ", sort grep { !/^\.\.?$/ } readdir $directory), "\n";
  } else {
    open(my $file, "<&=", $number) or die "$!";
    print <$file>;
  }
}
"#;

/// Opens the file PATH, writes, sets FLAGS, and closes it.
const WRITE: &str = r#"
use Fcntl;
sysopen(F, $ARGV[0], O_RDWR | O_CREAT) or die;
syswrite(F, "x" x 15000) == 15000 or die "write: $!";
my $flags = pack("l!", 0);
ioctl(F, 0x80086601, $flags) or die "get: $!";
$flags = pack("l!", unpack("i", $flags) | hex($ARGV[1]));
ioctl(F, 0x40086602, $flags) or die "set: $!";
print close(F) ? "closed\n" : "close: $!\n";
"#;

/// Opens the file PATH to append, tries not to, and writes to its start.
const OVERWRITE: &str = r#"
use Fcntl;
sysopen(F, $ARGV[0], O_RDWR | O_APPEND) or die;
fcntl(F, F_SETFL, 0) or die "fcntl: $!";
sysseek(F, 0, 0) or die;
defined(syswrite(F, "FORGED")) or die "write: $!";
"#;

/// A name, and a script for bash whose directory is the root of the mount.
type Script = (&'static str, &'static str);

const SCRIPTS: &[Script] = &[
    (
        "set-ID bits after a change of contents",
        r#"
for bits in 6666 2666 4666 6777 2777 6767 2676 0666; do
  for who in '1001 1001 -' '1000 1000 -' '1001 1001 2000' '1001 2000 -'; do
    for line in 'echo x >>f' 'echo x | dd of=f conv=notrunc status=none' 'truncate -s 5 f' ': >f' \
      'fallocate -p -l 4096 f' \
      'head -c 4096 /dev/zero | dd of=f bs=4096 oflag=direct conv=notrunc status=none'; do
      rm -f f; head -c 9000 /dev/zero >f; chown 1000:2000 f; chmod $bits f
      as_user $who "$line"
      echo "$bits $who $line: $(mode f)"
    done
  done
done
"#,
    ),
    (
        "set-ID bits after a change of owner",
        r#"
for bits in 6666 2666 6777 2676; do
  rm -f f; echo >f; chown 1000:2000 f; chmod $bits f; as_user 1000 1000 3000 'chgrp 3000 f'; mode f
  rm -f f; echo >f; chown 1000:2000 f; chmod $bits f; as_user 1000 1000 2000,3000 'chgrp 3000 f'; mode f
  rm -f f; echo >f; chown 1000:2000 f; chmod $bits f; chown 7:8 f; mode f
done
"#,
    ),
    (
        "set-group-ID after setfacl and chmod",
        r#"
for who in '1000 1000 -' '1000 1000 2000' '1000 2000 -' '0 0 -'; do
  for line in 'setfacl -m u:33:rw x' 'setfacl -m m::r x' 'setfacl -b x' 'chmod g+s,o+r x' 'setfacl -m u::rw x'; do
    rm -rf x; echo >x; chown 1000:2000 x; chmod 2775 x
    as_user $who "$line"; echo "file $who $line: $(mode x)"
    rm -rf x; mkdir x; chown 1000:2000 x; chmod 2775 x
    as_user $who "$line"; echo "directory $who $line: $(mode x)"
    rm -rf x; echo >x; chown 1000:2000 x; chmod 2664 x; setfacl -m u:34:r x
    as_user $who "$line"; echo "with a list $who $line: $(mode x)"
  done
  rm -rf x; mkdir x; chown 1000:2000 x; chmod 2775 x
  as_user $who 'setfacl -d -m u:33:rw x'; echo "default $who: $(mode x)"
done
"#,
    ),
    (
        "append-only and immutable files",
        r#"
for flag in a i; do
  for name in f d; do
    if [ $name = f ]; then echo x >f; else mkdir d; fi
    chattr +$flag $name
    for line in "touch $name" "touch -a $name" "touch -d 2001-01-01 $name" "touch -a -d 2001-01-01 $name" \
      "chmod 600 $name" "chown 7 $name" "mv $name e" "ln f g" "echo y >>f" "echo y >f" "truncate -s 0 f" "sync f" \
      "setfattr -n user.a -v b $name" "touch d/x" "rm d/x"; do
      bash -c "$line" 2>/dev/null; echo "+$flag $name: $line: $?"
    done
    chattr -$flag $name
    rm -rf d f e g
  done
done
"#,
    ),
    (
        "flags set while a file is written",
        r#"
contents() { dd if=$1 iflag=direct bs=4096 status=none | cksum; }
for flag in 0x10 0x20 0x30; do
  perl -e "$WRITE" f $flag; contents f; stat -c %s f; chattr -ia f; rm f
done
head -c 9000 /dev/zero >f; chmod 666 f; chattr +a f
as_user 65534 65534 - "perl -e '$OVERWRITE' f" >/dev/null; contents f
as_user 65534 65534 - "xfs_io -a -c 'mmap -rw 0 9000' -c 'mwrite 0 6' -c 'msync -s 0 4096' f" >/dev/null; contents f
as_user 65534 65534 - "fallocate -p -l 4096 f" >/dev/null; contents f
as_user 65534 65534 - "truncate -s 1 f" >/dev/null; contents f
as_user 65534 65534 - "echo end >>f"; contents f
chattr -a f; as_user 65534 65534 - "perl -e '$OVERWRITE' f"; contents f
"#,
    ),
    (
        "flags and attributes of root",
        r#"
echo >f; chown 1000:1000 f
as_user 1000 1000 - 'chattr +j f' >/dev/null; echo "+j: $?"
for flag in a i d; do
  as_user 1000 1000 - "chattr +$flag f" >/dev/null; echo "+$flag: $?"
  chattr +$flag f; as_user 1000 1000 - "chattr -$flag f" >/dev/null; echo "-$flag: $?"; chattr -aid f
done
for name in user.a trusted.a trusted.b security.a; do setfattr -n $name -v x f; done
as_user 1000 1000 - 'getfattr -m - f'
getfattr -m - f
"#,
    ),
    (
        "ctime after chattr of directories",
        r#"
for name in d d/e; do
  mkdir $name
  before=$(stat -c %.Z $name); sleep 0.02
  chattr +d $name
  after=$(stat -c %.Z $name)
  [ "$before" = "$after" ] && echo "$name: stale" || echo "$name: fresh"
done
"#,
    ),
    (
        "remount",
        r#"
echo word >file
mount -i -o remount,ro "$PWD"; echo $?
touch new 2>/dev/null; echo $?
cat file
mount -i -o remount,rw "$PWD"; echo $?
touch new; echo $?; ls
"#,
    ),
    (
        "file handles",
        r#"
forget() { sync; echo 2 >/proc/sys/vm/drop_caches; sleep 0.1; }
mkdir -p a/b/c; echo deep >a/b/c/file; echo top >file; echo gone >gone; mkdir empty; ln -s file link
for name in . file a a/b/c a/b/c/file gone empty; do handle make $name; done >/dev/null
of_file=$(handle make file) of_deep=$(handle make a/b/c/file) of_a=$(handle make a) of_c=$(handle make a/b/c)
of_gone=$(handle make gone) of_root=$(handle make .) of_empty=$(handle make empty)
for round in cached forgotten; do
  for handle in $of_file $of_deep $of_a $of_c $of_root $of_gone $of_empty; do echo "$round: $(handle open $handle)"; done
  forget
done
mv a/b moved; forget
echo "moved: $(handle open $of_deep), $(handle open $of_c)"
rm gone; rmdir empty; forget
echo "gone: $(handle open $of_gone); $(handle open $of_empty)"
for number in {1..50}; do echo $number >again$number; done; forget
echo "used again: $(handle open $of_gone)"
"#,
    ),
    (
        "a full volume",
        r#"
head -c 400M /dev/zero | dd of=f bs=1M 2>&1 | grep -o 'error writing.*'
sync f 2>/dev/null; [ $(stat -f -c '%a %S' . | awk '{print $1 * $2}') -lt 200000 ] && echo "nothing is left"
cmp f /dev/zero 2>&1 | cut -d' ' -f 1-3
printf y | dd of=f conv=notrunc status=none && head -c 1 f; echo
rm -f f
cp /dev/zero f 2>&1 | grep -o 'error writing.*'
rm -f f; sync .; head -c 20M /dev/urandom >f; sync f
cp f h && cmp f h && echo "the same"
"#,
    ),
    (
        "a small write to a full volume",
        r#"
cp /dev/zero f 2>/dev/null; sync f 2>/dev/null
for bytes in 300000 400000; do
  head -c $bytes /dev/zero | dd of=g bs=1M oflag=append conv=notrunc 2>&1 | grep -o 'error writing.*'
  head -c $bytes "$HANDLE" | dd of=f bs=1M conv=notrunc 2>&1 | grep -o 'error writing.*'
  sync g 2>&1
done
cmp -n 500 f "$HANDLE" && echo "written over"
"#,
    ),
];

/// Runs a script in a directory. Returns its output, errors included.
fn run(script: &str, directory: &Path, outside: &Path) -> String {
    let handle = outside.join("handle.pl");
    std::fs::write(&handle, HANDLE).unwrap();
    let text = format!(
        "export HANDLE={} OUTSIDE={}\nWRITE='{WRITE}' OVERWRITE='{OVERWRITE}'\n{PRELUDE}\ncd {}\nexec 2>&1\n{script}",
        handle.display(),
        outside.display(),
        directory.display()
    );
    tool::run_well("bash", &["-c", &text])
}

/// Runs each of the scripts on the kernel's ext3 and ext4, and again on mounts.
#[track_caller]
fn compare(name: &str) {
    compare_with(name, &[false, true]);
}

/// Runs the scripts with these values of `lazy_open`.
#[track_caller]
fn compare_with(name: &str, are_lazy: &[bool]) {
    if !testkit::privilege::is_granted() {
        return;
    }
    let (_, script) = SCRIPTS.iter().find(|script| script.0 == name).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), Permissions::from_mode(0o755)).unwrap();
    let image = outside.path().join("image");
    File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
    for (file_system, kind, ways) in KINDS {
        let words = ["-q", "-F", "-t", kind, "-b", "4096"];
        let words = words.iter().copied().chain(image.to_str());
        tool::run_well("mke2fs", &words.collect::<Vec<_>>());
        let kernel = testkit::Mount::new(&image, None, kind, "rw").unwrap();
        let expected = run(script, &kernel.at(""), outside.path());
        drop(kernel);
        for is_lazy_open in are_lazy.iter().copied().filter(|way| ways.contains(way)) {
            let found = on_ours(file_system, is_lazy_open, script, outside.path());
            let differs = expected.lines().zip(found.lines());
            let differs: Vec<_> = differs.filter(|(ours, theirs)| ours != theirs).collect();
            assert!(
                expected == found,
                "lazy_open: {is_lazy_open}; {kind}, and ours: {differs:#?}"
            );
        }
    }
}

/// Returns the output of a script on a mount.
fn on_ours(
    file_system: FileSystemType,
    is_lazy_open: bool,
    script: &str,
    outside: &Path,
) -> String {
    let place = Place::with(&mkfs::Options {
        file_system,
        block_bytes: Some(BLOCK_BYTES),
        ..mkfs::Options::default()
    });
    let mut settings = Settings {
        is_lazy_open,
        ..Settings::default()
    };
    settings.description.allow_other = true;
    let mounted = place.mount(&settings);
    let found = run(script, &mounted.at(""), outside);
    mounted.end().unwrap();
    place.check();
    found
}

#[test]
fn set_id_bits_go_with_the_contents() {
    compare("set-ID bits after a change of contents");
}

#[test]
fn set_id_bits_go_with_the_owner() {
    compare("set-ID bits after a change of owner");
}

#[test]
fn set_group_id_goes_with_a_list_of_somebody_outside_the_group() {
    compare("set-group-ID after setfacl and chmod");
}

#[test]
fn append_only_files_can_be_touched() {
    // With lazy_open there is no request that could refuse an open.
    compare_with("append-only and immutable files", &[false]);
}

#[test]
fn flags_do_not_lose_data_and_are_obeyed() {
    // With lazy_open it is not known which files were open before.
    compare_with("flags set while a file is written", &[false]);
}

#[test]
fn flags_and_attributes_of_root_are_refused_and_hidden() {
    compare("flags and attributes of root");
}

#[test]
fn chattr_of_a_directory_changes_its_ctime() {
    compare("ctime after chattr of directories");
}

#[test]
fn a_mount_becomes_read_only_and_writable_again() {
    compare("remount");
}

#[test]
fn file_handles_outlive_what_the_kernel_keeps() {
    compare("file handles");
}

#[test]
fn a_writer_hears_that_the_volume_is_full() {
    compare("a full volume");
}

#[test]
fn little_space_is_not_promised_twice() {
    // With lazy_open there is no answer that could disable the kernel's cache for a file.
    compare_with("a small write to a full volume", &[false]);
}

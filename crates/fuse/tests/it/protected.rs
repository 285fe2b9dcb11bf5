//! Encrypted files without a key, files with verity, and directories that ignore case, on a mount.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use fuse::Settings;
use testkit::{Mount, tool};

use super::support::Place;

/// A script that the kernel and a mount print the same of: names, attributes, and errors. Both have
/// the same image.
const SCRIPT: &str = r#"
cd "$1" && exec 2>&1
ls -a secret secret/many | LC_ALL=C sort
(cd secret && stat -c '%n %F %a %h %s %N' *) | LC_ALL=C sort
file=$(find secret -maxdepth 1 -type f | LC_ALL=C sort | head -1)
link=$(find secret -maxdepth 1 -type l | LC_ALL=C sort | head -1)
empty=$(find secret -mindepth 1 -maxdepth 1 -type d -empty)
cat "$file"
cat plain/left
echo more >>"$file"
truncate -s 3 "$file"
echo new >secret/new
mkdir secret/new
mknod secret/new p
ln -s target secret/new
ln plain/file secret/new
ln "$file" plain/linked && stat -c %h "$file"
mv plain/file secret/
mv -T "$file" secret/new
mv -T "$file" plain/out
cp "$file" plain/copy
chmod 600 "$file" && stat -c %a "$file"
chown 5:6 "$link" && stat -c '%u %g' "$link"
setfattr -n user.note -v text "$file" && getfattr --only-values -n user.note "$file"
getfattr -m - "$file"
rmdir secret
rmdir "$empty" && rm "$link" "$file" && rm -r secret/many
ls secret | LC_ALL=C sort
mv secret plain/moved && ls plain
rm -r plain/moved
ls -a plain
"#;

/// Fills a mount of the kernel with encrypted files.
const FILL: &str = r#"
cd "$1"
mkdir plain secret && echo text >plain/file
key=$(printf 'k%.0s' $(seq 64) | xfs_io -c add_enckey . | sed 's/.* //')
xfs_io -c "set_encpolicy $key" secret
mkdir secret/many secret/empty
for name in a b $(printf 'n%.0s' $(seq 200)); do echo $name >secret/$name; done
ln -s target secret/link
ln -s $(printf 't%.0s' $(seq 180)) secret/longlink
for number in $(seq 300); do : >secret/many/$number; done
echo out >secret/left && mv secret/left plain
"#;

fn script(text: &str, at: &Path) -> String {
    let at = at.to_str().unwrap();
    tool::run_well("bash", &["-c", text, "bash", at])
}

fn make(place: &Place, features: &str) {
    let image = place.image();
    let words = ["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features];
    let words = words.iter().copied().chain(image.to_str());
    tool::run_well("mke2fs", &words.collect::<Vec<_>>());
}

fn debugfs(place: &Place, request: &str) {
    let image = place.image();
    let words = ["-w", "-R", request, image.to_str().unwrap()];
    tool::run_well("debugfs", &words);
}

#[test]
fn encrypted_files_are_those_of_the_kernel_without_the_key() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    make(&place, "encrypt");
    let mounted = Mount::new(&place.image(), None, "ext4", "rw").unwrap();
    script(FILL, mounted.path());
    drop(mounted);
    let copy = place.image().with_extension("copy");
    fs::copy(place.image(), &copy).unwrap();
    let mounted = Mount::new(&copy, None, "ext4", "rw").unwrap();
    let expected = script(SCRIPT, mounted.path());
    drop(mounted);
    // Files that cannot be read say so when they are opened, whatever the mount option is.
    for is_lazy_open in [false, true] {
        let settings = Settings {
            is_lazy_open,
            ..Settings::default()
        };
        let image = place.image().with_extension("image");
        fs::copy(place.image(), &image).unwrap();
        let mounted = place.mount(&settings);
        let found = script(SCRIPT, &mounted.at(""));
        mounted.end().unwrap();
        place.check();
        fs::copy(&image, place.image()).unwrap();
        let lines = expected.lines().zip(found.lines());
        let differs: Vec<_> = lines.filter(|(theirs, ours)| theirs != ours).collect();
        assert!(expected == found, "lazy: {is_lazy_open}: {differs:#?}");
    }
    let refused = "Required key not available";
    assert!(expected.matches(refused).count() >= 10, "{expected}");
}

#[test]
fn files_with_verity_are_read_and_not_opened_for_writing() {
    if !testkit::privilege::is_granted() {
        return;
    }
    for is_lazy_open in [false, true] {
        let place = Place::new();
        make(&place, "verity");
        let source = place.image().with_extension("source");
        fs::write(&source, vec![b'v'; 100_000]).unwrap();
        debugfs(&place, &format!("write {} sealed", source.display()));
        debugfs(&place, "set_inode_field sealed size 5000");
        debugfs(&place, "set_inode_field sealed flags 0x180000");
        let settings = Settings {
            is_lazy_open,
            ..Settings::default()
        };
        let mounted = place.mount(&settings);
        let path = mounted.at("sealed");
        assert_eq!(fs::read(&path).unwrap(), vec![b'v'; 5000]);
        let opened = fs::File::options().append(true).open(&path);
        assert_eq!(opened.unwrap_err().raw_os_error(), Some(1));
        let cut = tool::run("truncate", &["-s", "9", path.to_str().unwrap()]);
        assert!(!cut.status.success());
        fs::rename(&path, mounted.at("renamed")).unwrap();
        fs::hard_link(mounted.at("renamed"), &path).unwrap();
        mounted.end().unwrap();
        place.check();
    }
}

#[test]
fn directories_that_ignore_case_are_not_changed() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let place = Place::new();
    make(&place, "casefold");
    debugfs(&place, "mkdir d");
    debugfs(&place, "mkdir other");
    debugfs(&place, "write /etc/hostname d/File");
    debugfs(&place, "set_inode_field d flags 0x40080000");
    let mounted = place.mount(&Settings::default());
    let names: Vec<_> = fs::read_dir(mounted.at("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["File"]);
    let other = fs::metadata(mounted.at("d/FILE")).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::NotFound);
    fs::write(mounted.at("d/File"), b"other contents").unwrap();
    for refused in [
        fs::write(mounted.at("d/new"), b""),
        fs::create_dir(mounted.at("d/new")),
        fs::remove_file(mounted.at("d/File")),
        fs::rename(mounted.at("d/File"), mounted.at("out")),
    ] {
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(95));
    }
    for (sign, name) in [("+F", "other"), ("-F", "d")] {
        let path = mounted.at(name);
        let output = tool::run("chattr", &[sign, path.to_str().unwrap()]);
        assert!(!output.status.success(), "{sign}");
        let said = tool::said(&output);
        assert!(said.contains("not supported"), "{sign}: {said}");
    }
    assert_eq!(fs::read(mounted.at("d/File")).unwrap(), b"other contents");
    mounted.end().unwrap();
    place.check();
}

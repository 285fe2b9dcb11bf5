//! `jext mount` as mount(8) is used: options of ext3, remounting, devices that cannot be written,
//! logs on full disks.

use std::fs;
use std::process::Output;

use testkit::{privilege, tool};

use crate::support::Folder;

/// Lets a command of the shell run in the folder, with `jext` in its path.
fn run(folder: &Folder, line: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("jext");
    let script = format!(
        "PATH={}:$PATH; cd {}; {line}",
        program.parent().unwrap().display(),
        folder.path().display()
    );
    tool::run("bash", &["-c", &script])
}

/// A folder with an image that is unmounted in any case.
struct Place(Folder);

impl Place {
    fn new() -> Option<Self> {
        if !privilege::is_granted() {
            return None;
        }
        let folder = Folder::with_image();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        Some(Self(folder))
    }

    #[track_caller]
    fn good(&self, line: &str) -> String {
        let output = run(&self.0, line);
        assert!(output.status.success(), "{line}: {}", tool::said(&output));
        tool::said(&output)
    }

    #[track_caller]
    fn bad(&self, line: &str) -> String {
        let output = run(&self.0, line);
        assert!(!output.status.success(), "{line}: {}", tool::said(&output));
        tool::said(&output)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        run(&self.0, "mountpoint -q mnt && umount -l mnt");
    }
}

#[test]
fn a_log_on_a_full_disk_does_not_end_the_mount() {
    let Some(place) = Place::new() else { return };
    place.good("JEXT_LOG=debug jext mount disk.img mnt --log /dev/full");
    place.good("for n in {1..20}; do echo $n >mnt/$n; cat mnt/missing$n 2>/dev/null; sync mnt/$n; done; ls mnt");
    assert_eq!(place.good("cat mnt/20"), "20\n");
    place.good("jext umount mnt");
    place.0.check("disk.img");
    // Standard error, in the foreground.
    place.good("JEXT_LOG=debug jext mount -f disk.img mnt 2>/dev/full & sleep 1; echo again >mnt/more && cat mnt/missing 2>/dev/null; umount mnt && wait $!");
    assert_eq!(place.0.good("cat disk.img:/more"), "again\n");
    place.good("JEXT_LOG=trace jext ls disk.img:/ 2>/dev/full");
}

#[test]
fn options_of_ext3_that_are_true_are_accepted() {
    let Some(place) = Place::new() else { return };
    place.good("jext mount disk.img mnt -o acl,user_xattr,loop,defaults");
    place.good("setfacl -m u:33:r mnt && setfattr -n user.a -v b mnt");
    place.good("jext umount mnt");
    let refused = place.bad("jext mount disk.img mnt -o noacl");
    assert!(refused.contains("noacl"), "{refused}");
}

/// The bits that `tune2fs -o` sets, and the list of `tune2fs -E mount_opts=`: both on the kernel's
/// ext3 and here. What was given counts more.
#[test]
fn options_of_the_superblock_are_taken() {
    let Some(place) = Place::new() else { return };
    place.good("tune2fs -o bsdgroups,nodelalloc disk.img");
    let script = "mkdir mnt/d && chgrp 7 mnt/d && mkdir mnt/d/new && touch mnt/d/file && stat -c '%g %A' mnt/d/new mnt/d/file; jext umount mnt 2>/dev/null || umount mnt";
    let ours = place.good(&format!("jext mount disk.img mnt && {script}"));
    assert_eq!(ours, "7 drwxr-xr-x\n7 -rw-r--r--\n");
    place.good("jext rm -r disk.img:/d");
    let kernel = place.good(&format!("mount -o loop disk.img mnt && {script}"));
    assert_eq!(ours, kernel);
    place.good("jext rm -r disk.img:/d");
    let ours = place.good(&format!("jext mount -o nogrpid disk.img mnt && {script}"));
    assert_eq!(ours, "0 drwxr-xr-x\n0 -rw-r--r--\n");
    place.good(
        "debugfs -w -R 'ssv mount_opts nouid32,nogrpid' disk.img && jext rm -r disk.img:/d 2>/dev/null",
    );
    let ours = place.good(&format!("jext mount disk.img mnt && {script}"));
    let warning =
        "jext: warning: disk.img: in its superblock: mount option \"nouid32\": not supported";
    assert!(ours.contains(warning), "{ours}");
    assert!(ours.contains("0 drwxr-xr-x\n0 -rw-r--r--\n"), "{ours}");
    place.0.check("disk.img");
}

#[test]
fn a_mount_is_remounted() {
    let Some(place) = Place::new() else { return };
    place.bad("jext mount disk.img mnt -o remount,ro");
    place.good("jext mount disk.img mnt");
    place.good("echo kept >mnt/file");
    place.good("jext mount disk.img mnt -o remount,ro");
    let refused = place.bad("touch mnt/new");
    assert!(refused.contains("Read-only"), "{refused}");
    place.good(
        "grep -q ' mnt\\?.*' /proc/self/mountinfo; findmnt -n -o OPTIONS mnt | grep -q '^ro'",
    );
    place.good("jext mount disk.img mnt -o remount,rw,acl");
    assert_eq!(place.good("touch mnt/new && cat mnt/file"), "kept\n");
    // As mount(8) calls it.
    place.good("ln -s $(command -v jext) mount.fuse.jext; ./mount.fuse.jext disk.img mnt -o rw,remount,nosuid -t fuse.jext");
    assert!(
        place
            .good("findmnt -n -o OPTIONS mnt")
            .starts_with("rw,nosuid")
    );
    let warned = place.good("jext mount disk.img mnt -o remount,rw,commit=7");
    assert!(warned.contains("commit=7 stays as it was"), "{warned}");
    place.good("jext umount mnt");
    place.0.check("disk.img");
    // What jext has opened read-only does not become writable.
    place.good("jext mount disk.img mnt -o ro");
    let refused = place.bad("jext mount disk.img mnt -o remount,rw");
    assert!(
        refused.contains("unmount it and mount it again"),
        "{refused}"
    );
    let refused = place.bad("touch mnt/more");
    assert!(refused.contains("Read-only"), "{refused}");
    place.good("jext umount mnt");
}

#[test]
fn what_cannot_be_written_is_mounted_read_only_with_a_warning() {
    let Some(place) = Place::new() else { return };
    // Attached read-only: a flag that blockdev(8) sets would outlast the attachment.
    let attached = place.good("losetup -r -f --show disk.img");
    let device = attached.trim();
    let said = run(&place.0, &format!("jext mount {device} mnt"));
    let written = run(&place.0, "touch mnt/new");
    place.good(&format!("jext umount mnt; losetup -d {device}"));
    let expected = format!("jext: warning: {device}: write-protected, mounted read-only\n");
    assert_eq!(tool::said(&said), expected);
    assert!(tool::said(&written).contains("Read-only"));
    place.good("mkdir there && mount --bind . there && mount -o remount,bind,ro there");
    let said = run(&place.0, "jext mount there/disk.img mnt");
    let written = run(&place.0, "touch mnt/new");
    place.good("jext umount mnt; umount there");
    assert!(
        tool::said(&said).contains("write-protected, mounted read-only"),
        "{}",
        tool::said(&said)
    );
    assert!(tool::said(&written).contains("Read-only"));
}

/// Mounts `disk.img` at `mnt`, and kills the process after a sync.
const KILLED: &str = "jext mount -f disk.img mnt & process=$!; \
    until mountpoint -q mnt; do sleep 0.05; done; echo synced >mnt/file && sync mnt/file; \
    kill -KILL $process; wait $process; true";

#[test]
fn a_mount_whose_process_is_gone_is_told() {
    let Some(place) = Place::new() else { return };
    place.good(KILLED);
    let advice = "mnt: the process of the mount there is gone; `fusermount3 -u mnt`";
    for line in ["jext mount disk.img mnt", "jext mount -o remount,ro x mnt"] {
        let said = place.bad(line);
        assert!(said.starts_with(&format!("jext: {advice}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for line in ["jext ls disk.img:/", "jext fsck disk.img"] {
        let said = tool::said(&run(&place.0, line));
        assert!(!said.contains("has it mounted"), "{line}: {said}");
    }
    place.good("fusermount3 -u mnt && jext mount disk.img mnt");
    assert_eq!(place.good("cat mnt/file"), "synced\n");
    place.good("jext umount mnt");
}

#[test]
fn what_needs_recovery_and_cannot_be_written_is_told() {
    let Some(place) = Place::new() else { return };
    place.good(KILLED);
    place.good("umount mnt && mkdir there && mount --bind . there");
    place.good("mount -o remount,bind,ro there");
    let said = ["", "-o ro"].map(|options| {
        let line = format!("jext mount {options} there/disk.img mnt");
        tool::said(&run(&place.0, &line))
    });
    let seen = run(&place.0, "jext cat there/disk.img:/file");
    let shown = run(
        &place.0,
        "jext mount -o ro,noload there/disk.img mnt && jext umount mnt",
    );
    place.good("umount there && jext journal replay disk.img");
    for said in said {
        let start = "jext: there/disk.img: was not closed cleanly, and is write-protected";
        assert!(said.starts_with(start), "{said}");
        for advice in ["`jext journal replay`", "-o ro,noload"] {
            assert!(said.contains(advice), "{said}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(tool::said(&seen).contains("synced\n"));
    assert!(shown.status.success(), "{}", tool::said(&shown));
}

/// As in a container that was started without options.
#[test]
fn what_a_container_lacks_is_told() {
    let Some(place) = Place::new() else { return };
    let docker = "docker run --device /dev/fuse --cap-add SYS_ADMIN";
    let bare =
        "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && jext mount disk.img mnt";
    let said = place.bad(&format!("unshare -m bash -c '{bare}'"));
    assert!(said.contains("there is no /dev/fuse"), "{said}");
    assert!(said.contains(docker), "{said}");
    let without = "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin";
    let said = place.bad(&format!("{without} jext mount disk.img mnt"));
    assert!(said.contains(docker), "{said}");
    place.0.check("disk.img");
}

/// A read-only mount shares the lock of its image, so that an exclusive one shows if it was closed.
#[test]
fn a_read_only_image_is_closed_when_it_is_unmounted() {
    let Some(place) = Place::new() else { return };
    for _ in 0..20 {
        place.good("jext mount disk.img mnt -o ro && jext umount mnt && flock -nx disk.img true");
    }
}

/// Another process waits for the image and has it as soon as the mount has closed it.
#[test]
fn an_image_that_another_process_takes_at_once_is_unmounted() {
    let Some(place) = Place::new() else { return };
    place.good(
        "jext mount disk.img mnt; flock -x disk.img sleep 30 & sleep 0.3; timeout 10 jext umount mnt; code=$?; kill $!; \
         exit $code",
    );
}

/// `-m`, `resuid=` and `resgid=` hold through the mount, as on the kernel's ext3.
#[test]
fn the_blocks_reserved_for_root_are_left_to_root() {
    let Some(place) = Place::new() else { return };
    const FILL: &str = r#"
fill() { # UID GID GROUPS
  local groups=--clear-groups; [ "$3" = - ] || groups=--groups=$3
  local rights=; [ $1 = 0 ] || rights="--bounding-set=-all --inh-caps=-all"
  setpriv --reuid $1 --regid $2 $groups $rights dd if=/dev/zero of=$at/of-$1-$2 bs=64k 2>&1 | grep -o 'error writing.*' | cut -d: -f2
  sync $at/of-$1-$2 2>/dev/null
  # A writer in pages may leave some blocks.
  echo "$*: available: $(( $(stat -f -c %a $at) > 100 )) left: $(( $(stat -f -c %f $at) > 200 ))"
  rm $at/of-$1-$2; until [ $(stat -f -c %f $at) -gt 20000 ]; do sync $at; sleep 0.02; done
}
# A container's root has no CAP_SYS_RESOURCE, so to ext3 it is root by its number only.
all() {
  chmod 777 $at; fill 1000 1000 -; fill 1001 2000 -; fill 1001 1001 7,2000; fill 1002 1002 -
  [ $options != resuid=0 ] || fill 0 0 -
}
"#;
    let mut expected = Vec::new();
    for options in ["resuid=0", "resuid=1000", "resgid=2000"] {
        place.good("rm -f e.img; truncate -s 24M e.img; mke2fs -q -F -t ext3 -b 1024 -m 20 -J size=1 e.img");
        let script = format!(
            "{FILL}\nat=mnt options={options}; mount -o loop,{options} e.img mnt; all; umount mnt"
        );
        expected.push(place.good(&script));
    }
    for (options, expected) in ["resuid=0", "resuid=1000", "resgid=2000"]
        .iter()
        .zip(expected)
    {
        place.good("rm -f e.img; truncate -s 24M e.img; mke2fs -q -F -t ext3 -b 1024 -m 20 -J size=1 e.img");
        let script = format!(
            "{FILL}\nat=mnt options={options}; jext mount -o {options} e.img mnt; all; jext umount mnt"
        );
        assert_eq!(place.good(&script), expected, "{options}");
        place.0.check("e.img");
    }
}

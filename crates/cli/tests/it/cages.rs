//! The cage against its prisoner: a guest's root may put code of its own into its kernel, which is
//! then a program on the host. Here a shell script takes the place of the kernel.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::FdFlags;
use uml::{Guest, GuestError, Kernel, serve};

use crate::guests::{IMAGE_BYTES, Reports, SMALL, changed, guest_of, program, tree, with_image};
use crate::support::Folder;

/// Attempts of a program against its host; each success is a line. `FD` is an inherited file.
const ATTACK: &str = "#!/bin/sh
exec 2>/shm/errors
won() { echo \"won: $*\"; }
mount -o remount,bind,rw /usr && won remount of /usr
mount -o remount,rw / && won remount of the root
mount -t tmpfs none /mnt && won a mount
mount -t proc none /proc && won /proc
umount -l /usr && won umount
chroot / /bin/true && won chroot
unshare --user --map-root-user --mount sh -c 'mount -o remount,bind,rw /usr' && won a remount in a namespace
unshare --user --map-root-user --mount sh -c 'umount -l /usr; umount -l /' && won umount in a namespace
unshare --user --map-root-user --mount --pid --fork sh -c 'mount -t proc none /proc' && won /proc in a namespace
touch /usr/escaped && won a file in /usr
touch /escaped && won a file in the root
echo x >> /program && won the program
echo x >> /kernel && won the kernel
mknod /shm/disk b 254 0 && won a device
truncate -s 1T /image0 && won a longer image
(echo x >&FD) && won an inherited file
ls /proc/1/fd && won the files of others
ulimit -c unlimited && won core files
echo over
";

fn tried(setup: &uml::GuestSetup) -> Vec<String> {
    let guest = Guest::start(setup).unwrap();
    serve::in_real_time(&guest, &mut Reports::default()).unwrap();
    let console = guest.console_tail();
    console.lines().map(str::to_owned).collect()
}

/// Returns a setup whose kernel is a script.
fn with_script(folder: &Folder, script: &str) -> uml::GuestSetup {
    let path = folder.path().join("script");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut setup = guest_of(&folder.path().join("disk.img"), &[]);
    setup.kernel = Kernel {
        path,
        libraries: Vec::new(),
    };
    setup
}

#[test]
fn a_hostile_kernel_wins_nothing() {
    let folder = with_image();
    // It stays open in every program that this one starts.
    let inherited = File::create(folder.path().join("inherited")).unwrap();
    rustix::io::fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
    let script = ATTACK.replace("FD", &inherited.as_raw_fd().to_string());
    let watched = ["/usr", "/etc", "/mnt", "/media", "/srv"].map(Path::new);
    let before = tree(&watched, 2);
    assert_eq!(tried(&with_script(&folder, &script)), ["over"]);
    assert_eq!(changed(&before, &tree(&watched, 2)), Vec::<PathBuf>::new());
    assert_eq!(
        fs::metadata(folder.path().join("inherited")).unwrap().len(),
        0
    );
}

/// A mount below a folder of programs can neither be separated from it nor be written.
#[test]
fn mounts_below_programs_are_read_only_too() {
    let folder = with_image();
    let script = "
        mount -t tmpfs none /usr/games && touch /usr/games/there
        exec \"$0\" \"$@\"";
    let test = "#!/bin/sh\n[ -e /usr/games/there ] && echo seen; touch /usr/games/new 2>&1 && echo written";
    let kernel = folder.path().join("bin");
    fs::create_dir(&kernel).unwrap();
    let setup = with_script(&folder, test);
    fs::rename(&setup.kernel.path, kernel.join("linux.uml")).unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(program())
        .args(["bench", "postmark", "uml:ext2", "--device", "disk.img"])
        .env(
            "PATH",
            format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", kernel.display()),
        )
        .current_dir(folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("seen"), "{error}");
    assert!(error.contains("Read-only file system"), "{error}");
    assert!(!error.contains("written"), "{error}");
}

/// The host's disk has less room than the image has holes.
#[test]
fn an_image_on_a_full_disk_fails_the_trial() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("full")).unwrap();
    let script = format!(
        "
        mount -t tmpfs -o size=24m none full && truncate -s {IMAGE_BYTES} full/disk.img
        exec \"$0\" \"$@\""
    );
    let tree = ["fan_out=4", "levels=2", "files=200", "size=16KiB"];
    for (device, more, is_full) in [
        ("ubda", &[][..], true),
        // Served by this program.
        ("vda", &["--record", "recording"], false),
    ] {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .arg(program())
            .args(["bench", "make-many-files", "uml:ext2"])
            .args(["--device", "full/disk.img"])
            .args(more)
            .args(tree.iter().flat_map(|value| ["--set", value]))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{device}: {error}");
        assert_eq!(error.lines().count(), 1, "{device}: {error}");
        assert!(error.contains("failed a write: "), "{device}: {error}");
        assert!(error.contains(&format!("dev {device}")), "{error}");
        let says = error.contains("the disk of its image is full");
        assert_eq!(says, is_full, "{error}");
    }
}

/// Without root's number in the user namespace, `mount` in the guest has the overflow owner.
#[test]
fn a_guest_runs_without_root() {
    let folder = with_image();
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open.clone()).unwrap();
        fs::set_permissions(folder.path().join("disk.img"), open).unwrap();
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    // The program may lie where only root can look.
    fs::copy(program(), folder.path().join("jext")).unwrap();
    let output = command
        .arg("./jext")
        .args(["bench", "postmark", "uml:ext2", "--device", "disk.img"])
        .args(SMALL)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
}

#[test]
fn a_kernel_that_writes_forever_can_be_cancelled() {
    let folder = with_image();
    let setup = with_script(&folder, "#!/bin/sh\nexec yes '@jext progress 4000000000'");
    let guest = Guest::start(&setup).unwrap();
    let start = Instant::now();
    let mut reports = Reports(Vec::new(), Some(start + Duration::from_millis(300)));
    let served = serve::in_real_time(&guest, &mut reports);
    assert!(matches!(served, Err(GuestError::Cancelled)), "{served:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(!reports.0.is_empty());
}

/// A guest in real time opens its image itself, so nothing else may have it open.
#[test]
fn an_image_in_use_is_refused() {
    let folder = with_image();
    folder.good("mkfs -q disk.img");
    let open = block::FileDevice::open(
        folder.path().join("disk.img"),
        &block::OpenOptions::default(),
    );
    let open = open.unwrap();
    let error = folder.bad("bench postmark uml:ext3 --device disk.img -F");
    assert!(error.contains("disk.img is in use"), "{error}");
    drop(open);
}

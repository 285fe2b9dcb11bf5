//! `build` of container images: it gives what umoci unpacks as root.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::{Mount, privilege, tool};

use crate::building::{marks, tree};
use crate::support::Folder;

/// Makes an image of four layers in the layout `layout`, and unpacks it into `control`.
const IMAGE: &str = r#"
umoci init --layout layout
umoci new --image layout:t
pack() { tar --format=posix --xattrs --xattrs-include='*' --numeric-owner --sort=name "$@"; }
add() { umoci raw add-layer --image layout:t "$1"; }

mkdir -p base/usr/lib/old base/usr/bin base/etc base/opaque/deep base/data/sub base/swapdir/x base/gone/d
ln -s usr/lib base/lib
ln -s /usr/bin base/bin
echo tool > base/usr/bin/tool; chmod 4755 base/usr/bin/tool
head -c 300000 /dev/urandom > base/usr/lib/old/large
truncate -s 9M base/usr/lib/sparse; echo end >> base/usr/lib/sparse
for i in $(seq 200); do echo $i > base/data/sub/file-$i; done
echo old > base/data/old; echo keep > base/data/keep; ln base/data/keep base/data/keep-2
echo hidden > base/opaque/deep/hidden; echo hidden > base/opaque/hidden
echo x > base/swapfile; echo y > base/swapdir/x/y; echo z > base/gone/d/z
mknod base/null c 1 3; mkfifo base/pipe; chown 1000:70000 base/data/old base/data/sub
setfattr -n user.colour -v green base/usr/bin/tool; setfattr -n user.colour -v red base/data
setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 base/data/keep
ln -s nowhere base/dangling
touch -h -d '2001-02-03 04:05:06.789 UTC' base/dangling base/data/keep base/usr/lib/old
pack -S -C base -cf base.tar .; add base.tar

# Whiteouts, an opaque directory, a file for a directory and the reverse, a way through a link.
mkdir -p second/data second/opaque/deep second/swapfile/in second/lib/new second/usr
touch second/data/.wh.old second/.wh.gone second/opaque/.wh..wh..opq second/data/.wh.nothing
echo shown > second/opaque/deep/shown; echo in > second/swapfile/in/in; echo now-a-file > second/swapdir
echo through > second/through; chmod 700 second/usr; setfattr -n user.new -v 1 second/usr
touch -d '2005-01-01 UTC' second/usr second/data
pack -C second -cf second.tar data .wh.gone opaque swapfile swapdir usr
echo new > second/lib/new/file
pack -C second -rf second.tar lib/new; add second.tar

# A hard link to a file of a lower layer, which is then replaced.
mkdir -p third/usr/bin third/data
echo tool > third/usr/bin/tool; ln third/usr/bin/tool third/usr/bin/alias
pack -C third -cf third.tar usr/bin/tool usr/bin/alias
tar --delete -f third.tar usr/bin/tool
echo other > third/usr/bin/other; ln third/data/../usr/bin/other third/data/other
echo replaced > third/usr/bin/replaced
pack -C third -rf third.tar usr/bin/other data/other; add third.tar

mkdir -p fourth/usr/bin fourth/data/sub fourth/gone
echo 'another tool' > fourth/usr/bin/tool; echo back > fourth/gone/back; touch fourth/data/.wh.keep
touch fourth/data/sub/.wh..wh..opq; echo one > fourth/data/sub/one
pack -C fourth -cf fourth.tar usr/bin/tool gone data; add fourth.tar
umoci unpack --image layout:t control
"#;

/// Runs a script in a folder.
fn run(folder: &Folder, script: &str) {
    let mut command = Command::new("bash");
    let command = command.args(["-euo", "pipefail", "-c", script]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let said = tool::said(&output);
    assert!(
        output.status.success(),
        "{said}\nif a program is missing, run scripts/install-test-tools"
    );
}

/// The kernel sees the same tree in an image as in a folder.
fn assert_same(folder: &Folder, image: &str, control: &Path) {
    folder.check(image);
    let mount = Mount::new(&folder.path().join(image), None, "ext4", "ro").unwrap();
    let (found, wanted) = (tree(mount.path()), tree(control));
    let difference = testkit::tree::difference(&wanted, &found);
    assert_eq!(difference, None, "{image}");
    assert_eq!(marks(mount.path()), marks(control), "{image}");
}

#[test]
fn an_image_has_what_umoci_unpacks() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    run(&folder, IMAGE);
    run(
        &folder,
        "chmod -R a+rX layout; chmod 1777 .
         skopeo copy -q oci:layout:t oci-archive:oci.tar:t
         skopeo copy -q oci:layout:t docker-archive:docker.tar:example/t:t
         skopeo copy -q --dest-compress-format zstd --dest-compress oci:layout:t oci:zstd:t
         gzip -k docker.tar",
    );
    let control = folder.path().join("control/rootfs");
    let build = |image: &str, from: &str, input: Option<&str>| {
        let line = format!("build -q {image} {from}");
        let mut command = folder.command(&line);
        command.env("SOURCE_DATE_EPOCH", "2000000000");
        if let Some(input) = input {
            command.write_stdin(folder.read(input));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{from}: {}", tool::said(&output));
    };
    // As an ordinary user.
    let jext = assert_cmd::cargo::cargo_bin("jext");
    let made = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(jext)
        .args(["build", "-q", "layout.img", "layout"])
        .env("SOURCE_DATE_EPOCH", "2000000000")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", tool::said(&made));
    assert_same(&folder, "layout.img", &control);
    for (image, from, input) in [
        ("again.img", "layout:t", None),
        ("oci.img", "oci.tar", None),
        ("zstd.img", "zstd", None),
        ("docker.img", "docker.tar:example/t:t", None),
        ("packed.img", "docker.tar.gz", None),
        ("piped.img", "-", Some("docker.tar")),
    ] {
        build(image, from, input);
        assert!(
            folder.read(image) == folder.read("layout.img"),
            "{from}: other bytes, or another tree"
        );
    }
}

#[test]
fn an_image_is_chosen_and_verified() {
    let folder = Folder::new();
    run(
        &folder,
        "umoci init --layout layout
         for tag in one two; do
           umoci new --image layout:$tag
           mkdir $tag; echo $tag > $tag/file; tar -C $tag -cf $tag.tar file
           umoci raw add-layer --image layout:$tag $tag.tar
         done
         cp -r layout damaged; cp -r layout short
         skopeo copy -q oci:layout:one docker-archive:saved.tar:example/x:one
         blob() { python3 - \"$1\" <<'EOF'
import json, sys
at = lambda digest: f'layout/blobs/sha256/{digest.split(\":\")[1]}'
found = [one for one in json.load(open('layout/index.json'))['manifests']
         if one['annotations']['org.opencontainers.image.ref.name'] == sys.argv[1]]
print(json.load(open(at(found[0]['digest'])))['layers'][0]['digest'].split(':')[1])
EOF
         }
         layer=$(blob one)
         printf X | dd of=damaged/blobs/sha256/$layer bs=1 seek=30 conv=notrunc status=none
         truncate -s -3 short/blobs/sha256/$layer",
    );
    let error = folder.bad("build x.img layout");
    assert!(
        error.contains("holds 2 images; choose one by its name, as in PATH:NAME: one, two"),
        "{error}"
    );
    let error = folder.bad("build x.img layout:three");
    assert!(
        error.contains("no image named three; there are: one, two"),
        "{error}"
    );
    for tag in ["one", "two"] {
        folder.good(&format!("build -q {tag}.img layout:{tag}"));
        assert_eq!(
            folder.good(&format!("cat {tag}.img:/file")),
            format!("{tag}\n")
        );
    }
    let error = folder.bad("build x.img damaged:one");
    assert!(error.contains("damaged/blobs/sha256/"), "{error}");
    assert!(error.contains("its digest is sha256:"), "{error}");
    let error = folder.bad("build x.img short:one");
    assert!(error.contains("as its descriptor says"), "{error}");
    folder.good("build -q --platform linux/amd64 y.img saved.tar");
    let error = folder.bad("build --platform linux/s390x x.img saved.tar");
    assert!(
        error.contains("the image is for linux/amd64, not for linux/s390x"),
        "{error}"
    );
    // A tree that only looks like an image at first.
    run(
        &folder,
        "mkdir like; echo '[]' > like/manifest.json; echo x > like/x; tar -C like -cf like.tar manifest.json x",
    );
    folder.good("build -q like.img like.tar");
    assert_eq!(folder.good("cat like.img:/x"), "x\n");
}

/// Sources on top of each other, whose files replace each other in every way.
#[test]
fn sources_lie_on_top_of_each_other() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    run(
        &folder,
        "mkdir -p low/dir/inner low/both high/both high/file
         echo low > low/both/a; echo low > low/both/b; ln low/both/b low/both/c
         echo low > low/file; echo low > low/dir/inner/x; echo low > low/.wh.kept
         echo high > high/both/b; echo in > high/file/in; echo flat > high/dir
         touch high/.wh.file; chmod 750 high/both; ln -s both high/link
         tar -C high --sort=name -cf high.tar .
         cp -a low control; rm -r control/file control/dir control/both/b
         cp -a high/. control; cp -a --attributes-only high/both control
         # The same name several times, with a hard link to what is replaced.
         mkdir many; cd many; echo 1 > a; ln a b; tar -cf ../many.tar a b
         for i in 2 3 4; do rm a; echo $i$i > a; tar -rf ../many.tar a; done",
    );
    let build = |image: &str, from: &str| {
        let line = format!("build -q {image} {from}");
        let mut command = folder.command(&line);
        let output = command.env("SOURCE_DATE_EPOCH", "2000000000").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{from}: {}", tool::said(&output));
    };
    for from in [
        "low high",
        "low high.tar",
        "many.tar",
        "many.tar low many.tar",
    ] {
        build("first.img", from);
        // Another second, which must not be seen.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        build("second.img", from);
        assert!(
            folder.read("first.img") == folder.read("second.img"),
            "{from}"
        );
        if from.starts_with("low") {
            run(&folder, "mkdir -p mnt; mount -o loop,ro first.img mnt");
            let (found, wanted) = (
                tree(&folder.path().join("mnt")),
                tree(&folder.path().join("control")),
            );
            run(&folder, "umount mnt");
            let mut difference = testkit::tree::difference(&wanted, &found);
            if found.get(b"".as_slice()) == wanted.get(b"".as_slice()) {
                difference = difference.filter(|text| !text.starts_with(" has"));
            }
            assert_eq!(difference, None, "{from}");
        } else {
            let text = folder.good("cat first.img:/b");
            assert_eq!(text, "1\n", "{from}");
        }
        folder.check("first.img");
        run(&folder, "rm first.img second.img");
    }
}

/// Inodes are deleted on the way, at a time that e2fsck could take for the number of an orphan.
#[test]
fn the_first_second_is_a_time() {
    let folder = Folder::new();
    run(
        &folder,
        "echo 1 >a; ln a b; tar cf x.tar a b; rm a b; echo 2 >a; ln a b; tar rf x.tar a b; rm a b; echo 3 >b; tar rf x.tar b",
    );
    for seconds in ["0", "5", "5000"] {
        let output = folder
            .command("build -F -q -N 10000 out.img x.tar")
            .env("SOURCE_DATE_EPOCH", seconds)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", tool::said(&output));
        folder.check("out.img");
        folder.good("fsck out.img");
    }
}

/// A directory without an entry belongs to user 0, which may have no place in the map.
#[test]
fn a_directory_without_an_entry_is_in_no_range() {
    let folder = Folder::new();
    let owned = "--owner 100000 --group 100000";
    run(
        &folder,
        &format!("mkdir d; echo 1 >d/a; tar {owned} -cf x.tar d/a"),
    );
    for from in ["x.tar", "x.tar x.tar"] {
        folder.good(&format!(
            "build -q -F --owner-map 100000:0:65536 out.img {from}"
        ));
        folder.check("out.img");
        assert!(folder.good("stat out.img:/d/a").contains("uid 0, gid 0"));
        assert!(folder.good("stat out.img:/d").contains("uid 0, gid 0"));
    }
}

/// An image is merged on its own, and then put on the sources before it.
#[test]
fn whiteouts_leave_other_sources_alone() {
    let folder = Folder::new();
    run(
        &folder,
        "mkdir -p below/d below/e first/d second/d above
         echo below >below/a; echo below >below/b; echo below >below/d/x; echo below >below/e/x
         echo image >first/a; echo image >first/b; echo image >first/d/y; echo image >first/e
         touch second/.wh.a second/.wh.c second/.wh.e second/d/.wh..wh..opq; echo image >second/d/z
         echo above >above/b
         umoci init --layout layout; umoci new --image layout:t
         for one in first second; do tar -C $one -cf $one.tar .; umoci raw add-layer --image layout:t $one.tar; done",
    );
    folder.good("build -q out.img below layout:t above");
    folder.check("out.img");
    for (path, text) in [
        ("a", "below"),
        ("b", "above"),
        ("d/x", "below"),
        ("d/z", "image"),
        ("e/x", "below"),
    ] {
        assert_eq!(
            folder.good(&format!("cat out.img:/{path}")),
            format!("{text}\n")
        );
    }
    assert_eq!(folder.good("ls out.img:/d"), "x\nz\n");
    folder.good("build -q own.img layout:t");
    assert_eq!(folder.good("ls own.img:/d"), "z\n");
    // A layer that is compressed in a way that layers are not.
    run(
        &folder,
        r"for blob in layout/blobs/sha256/*; do
            if gzip -t $blob 2>/dev/null; then printf '\375\067zXZ\0' | dd of=$blob conv=notrunc status=none; fi
          done",
    );
    let error = folder.bad("build -F own.img layout:t");
    assert!(
        error.contains("the layer is compressed with xz, "),
        "{error}"
    );
    assert!(error.contains("skopeo copy"), "{error}");
}

#[test]
fn files_are_changed_on_their_way() {
    let folder = Folder::new();
    folder.write(
        "contexts",
        b"/.* system_u:object_r:default_t:s0\n/bin(/.*)? -- system_u:object_r:bin_t:s0\n\
          /none <<none>>\n/.*\\.log -- system_u:object_r:log_t:s0\n/bin/exact -- system_u:object_r:exact_t:s0\n",
    );
    folder.write(
        "dump",
        b"/ 0 40755 3 0 0 0 1.5 - - -\n/bin 0 40750 2 5 6 0 2.0 - - - user.a=b trusted.x=\\x00\n\
          /bin/link 4 @100755 2 5 6 0 3.25 /bin/exact - -\n/bin/exact 4 100755 2 5 6 0 3.25 - ab\\nc -\n\
          /none 3 100644 1 0 0 0 0.0 here/payload - -\n/x.log 0 120777 1 0 0 0 0.0 none - -\n\
          /null 0 20666 1 0 0 259 0.0 - - -\n/a.log 0 100600 1 5 5 0 0.0 - - -\n",
    );
    std::fs::create_dir_all(folder.path().join("base/here")).unwrap();
    folder.write("base/here/payload", b"abc");
    let line =
        "build -q --dumpfile dump --basedir base --file-contexts contexts --xattrs ^trusted.*";
    folder.good(&format!(
        "{line} --owner-map u:0:100000:10,g:0:200000:10 out.img"
    ));
    folder.check("out.img");
    let debugfs = |request: &str| {
        let image = folder.path().join("out.img");
        tool::run_well(
            "debugfs",
            &["-R".as_ref(), request.as_ref(), image.as_os_str()],
        )
    };
    for (path, label) in [
        ("/", "default_t"),
        ("/lost+found", "default_t"),
        ("/bin", "default_t"),
        ("/bin/exact", "exact_t"),
        ("/a.log", "log_t"),
        ("/x.log", "default_t"),
        ("/null", "default_t"),
    ] {
        let found = debugfs(&format!("ea_get {path} security.selinux"));
        let wanted = format!(
            "security.selinux ({}) = \"system_u:object_r:{label}:s0\\000\"",
            label.len() + 22
        );
        assert_eq!(found.trim(), wanted, "{path}");
        // libselinux is of the same mind.
        let kind = match path {
            "/" | "/bin" | "/lost+found" => "dir",
            "/x.log" => "lnk_file",
            "/null" => "chr_file",
            _ => "file",
        };
        let contexts = folder.path().join("contexts").display().to_string();
        let arguments = ["-f", &contexts, "-m", kind, path];
        let said = tool::run_well("matchpathcon", &arguments);
        assert!(said.contains(&format!(":{label}:")), "{path}: {said}");
    }
    assert!(!debugfs("ea_list /none").contains("selinux"));
    let list = debugfs("ea_list /bin");
    assert!(
        list.contains("user.a") && !list.contains("trusted"),
        "{list}"
    );
    let stat = debugfs("stat /bin/link");
    for wanted in [
        "User: 100005   Group: 200006",
        "Links: 2",
        "Mode:  0755",
        "Size: 4",
    ] {
        assert!(stat.contains(wanted), "{wanted}: {stat}");
    }
    assert!(debugfs("stat /null").contains("Device major/minor number: 01:03"));
    assert_eq!(folder.good("cat out.img:/none"), "abc");
    assert_eq!(folder.good("cat out.img:/bin/link"), "ab\nc");
    let error = folder.bad(&format!("{line} --owner-map u:0:100000:5 no.img"));
    assert_eq!(
        error,
        "no.img: /bin: user 5 is in no range of the owner map"
    );
    folder.good(&format!("{line} --owner 7:8 own.img"));
    assert!(
        folder
            .good("ls -l own.img:/bin")
            .lines()
            .all(|line| line.contains(" 7 8 "))
    );
    std::fs::set_permissions(folder.path().join("base"), PermissionsExt::from_mode(0o755)).unwrap();
    let error = folder.bad("build --dumpfile dump no.img");
    assert!(error.contains("dump: line 5: "), "{error}");
    assert!(error.contains("--basedir"), "{error}");
    assert!(!folder.path().join("no.img").exists());
}

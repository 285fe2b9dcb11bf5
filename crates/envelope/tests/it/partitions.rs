//! Partition tables are sound for `sgdisk` and `sfdisk`.

use std::fs::{self, File};

use envelope::Wrapping;
use testkit::tool;

const IMAGE: [u8; 16] = *b"sixteen bytes id";

#[test]
fn tables_are_sound_and_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let text = path.display().to_string();
    let wrapping = Wrapping {
        is_partitioned: true,
        ..Wrapping::default()
    };
    // The last image has more sectors than the protective MBR can hold.
    for image_bytes in [1024, 10 << 20, (10 << 20) + 1024, 3 << 40] {
        let mut made = Vec::new();
        for _ in 0..2 {
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true);
            let file = options.open(&path).unwrap();
            let wrapped = wrapping
                .finish(&file, None, image_bytes, IMAGE, &|| false)
                .unwrap();
            let partition = wrapped.partition.unwrap();
            assert_eq!(wrapped.verity, None);
            assert_eq!(
                file.metadata().unwrap().len(),
                wrapping.file_bytes(image_bytes).unwrap()
            );
            let said = tool::run_well("sgdisk", &["-v", &text]);
            assert!(said.contains("No problems found"), "{said}");
            tool::run_well("sfdisk", &["--verify", &text]);
            let said = tool::run_well("sfdisk", &["--dump", &text]);
            let sectors = image_bytes.next_multiple_of(4096) / 512;
            for line in [
                "label: gpt".to_owned(),
                format!(
                    "label-id: {}",
                    partition.disk_uuid.to_string().to_uppercase()
                ),
                format!(
                    "start=        2048, size={sectors:12}, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4"
                ),
                format!("uuid={}", partition.uuid.to_string().to_uppercase()),
            ] {
                assert!(said.contains(&line), "{line}\n{said}");
            }
            if image_bytes < 1 << 30 {
                made.push(fs::read(&path).unwrap());
            }
            fs::remove_file(&path).unwrap();
        }
        assert!(made.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn a_disk_of_another_size_is_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(10 << 20).unwrap();
    let identity = envelope::partition::Identity {
        disk: uuid::Uuid::nil(),
        partition: uuid::Uuid::nil(),
    };
    let refused = envelope::partition::write(&file, 9 << 20, identity).unwrap_err();
    assert!(refused.to_string().starts_with("the disk has another size"));
}

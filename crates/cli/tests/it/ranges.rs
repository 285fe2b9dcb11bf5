//! fallocate and defrag.

use crate::support::Folder;

const BLOCK: usize = 4096;

#[test]
fn ranges_are_allocated_freed_removed_and_inserted() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..10 * BLOCK).map(|at| (at / BLOCK) as u8 + 1).collect();
    folder.write("file", &bytes);
    folder.good("mkfs -q -t ext4 -b 4096 disk.img 24M");
    folder.good("cp file disk.img:/file");
    let contents = || {
        folder.good("cp disk.img:/file found");
        folder.read("found")
    };
    let blocks = || -> Vec<u8> { contents().chunks(BLOCK).map(|block| block[0]).collect() };
    folder.good("fallocate -c --offset 4K -l 8KiB disk.img:/file");
    assert_eq!(blocks(), [1, 4, 5, 6, 7, 8, 9, 10]);
    folder.good("fallocate -i --offset 8192 -l 4096 disk.img:/file");
    assert_eq!(blocks(), [1, 4, 0, 5, 6, 7, 8, 9, 10]);
    folder.good("fallocate -p --offset 4K -l 4K disk.img:/file");
    assert_eq!(blocks(), [1, 0, 0, 5, 6, 7, 8, 9, 10]);
    folder.good("fallocate -z --offset 16K -l 8K disk.img:/file");
    assert_eq!(blocks(), [1, 0, 0, 5, 0, 0, 8, 9, 10]);
    folder.good("fallocate -n -l 1M disk.img:/file");
    assert_eq!(contents().len(), 9 * BLOCK);
    folder.good("fallocate -l 64K disk.img:/file");
    assert_eq!(contents().len(), 16 * BLOCK);
    folder.check("disk.img");
    for (line, said) in [
        ("fallocate -c -l 4095 disk.img:/file", "whole blocks"),
        ("fallocate -c -l 64K disk.img:/file", "before the end"),
        (
            "fallocate -i --offset 64K -l 4K disk.img:/file",
            "before the end",
        ),
        ("fallocate -n -i -l 4K disk.img:/file", "--keep-size"),
        ("fallocate -l 4K disk.img:/", "directory"),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(said), "{line}: {error}");
    }
    folder.good("mkfs -q -F -t ext3 disk.img 24M");
    folder.good("cp file disk.img:/file");
    let error = folder.bad("fallocate -c -l 4096 disk.img:/file");
    assert!(error.contains("extents"), "{error}");
    folder.check("disk.img");
}

#[test]
fn a_file_in_pieces_is_defragmented() {
    let folder = Folder::new();
    folder.write("file", &[7; 40 * BLOCK]);
    folder.good("mkfs -q -t ext4 -b 4096 disk.img 24M");
    folder.good("cp file disk.img:/file");
    // Every other block becomes a hole, and gets another block.
    for number in (0..40).step_by(2) {
        let offset = number * BLOCK;
        folder.good(&format!(
            "fallocate -p --offset {offset} -l 4K disk.img:/file"
        ));
    }
    folder.good("cp file disk.img:/between");
    folder.good("fallocate -l 160K disk.img:/file");
    let said = folder.good("defrag disk.img:/file");
    assert!(said.starts_with("disk.img:/file: "), "{said}");
    let facts = folder.json("defrag --json disk.img:/file");
    let count = |name: &str| facts[name].as_u64().unwrap();
    assert_eq!(count("extents_before"), count("extents_after"));
    folder.check("disk.img");
    let kept: Vec<u8> = (0..40 * BLOCK)
        .map(|at| (at / BLOCK % 2 * 7) as u8)
        .collect();
    folder.good("cp disk.img:/file found");
    assert!(folder.read("found") == kept);
}

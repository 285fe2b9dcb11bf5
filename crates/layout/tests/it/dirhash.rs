//! Directory hashes, against debugfs and against recorded vectors.
//!
//! The vectors were recorded from `debugfs -R "dx_hash -h VERSION [-s SEED] NAME"` of e2fsprogs
//! 1.47.0; versions 0 to 5 are [`HashVersion`]'s numbers.

use layout::hash::{DirHash, HashVersion, dx_hash};

use crate::image::run;

/// Lines of: seed or -, name in hexadecimal, then major and minor of each version.
const VECTORS: &str = include_str!("dirhash_vectors.txt");

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Parses a seed, written as a UUID; `-` means no seed.
fn seed(text: &str) -> [u32; 4] {
    if text == "-" {
        return [0; 4];
    }
    let bytes = from_hex(&text.replace('-', ""));
    core::array::from_fn(|i| u32::from_le_bytes(bytes[i * 4..][..4].try_into().unwrap()))
}

#[test]
fn recorded_vectors() {
    let mut lengths = Vec::new();
    for line in VECTORS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (seed, name) = (seed(words[0]), from_hex(words[1]));
        assert_eq!(words.len(), 2 + 6);
        for (raw, pair) in words[2..].iter().enumerate() {
            let (major, minor) = pair.split_once('/').unwrap();
            let number = |text| u32::from_str_radix(text, 16).unwrap();
            let expect = DirHash {
                major: number(major),
                minor: number(minor),
            };
            let version = HashVersion::from_raw(raw as u8).unwrap();
            assert_eq!(dx_hash(version, seed, &name), expect, "{version:?}: {line}");
        }
        lengths.push(name.len());
    }
    assert!(lengths.len() >= 80, "the vectors are there");
    assert!(lengths.contains(&1) && lengths.contains(&255));
}

#[test]
fn many_names_by_debugfs() {
    // A fixed sequence of names without the characters that are special to debugfs.
    let mut word = 0x2545_F491u32;
    let mut next = |below: u32| {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        word % below
    };
    let text_of_seed = "0fc48be0-17dc-4791-b120-39964e159a31";
    let mut commands = Vec::new();
    let mut cases = Vec::new();
    for length in 1..=255 {
        let name: Vec<u8> = (0..length)
            .map(|_| {
                if next(3) == 0 {
                    0x80 + next(128) as u8
                } else {
                    b'a' + next(26) as u8
                }
            })
            .collect();
        let version = HashVersion::from_raw(next(6) as u8).unwrap();
        commands.extend(format!("dx_hash -h {} -s {text_of_seed} ", version as u8).bytes());
        commands.extend(&name);
        commands.push(b'\n');
        cases.push((version, name));
    }
    let printed = run("debugfs", &["-f", "-"], &commands, &[0]);
    let hashes: Vec<DirHash> = printed
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"Hash of "))
        .map(|line| parse(&String::from_utf8_lossy(line)))
        .collect();
    assert_eq!(hashes.len(), cases.len());
    for ((version, name), expect) in cases.iter().zip(hashes) {
        assert_eq!(
            dx_hash(*version, seed(text_of_seed), name),
            expect,
            "{version:?} {name:x?}"
        );
    }
}

/// Parses `Hash of NAME is 0xMAJOR (minor 0xMINOR)`.
fn parse(line: &str) -> DirHash {
    let (_, rest) = line.rsplit_once(" is 0x").unwrap();
    let (major, minor) = rest.split_once(" (minor 0x").unwrap();
    let number = |text| u32::from_str_radix(text, 16).unwrap();
    DirHash {
        major: number(major),
        minor: number(minor.trim_end_matches(')')),
    }
}

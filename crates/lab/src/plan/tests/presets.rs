//! Presets: a name for several settings.

use super::*;

const WRITTEN: &str = "fs.ordered = \"allocated\"\nfs.log_policy = \"linux24\"\nfs.log.data = \"beside\"\n\
                       fs.log.extent = \"oldest\"\nfs.log.rewrite = \"share\"\nfs.log.tick = \"age\"\n";

#[test]
fn a_preset_is_its_settings() {
    let written = good(&format!("{WRITTEN}fs.log.credits = \"exact\"\n"));
    let named = good("preset = \"kernel-6.1\"\n");
    assert_eq!(named.hash(), written.hash());
    let in_block = "[[block]]\nname = \"b\"\n[block.fixed]\n";
    let written = good(&format!("{in_block}{WRITTEN}fs.log.credits = \"exact\"\n"));
    let named = good(&format!("{in_block}preset = \"kernel-6.1\"\n"));
    assert_eq!(named.hash(), written.hash());
    assert_ne!(named.hash(), good(in_block).hash());
}

#[test]
fn a_setting_beside_a_preset_replaces_its_own() {
    let written = good(&format!("{WRITTEN}fs.log.credits = \"ext3\"\n"));
    for text in [
        "preset = \"kernel-6.1\"\nfs.log.credits = \"ext3\"\n",
        "fs.log.credits = \"ext3\"\npreset = \"kernel-6.1\"\n",
    ] {
        assert_eq!(good(text).hash(), written.hash(), "{text}");
    }
}

#[test]
fn an_unknown_preset_is_an_error() {
    let error = parse("preset = \"kernel-5\"\n").expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "test.toml:9: preset: expected \"kernel-6.1\", found \"kernel-5\""
    );
}

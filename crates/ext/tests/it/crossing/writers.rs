//! Programs that leave a log dirty: the engine, the kernel, debugfs.

use std::fmt::Write as _;
use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::Volume;
use ext::options::DataMode;
use jbd2::format::Checksums;
use layout::journal::MAGIC_BYTES;
use testkit::{Shutdown, tool};

use super::content::{Content, Hands};
use super::log_format::LogFormat;
use crate::image::Image;
use crate::rig::{device, quiet};

/// Returns an image with an empty log of this format, and with metadata checksums if they are
/// wanted.
pub fn blank(format: LogFormat, is_external: bool, has_metadata_checksums: bool) -> Image {
    let block_bytes = format.block_bytes;
    // The shortest log has 1024 blocks, and mke2fs needs as many again for the files, and more.
    let blocks = if block_bytes == 1024 { 4096 } else { 3072 };
    let (kind, features) = if has_metadata_checksums {
        (
            "ext4",
            "^resize_inode,^extent,^64bit,^flex_bg,metadata_csum",
        )
    } else {
        ("ext3", "^resize_inode")
    };
    let mut arguments = vec!["-O", features];
    let size = format!("size={}", block_bytes / 1024);
    if !is_external {
        arguments.extend(["-J", &size]);
    }
    let volume_bytes = blocks * u64::from(block_bytes);
    let image = Image::with_arguments(kind, block_bytes, volume_bytes, is_external, &arguments);
    format.set(&image);
    image
}

/// Lets the engine work, and saves the contents of its devices after everything is durable, without
/// a close. It runs in a simulated world, because the progress of the checkpoint at that point
/// depends on time.
pub fn by_engine(image: &Image, data: DataMode, work: impl FnOnce(&Volume) + 'static) {
    let load = |path| Arc::new(MemoryDevice::load_from_file(path).expect("the image loads"));
    let home = load(&image.path);
    let log = image.journal_path.as_ref().map(load);
    let devices = (Arc::clone(&home), log.clone());
    let life = move || {
        let (home, log) = devices;
        let volume = Volume::open(device(&home), log.as_ref().map(device), quiet(data))
            .expect("the volume opens");
        work(&volume);
        let cut = (home.snapshot(), log.map(|log| log.snapshot()));
        volume.close().expect("close");
        cut
    };
    let (home, log) = sim::run(sim::Config::fair(1), life)
        .unwrap_or_else(|error| panic!("{error}"))
        .value;
    home.write_to_file(&image.path)
        .expect("the image is written");
    if let (Some(log), Some(path)) = (log, &image.journal_path) {
        log.write_to_file(path).expect("the journal is written");
    }
}

/// Returns the options with which the kernel mounts an image so that its log gets this format and
/// content. Flushes are omitted: the test is about contents, and the machine does not crash.
fn kernel_options(format: LogFormat, content: Content) -> String {
    let mode = match content.data_mode() {
        _ if format.version == 1 => "journal",
        DataMode::Ordered => "ordered",
        DataMode::Writeback => "writeback",
        DataMode::Journal => "journal",
    };
    let checksums = match format.checksums {
        Checksums::None => "",
        _ => ",journal_checksum",
    };
    format!("data={mode},commit=1000,barrier=0{checksums}")
}

/// Lets the kernel work, and stops it after a further change that is not durable yet.
pub fn by_kernel(image: &Image, format: LogFormat, content: Content, how: Shutdown) {
    let options = kernel_options(format, content);
    let kind = match format.checksums {
        Checksums::None => image.kind,
        _ => "ext4",
    };
    let mount = image
        .mount_as(kind, &options)
        .unwrap_or_else(|why| panic!("{options}: {why}"));
    content.make(&mount, image.block_bytes);
    for number in 0..5 {
        mount.write(&format!("/later{number}"), &[number; 900]);
    }
    mount.shut_down(how);
}

/// Lets debugfs write into the log of an image, which its journal writer fills from the start and
/// never wraps. Returns its output.
pub fn by_debugfs(image: &Image, format: LogFormat, content: Content) -> String {
    let source = image.path.with_extension("source");
    let block_bytes = image.block_bytes as usize;
    let mut bytes = vec![0; 150 * block_bytes];
    for (number, block) in bytes.chunks_mut(block_bytes).enumerate() {
        block.fill(number as u8);
        if content == Content::Escapes && number % 3 == 0 {
            block[..4].copy_from_slice(&MAGIC_BYTES);
        }
    }
    std::fs::write(&source, bytes).expect("the source is written");
    let source = source.to_str().expect("UTF-8");
    let mut commands = String::from("jo");
    match format.checksums {
        Checksums::None => {}
        Checksums::V1 => commands.push_str(" -c"),
        Checksums::V2 => commands.push_str(" -c -v 2"),
        Checksums::V3 => commands.push_str(" -c -v 3"),
    }
    if let Some(journal) = &image.journal_path {
        write!(commands, " -f {}", journal.display()).expect("a string grows");
    }
    let counts: &[u64] = match content {
        Content::Wrapped => &[150; 8],
        _ => &[3, 1, 100, 17, 40],
    };
    for (number, count) in counts.iter().enumerate() {
        let first = 2500 + 20 * number as u64;
        let blocks: Vec<String> = (0..*count).map(|at| (first + at).to_string()).collect();
        write!(commands, "\njw -b {} {source}", blocks.join(",")).expect("a string grows");
        if content == Content::Revokes && number % 2 == 0 {
            write!(commands, "\njw -r {first},{}", first + 2).expect("a string grows");
        }
    }
    commands.push_str("\njc");
    debugfs(image, &commands)
}

/// Runs debugfs commands line by line. Returns the output.
pub fn debugfs(image: &Image, commands: &str) -> String {
    let script = image.path.with_extension("commands");
    std::fs::write(&script, format!("{commands}\n")).expect("the script is written");
    let (script, path) = (script.as_os_str(), image.path.as_os_str());
    let output = tool::run("debugfs", &["-w".as_ref(), "-f".as_ref(), script, path]);
    tool::said(&output)
}

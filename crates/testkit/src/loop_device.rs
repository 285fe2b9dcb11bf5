//! Loop devices: a file that the kernel presents as a disk.
//!
//! Other processes open loop devices too (every `losetup --find` opens those it finds). While one
//! is open elsewhere, an attach fails and a detach is only deferred. This module waits for both, so
//! that concurrent tests do not disturb each other and an image is free once its [`Loop`] is
//! dropped.

use std::path::{Path, PathBuf};

use crate::{tool, wait};

/// Messages of `losetup` while another process is faster or holds the device open.
const PASSING: &[&str] = &[
    "busy",
    "temporarily unavailable",
    "cannot find an unused loop device",
    "No such device",
    "No such file or directory",
];

/// An attached loop device; it is detached on drop.
#[derive(Debug)]
pub struct Loop {
    device: String,
    image: PathBuf,
}

impl Loop {
    /// Attaches an image.
    ///
    /// # Panics
    /// Panics if the image cannot be attached.
    pub fn attach(image: &Path) -> Self {
        let image = image.canonicalize().expect("the image is there");
        let arguments = ["--find".as_ref(), "--show".as_ref(), image.as_os_str()];
        let attached = wait::until(|| {
            let output = tool::run("losetup", &arguments);
            let said = tool::said(&output);
            if output.status.success() {
                return Ok(Ok(said.trim().to_owned()));
            }
            let is_passing = PASSING.iter().any(|text| said.contains(text));
            if is_passing { Err(said) } else { Ok(Err(said)) }
        });
        let device = attached
            .and_then(|answer| answer)
            .unwrap_or_else(|said| panic!("no loop device for {}: {said}", image.display()));
        Self { device, image }
    }

    /// Returns the device's path.
    pub fn path(&self) -> &str {
        &self.device
    }

    /// Returns the device's name, as in kernel messages.
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// True if the kernel still has the image attached to this device.
    fn is_attached(&self) -> bool {
        let place = format!("/sys/block/{}/loop/backing_file", self.name());
        std::fs::read_to_string(place)
            .is_ok_and(|backing| Path::new(backing.trim_end_matches('\n')) == self.image)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = tool::run("losetup", &["--detach", &self.device]);
        let gone = wait::until(|| if self.is_attached() { Err(()) } else { Ok(()) });
        if gone.is_err() && !std::thread::panicking() {
            panic!(
                "{} is not detached from {}: somebody keeps it open ({})",
                self.device,
                self.image.display(),
                tool::said(&detached).trim()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_attach_and_detach() {
        if !crate::privilege::is_granted() {
            return;
        }
        let workers: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let folder = tempfile::tempdir().expect("a temporary folder");
                    let image = folder.path().join("image");
                    std::fs::write(&image, vec![0; 1 << 16]).expect("the folder is writable");
                    for _ in 0..5 {
                        let attached = Loop::attach(&image);
                        // Another thread holds the device open while it is detached.
                        let looks = std::fs::File::open(attached.path()).expect("root may look");
                        let looker = std::thread::spawn(move || {
                            std::thread::sleep(std::time::Duration::from_millis(30));
                            drop(looks);
                        });
                        let again = Loop {
                            device: attached.device.clone(),
                            image: attached.image.clone(),
                        };
                        drop(attached);
                        assert!(!again.is_attached());
                        std::mem::forget(again);
                        looker.join().expect("it only looks");
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("nobody disturbs anybody");
        }
    }
}

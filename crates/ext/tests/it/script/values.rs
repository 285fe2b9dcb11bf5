//! Changes of extended attributes, of files and directories, and their comparison.

use std::os::unix::ffi::OsStrExt;

use ext::volume::SetMode;
use rustix::fs::{lgetxattr, llistxattr};
use testkit::{Mount, privilege};

use super::*;
use crate::image::Image;
use crate::model::Attributes;

const NAMES: &[&[u8]] = &[
    b"user.a",
    b"user.b",
    b"user.with-a-longer-name",
    b"trusted.t",
];
const SIZES: &[usize] = &[
    1, 20, 60, 200, 900, 1000, 3000, 4000, 5000, 20_000, 40_000, 65_536,
];

impl Script<'_> {
    /// Sets, replaces or removes an attribute.
    pub(super) fn change_value(&mut self) {
        let mut nodes = self.model.of_kind(FileKind::Regular);
        nodes.extend(self.model.of_kind(FileKind::Directory));
        let nr = *self.random.pick(&nodes);
        let name = *self.random.pick(NAMES);
        let known = self.model.get(nr).attributes.contains_key(name);
        if known && self.random.below(3) == 0 {
            let removed = self.volume.remove_attribute(nr, name);
            removed.expect("it is removed");
            self.model.get_mut(nr).attributes.remove(name);
            return;
        }
        let size = *self.random.pick(SIZES);
        let value = vec![self.random.below(256) as u8; size];
        match self.volume.set_attribute(nr, name, &value, SetMode::Any) {
            Ok(()) => {
                let attributes = &mut self.model.get_mut(nr).attributes;
                attributes.insert(name.to_vec(), value);
            }
            Err(Error::NoSpace | Error::NoInodes) => {}
            Err(error) => panic!("a value of {size} bytes: {error}"),
        }
    }
}

/// Asserts that the volume has the attributes of the model.
pub fn assert_on_volume(volume: &Volume, model: &Model) {
    let mut found = Attributes::new();
    for path in model.tree().into_keys() {
        let nr = volume.resolve(&path, false).expect("it is there");
        let names = volume.list_attributes(nr).expect("its names");
        let values = names.into_iter().map(|name| {
            let value = volume.get_attribute(nr, &name).expect("it was listed");
            (name, value)
        });
        found.insert(path, values.collect());
    }
    found.retain(|_, values| !values.is_empty());
    assert!(
        found == model.attributes(),
        "the volume has other attributes"
    );
}

/// Asserts that the kernel reads the attributes of the model.
pub fn assert_by_kernel(image: &Image, model: &Model) {
    if !privilege::is_granted() {
        return;
    }
    let mount = image.mount("ro,noatime").expect("the kernel mounts");
    let mut found = Attributes::new();
    for path in model.tree().into_keys() {
        found.insert(path.clone(), attributes_of(&mount, &path));
    }
    found.retain(|_, values| !values.is_empty());
    assert!(
        found == model.attributes(),
        "the kernel reads other attributes"
    );
}

fn attributes_of(mount: &Mount, path: &[u8]) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let at = mount.path().join(std::ffi::OsStr::from_bytes(relative));
    let mut names = vec![0; 1 << 16];
    let count = llistxattr(&at, &mut names).expect("its names");
    let names = names[..count].split(|byte| *byte == 0);
    let values = names.filter(|name| !name.is_empty()).map(|name| {
        let mut value = vec![0; 1 << 17];
        let count = lgetxattr(&at, name, &mut value).expect("it was listed");
        value.truncate(count);
        (name.to_vec(), value)
    });
    values.collect()
}

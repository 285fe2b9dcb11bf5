//! Types that represent a path on a volume.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A path on a volume, as text, bytes or a path of the standard library.
///
/// A name may contain any bytes but `/` and zero. Names that are not UTF-8 are written as bytes, or
/// as an [`OsStr`] or [`Path`].
pub trait AsPath {
    /// Returns the bytes of the path.
    fn path_bytes(&self) -> &[u8];
}

impl AsPath for [u8] {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

impl AsPath for OsStr {
    fn path_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

impl<T: AsPath + ?Sized> AsPath for &T {
    fn path_bytes(&self) -> &[u8] {
        (**self).path_bytes()
    }
}

impl<T: AsPath + ToOwned + ?Sized> AsPath for Cow<'_, T> {
    fn path_bytes(&self) -> &[u8] {
        (**self).path_bytes()
    }
}

impl<const N: usize> AsPath for [u8; N] {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

/// Implements the trait through a type that implements it.
macro_rules! through {
    ($($type:ty => $inner:ty),*) => {
        $(impl AsPath for $type {
            fn path_bytes(&self) -> &[u8] {
                let inner: &$inner = self.as_ref();
                inner.path_bytes()
            }
        })*
    };
}

through!(str => [u8], String => [u8], Vec<u8> => [u8], OsString => OsStr, Path => OsStr, PathBuf => OsStr);

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn bytes(path: impl AsPath) -> Vec<u8> {
        path.path_bytes().to_vec()
    }

    #[test]
    fn paths_are_their_bytes_whatever_holds_them() {
        let path = Path::new("/a").join("b");
        assert_eq!(bytes("/a/b"), b"/a/b");
        assert_eq!(bytes("/a/b".to_owned()), b"/a/b");
        assert_eq!(bytes(b"/a/b"), b"/a/b");
        assert_eq!(bytes(&b"/a/b"[..]), b"/a/b");
        assert_eq!(bytes(b"/a/b".to_vec()), b"/a/b");
        assert_eq!(bytes(path.as_path()), b"/a/b");
        assert_eq!(bytes(path.as_os_str().to_owned()), b"/a/b");
        assert_eq!(bytes(path.to_string_lossy()), b"/a/b");
        assert_eq!(bytes(path), b"/a/b");
        assert_eq!(bytes(OsStr::from_bytes(b"/\xFF")), b"/\xFF");
    }
}

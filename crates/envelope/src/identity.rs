//! UUIDs and a salt, derived from the UUID of an image.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// Returns the SHA-256 of a purpose and the UUID of an image.
pub(crate) fn digest(image: [u8; 16], purpose: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(purpose.as_bytes());
    hasher.update(image);
    hasher.finalize().into()
}

/// Returns a UUID (version 8) for a purpose.
pub(crate) fn uuid(image: [u8; 16], purpose: &str) -> Uuid {
    let digest = digest(image, purpose);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

//! Encrypted files and directories (`encrypt`), as they are seen without their key.
//!
//! An inode with the flag has its context, the policy and a random number, in an attribute. Names
//! in an encrypted directory and targets of encrypted symbolic links are ciphertext: bytes of any
//! value. Without the key a name is shown in a form of its own, base64url of:
//!
//! ```text
//! | hash | minor hash | the first 149 bytes | SHA-256 of the others, if there are any |
//! ```
//!
//! The form is that of Linux on little-endian machines, so a name found there is found here.
//!
//! Source: Linux `Documentation/filesystems/fscrypt.rst`.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::sha256::{self, DIGEST_BYTES};

/// The part after the prefix of the attribute's name; its number is
/// [`ENCRYPTION`](crate::attribute::index::ENCRYPTION).
pub const ATTRIBUTE_SUFFIX: &[u8] = b"c";
/// Length of the shortest encrypted name in bytes.
pub const NAME_BYTES_MIN: usize = 16;

/// Number of bytes of the two hashes.
const HASH_BYTES: usize = 8;
/// Number of bytes of a name that are shown as they are.
const SHOWN_BYTES: usize = 149;
/// Number of bytes of the form of a name that is longer.
const LONG_BYTES: usize = HASH_BYTES + SHOWN_BYTES + DIGEST_BYTES;
/// The 64 digits.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `fscrypt_context_v1`: the attribute of an inode with a policy of version 1.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct ContextV1 {
    /// `version`: 1.
    pub version: u8,
    /// `contents_encryption_mode`: algorithm for contents.
    pub contents_mode: u8,
    /// `filenames_encryption_mode`: algorithm for names.
    pub names_mode: u8,
    /// `flags`: padding of names in bits 0 and 1, and other flags.
    pub flags: u8,
    /// `master_key_descriptor`: name of the key.
    pub key: [u8; 8],
    /// `nonce`: random number of the inode.
    pub nonce: [u8; 16],
}

const _: () = assert!(size_of::<ContextV1>() == 28);

/// `fscrypt_context_v2`: the attribute of an inode with a policy of version 2.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct ContextV2 {
    /// `version`: 2.
    pub version: u8,
    /// `contents_encryption_mode`: algorithm for contents.
    pub contents_mode: u8,
    /// `filenames_encryption_mode`: algorithm for names.
    pub names_mode: u8,
    /// `flags`: padding of names in bits 0 and 1, and other flags.
    pub flags: u8,
    /// `log2_data_unit_size`: logarithm of the unit of contents, or 0.
    pub unit_log2: u8,
    /// `__reserved`: padding.
    pub reserved: [u8; 3],
    /// `master_key_identifier`: name of the key.
    pub key: [u8; 16],
    /// `nonce`: random number of the inode.
    pub nonce: [u8; 16],
}

const _: () = assert!(size_of::<ContextV2>() == 40);

/// Returns the policy of a context: all but its random number. None if the context is invalid.
pub fn policy(context: &[u8]) -> Option<&[u8]> {
    let expected = match context.first()? {
        1 => size_of::<ContextV1>(),
        2 => size_of::<ContextV2>(),
        _ => return None,
    };
    let nonce = size_of::<[u8; 16]>();
    (context.len() == expected).then(|| &context[..expected - nonce])
}

/// Returns the encrypted target in the contents of a symbolic link: a length, then the bytes. None
/// if it does not fit, or is empty.
pub fn symlink_target(contents: &[u8]) -> Option<&[u8]> {
    let (length, rest) = U16::ref_from_prefix(contents).ok()?;
    let target = rest.get(..usize::from(length.get()))?;
    (!target.is_empty()).then_some(target)
}

/// Returns the length of the form of a symbolic link's target, by the size of the link.
pub fn symlink_length(size: u64) -> u64 {
    let bytes = size.saturating_sub(size_of::<U16>() as u64);
    let shown = SHOWN_BYTES as u64;
    let form = match bytes > shown {
        true => LONG_BYTES as u64,
        false => HASH_BYTES as u64 + bytes,
    };
    (form * 4).div_ceil(3)
}

/// Returns the form of an encrypted name.
pub fn no_key_name(hash: u32, minor: u32, name: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(LONG_BYTES);
    form.extend(hash.to_le_bytes());
    form.extend(minor.to_le_bytes());
    match name.split_at_checked(SHOWN_BYTES) {
        Some((shown, rest)) if !rest.is_empty() => {
            form.extend(shown);
            form.extend(sha256::digest(rest));
        }
        _ => form.extend(name),
    }
    encode(&form)
}

/// A name that was shown without a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoKeyName {
    shown: Vec<u8>,
    rest: Option<[u8; DIGEST_BYTES]>,
}

impl NoKeyName {
    /// Decodes the form; none for other names, which no file of an encrypted directory has.
    pub fn decode(form: &[u8]) -> Option<Self> {
        let mut shown = decode(form)?;
        let rest = match shown.len() {
            LONG_BYTES => {
                let digest = shown.split_off(HASH_BYTES + SHOWN_BYTES);
                Some(digest.try_into().ok()?)
            }
            length if length > HASH_BYTES && length <= HASH_BYTES + SHOWN_BYTES => None,
            _ => return None,
        };
        shown.drain(..HASH_BYTES);
        Some(Self { shown, rest })
    }

    /// Returns the encrypted name, if all of it is shown.
    pub fn whole(&self) -> Option<&[u8]> {
        match self.rest {
            None => Some(&self.shown),
            Some(_) => None,
        }
    }

    /// Returns true if this is the form of an encrypted name.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self.rest {
            None => self.shown == name,
            Some(digest) => name
                .strip_prefix(self.shown.as_slice())
                .is_some_and(|rest| !rest.is_empty() && sha256::digest(rest) == digest),
        }
    }
}

/// Returns base64url without padding.
fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity((bytes.len() * 4).div_ceil(3));
    for chunk in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(bits);
        for digit in 0..=chunk.len() as u32 {
            text.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
        }
    }
    text
}

/// Decodes base64url without padding; none if a digit is invalid or a bit beyond the bytes is set.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text {
        let value = DIGITS.iter().position(|known| known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0 && count < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text.as_bytes());
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encode(&[0xFB, 0xFF]), b"-_8");
        for text in ["Z", "Zh", "Zm9=", "Zm/v", "Zm9vYgA!"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn names_of_every_length_have_forms_of_their_own() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut forms = std::collections::BTreeSet::new();
        for length in 1..=255 {
            let name = &bytes[..length];
            let form = no_key_name(7, 9, name);
            assert!(form.len() <= 252, "{length}");
            assert_eq!(symlink_length(length as u64 + 2), form.len() as u64);
            let decoded = NoKeyName::decode(&form).expect("a form");
            assert_eq!(decoded.whole().is_some(), length <= SHOWN_BYTES);
            assert!(decoded.matches(name));
            assert!(!decoded.matches(&bytes[1..]));
            assert!(!decoded.matches(&bytes[..length - 1]), "{length}");
            assert!(forms.insert(form));
        }
        for form in ["", "a", "AAAAAAAAAAA", "letter.txt"] {
            assert_eq!(NoKeyName::decode(form.as_bytes()), None, "{form}");
        }
    }

    #[test]
    fn a_policy_is_a_context_without_its_number() {
        let mut context = [3; 40];
        context[0] = 2;
        assert_eq!(policy(&context), Some(&context[..24]));
        assert_eq!(policy(&context[..39]), None);
        context[0] = 1;
        assert_eq!(policy(&context[..28]), Some(&context[..12]));
        assert_eq!(policy(&context), None);
        context[0] = 3;
        assert_eq!(policy(&context), None);
        assert_eq!(policy(&[]), None);
    }

    #[test]
    fn targets_of_links_lie_behind_their_length() {
        assert_eq!(symlink_target(b"\x02\x00ab"), Some(b"ab".as_slice()));
        assert_eq!(symlink_target(b"\x02\x00abc"), Some(b"ab".as_slice()));
        for wrong in [b"\x00\x00ab".as_slice(), b"\x03\x00ab", b"\x01", b""] {
            assert_eq!(symlink_target(wrong), None);
        }
    }
}

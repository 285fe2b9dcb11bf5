//! Access control lists as text, the form in archives:
//! `user::rwx,user:1000:r-x,group::r-x,mask::r-x,other::---`.
//!
//! An entry names its user or group by number, or by a name of the host's database. An optional
//! fourth field holds the number too, and takes precedence.

use anyhow::{Context, Result, bail};
use layout::acl;
use zerocopy::{FromBytes, IntoBytes};

/// Parses the text into the form of the extended attribute.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>> {
    let words = text.split([',', '\n']).map(str::trim);
    let words = words.filter(|word| !word.is_empty() && !word.starts_with('#'));
    let mut entries = words
        .map(|word| entry(word).with_context(|| format!("access control list: {word}")))
        .collect::<Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.tag.get(), entry.id.get()));
    let mut bytes = acl::VERSION_OF_PROGRAMS.to_le_bytes().to_vec();
    entries
        .iter()
        .for_each(|entry| bytes.extend_from_slice(entry.as_bytes()));
    Ok(bytes)
}

fn entry(word: &str) -> Result<acl::Entry> {
    let mut fields = word.split(':').map(str::trim);
    let mut field = || fields.next().unwrap_or_default();
    let (who, name, permissions, number) = (field(), field(), field(), field());
    let (tag, database) = match (who, name) {
        ("user" | "u", "") => (acl::USER_OBJ, None),
        ("user" | "u", _) => (acl::USER, Some("/etc/passwd")),
        ("group" | "g", "") => (acl::GROUP_OBJ, None),
        ("group" | "g", _) => (acl::GROUP, Some("/etc/group")),
        ("mask" | "m", _) => (acl::MASK, None),
        ("other" | "o", _) => (acl::OTHER, None),
        _ => bail!("expected user, group, mask or other"),
    };
    let id = match (database, number.parse(), name.parse()) {
        (None, ..) => acl::NO_ID,
        (Some(_), Ok(number), _) | (Some(_), _, Ok(number)) => number,
        (Some(database), ..) => number_of(name, database)?,
    };
    let bits = permissions.chars().map(|letter| match letter {
        'r' => Ok(4),
        'w' => Ok(2),
        'x' => Ok(1),
        '-' => Ok(0),
        _ => bail!("expected permissions like r-x"),
    });
    let bits = bits.collect::<Result<Vec<u16>>>()?;
    Ok(acl::Entry {
        tag: tag.into(),
        permissions: bits.into_iter().fold(0, |all, bit| all | bit).into(),
        id: id.into(),
    })
}

/// Returns the number of a name in the host's user or group database.
fn number_of(name: &str, database: &str) -> Result<u32> {
    let text = std::fs::read_to_string(database).context(database.to_owned())?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.first() == Some(&name));
    let number = line.and_then(|fields| fields.get(2)?.parse().ok());
    number.with_context(|| format!("nobody is named {name} in {database}"))
}

/// Returns the text of an access control list in the form of the extended attribute.
pub(crate) fn write(bytes: &[u8]) -> Option<String> {
    let (_, rest) = acl::Header::ref_from_prefix(bytes).ok()?;
    let entries = <[acl::Entry]>::ref_from_bytes(rest).ok()?;
    let words = entries.iter().map(|entry| {
        let id = entry.id.get();
        let who = match entry.tag.get() {
            acl::USER_OBJ => "user:".to_owned(),
            acl::USER => format!("user:{id}"),
            acl::GROUP_OBJ => "group:".to_owned(),
            acl::GROUP => format!("group:{id}"),
            acl::MASK => "mask:".to_owned(),
            _ => "other:".to_owned(),
        };
        let bits = entry.permissions.get();
        let letter = |bit, letter| if bits & bit == 0 { '-' } else { letter };
        format!(
            "{who}:{}{}{}",
            letter(4, 'r'),
            letter(2, 'w'),
            letter(1, 'x')
        )
    });
    Some(words.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_bytes_and_bytes_words() {
        for (text, again) in [
            (
                "user::rwx,group::r-x,other::---",
                "user::rwx,group::r-x,other::---",
            ),
            (
                "u::rw-\nu:root:r--\ng::r--\ng:7:rwx\nm::rwx\no::---\n",
                "user::rw-,user:0:r--,group::r--,group:7:rwx,mask::rwx,other::---",
            ),
            (
                "other::r--,user::rw-,user:nobody-knows:r-x:1000,group::r--,mask::r-x",
                "user::rw-,user:1000:r-x,group::r--,mask::r-x,other::r--",
            ),
        ] {
            let bytes = parse(text).expect(text);
            assert_eq!(write(&bytes).as_deref(), Some(again));
        }
        for text in ["user:nobody-knows:r-x", "all::rwx", "user::rwz"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

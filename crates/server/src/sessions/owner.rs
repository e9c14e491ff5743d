//! The user that a session belongs to, by MongoDB's digest: the SHA-256 of `user@database`, which stands beside the id in an lsid
//! (`uid`). Whoever learns the id of another's session cannot use it, end it, or be answered for its writes.

use quarry_bson::{RawBinary, RawDocument, RawValue};
use sha2::{Digest, Sha256};

use crate::access::name::{Kind, Name};
use crate::dispatch::error::{CommandError, Result};

/// The digest of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionOwner(pub [u8; 32]);

impl SessionOwner {
    /// The SHA-256 of no user, which MongoDB shows where there is no access control.
    pub const NOBODY: SessionOwner = SessionOwner([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9,
        0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52,
        0xb8, 0x55,
    ]);

    /// The digest of that user.
    pub fn of(user: &Name) -> SessionOwner {
        let text = format!("{}@{}", user.name, user.database);
        SessionOwner(Sha256::digest(text.as_bytes()).into())
    }

    /// Reads a `uid`.
    pub fn parse(uid: RawValue<'_>) -> Result<SessionOwner> {
        let digest = match uid {
            RawValue::Binary(digest) => digest.bytes.try_into().ok(),
            _ => None,
        };
        digest.map(SessionOwner).ok_or_else(|| {
            CommandError::type_mismatch("BSON field 'uid' is not a digest of 32 bytes")
        })
    }

    /// Reads one of the users that a command names: `{user: "name", db: "database"}`.
    pub fn parse_user(user: RawValue<'_>) -> Result<SessionOwner> {
        let named = user.as_document().is_some_and(names_database);
        if !named {
            let message = "each user must be an object with the fields 'user' and 'db'";
            return Err(CommandError::type_mismatch(message));
        }
        Ok(SessionOwner::of(&Name::parse(Kind::User, user, "")?))
    }

    /// The digest as a BSON value.
    pub fn as_raw(&self) -> RawValue<'_> {
        RawValue::Binary(RawBinary {
            subtype: 0,
            bytes: &self.0,
        })
    }
}

fn names_database(user: RawDocument<'_>) -> bool {
    user.get_str("db").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_the_digest_of_its_full_name() {
        // `printf admin@admin | sha256sum`
        let digest = SessionOwner::of(&Name::new("admin", "admin"));
        let hex: String = digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "3b408cb48548b5037822c10eb0976b3cbf2cee3bf9c708796bf03941fbecd80f"
        );
        assert_eq!(
            SessionOwner::NOBODY.0,
            <[u8; 32]>::from(Sha256::digest(b""))
        );
    }
}

//! The server's part of a password: enough to check a proof of it (RFC 5802, RFC 7677), not the password.
//!
//! A credential stands in the user's document as MongoDB writes it: `{iterationCount, salt, storedKey, serverKey}`, the
//! bytes in Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use quarry_bson::{Document, RawDocument, doc};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::dispatch::error::{CommandError, Result};

/// Iterations that are never asked of a client, however a document was written: its client would compute for minutes.
const ITERATIONS_MAX: u32 = 10_000_000;
/// A longer password is refused.
const PASSWORD_BYTES_MAX: usize = 4096;

/// A way to log in with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-1, over MongoDB's own digest of the password.
    Sha1,
    /// SCRAM-SHA-256, over the password as SASLprep writes it.
    Sha256,
}

/// The part of a password that is kept.
#[derive(Clone)]
pub struct Credentials {
    /// How often the password was hashed.
    pub iterations: u32,
    /// Makes equal passwords of two users different.
    pub salt: Vec<u8>,
    /// Checks the client's proof.
    pub stored_key: Vec<u8>,
    /// Proves to the client that the server has the credential.
    pub server_key: Vec<u8>,
}

impl Mechanism {
    /// The mechanisms that are served, strongest last as MongoDB lists them.
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

    /// The name in SASL.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of that name.
    pub fn named(name: &str) -> Option<Mechanism> {
        Mechanism::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }

    /// Bytes of salt, as many as MongoDB takes.
    pub fn salt_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 16,
            Mechanism::Sha256 => 28,
        }
    }

    /// The hash of the bytes.
    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// The HMAC of the bytes under the key.
    pub fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        const ANY_LENGTH: &str = "HMAC takes a key of any length";
        match self {
            Mechanism::Sha1 => {
                let mut mac = Hmac::<Sha1>::new_from_slice(key).expect(ANY_LENGTH);
                mac.update(bytes);
                mac.finalize().into_bytes().to_vec()
            }
            Mechanism::Sha256 => {
                let mut mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
                mac.update(bytes);
                mac.finalize().into_bytes().to_vec()
            }
        }
    }

    /// The text that stands for a password in an exchange.
    pub fn prepare(self, user: &str, password: &str) -> Result<String> {
        match self {
            Mechanism::Sha1 => Ok(hex(&Md5::digest(format!("{user}:mongo:{password}")))),
            Mechanism::Sha256 => match stringprep::saslprep(password) {
                Ok(prepared) => Ok(prepared.into_owned()),
                Err(error) => Err(CommandError::bad_value(format!(
                    "Error preflighting UTF-8 conversion: {error}"
                ))),
            },
        }
    }

    /// The key that is derived of a prepared password.
    pub fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => {
                let mut salted = vec![0; 20];
                pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted);
                salted
            }
            Mechanism::Sha256 => {
                let mut salted = vec![0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
                salted
            }
        }
    }
}

impl Credentials {
    /// Derives the credential of a new password, with a salt of its own.
    pub fn of_password(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        iterations: u32,
    ) -> Result<Credentials> {
        let mut salt = vec![0; mechanism.salt_bytes()];
        getrandom::fill(&mut salt).expect("the kernel gives random bytes");
        Credentials::derive(mechanism, user, password, iterations, salt)
    }

    fn derive(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        iterations: u32,
        salt: Vec<u8>,
    ) -> Result<Credentials> {
        if password.is_empty() {
            return Err(CommandError::bad_value("Password cannot be empty"));
        }
        if password.len() > PASSWORD_BYTES_MAX {
            let message = format!("a password has at most {PASSWORD_BYTES_MAX} bytes");
            return Err(CommandError::bad_value(message));
        }
        let prepared = mechanism.prepare(user, password)?;
        Ok(Credentials::derive_prepared(
            mechanism, &prepared, iterations, salt,
        ))
    }

    /// Derives the credential of a password that the client has digested as SCRAM-SHA-1 of MongoDB does: MD5 of
    /// `user:mongo:password`, in hexadecimal.
    pub fn of_digest(digest: &str, iterations: u32) -> Result<Credentials> {
        let is_digest = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digest.len() != 32 || !digest.bytes().all(is_digest) {
            return Err(CommandError::bad_value(
                "a digested password has 32 hexadecimal digits",
            ));
        }
        let mut salt = vec![0; Mechanism::Sha1.salt_bytes()];
        getrandom::fill(&mut salt).expect("the kernel gives random bytes");
        Ok(Credentials::derive_prepared(
            Mechanism::Sha1,
            digest,
            iterations,
            salt,
        ))
    }

    fn derive_prepared(
        mechanism: Mechanism,
        prepared: &str,
        iterations: u32,
        salt: Vec<u8>,
    ) -> Credentials {
        let salted = mechanism.salted_password(prepared.as_bytes(), &salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        Credentials {
            iterations,
            salt,
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        }
    }

    /// Whether this is the credential of that password. Takes what a login costs the client.
    pub fn is_of_password(&self, mechanism: Mechanism, user: &str, password: &str) -> bool {
        let salt = self.salt.clone();
        let derived = Credentials::derive(mechanism, user, password, self.iterations, salt);
        derived.is_ok_and(|derived| derived.stored_key.ct_eq(&self.stored_key).into())
    }

    /// A credential that nobody can prove, for a user who is not there: the same user always gets the same salt, which only
    /// the secret tells.
    pub fn made_up(
        mechanism: Mechanism,
        secret: &[u8],
        user_id: &str,
        iterations: u32,
    ) -> Credentials {
        let part =
            |what: &str| Mechanism::Sha256.hmac(secret, format!("{what} {user_id}").as_bytes());
        let mut salt = part("salt");
        salt.truncate(mechanism.salt_bytes());
        let length = mechanism.hash(b"").len();
        let key = |what| {
            let mut key = part(what);
            key.truncate(length);
            key
        };
        Credentials {
            iterations,
            salt,
            stored_key: key("stored key"),
            server_key: key("server key"),
        }
    }

    /// Reads the credential of a user's document; none where it is not whole.
    pub fn parse(mechanism: Mechanism, document: RawDocument<'_>) -> Option<Credentials> {
        let bytes = |field| BASE64.decode(document.get_str(field)?).ok();
        let iterations = document.get("iterationCount")?.as_i64_exact()?;
        let credentials = Credentials {
            iterations: u32::try_from(iterations)
                .ok()
                .filter(|count| (1..=ITERATIONS_MAX).contains(count))?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        };
        let length = mechanism.hash(b"").len();
        let is_whole =
            credentials.stored_key.len() == length && credentials.server_key.len() == length;
        is_whole.then_some(credentials)
    }

    /// The credential as the user's document holds it.
    pub fn document(&self) -> Document {
        doc! {
            "iterationCount": (i32::try_from(self.iterations).unwrap_or(i32::MAX)),
            "salt": (BASE64.encode(&self.salt)),
            "storedKey": (BASE64.encode(&self.stored_key)),
            "serverKey": (BASE64.encode(&self.server_key)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7677, section 3, and of the drivers' authentication specification.
    #[test]
    fn keys_are_those_of_the_published_examples() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let made = Credentials::derive(Mechanism::Sha256, "user", "pencil", 4096, salt).unwrap();
        assert_eq!(
            BASE64.encode(&made.stored_key),
            "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        );
        assert_eq!(
            BASE64.encode(&made.server_key),
            "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn a_credential_reads_as_it_was_written() {
        for mechanism in Mechanism::ALL {
            let made = Credentials::of_password(mechanism, "bob", "geheim", 5000).unwrap();
            let read = Credentials::parse(mechanism, made.document().as_raw()).unwrap();
            assert_eq!(read.stored_key, made.stored_key);
            assert_eq!(
                (read.iterations, read.salt.len()),
                (5000, mechanism.salt_bytes())
            );
        }
        let made = Credentials::of_password(Mechanism::Sha1, "bob", "geheim", 5000).unwrap();
        assert!(Credentials::parse(Mechanism::Sha256, made.document().as_raw()).is_none());
    }

    #[test]
    fn forms_of_one_password_are_one_password() {
        let salt = vec![7; 28];
        let key = |password: &str| {
            Credentials::derive(Mechanism::Sha256, "u", password, 10, salt.clone())
                .unwrap()
                .stored_key
        };
        // U+2168 is the Roman numeral nine; a soft hyphen is nothing.
        assert_eq!(key("\u{2168}"), key("IX"));
        assert_eq!(key("I\u{ad}X"), key("IX"));
        assert_ne!(key("ix"), key("IX"));
    }
}

//! A login: SCRAM-SHA-256 (RFC 7677) or SCRAM-SHA-1 (RFC 5802, over MongoDB's digest of the password), both sides proven.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{Error, Login, Result};

const NONCE_BYTES: usize = 24;
/// The fewest rounds that the drivers' specification lets a server ask for.
const ITERATIONS_MIN: u32 = 4096;
/// A server that asks for more rounds than this is not believed: they would cost minutes.
const ITERATIONS_MAX: u32 = 10_000_000;

/// A way to log in with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-1.
    Sha1,
    /// SCRAM-SHA-256.
    Sha256,
}

impl Mechanism {
    /// The mechanism of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mechanism> {
        [Mechanism::Sha1, Mechanism::Sha256]
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }

    /// The name in SASL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
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

    fn salted_password(self, login: &Login, salt: &[u8], iterations: u32) -> Result<Vec<u8>> {
        let Login { user, password, .. } = login;
        match self {
            Mechanism::Sha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                let prepared: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let mut salted = vec![0; 20];
                pbkdf2::pbkdf2_hmac::<Sha1>(prepared.as_bytes(), salt, iterations, &mut salted);
                Ok(salted)
            }
            Mechanism::Sha256 => {
                let prepared = stringprep::saslprep(password)
                    .map_err(|error| Error::Login(format!("the password: {error}")))?;
                let mut salted = vec![0; 32];
                pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, &mut salted);
                Ok(salted)
            }
        }
    }
}

/// A login under way, whose first message has been made.
pub struct Exchange<'l> {
    mechanism: Mechanism,
    login: &'l Login,
    nonce: String,
}

/// The client's second message, and what the server's has to be.
pub struct Proof {
    pub message: String,
    pub expected: String,
}

impl<'l> Exchange<'l> {
    /// Begins one with a nonce of its own.
    pub fn new(mechanism: Mechanism, login: &'l Login) -> Result<Exchange<'l>> {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|error| Error::Login(error.to_string()))?;
        Ok(Exchange {
            mechanism,
            login,
            nonce: BASE64.encode(random),
        })
    }

    /// The client's first message.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first_bare())
    }

    fn first_bare(&self) -> String {
        let user = self.login.user.replace('=', "=3D").replace(',', "=2C");
        format!("n={user},r={}", self.nonce)
    }

    /// The proof that the server's first message asks for.
    pub fn prove(&self, server_first: &str) -> Result<Proof> {
        let malformed = || Error::Login("the server's part is malformed".to_owned());
        let field = |name: &str| {
            let mut fields = server_first.split(',');
            fields.find_map(|field| field.strip_prefix(name))
        };
        let combined = field("r=")
            .filter(|combined| combined.starts_with(&self.nonce) && *combined != self.nonce)
            .ok_or_else(malformed)?;
        let salt = field("s=").and_then(|salt| BASE64.decode(salt).ok());
        let salt = salt.ok_or_else(malformed)?;
        let iterations = field("i=").and_then(|count| count.parse().ok());
        let iterations: u32 = iterations.ok_or_else(malformed)?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            let what = format!("the server asks for {iterations} rounds of hashing");
            return Err(Error::Login(what));
        }
        let hash = self.mechanism;
        let salted = hash.salted_password(self.login, &salt, iterations)?;
        let without_proof = format!("c=biws,r={combined}");
        let signed = format!("{},{server_first},{without_proof}", self.first_bare());
        let client_key = hash.hmac(&salted, b"Client Key");
        let signature = hash.hmac(&hash.hash(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = hash.hmac(&salted, b"Server Key");
        let of_server = hash.hmac(&server_key, signed.as_bytes());
        Ok(Proof {
            message: format!("{without_proof},p={}", BASE64.encode(proof)),
            expected: format!("v={}", BASE64.encode(of_server)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7677, section 3, and of the drivers' authentication specification.
    #[test]
    fn exchanges_are_those_of_the_published_examples() {
        let login = Login {
            user: "user".to_owned(),
            password: "pencil".to_owned(),
            source: "admin".to_owned(),
            mechanism: None,
        };
        let exchange = |mechanism, nonce: &str| Exchange {
            mechanism,
            login: &login,
            nonce: nonce.to_owned(),
        };
        let sha256 = exchange(Mechanism::Sha256, "rOprNGfwEbeRWgbNEkqO");
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = sha256.prove(server_first).unwrap();
        assert_eq!(
            proof.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(
            proof.expected,
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
        let sha1 = exchange(Mechanism::Sha1, "fyko+d2lbbFgONRv9qkxdawL");
        let server_first = "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000";
        let proof = sha1.prove(server_first).unwrap();
        assert_eq!(
            proof.message,
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY="
        );
        assert_eq!(proof.expected, "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=");
    }

    #[test]
    fn a_server_that_makes_too_much_of_it_is_not_believed() {
        let login = Login {
            user: "a=b,c".to_owned(),
            password: "x".to_owned(),
            source: "admin".to_owned(),
            mechanism: None,
        };
        let exchange = Exchange::new(Mechanism::Sha256, &login).unwrap();
        assert!(exchange.first().starts_with("n,,n=a=3Db=2Cc,r="));
        let nonce = &exchange.nonce;
        for bad in [
            format!("r={nonce}x,s=AAAA,i=4000000000"),
            format!("r={nonce}x,s=AAAA,i=1"),
            format!("r={nonce},s=AAAA,i=5000"),
            "r=other,s=AAAA,i=5000".to_owned(),
            format!("r={nonce}x,s=*,i=5000"),
            String::new(),
        ] {
            assert!(exchange.prove(&bad).is_err(), "{bad}");
        }
    }
}

//! The server's side of one SCRAM exchange (RFC 5802): the client's first message, the server's, the client's proof, the server's.
//!
//! Without channel binding, which MongoDB does not use. Messages are hostile: each is bounded, and whatever is wrong with
//! one is the one answer "authentication failed".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;

use crate::access::credentials::{Credentials, Mechanism};

/// No honest message of an exchange is longer.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// Random bytes of the server in the nonce.
const NONCE_BYTES: usize = 24;

/// The client's first message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user that the client wants to be.
    pub user: String,
    nonce: String,
    /// The message behind its header.
    bare: String,
    /// The words of the client about channel binding, which its proof repeats.
    header: String,
}

/// An exchange that waits for the client's proof.
pub struct Exchange {
    mechanism: Mechanism,
    credentials: Credentials,
    /// False for a user who is not there: no proof is right.
    is_real: bool,
    header: String,
    nonce: String,
    /// The text that both sides sign: both first messages, and the last without its proof.
    signed: String,
}

impl ClientFirst {
    /// Reads `n,,n=USER,r=NONCE`; none where it is anything else.
    pub fn parse(payload: &[u8]) -> Option<ClientFirst> {
        if payload.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(payload).ok()?;
        let mut parts = text.splitn(3, ',');
        let (binding, identity, bare) = (parts.next()?, parts.next()?, parts.next()?);
        if !matches!(binding, "n" | "y") {
            return None;
        }
        let mut fields = bare.split(',');
        let user = unescape(fields.next()?.strip_prefix("n=")?)?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        let is_own_identity = identity.is_empty()
            || identity.strip_prefix("a=").and_then(unescape).as_deref() == Some(&user);
        let is_fine = !user.is_empty() && !nonce.is_empty() && is_own_identity;
        is_fine.then(|| ClientFirst {
            user,
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
            header: format!("{binding},{identity},"),
        })
    }
}

impl Exchange {
    /// Begins the exchange; the message to the client comes with it.
    pub fn begin(
        mechanism: Mechanism,
        first: &ClientFirst,
        credentials: Credentials,
        is_real: bool,
    ) -> (Exchange, Vec<u8>) {
        let mut random = [0; NONCE_BYTES];
        getrandom::fill(&mut random).expect("the kernel gives random bytes");
        let nonce = format!("{}{}", first.nonce, BASE64.encode(random));
        Exchange::begin_with(mechanism, first, credentials, is_real, nonce)
    }

    fn begin_with(
        mechanism: Mechanism,
        first: &ClientFirst,
        credentials: Credentials,
        is_real: bool,
        nonce: String,
    ) -> (Exchange, Vec<u8>) {
        let salt = BASE64.encode(&credentials.salt);
        let answer = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let exchange = Exchange {
            mechanism,
            credentials,
            is_real,
            header: first.header.clone(),
            nonce,
            signed: format!("{},{answer}", first.bare),
        };
        (exchange, answer.into_bytes())
    }

    /// Checks the client's proof, `c=HEADER,r=NONCE,p=PROOF`; the server's own proof, or none where it is wrong.
    pub fn finish(self, payload: &[u8]) -> Option<Vec<u8>> {
        if payload.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(payload).ok()?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        let mut fields = without_proof.split(',');
        let header = BASE64.decode(fields.next()?.strip_prefix("c=")?).ok()?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        let proof = BASE64.decode(proof).ok()?;
        let signed = format!("{},{without_proof}", self.signed);
        let key = &self.credentials.stored_key;
        let signature = self.mechanism.hmac(key, signed.as_bytes());
        let is_whole = proof.len() == signature.len();
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let is_proven = self.mechanism.hash(&client_key).ct_eq(key)
            & nonce.as_bytes().ct_eq(self.nonce.as_bytes())
            & header.ct_eq(self.header.as_bytes());
        let answer = self
            .mechanism
            .hmac(&self.credentials.server_key, signed.as_bytes());
        let is_proven = bool::from(is_proven) && is_whole && self.is_real;
        is_proven.then(|| format!("v={}", BASE64.encode(answer)).into_bytes())
    }
}

/// The name that `=2C` and `=3D` stand in for `,` and `=`; none where another `=` stands.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('=');
    out.push_str(parts.next()?);
    for part in parts {
        let (escaped, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        out.push(escaped);
        out.push_str(rest);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The credential of the exchange in RFC 7677, section 3.
    fn published() -> Credentials {
        Credentials {
            iterations: 4096,
            salt: BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(),
            stored_key: BASE64
                .decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
                .unwrap(),
            server_key: BASE64
                .decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
                .unwrap(),
        }
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn begin(is_real: bool) -> (Exchange, Vec<u8>) {
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        Exchange::begin_with(
            Mechanism::Sha256,
            &first,
            published(),
            is_real,
            NONCE.into(),
        )
    }

    #[test]
    fn the_published_exchange_succeeds() {
        let (exchange, answer) = begin(true);
        let expected = format!("r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert_eq!(answer, expected.as_bytes());
        let last = exchange.finish(PROOF.as_bytes()).unwrap();
        assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn anything_else_fails() {
        assert!(begin(false).0.finish(PROOF.as_bytes()).is_none());
        for (from, to) in [
            ("dHzb", "dHzc"),
            ("biws", "eSws"),
            ("k0,p", "k1,p"),
            (",p=", ",q="),
            ("VQ=", ""),
        ] {
            assert!(
                begin(true)
                    .0
                    .finish(PROOF.replace(from, to).as_bytes())
                    .is_none(),
                "{from}"
            );
        }
        assert!(begin(true).0.finish(b"").is_none());
        assert!(
            begin(true)
                .0
                .finish(&[b'x'; MESSAGE_BYTES_MAX + 1])
                .is_none()
        );
    }

    #[test]
    fn first_messages_are_read_or_refused() {
        let user = |text: &str| ClientFirst::parse(text.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x"), Some("a,b=c".into()));
        assert_eq!(user("n,a=bob,n=bob,r=x"), Some("bob".into()));
        for bad in [
            "",
            "n,,",
            "n,,n=,r=x",
            "n,,n=u,r=",
            "p=tls-unique,,n=u,r=x",
            "n,a=eve,n=bob,r=x",
            "n,,n=a=2Db,r=x",
            "n,,m=1,n=u,r=x",
        ] {
            assert_eq!(user(bad), None, "{bad}");
        }
    }
}

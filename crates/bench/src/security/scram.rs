//! A client's side of SCRAM-SHA-256 (RFC 7677) that keeps its salted password, as drivers do, so that a login costs it
//! next to nothing.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use quarry_bson::{Document, RawValue, Value, doc};
use sha2::{Digest, Sha256};

use super::stream::Stream;
use crate::message::{op_msg, op_msg_body, round_trip};

const NONCE: &str = "a nonce of a bench";

/// A user's login.
pub struct Login {
    user: String,
    client_key: Vec<u8>,
}

impl Login {
    /// Asks the server for the user's salt and derives what a login needs of the password.
    pub fn learn(stream: &mut Stream, user: &str, password: &str) -> io::Result<Login> {
        let (_, first) = begin(stream, user)?;
        let salt = field(&first, "s=").and_then(|salt| BASE64.decode(salt).ok());
        let count = field(&first, "i=").and_then(|count| count.parse().ok());
        let (Some(salt), Some(count)) = (salt, count) else {
            return Err(io::Error::other("a first message without salt or count"));
        };
        let mut salted = vec![0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, count, &mut salted);
        let login = Login {
            user: user.to_owned(),
            client_key: hmac(&salted, b"Client Key"),
        };
        login.run(stream)?;
        Ok(login)
    }

    /// Logs in, in two exchanges.
    pub fn run(&self, stream: &mut Stream) -> io::Result<()> {
        let (conversation, first) = begin(stream, &self.user)?;
        let nonce = field(&first, "r=").unwrap_or_default();
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("n={},r={NONCE},{first},{without_proof}", self.user);
        let signature = hmac(&Sha256::digest(&self.client_key), signed.as_bytes());
        let proof: Vec<u8> = self
            .client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let last = format!("{without_proof},p={}", BASE64.encode(proof));
        let reply = exchange(
            stream,
            &doc! { "saslContinue": 1, "conversationId": conversation, "payload": (binary(&last)), "$db": "admin" },
        )?;
        match reply.get("done") {
            Some(RawValue::Boolean(true)) => Ok(()),
            _ => Err(io::Error::other("the login is not done")),
        }
    }
}

/// The first exchange: the conversation's number and the server's message.
fn begin(stream: &mut Stream, user: &str) -> io::Result<(i32, String)> {
    let first = format!("n,,n={user},r={NONCE}");
    let reply = exchange(
        stream,
        &doc! {
            "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": (binary(&first)),
            "options": doc! { "skipEmptyExchange": true }, "$db": "admin",
        },
    )?;
    let conversation = reply.get_i32("conversationId").unwrap_or_default();
    let message = match reply.get("payload") {
        Some(RawValue::Binary(payload)) => String::from_utf8_lossy(payload.bytes).into_owned(),
        _ => return Err(io::Error::other("a reply without a payload")),
    };
    Ok((conversation, message))
}

fn exchange(stream: &mut Stream, command: &Document) -> io::Result<Document> {
    let mut reply = Vec::new();
    round_trip(stream, &op_msg(1, 0, command), &mut reply)?;
    Ok(op_msg_body(&reply)?.1.to_owned_document())
}

fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message
        .split(',')
        .find_map(|field| field.strip_prefix(name))
}

fn binary(text: &str) -> Value {
    Value::binary(0, text.as_bytes())
}

fn hmac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

//! A login as a client: SCRAM-SHA-256 (RFC 7677), both sides proven.

use std::fs::File;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quarry_bson::{Document, RawValue, Value, doc};

use crate::access::credentials::Mechanism;
use crate::process::config::LoginOptions;
use crate::tools::link::Link;

const MECHANISM: Mechanism = Mechanism::Sha256;
const NONCE_BYTES: usize = 24;
/// A server that asks for more rounds than this is not believed: they would cost minutes.
const ITERATIONS_MAX: u32 = 10_000_000;
/// A longer password is refused anyway.
const PASSWORD_BYTES_MAX: u64 = 8 << 10;

/// Logs in as the user that the options name, if they name one.
pub fn log_in(link: &mut Link, options: &LoginOptions) -> io::Result<()> {
    let Some(user) = &options.user else {
        return Ok(());
    };
    let (name, database) = user.rsplit_once('@').unwrap_or((user, "admin"));
    let password = password(options)?;
    exchange(link, name, database, &password)
}

/// The first line of the file, or of the standard input.
fn password(options: &LoginOptions) -> io::Result<String> {
    let mut text = String::new();
    match &options.password_file {
        Some(path) => File::open(path)?
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)?,
        None => io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)?,
    };
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn exchange(link: &mut Link, user: &str, database: &str, password: &str) -> io::Result<()> {
    let mut random = [0; NONCE_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let nonce = BASE64.encode(random);
    let escaped = user.replace('=', "=3D").replace(',', "=2C");
    let first_bare = format!("n={escaped},r={nonce}");
    let start = doc! {
        "saslStart": 1, "mechanism": (MECHANISM.name()), "payload": (binary(&format!("n,,{first_bare}"))),
        "options": doc! { "skipEmptyExchange": true },
    };
    let (reply, server_first) = step(link, &start, database)?;
    let bad = || io::Error::other("the server's part of the login is malformed");
    let field = |name: &str| {
        server_first
            .split(',')
            .find_map(|field| field.strip_prefix(name))
    };
    let combined = field("r=")
        .filter(|combined| combined.starts_with(&nonce))
        .ok_or_else(bad)?;
    let salt = field("s=")
        .and_then(|salt| BASE64.decode(salt).ok())
        .ok_or_else(bad)?;
    let iterations = field("i=")
        .and_then(|count| count.parse().ok())
        .ok_or_else(bad)?;
    if iterations > ITERATIONS_MAX {
        return Err(io::Error::other(format!(
            "the server asks for {iterations} rounds of hashing"
        )));
    }
    let prepared = MECHANISM.prepare(user, password);
    let prepared = prepared.map_err(|error| io::Error::other(error.message))?;
    let salted = MECHANISM.salted_password(prepared.as_bytes(), &salt, iterations);
    let client_key = MECHANISM.hmac(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={combined}");
    let signed = format!("{first_bare},{server_first},{without_proof}");
    let signature = MECHANISM.hmac(&MECHANISM.hash(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key
        .iter()
        .zip(signature)
        .map(|(a, b)| a ^ b)
        .collect();
    let last = format!("{without_proof},p={}", BASE64.encode(proof));
    let conversation = reply.get_i32("conversationId").unwrap_or_default();
    let go_on =
        doc! { "saslContinue": 1, "conversationId": conversation, "payload": (binary(&last)) };
    let (_, server_last) = step(link, &go_on, database)?;
    let of_server = MECHANISM.hmac(&MECHANISM.hmac(&salted, b"Server Key"), signed.as_bytes());
    match server_last == format!("v={}", BASE64.encode(of_server)) {
        true => Ok(()),
        false => Err(io::Error::other("the server does not know the password")),
    }
}

fn step(link: &mut Link, command: &Document, database: &str) -> io::Result<(Document, String)> {
    let reply = link.run_on(database, command)?;
    let message = match reply.get("payload") {
        Some(RawValue::Binary(payload)) => String::from_utf8_lossy(payload.bytes).into_owned(),
        _ => {
            return Err(io::Error::other(
                "the server's part of the login is malformed",
            ));
        }
    };
    Ok((reply, message))
}

fn binary(text: &str) -> Value {
    Value::binary(0, text.as_bytes())
}

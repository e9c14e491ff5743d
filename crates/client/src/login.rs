//! The conversation of a login.

use quarry_bson::{Document, RawValue, Value, doc};

use crate::scram::Exchange;
use crate::{Connection, Error, Login, Mechanism, Result};

impl Connection {
    /// Proves to the server who the user is, and has the server prove that it knows the password.
    pub(crate) fn log_in(&mut self, login: &Login) -> Result<()> {
        let has = |mechanism| self.facts.mechanisms.contains(&mechanism);
        let mechanism = match login.mechanism {
            Some(mechanism) => mechanism,
            None if has(Mechanism::Sha1) && !has(Mechanism::Sha256) => Mechanism::Sha1,
            None => Mechanism::Sha256,
        };
        let exchange = Exchange::new(mechanism, login)?;
        let start = doc! {
            "saslStart": 1, "mechanism": (mechanism.name()), "payload": (binary(&exchange.first())),
            "options": { "skipEmptyExchange": true },
        };
        let (reply, server_first) = self.login_step(login, &start)?;
        let proof = exchange.prove(&server_first)?;
        let conversation = Value::from(reply.get("conversationId").unwrap_or(RawValue::Null));
        let go_on = |message: &str| {
            doc! { "saslContinue": 1, "conversationId": (conversation.clone()), "payload": (binary(message)) }
        };
        let (mut reply, server_last) = self.login_step(login, &go_on(&proof.message))?;
        if server_last != proof.expected {
            let what = "the server does not know the password".to_owned();
            return Err(Error::Login(what));
        }
        // A server from before `skipEmptyExchange` wants one more message.
        if reply.get_bool("done") == Some(false) {
            (reply, _) = self.login_step(login, &go_on(""))?;
        }
        match reply.get_bool("done") {
            Some(true) => Ok(()),
            _ => Err(Error::Login("the server does not end it".to_owned())),
        }
    }

    fn login_step(&mut self, login: &Login, command: &Document) -> Result<(Document, String)> {
        let reply = match self.exchange(&login.source, command, &Document::new(), None) {
            // A server that steps down or shuts down may take the user in a moment.
            Err(error) if error.is_transient() => Err(error),
            Err(Error::Command(refusal)) => Err(Error::Login(refusal.message)),
            reply => reply,
        }?;
        let message = match reply.get("payload") {
            Some(RawValue::Binary(payload)) => String::from_utf8_lossy(payload.bytes).into_owned(),
            _ => return Err(Error::Login("the server's part is malformed".to_owned())),
        };
        Ok((reply, message))
    }
}

fn binary(text: &str) -> Value {
    Value::binary(0, text.as_bytes())
}

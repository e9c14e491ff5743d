//! The per-document errors of a write command, in MongoDB's shape: `{index, code, errmsg}`, with `keyPattern` and `keyValue` of
//! a duplicate key, and `errInfo` of a document that a validator refuses.
//!
//! A batch may fail in every document; the reply stays bounded: messages beyond a size are left empty, as MongoDB does, and
//! details are left out.

use quarry_bson::DocumentBuilder;

use crate::dispatch::command::Invocation;
use crate::dispatch::error::CommandError;

/// Once messages have used this much, further errors keep their code and lose their text.
const MESSAGES_BYTES_MAX: usize = 1 << 20;

/// Once details have used this much, further errors lose theirs.
const DETAILS_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
pub struct WriteErrors {
    errors: Vec<(usize, CommandError)>,
    /// The bytes of their details.
    details_bytes: usize,
}

impl WriteErrors {
    pub fn add(&mut self, index: usize, mut error: CommandError) {
        if let Some(details) = &error.details {
            self.details_bytes += details.len_bytes();
            if self.details_bytes > DETAILS_BYTES_MAX {
                error.details = None;
            }
        }
        self.errors.push((index, error));
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Ends the statements of a command: counts their errors, has the command know of them, and appends them to its reply.
    pub fn finish(&self, invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) {
        for (_, error) in &self.errors {
            let errors = &invocation.server.errors;
            let namespace = || {
                invocation
                    .namespace()
                    .map(|namespace| namespace.to_string())
            };
            errors.note(error, || namespace().unwrap_or_default());
        }
        invocation.has_write_errors = !self.is_empty();
        self.append(reply);
    }

    /// Appends `writeErrors`, if there are any, in the order of the documents.
    fn append(&self, reply: &mut DocumentBuilder<'_>) {
        if self.is_empty() {
            return;
        }
        let mut list = reply.array("writeErrors");
        let mut used = 0;
        for (index, error) in &self.errors {
            let mut entry = list.document();
            entry.append("index", i32::try_from(*index).unwrap_or(i32::MAX));
            let message = if used > MESSAGES_BYTES_MAX {
                ""
            } else {
                error.message.as_str()
            };
            used += message.len();
            append_error(error, message, &mut entry);
            entry.finish();
        }
        list.finish();
    }
}

/// Appends what is told of the error of one document or statement, with this text for its message.
pub fn append_error(error: &CommandError, message: &str, entry: &mut DocumentBuilder<'_>) {
    entry.append("code", error.code);
    if let Some(details) = &error.details {
        for element in details.iter() {
            entry.append_element(element);
        }
    }
    entry.append("errmsg", message);
}

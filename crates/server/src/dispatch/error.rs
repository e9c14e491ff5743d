//! The error that a command can answer with instead of a reply, and how it stands in one: `{ok: 0, errmsg, code, codeName}`.

use std::borrow::Cow;
use std::fmt;

use quarry_bson::{Document, DocumentBuilder};
use quarry_query::ErrorCode;

pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// A failed command, with MongoDB's code.
#[derive(Debug, Clone)]
pub struct CommandError {
    pub code: i32,
    pub message: String,
    /// Further fields of the error, such as `keyPattern` and `keyValue` of a duplicate key.
    pub details: Option<Box<Document>>,
    /// The outcome cannot be told: the connection ends without an answer.
    pub is_unanswerable: bool,
    /// The command is over: it is not the error of a single statement or document, behind which others could run.
    pub ends_command: bool,
    /// The label that tells a driver whether it may run something again.
    pub label: Option<&'static str>,
}

impl CommandError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> CommandError {
        CommandError {
            code: code.0,
            message: message.into(),
            details: None,
            is_unanswerable: false,
            ends_command: false,
            label: None,
        }
    }

    pub fn bad_value(message: impl Into<String>) -> CommandError {
        CommandError::new(ErrorCode::BAD_VALUE, message)
    }

    pub fn type_mismatch(message: impl Into<String>) -> CommandError {
        CommandError::new(ErrorCode::TYPE_MISMATCH, message)
    }

    pub fn failed_to_parse(message: impl Into<String>) -> CommandError {
        CommandError::new(ErrorCode::FAILED_TO_PARSE, message)
    }

    /// A field of the wrong type, as MongoDB's parsers word it.
    /// Several types are given as `[long, int`: what stands behind the last one is how MongoDB prints a list.
    pub fn field_type(command: &str, field: &str, found: &str, expected: &str) -> CommandError {
        let expected = match expected.starts_with('[') {
            true => format!("types '{expected}']"),
            false => format!("type '{expected}'"),
        };
        CommandError::type_mismatch(format!(
            "BSON field '{command}.{field}' is the wrong type '{found}', expected {expected}"
        ))
    }

    pub fn missing_field(command: &str, field: &str) -> CommandError {
        CommandError::new(
            ErrorCode::IDL_FAILED_TO_PARSE,
            format!("BSON field '{command}.{field}' is missing but a required field"),
        )
    }

    pub fn duplicate_field(command: &str, field: &str) -> CommandError {
        CommandError::new(
            ErrorCode::IDL_DUPLICATE_FIELD,
            format!("BSON field '{command}.{field}' is a duplicate field"),
        )
    }

    pub fn unknown_field(command: &str, field: &str) -> CommandError {
        CommandError::new(
            ErrorCode::IDL_UNKNOWN_FIELD,
            format!("BSON field '{command}.{field}' is an unknown field."),
        )
    }

    /// An option that MongoDB has and Quarry does not serve yet.
    pub fn not_supported(what: impl fmt::Display) -> CommandError {
        CommandError::new(
            ErrorCode::NOT_IMPLEMENTED,
            format!("{what} is not supported yet"),
        )
    }

    pub fn code_name(&self) -> Cow<'static, str> {
        ErrorCode(self.code).name()
    }

    /// Writes the whole error reply.
    pub fn write(&self, reply: &mut DocumentBuilder<'_>) {
        reply.append("ok", 0.0);
        reply.append("errmsg", self.message.as_str());
        reply.append("code", self.code);
        reply.append("codeName", &*self.code_name());
        let is_labelled = |details: &Document| details.contains("errorLabels");
        if let Some(label) = self.label
            && !self.details.as_deref().is_some_and(is_labelled)
        {
            let mut labels = reply.array("errorLabels");
            labels.push(label);
            labels.finish();
        }
        if let Some(details) = &self.details {
            for element in details.as_raw() {
                reply.append_element(element);
            }
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

impl From<quarry_query::Error> for CommandError {
    fn from(error: quarry_query::Error) -> CommandError {
        let cause = match (error.as_added_stage::<CommandError>(), error.cause()) {
            (Some(own), _) => own.clone(),
            (None, Some(cause)) => CommandError::from(cause.clone()),
            (None, None) => return CommandError::new(error.code, error.message),
        };
        // The message may say more than the cause does.
        CommandError {
            message: error.message,
            ..cause
        }
    }
}

/// Carries the server's error through a pipeline, out of a stage that the server has added. It comes back whole.
impl From<CommandError> for quarry_query::Error {
    fn from(error: CommandError) -> quarry_query::Error {
        quarry_query::Error::of_added_stage(ErrorCode(error.code), error)
    }
}

/// Bytes that were validated on arrival, or a text that is not UTF-8.
impl From<quarry_bson::Error> for CommandError {
    fn from(error: quarry_bson::Error) -> CommandError {
        CommandError::new(ErrorCode::INVALID_BSON, error.to_string())
    }
}

impl From<quarry_database::Error> for CommandError {
    fn from(error: quarry_database::Error) -> CommandError {
        let details = match &error {
            quarry_database::Error::DuplicateKey(key) => Some(Box::new(quarry_bson::doc! {
                "keyPattern": key.key_pattern.clone(),
                "keyValue": key.key_value.clone()
            })),
            quarry_database::Error::SharedKeys(keys) => Some(Box::new(quarry_bson::doc! {
                "violations": keys.violations.clone()
            })),
            quarry_database::Error::InvalidDocument(info) => {
                Some(Box::new(quarry_bson::doc! { "errInfo": (**info).clone() }))
            }
            _ => None,
        };
        let is_unanswerable = error.is_outcome_unknown();
        let code = match error.is_corruption() {
            true => ErrorCode::DATA_CORRUPTION_DETECTED.0,
            false => error.code(),
        };
        CommandError {
            code,
            message: quarry_query::message_text::of(&error),
            details,
            is_unanswerable,
            ends_command: error.ends_operation(),
            label: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_has_a_code_of_its_own_wherever_it_is_met() {
        let damaged = || {
            let storage = quarry_storage::Error::Corruption("a block".into());
            quarry_database::Error::Storage(storage)
        };
        let corrupt = quarry_database::Error::Corrupt("a document".into());
        for error in [
            CommandError::from(damaged()),
            CommandError::from(corrupt),
            CommandError::from(quarry_query::Error::from(damaged())),
        ] {
            assert_eq!(error.code_name(), "DataCorruptionDetected", "{error}");
        }
    }

    #[test]
    fn an_error_of_an_added_stage_comes_back_whole() {
        let sent = CommandError {
            details: Some(Box::new(quarry_bson::doc! { "errInfo": { "place": 3 } })),
            is_unanswerable: true,
            ends_command: true,
            label: Some("ResumableChangeStreamError"),
            ..CommandError::new(ErrorCode::CURSOR_KILLED, "the cursor was killed")
        };
        let back = CommandError::from(quarry_query::Error::from(sent.clone()));
        assert_eq!(back.code, sent.code);
        assert_eq!(back.message, sent.message);
        assert_eq!(back.details, sent.details);
        assert_eq!(back.label, sent.label);
        assert!(back.is_unanswerable && back.ends_command);
    }
}

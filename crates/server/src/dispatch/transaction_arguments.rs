//! The arguments by which a command writes retryably or belongs to a transaction: `txnNumber`, `autocommit` and
//! `startTransaction`, and which commands may carry them. The rules and texts are MongoDB's.

use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// The use that a session can make of a command to which it gives a txnNumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionUse {
    /// It carries no txnNumber.
    None,
    /// It runs in transactions.
    InTransactions,
    /// It writes retryably, and in transactions.
    Retryable,
    /// It ends a transaction.
    EndsTransaction,
}

/// A command as the rules know it.
#[derive(Clone, Copy)]
pub struct CommandInSession {
    pub name: &'static str,
    pub session_use: SessionUse,
}

/// A txnNumber, and what the command is to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionArguments {
    pub number: i64,
    pub part: Part,
}

/// The part that a command has in its txnNumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A retryable write.
    RetryableWrite,
    /// The first command of a transaction.
    Start,
    /// A later command of a transaction.
    Continue,
    /// commitTransaction or abortTransaction.
    End,
}

/// The arguments as they stand in a command.
#[derive(Default)]
pub struct Given {
    pub number: Option<i64>,
    pub autocommit: Option<bool>,
    pub start: Option<bool>,
}

impl Given {
    /// Puts the arguments together; none for a command without a txnNumber.
    pub fn check(
        &self,
        command: CommandInSession,
        has_session: bool,
    ) -> Result<Option<TransactionArguments>> {
        let refuse = |message: &str| Err(CommandError::new(ErrorCode::INVALID_OPTIONS, message));
        if self.start == Some(false) {
            return refuse("Specifying startTransaction=false is not allowed.");
        }
        if self.start.is_some() && self.autocommit.is_none() {
            return refuse(
                "'startTransaction' field requires 'autocommit' field to also be specified",
            );
        }
        if self.autocommit == Some(true) {
            return refuse("Specifying autocommit=true is not allowed.");
        }
        let Some(number) = self.number else {
            if self.autocommit.is_some() {
                return refuse(
                    "'autocommit' field requires a transaction number to also be specified",
                );
            }
            if command.session_use == SessionUse::EndsTransaction {
                let name = command.name;
                return refuse(&format!("{name} must be run within a transaction"));
            }
            return Ok(None);
        };
        if !has_session {
            return refuse("Transaction number requires a session ID to also be specified");
        }
        if number < 0 {
            return refuse("Transaction number cannot be negative");
        }
        let part = match self.autocommit {
            None => Part::retryable(command)?,
            Some(_) => Part::in_transaction(command, self.start.is_some())?,
        };
        Ok(Some(TransactionArguments { number, part }))
    }
}

impl TransactionArguments {
    /// Whether the command is of a transaction, its end included.
    pub fn is_of_transaction(&self) -> bool {
        self.part != Part::RetryableWrite
    }
}

impl Part {
    fn retryable(command: CommandInSession) -> Result<Part> {
        if command.session_use == SessionUse::Retryable {
            return Ok(Part::RetryableWrite);
        }
        if command.session_use == SessionUse::EndsTransaction {
            return Err(CommandError::new(
                ErrorCode::INVALID_OPTIONS,
                "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided",
            ));
        }
        let message = format!(
            "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and {} is not a retryable write command.",
            command.name
        );
        Err(CommandError::new(
            ErrorCode::NOT_A_RETRYABLE_WRITE_COMMAND,
            message,
        ))
    }

    fn in_transaction(command: CommandInSession, is_first: bool) -> Result<Part> {
        let name = command.name;
        let not_supported = |message: String| {
            CommandError::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message)
        };
        match command.session_use {
            SessionUse::EndsTransaction if is_first => Err(not_supported(format!(
                "Cannot run {name} as the first operation of a transaction."
            ))),
            SessionUse::EndsTransaction => Ok(Part::End),
            SessionUse::InTransactions if is_first && name == "killCursors" => Err(not_supported(
                "Cannot run killCursors as the first operation of a transaction.".into(),
            )),
            SessionUse::InTransactions | SessionUse::Retryable => Ok(match is_first {
                true => Part::Start,
                false => Part::Continue,
            }),
            SessionUse::None if name == "count" => Err(not_supported(
                "Cannot run 'count' in a multi-document transaction. Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.".into(),
            )),
            SessionUse::None => Err(not_supported(format!(
                "Cannot run '{name}' in a multi-document transaction."
            ))),
        }
    }
}

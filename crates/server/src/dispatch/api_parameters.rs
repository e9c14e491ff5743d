//! The parameters of the Stable API: `apiVersion`, `apiStrict` and `apiDeprecationErrors`. A command is held against the version that its
//! client names, and what goes on with a cursor or a transaction against what that began with. The rules and texts are MongoDB's.
//!
//! Version 1 is the one that is served. Version 2 has nothing but commands for tests of drivers, and is taken only where
//! the server was started with `acceptApiVersion2`.

use std::fmt;

use quarry_query::ErrorCode;

use crate::dispatch::error::{CommandError, Result};

/// A command names no version on a server that requires one.
const NO_VERSION: ErrorCode = ErrorCode(498_870);
/// A command names no version, but something that goes by one.
const NO_VERSION_OF_OPTIONS: ErrorCode = ErrorCode(4_886_600);

/// A version that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiVersion {
    One,
    Two,
}

impl ApiVersion {
    /// Reads the value of `apiVersion`.
    pub fn parse(text: &str) -> Result<ApiVersion> {
        match text {
            "1" => Ok(ApiVersion::One),
            "2" => Ok(ApiVersion::Two),
            _ => Err(CommandError::new(
                ErrorCode::API_VERSION_ERROR,
                "API version must be \"1\"",
            )),
        }
    }

    /// The version as clients name it.
    pub fn name(self) -> &'static str {
        match self {
            ApiVersion::One => "1",
            ApiVersion::Two => "2",
        }
    }
}

/// The server's own rules about versions, by its parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiRules {
    pub accepts_version_2: bool,
    pub requires_version: bool,
}

/// A command as one version has it.
#[derive(Clone, Copy)]
pub struct VersionedCommand {
    pub name: &'static str,
    pub is_there: bool,
    pub is_deprecated: bool,
}

/// The parameters of one command, as far as it has them. As in MongoDB, a flag that is false differs from one that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiParameters {
    pub version: Option<ApiVersion>,
    pub strict: Option<bool>,
    pub deprecation_errors: Option<bool>,
}

impl ApiParameters {
    /// Whether the client wants nothing outside of the version that it names.
    pub fn is_strict(self) -> bool {
        self.strict == Some(true)
    }

    /// Refuses a command that the parameters do not allow, or the server without them.
    pub fn check(
        self,
        rules: ApiRules,
        command_in: impl FnOnce(ApiVersion) -> VersionedCommand,
    ) -> Result<()> {
        let Some(version) = self.version else {
            return self.check_unversioned(rules);
        };
        if version == ApiVersion::Two && !rules.accepts_version_2 {
            let message = "Cannot accept API version 2";
            return Err(CommandError::new(ErrorCode::API_VERSION_ERROR, message));
        }
        let command = command_in(version);
        let (name, number) = (command.name, version.name());
        if self.is_strict() && !command.is_there {
            let message = format!(
                "Provided apiStrict:true, but the command {name} is not in API Version {number}. Information on supported commands \
                 and migrations in API Version {number} can be found at https://dochub.mongodb.org/core/manual-versioned-api."
            );
            return Err(CommandError::new(ErrorCode::API_STRICT_ERROR, message));
        }
        if self.deprecation_errors == Some(true) && command.is_deprecated {
            let message = format!(
                "Provided apiDeprecationErrors:true, but the command {name} is deprecated in API Version {number}."
            );
            return Err(CommandError::new(ErrorCode::API_DEPRECATION_ERROR, message));
        }
        Ok(())
    }

    fn check_unversioned(self, rules: ApiRules) -> Result<()> {
        if self.strict.is_some() || self.deprecation_errors.is_some() {
            let message =
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion";
            return Err(CommandError::new(NO_VERSION_OF_OPTIONS, message));
        }
        if rules.requires_version {
            let message = "The apiVersion parameter is required, please configure your MongoClient's API version";
            return Err(CommandError::new(NO_VERSION, message));
        }
        Ok(())
    }

    /// Refuses a getMore with other parameters than those of the command that made its cursor.
    pub fn check_get_more(self, of_cursor: ApiParameters) -> Result<()> {
        if self == of_cursor {
            return Ok(());
        }
        Err(mismatch(&format!(
            "getMore used params {self}, the cursor-creating command used {of_cursor}"
        )))
    }

    /// Refuses a command of a transaction with other parameters than those of the first one.
    pub fn check_continued(self, of_first: ApiParameters) -> Result<()> {
        if self == of_first {
            return Ok(());
        }
        Err(mismatch(&format!(
            "transaction-continuing command used {self}, the transaction's first command used {of_first}"
        )))
    }
}

#[cold]
fn mismatch(what: &str) -> CommandError {
    let message = format!("API parameter mismatch: {what}");
    CommandError::new(ErrorCode::API_MISMATCH_ERROR, message)
}

impl fmt::Display for ApiParameters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = (self.version).map(|version| format!("apiVersion: \"{}\"", version.name()));
        let strict = self.strict.map(|strict| format!("apiStrict: {strict}"));
        let errors = self.deprecation_errors;
        let errors = errors.map(|errors| format!("apiDeprecationErrors: {errors}"));
        let given: Vec<String> = [version, strict, errors].into_iter().flatten().collect();
        match given.is_empty() {
            true => out.write_str("{}"),
            false => write!(out, "{{ {} }}", given.join(", ")),
        }
    }
}

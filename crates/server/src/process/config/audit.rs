//! The audit log: mongod's options of where events go, in which form, and which of them.

use std::path::PathBuf;

use quarry_bson::{Document, extjson};

use super::values::BadOptions;

/// The options as they are given.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AuditSettings {
    /// Write an audit log: `console` for the standard output, `file` for the file of --auditPath [default: none is written]
    #[arg(long = "auditDestination", value_name = "console|file")]
    pub destination: Option<String>,
    /// Form of the audit file: JSON, one line an event, or BSON [default: JSON]
    #[arg(long = "auditFormat", value_name = "JSON|BSON")]
    pub format: Option<String>,
    /// File of the audit log, which is appended to
    #[arg(long = "auditPath", value_name = "FILE")]
    pub path: Option<PathBuf>,
    /// Keep only the events that match this query document, in Extended JSON
    #[arg(long = "auditFilter", value_name = "JSON")]
    pub filter: Option<String>,
}

/// The form of an event in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFormat {
    /// One line an event.
    Json,
    /// One document behind the other, as `bsondump` reads them.
    Bson,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDestination {
    /// The standard output, as JSON.
    Console,
    /// A file.
    File(PathBuf),
}

/// The options of a server that writes an audit log.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Where events go.
    pub destination: AuditDestination,
    /// Their form.
    pub format: AuditFormat,
    /// The query document that an event has to match; without one all are kept.
    pub filter: Option<Document>,
}

impl AuditSettings {
    /// The command line's settings, completed by the file's.
    pub fn over(self, file: AuditSettings) -> AuditSettings {
        AuditSettings {
            destination: self.destination.or(file.destination),
            format: self.format.or(file.format),
            path: self.path.or(file.path),
            filter: self.filter.or(file.filter),
        }
    }

    /// The options that the settings come to; none for a server without an audit log.
    pub fn options(self) -> Result<Option<AuditOptions>, BadOptions> {
        let refused = |why: &str| Err(BadOptions(why.to_owned()));
        let Some(destination) = self.destination.as_deref() else {
            if self.format.is_some() || self.path.is_some() || self.filter.is_some() {
                return refused("auditDestination: the other options of the audit log need it");
            }
            return Ok(None);
        };
        let destination = match (destination, self.path) {
            ("file", Some(path)) => AuditDestination::File(path),
            ("file", None) => return refused("auditDestination: `file` needs --auditPath"),
            ("console", None) => AuditDestination::Console,
            ("console", Some(_)) => return refused("auditPath: the audit log goes to the console"),
            ("syslog", _) => {
                return refused("auditDestination: `syslog` is not supported yet; give `file`");
            }
            (other, _) => {
                return Err(BadOptions(format!(
                    "auditDestination: `{other}` is neither `console` nor `file`"
                )));
            }
        };
        let format = match self.format.as_deref() {
            None | Some("JSON") => AuditFormat::Json,
            Some("BSON") if destination != AuditDestination::Console => AuditFormat::Bson,
            Some("BSON") => return refused("auditFormat: the console takes JSON alone"),
            Some(other) => {
                return Err(BadOptions(format!(
                    "auditFormat: `{other}` is neither `JSON` nor `BSON`"
                )));
            }
        };
        let filter = self.filter.map(|text| extjson::parse(&text)).transpose();
        Ok(Some(AuditOptions {
            destination,
            format,
            filter: filter.map_err(|error| BadOptions(format!("auditFilter: {error}")))?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: [Option<&str>; 4]) -> Result<Option<AuditOptions>, String> {
        let [destination, format, path, filter] = given.map(|text| text.map(str::to_owned));
        let settings = AuditSettings {
            destination,
            format,
            path: path.map(PathBuf::from),
            filter,
        };
        settings.options().map_err(|error| error.0)
    }

    #[test]
    fn what_is_asked_for_is_served_or_refused_by_name() {
        assert!(options([None; 4]).unwrap().is_none());
        let console = options([Some("console"), None, None, None]).unwrap();
        assert_eq!(console.unwrap().destination, AuditDestination::Console);
        let filter = r#"{"atype": "authCheck"}"#;
        let file = options([Some("file"), Some("BSON"), Some("a.bson"), Some(filter)]);
        let file = file.unwrap().unwrap();
        assert_eq!(file.destination, AuditDestination::File("a.bson".into()));
        assert_eq!(file.format, AuditFormat::Bson);
        assert_eq!(file.filter.unwrap().get_str("atype"), Some("authCheck"));
        for (given, name) in [
            ([Some("syslog"), None, None, None], "`syslog`"),
            ([Some("file"), None, None, None], "--auditPath"),
            ([Some("paper"), None, None, None], "`paper`"),
            ([Some("console"), Some("BSON"), None, None], "auditFormat"),
            ([Some("console"), Some("XML"), None, None], "`XML`"),
            ([Some("console"), None, Some("a"), None], "auditPath"),
            ([Some("console"), None, None, Some("{")], "auditFilter"),
            ([None, None, None, Some("{}")], "auditDestination"),
        ] {
            let why = options(given).unwrap_err();
            assert!(why.contains(name), "{given:?}: {why}");
        }
    }
}

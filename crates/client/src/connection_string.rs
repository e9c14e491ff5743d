//! `mongodb://` URIs: which servers, which user, and how.
//!
//! Options mean what the drivers' specification of connection strings says. Those that tune a driver's pool or monitoring are taken
//! and change nothing, because there is neither. Any other that is not served is refused by name.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use quarry_bson::{Document, doc};
use quarry_wire::Compressor;

use crate::uri_options::UriOptions;
use crate::{Address, Error, Mechanism, Result};

const SCHEME: &str = "mongodb://";
/// A server that does not answer a connection for so long is taken for gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a lost connection is tried to be made again.
pub(crate) const RECONNECT_TIME: Duration = Duration::from_secs(30);
/// More members than any set has.
const ADDRESSES_MAX: usize = 50;

/// Said of a URI that has an `@` where none may be: what stands before it may be a part of a password, so that nothing is repeated.
const UNESCAPED: &str = "the URI has an `@` behind the servers: `:`, `/`, `?`, `#`, `@` and `%` in a user's name or password are written as %3A, %2F, %3F, %23, %40 and \
                         %25";

/// The settings of a URI.
#[derive(Clone, Debug)]
pub struct ConnectionString {
    /// The servers, in the order in which they are tried.
    pub addresses: Vec<Address>,
    /// The database that the URI names.
    pub database: Option<String>,
    /// The user; none where the client does not log in.
    pub login: Option<Login>,
    /// How the connection is encrypted; none where it is not.
    pub tls: Option<TlsOptions>,
    /// The set that the server must be a member of.
    pub replica_set: Option<String>,
    /// Whether the first address is taken whatever its server is.
    pub is_direct: bool,
    /// The name under which the server's log shows the client.
    pub app_name: Option<String>,
    /// How long a server may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long a server may take for a reply; without, any time.
    pub socket_timeout: Option<Duration>,
    /// How long a connection that was lost is tried to be made again.
    pub reconnect_time: Duration,
    /// Compressors that are offered to the server, the preferred one first.
    pub compressors: Vec<Compressor>,
    /// The mode of `readPreference`; the primary without.
    pub read_preference: Option<String>,
    /// The level of `readConcernLevel`.
    pub read_concern_level: Option<String>,
    /// The write concern, where the URI has one.
    pub write_concern: Option<Document>,
    /// Whether writes carry a transaction number, by which the server knows one that is sent again.
    pub is_retrying_writes: bool,
}

/// A user, and how it proves who it is. What is printed of it has no password.
#[derive(Clone)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
    /// The database that the user belongs to.
    pub source: String,
    /// The mechanism; without, the strongest that the server has for the user.
    pub mechanism: Option<Mechanism>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// How a connection is encrypted.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The authorities that are trusted; without, those of the machine.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key.
    pub certificate_key_file: Option<PathBuf>,
    /// Whether any certificate of the server will do.
    pub allows_invalid_certificates: bool,
    /// Whether a certificate of another host will do.
    pub allows_invalid_hostnames: bool,
}

impl ConnectionString {
    /// Reads a URI.
    ///
    /// # Errors
    /// [`Error::Uri`], which says what is wrong and never repeats a password.
    pub fn parse(uri: &str) -> Result<ConnectionString> {
        if uri.starts_with("mongodb+srv://") {
            return bad(
                "`mongodb+srv://` is not supported yet: name the servers with `mongodb://`",
            );
        }
        let Some(rest) = uri.strip_prefix(SCHEME) else {
            return bad("a connection string begins with `mongodb://`");
        };
        let (authority, behind) = match rest.split_once('/') {
            Some((authority, behind)) => (authority, behind),
            None => rest.split_once('?').unwrap_or((rest, "")),
        };
        let (path, options) = match rest.contains('/') {
            true => behind.split_once('?').unwrap_or((behind, "")),
            false => ("", behind),
        };
        let parsed = Self::of_parts(authority, path, options);
        // Where a password has a `/` or a `?`, its rest and the servers stand in the other parts.
        let is_unescaped = path.contains('@') || (parsed.is_err() && options.contains('@'));
        match is_unescaped {
            true => bad(UNESCAPED),
            false => parsed,
        }
    }

    fn of_parts(authority: &str, path: &str, options: &str) -> Result<ConnectionString> {
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let mut parsed = ConnectionString::new(addresses(hosts, user.is_some())?);
        if !path.is_empty() {
            parsed.database = Some(decoded(path, "the database")?);
        }
        let mut given = UriOptions::default();
        for pair in options.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return bad(format!("the option `{pair}` has no value"));
            };
            given.take(&mut parsed, name, &decoded(value, name)?)?;
        }
        given.finish(&mut parsed, user)?;
        Ok(parsed)
    }

    /// The servers at the addresses, with every option as it is without being given.
    #[must_use]
    pub fn new(addresses: Vec<Address>) -> ConnectionString {
        ConnectionString {
            addresses,
            database: None,
            login: None,
            tls: None,
            replica_set: None,
            is_direct: false,
            app_name: None,
            connect_timeout: CONNECT_TIMEOUT,
            socket_timeout: None,
            reconnect_time: RECONNECT_TIME,
            compressors: Vec::new(),
            read_preference: None,
            read_concern_level: None,
            write_concern: None,
            is_retrying_writes: true,
        }
    }

    /// The addresses as a person reads them, without user and password.
    #[must_use]
    pub fn shown(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        addresses.join(",")
    }
}

/// The servers of a URI. What stands behind an `@` is no part of a password, and may be repeated.
fn addresses(hosts: &str, is_behind_user: bool) -> Result<Vec<Address>> {
    let parsed: Option<Vec<Address>> = hosts.split(',').map(Address::parse).collect();
    match parsed {
        Some(parsed) if parsed.len() <= ADDRESSES_MAX => Ok(parsed),
        Some(_) => bad(format!("a URI names at most {ADDRESSES_MAX} servers")),
        None if !is_behind_user => {
            bad("the URI names no servers, as `mongodb://host:port,host:port` does")
        }
        None => bad(format!(
            "`{hosts}` names no servers, as `host:port,host:port` does"
        )),
    }
}

pub(crate) fn decoded(text: &str, what: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => bad(format!("{what} of the URI is no UTF-8")),
    }
}

pub(crate) fn bad<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Uri(what.into()))
}

impl ConnectionString {
    /// The read preference as a command carries it.
    pub(crate) fn read_preference_document(&self) -> Option<Document> {
        let mode = self.read_preference.as_deref()?;
        Some(doc! { "mode": mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(uri: &str) -> String {
        ConnectionString::parse(uri).unwrap_err().to_string()
    }

    #[test]
    fn parts_are_found_wherever_they_stand() {
        let parsed = ConnectionString::parse("mongodb://a").unwrap();
        assert_eq!(parsed.shown(), "a:27017");
        assert!(parsed.login.is_none() && parsed.tls.is_none());
        let parsed = ConnectionString::parse("mongodb://u:p@%2Ftmp%2Fmongodb-1.sock/db").unwrap();
        assert_eq!(parsed.shown(), "/tmp/mongodb-1.sock");
        assert_eq!(parsed.database.as_deref(), Some("db"));
        let parsed =
            ConnectionString::parse("mongodb://a:1,b:2/?replicaSet=rs0&W=majority").unwrap();
        assert_eq!(parsed.shown(), "a:1,b:2");
        assert_eq!(parsed.replica_set.as_deref(), Some("rs0"));
        assert_eq!(parsed.write_concern, Some(doc! { "w": "majority" }));
        let parsed = ConnectionString::parse("mongodb://a?directConnection=true").unwrap();
        assert!(parsed.is_direct);
    }

    #[test]
    fn a_user_belongs_to_the_source_the_database_or_admin() {
        let source = |uri: &str| ConnectionString::parse(uri).unwrap().login.unwrap().source;
        assert_eq!(source("mongodb://u:p@a"), "admin");
        assert_eq!(source("mongodb://u:p@a/shop"), "shop");
        assert_eq!(source("mongodb://u:p@a/shop?authSource=users"), "users");
        let login = ConnectionString::parse("mongodb://u%3A:p%2F%40@a")
            .unwrap()
            .login
            .unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str()),
            ("u:", "p/@")
        );
    }

    #[test]
    fn an_option_of_tls_asks_for_tls_unless_it_is_switched_off() {
        let tls = |uri: &str| ConnectionString::parse(uri).unwrap().tls;
        assert!(tls("mongodb://a/?tlsCAFile=%2Fca.pem").is_some());
        assert!(tls("mongodb://a/?tls=false&tlsCAFile=x").is_none());
        let insecure = tls("mongodb://a/?tlsInsecure=true").unwrap();
        assert!(insecure.allows_invalid_certificates && insecure.allows_invalid_hostnames);
    }

    #[test]
    fn what_is_not_served_is_named() {
        for (uri, said) in [
            ("http://a", "begins with `mongodb://`"),
            ("mongodb+srv://a", "not supported yet"),
            ("mongodb://a/?proxyHost=b", "`proxyHost`"),
            ("mongodb://a/?tlsCRLFile=b", "`tlsCRLFile`"),
            ("mongodb://u:p@a/?authMechanism=GSSAPI", "`GSSAPI`"),
            ("mongodb://a/?tls=maybe", "`true` or `false`"),
            ("mongodb://a/?w", "has no value"),
            ("mongodb://u:p:q@a", "%3A"),
            ("mongodb://u:secret@", "names no servers"),
            ("mongodb://a:b", "names no servers"),
            ("mongodb://a/?readPreference=secondary", "directConnection"),
            ("mongodb://a/?readPreference=often", "`readPreference`"),
            (
                "mongodb://a/?readPreferenceTags=dc:x",
                "`readPreferenceTags`",
            ),
            (
                "mongodb://a/?maxStalenessSeconds=90",
                "`maxStalenessSeconds`",
            ),
            ("mongodb://a/?timeoutMS=5", "`timeoutMS`"),
            ("mongodb://a/?retryReads=false", "`retryReads`"),
            ("mongodb://a/?w=0", "`w=0`"),
        ] {
            let error = error(uri);
            assert!(
                error.contains(said) && !error.contains("secret"),
                "{uri}: {error}"
            );
        }
    }
    #[test]
    fn options_that_change_nothing_are_taken() {
        for uri in [
            "mongodb://a/?retryReads=true&timeoutMS=0&maxStalenessSeconds=-1&maxPoolSize=3",
            "mongodb://a/?directConnection=true&readPreference=secondary",
            "mongodb://a/?readPreference=primaryPreferred&appName=a@b",
        ] {
            assert!(ConnectionString::parse(uri).is_ok(), "{uri}");
        }
    }

    #[test]
    fn no_part_of_a_password_is_ever_repeated() {
        for uri in [
            "mongodb://ada:geh/eim@host/",
            "mongodb://ada:12345/eim@host/",
            "mongodb://ada:geh?eim@host",
            "mongodb://ada:12345?eim=geh@host",
            "mongodb://ada:x@geh/eim@host",
            "mongodb://ada:x@geh?eim@host",
        ] {
            let error = error(uri);
            assert!(error.contains("%2F"), "{uri}: {error}");
            assert!(
                !error.contains("geh") && !error.contains("eim"),
                "{uri}: {error}"
            );
        }
        let parsed = ConnectionString::parse("mongodb://ada:geheim@a").unwrap();
        assert!(!format!("{parsed:?}").contains("geheim"));
    }
}

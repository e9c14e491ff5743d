//! `mongodb://` URIs: which servers, which user, and how.
//!
//! Options mean what the drivers' specification of connection strings says. Those that tune a driver's pool or monitoring are taken
//! and change nothing, because there is neither. Any other that is not served is refused by name.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use quarry_bson::{Document, Value, doc};
use quarry_wire::Compressor;

use crate::{Address, Error, Mechanism, Result};

const SCHEME: &str = "mongodb://";
/// A server that does not answer a connection for so long is taken for gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a lost connection is tried to be made again.
const RECONNECT_TIME: Duration = Duration::from_secs(30);
/// More members than any set has.
const ADDRESSES_MAX: usize = 50;

/// Options of pools and of monitoring, which change nothing here. In lower case, as they are compared.
const WITHOUT_EFFECT: [&str; 16] = [
    "heartbeatfrequencyms",
    "localthresholdms",
    "maxconnecting",
    "maxidletimems",
    "maxpoolsize",
    "maxstalenessseconds",
    "minpoolsize",
    "retryreads",
    "servermonitoringmode",
    "srvmaxhosts",
    "timeoutms",
    "uuidrepresentation",
    "waitqueuemultiple",
    "waitqueuetimeoutms",
    "zlibcompressionlevel",
    "readpreferencetags",
];

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

/// A user, and how it proves who it is.
#[derive(Clone, Debug)]
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
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let mut parsed = ConnectionString::new(addresses(hosts)?);
        if !path.is_empty() {
            parsed.database = Some(decoded(path, "the database")?);
        }
        let mut given = Options::default();
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

/// Options whose meaning depends on others, until all are read.
#[derive(Default)]
struct Options {
    tls: Option<bool>,
    tls_options: TlsOptions,
    names_tls_option: bool,
    auth_source: Option<String>,
    mechanism: Option<Mechanism>,
    write_concern: Document,
}

impl Options {
    fn take(&mut self, parsed: &mut ConnectionString, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        if let Some(option) = lower
            .strip_prefix("tls")
            .filter(|option| !option.is_empty())
        {
            self.names_tls_option = true;
            return self.take_tls(option, name, value);
        }
        match lower.as_str() {
            "tls" | "ssl" => self.tls = Some(flag(name, value)?),
            "authsource" => self.auth_source = Some(value.to_owned()),
            "authmechanism" => match Mechanism::named(value) {
                Some(mechanism) => self.mechanism = Some(mechanism),
                None => {
                    return bad(format!(
                        "the login mechanism `{value}` is not supported yet"
                    ));
                }
            },
            "replicaset" => parsed.replica_set = Some(value.to_owned()),
            "directconnection" => parsed.is_direct = flag(name, value)?,
            "loadbalanced" if !flag(name, value)? => {}
            "appname" => parsed.app_name = Some(value.to_owned()),
            "connecttimeoutms" => {
                parsed.connect_timeout = milliseconds(name, value)?.unwrap_or(Duration::MAX);
            }
            "sockettimeoutms" => parsed.socket_timeout = milliseconds(name, value)?,
            "serverselectiontimeoutms" => {
                parsed.reconnect_time = milliseconds(name, value)?.unwrap_or(RECONNECT_TIME);
            }
            // A driver passes over the compressors that it does not have, as the protocol wants it.
            "compressors" => {
                parsed.compressors = value.split(',').filter_map(Compressor::from_name).collect();
            }
            "readpreference" => parsed.read_preference = Some(value.to_owned()),
            "readconcernlevel" => parsed.read_concern_level = Some(value.to_owned()),
            "retrywrites" => parsed.is_retrying_writes = flag(name, value)?,
            "w" => {
                let w = value
                    .parse::<i32>()
                    .map_or_else(|_| Value::from(value), Value::from);
                self.write_concern.append("w", w);
            }
            "journal" | "j" => {
                self.write_concern.append("j", flag(name, value)?);
            }
            "wtimeoutms" | "wtimeout" => match value.parse::<i64>() {
                Ok(wtimeout) => {
                    self.write_concern.append("wtimeout", wtimeout);
                }
                Err(_) => return bad(format!("the option `{name}` is a number")),
            },
            other if WITHOUT_EFFECT.contains(&other) => {}
            _ => return bad(format!("the option `{name}` of a URI is not supported yet")),
        }
        Ok(())
    }

    /// An option that begins with `tls`; `option` is the rest, in lower case.
    fn take_tls(&mut self, option: &str, name: &str, value: &str) -> Result<()> {
        let options = &mut self.tls_options;
        match option {
            "cafile" => options.ca_file = Some(value.into()),
            "certificatekeyfile" => options.certificate_key_file = Some(value.into()),
            "allowinvalidcertificates" => {
                options.allows_invalid_certificates = flag(name, value)?;
            }
            "allowinvalidhostnames" => options.allows_invalid_hostnames = flag(name, value)?,
            "insecure" => {
                options.allows_invalid_certificates = flag(name, value)?;
                options.allows_invalid_hostnames = flag(name, value)?;
            }
            _ => return bad(format!("the option `{name}` of a URI is not supported yet")),
        }
        Ok(())
    }

    fn finish(self, parsed: &mut ConnectionString, user: Option<&str>) -> Result<()> {
        if self.tls.unwrap_or(self.names_tls_option) {
            parsed.tls = Some(self.tls_options);
        }
        if !self.write_concern.is_empty() {
            parsed.write_concern = Some(self.write_concern);
        }
        if parsed.is_direct && parsed.addresses.len() > 1 {
            return bad("`directConnection=true` goes with one server");
        }
        let Some(user) = user else {
            return match self.mechanism {
                Some(_) => bad("`authMechanism` goes with a user"),
                None => Ok(()),
            };
        };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        if name.is_empty() || user.contains('@') || password.contains(':') {
            return bad(
                "`:`, `/` and `@` in a user's name or password are written as %3A, %2F and %40",
            );
        }
        let source = self.auth_source.or_else(|| parsed.database.clone());
        parsed.login = Some(Login {
            user: decoded(name, "the user")?,
            password: decoded(password, "the password")?,
            source: source.unwrap_or_else(|| "admin".to_owned()),
            mechanism: self.mechanism,
        });
        Ok(())
    }
}

fn addresses(hosts: &str) -> Result<Vec<Address>> {
    let parsed: Option<Vec<Address>> = hosts.split(',').map(Address::parse).collect();
    match parsed {
        Some(parsed) if parsed.len() <= ADDRESSES_MAX => Ok(parsed),
        Some(_) => bad(format!("a URI names at most {ADDRESSES_MAX} servers")),
        None if hosts.to_ascii_lowercase().contains("%2f") => {
            bad("sockets of the file system are not supported yet")
        }
        None => bad(format!(
            "`{hosts}` names no servers, as `host:port,host:port` does"
        )),
    }
}

fn decoded(text: &str, what: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => bad(format!("{what} of the URI is no UTF-8")),
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => bad(format!("the option `{name}` is `true` or `false`")),
    }
}

/// A time in milliseconds; none for 0, which means any time.
fn milliseconds(name: &str, value: &str) -> Result<Option<Duration>> {
    match value.parse() {
        Ok(0) => Ok(None),
        Ok(milliseconds) => Ok(Some(Duration::from_millis(milliseconds))),
        Err(_) => bad(format!("the option `{name}` is a number of milliseconds")),
    }
}

fn bad<T>(what: impl Into<String>) -> Result<T> {
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
            ("mongodb://%2Ftmp%2Fx.sock", "sockets of the file system"),
            ("mongodb://a/?proxyHost=b", "`proxyHost`"),
            ("mongodb://a/?tlsCRLFile=b", "`tlsCRLFile`"),
            ("mongodb://u:p@a/?authMechanism=GSSAPI", "`GSSAPI`"),
            ("mongodb://a/?tls=maybe", "`true` or `false`"),
            ("mongodb://a/?w", "has no value"),
            ("mongodb://u:p:q@a", "%3A"),
            ("mongodb://u:secret@", "names no servers"),
        ] {
            let error = error(uri);
            assert!(
                error.contains(said) && !error.contains("secret"),
                "{uri}: {error}"
            );
        }
    }
}

//! The options of a URI, by the drivers' specification.

use std::time::Duration;

use quarry_bson::{Document, Value};
use quarry_wire::Compressor;

use crate::connection_string::{RECONNECT_TIME, bad, decoded};
use crate::{ConnectionString, Login, Mechanism, Result, TlsOptions};

/// Options of pools and of monitoring, which change nothing here. In lower case, as they are compared.
const WITHOUT_EFFECT: [&str; 12] = [
    "heartbeatfrequencyms",
    "localthresholdms",
    "maxconnecting",
    "maxidletimems",
    "maxpoolsize",
    "minpoolsize",
    "servermonitoringmode",
    "srvmaxhosts",
    "uuidrepresentation",
    "waitqueuemultiple",
    "waitqueuetimeoutms",
    "zlibcompressionlevel",
];

/// Options that drivers serve and this client does not, each with the value by which it changes nothing.
const ONLY_AS_IT_IS: [(&str, &str); 3] = [
    ("maxstalenessseconds", "-1"),
    ("retryreads", "true"),
    ("timeoutms", "0"),
];
const READ_PREFERENCES: [&str; 5] = [
    "primary",
    "primaryPreferred",
    "secondary",
    "secondaryPreferred",
    "nearest",
];
/// Options whose meaning depends on others, until all are read.
#[derive(Default)]
pub struct UriOptions {
    tls: Option<bool>,
    tls_options: TlsOptions,
    names_tls_option: bool,
    auth_source: Option<String>,
    mechanism: Option<Mechanism>,
    write_concern: Document,
}

impl UriOptions {
    /// Takes an option into the settings, or keeps it until `finish`.
    pub fn take(&mut self, parsed: &mut ConnectionString, name: &str, value: &str) -> Result<()> {
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
            "readpreference" if !READ_PREFERENCES.contains(&value) => {
                return bad(format!(
                    "the option `{name}` is one of {READ_PREFERENCES:?}"
                ));
            }
            "readpreference" => parsed.read_preference = Some(value.to_owned()),
            "readconcernlevel" => parsed.read_concern_level = Some(value.to_owned()),
            "retrywrites" => parsed.is_retrying_writes = flag(name, value)?,
            "w" => {
                let w = match value.parse::<i32>() {
                    Ok(0) => return bad("`w=0` is not supported: what is written is confirmed"),
                    Ok(members) => Value::from(members),
                    Err(_) => Value::from(value),
                };
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
            other if ONLY_AS_IT_IS.contains(&(other, value)) => {}
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

    /// Takes what depends on several options, and the user.
    pub fn finish(self, parsed: &mut ConnectionString, user: Option<&str>) -> Result<()> {
        if self.tls.unwrap_or(self.names_tls_option) {
            parsed.tls = Some(self.tls_options);
        }
        if !self.write_concern.is_empty() {
            parsed.write_concern = Some(self.write_concern);
        }
        if parsed.is_direct && parsed.addresses.len() > 1 {
            return bad("`directConnection=true` goes with one server");
        }
        let prefers = parsed.read_preference.as_deref();
        let prefers_secondary = prefers.is_some_and(|mode| mode.starts_with("secondary"));
        if prefers_secondary && !parsed.is_direct {
            return bad(
                "`readPreference` of a secondary is not supported without `directConnection=true` and the secondary as the server",
            );
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

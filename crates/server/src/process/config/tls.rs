//! Encryption of connections: mongod's options by their names of today, and by those with `ssl`.

use std::path::PathBuf;

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use super::values::BadOptions;

/// The options as they are given.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TlsSettings {
    /// Whether connections are encrypted: disabled, allowTLS or preferTLS (both kinds are served), requireTLS [default:
    /// disabled]
    #[arg(long = "tlsMode", alias = "sslMode", value_enum, value_name = "MODE")]
    pub mode: Option<TlsMode>,
    /// Like `--tlsMode requireTLS`
    #[arg(long = "tlsOnNormalPorts", alias = "sslOnNormalPorts")]
    pub on_normal_ports: bool,
    /// PEM file with the server's certificate, those that lead from it to an authority, and its key
    #[arg(
        long = "tlsCertificateKeyFile",
        alias = "sslPEMKeyFile",
        value_name = "FILE"
    )]
    pub certificate_key_file: Option<PathBuf>,
    /// PEM file of the authorities that clients' certificates must come from; without it no client shows one
    #[arg(long = "tlsCAFile", alias = "sslCAFile", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// PEM file of lists of revoked certificates
    #[arg(long = "tlsCRLFile", alias = "sslCRLFile", value_name = "FILE")]
    pub crl_file: Option<PathBuf>,
    /// Take clients that show no certificate, too
    #[arg(
        long = "tlsAllowConnectionsWithoutCertificates",
        aliases = ["sslAllowConnectionsWithoutCertificates", "sslWeakCertificateValidation"]
    )]
    pub allow_connections_without_certificates: bool,
    /// Take clients whose certificate does not come from an authority or is expired; nobody logs in with such a one
    #[arg(
        long = "tlsAllowInvalidCertificates",
        alias = "sslAllowInvalidCertificates"
    )]
    pub allow_invalid_certificates: bool,
    /// Versions that are not spoken, of TLS1_0, TLS1_1, TLS1_2 and TLS1_3, separated by commas, or none; the first two never
    /// are
    #[arg(
        long = "tlsDisabledProtocols",
        alias = "sslDisabledProtocols",
        value_name = "NAMES"
    )]
    pub disabled_protocols: Option<String>,
}

/// The values of `net.tls.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TlsMode {
    /// No connection is encrypted.
    #[value(name = "disabled")]
    Disabled,
    /// Both kinds are served.
    #[value(name = "allowTLS", alias = "allowSSL")]
    Allow,
    /// Both kinds are served; mongod's members would encrypt between themselves.
    #[value(name = "preferTLS", alias = "preferSSL")]
    Prefer,
    /// Connections without encryption are refused.
    #[value(name = "requireTLS", alias = "requireSSL")]
    Require,
}

impl TlsMode {
    /// The name of today.
    pub fn as_str(self) -> &'static str {
        match self {
            TlsMode::Disabled => "disabled",
            TlsMode::Allow => "allowTLS",
            TlsMode::Prefer => "preferTLS",
            TlsMode::Require => "requireTLS",
        }
    }
}

/// The options of a server that encrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// As it was given, for getCmdLineOpts.
    pub mode: TlsMode,
    /// Connections without encryption are refused.
    pub is_required: bool,
    /// The server's certificate and key.
    pub certificate_key_file: PathBuf,
    /// The authorities that clients' certificates come from.
    pub ca_file: Option<PathBuf>,
    /// Lists of revoked certificates.
    pub crl_file: Option<PathBuf>,
    /// Clients without a certificate are taken.
    pub takes_none: bool,
    /// Clients with a certificate that proves nothing are taken.
    pub takes_invalid: bool,
    has_1_2: bool,
    has_1_3: bool,
}

impl TlsOptions {
    /// The versions that are spoken.
    pub fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        [(self.has_1_3, &TLS13), (self.has_1_2, &TLS12)]
            .into_iter()
            .filter_map(|(is_spoken, version)| is_spoken.then_some(version))
            .collect()
    }
}

impl TlsSettings {
    /// The command line's settings, completed by the file's.
    pub fn over(self, file: TlsSettings) -> TlsSettings {
        TlsSettings {
            mode: self.mode.or(file.mode),
            on_normal_ports: self.on_normal_ports || file.on_normal_ports,
            certificate_key_file: self.certificate_key_file.or(file.certificate_key_file),
            ca_file: self.ca_file.or(file.ca_file),
            crl_file: self.crl_file.or(file.crl_file),
            allow_connections_without_certificates: self.allow_connections_without_certificates
                || file.allow_connections_without_certificates,
            allow_invalid_certificates: self.allow_invalid_certificates
                || file.allow_invalid_certificates,
            disabled_protocols: self.disabled_protocols.or(file.disabled_protocols),
        }
    }

    /// The options that the settings come to; none for a server that does not encrypt.
    pub fn options(self) -> Result<Option<TlsOptions>, BadOptions> {
        let refused = |why: &str| Err(BadOptions(why.to_owned()));
        let mode = match (self.mode, self.on_normal_ports) {
            (None, true) => Some(TlsMode::Require),
            (Some(_), true) => {
                return refused("tlsOnNormalPorts: it stands in for tlsMode, which is given too");
            }
            (mode, false) => mode,
        };
        let mode = mode.unwrap_or(TlsMode::Disabled);
        if mode == TlsMode::Disabled {
            let is_asked_for = self.certificate_key_file.is_some()
                || self.ca_file.is_some()
                || self.crl_file.is_some()
                || self.allow_connections_without_certificates
                || self.allow_invalid_certificates
                || self.disabled_protocols.is_some();
            if is_asked_for {
                return refused("tlsMode: the other options of TLS need it, and it is disabled");
            }
            return Ok(None);
        }
        let Some(certificate_key_file) = self.certificate_key_file else {
            return refused("tlsMode: a certificate is needed; give --tlsCertificateKeyFile");
        };
        if self.crl_file.is_some() && self.ca_file.is_none() {
            return refused("tlsCRLFile: no certificate is asked for; give --tlsCAFile");
        }
        let (has_1_2, has_1_3) = versions(self.disabled_protocols.as_deref().unwrap_or("none"))?;
        Ok(Some(TlsOptions {
            mode,
            is_required: mode == TlsMode::Require,
            certificate_key_file,
            ca_file: self.ca_file,
            crl_file: self.crl_file,
            takes_none: self.allow_connections_without_certificates,
            takes_invalid: self.allow_invalid_certificates,
            has_1_2,
            has_1_3,
        }))
    }
}

/// Whether TLS 1.2 and TLS 1.3 are spoken where these names are disabled.
fn versions(disabled: &str) -> Result<(bool, bool), BadOptions> {
    let (mut has_1_2, mut has_1_3) = (true, true);
    for name in disabled.split(',').map(str::trim) {
        match name {
            "none" | "TLS1_0" | "TLS1_1" => {}
            "TLS1_2" => has_1_2 = false,
            "TLS1_3" => has_1_3 = false,
            _ => {
                return Err(BadOptions(format!(
                    "tlsDisabledProtocols: `{name}` is not one of TLS1_0, TLS1_1, TLS1_2, TLS1_3, none"
                )));
            }
        }
    }
    if !has_1_2 && !has_1_3 {
        return Err(BadOptions(
            "tlsDisabledProtocols: no version is left".into(),
        ));
    }
    Ok((has_1_2, has_1_3))
}

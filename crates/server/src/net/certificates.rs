//! The server's certificate, the authorities that it trusts, and what it asks of clients: read from files, and read again
//! without a restart.
//!
//! A handshake takes what is there when it begins. No session is resumed: each handshake proves everything anew, so that
//! what was revoked or replaced meets the next connection. Connections that are open go on.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ProtocolVersion, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::net::tls_stream::TlsStream;
use crate::process::config::TlsOptions;

/// A larger file of certificates is none.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The certificates of a server that has TLS, and counts of its handshakes.
pub struct Certificates {
    options: TlsOptions,
    /// Held for a copy of the pointer.
    loaded: RwLock<Arc<Loaded>>,
    /// Handshakes of each version that were done.
    pub tls_1_2: AtomicU64,
    pub tls_1_3: AtomicU64,
    /// Handshakes that came to nothing.
    pub failed: AtomicU64,
}

/// The files, read.
struct Loaded {
    for_clients: Arc<ServerConfig>,
    /// The admin port asks no certificate of anybody.
    for_admin: Arc<ServerConfig>,
    /// Checks the certificate of a client; none without authorities.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The server's own certificate.
    own: CertificateDer<'static>,
}

impl Certificates {
    /// Reads the files. The error names the file and what is wrong with it.
    pub fn load(options: TlsOptions) -> Result<Certificates, String> {
        let loaded = Loaded::read(&options)?;
        Ok(Certificates {
            options,
            loaded: RwLock::new(Arc::new(loaded)),
            tls_1_2: AtomicU64::new(0),
            tls_1_3: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Reads the files again, for the connections from now on; nothing changes when that fails.
    pub fn rotate(&self) -> Result<(), String> {
        let loaded = Arc::new(Loaded::read(&self.options)?);
        *self.loaded.write() = loaded;
        Ok(())
    }

    /// Whether a connection without encryption is refused.
    pub fn is_required(&self) -> bool {
        self.options.is_required
    }

    /// Whether there are authorities that a client's certificate is held against.
    pub fn has_authorities(&self) -> bool {
        self.options.ca_file.is_some()
    }

    /// The configuration for the handshake of a driver's connection.
    pub fn for_clients(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.read().for_clients)
    }

    /// The configuration for the handshake of a connection to the admin port.
    pub fn for_admin(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.read().for_admin)
    }

    /// The server's own certificate.
    pub fn own(&self) -> CertificateDer<'static> {
        self.loaded.read().own.clone()
    }

    /// Whether a client's certificates lead to an authority now, and none is expired or revoked. A handshake may have let in
    /// one of which that is not true, or is no longer.
    pub fn are_valid(&self, shown: &[CertificateDer<'static>]) -> bool {
        let loaded = Arc::clone(&self.loaded.read());
        match (&loaded.verifier, shown.split_first()) {
            (Some(verifier), Some((own, others))) => verifier
                .verify_client_cert(own, others, UnixTime::now())
                .is_ok(),
            _ => false,
        }
    }

    /// Counts a handshake that has ended.
    pub fn note(&self, is_done: bool, stream: Option<&TlsStream>) {
        let version = stream.and_then(TlsStream::version);
        let counter = match version {
            Some(ProtocolVersion::TLSv1_2) if is_done => &self.tls_1_2,
            Some(_) if is_done => &self.tls_1_3,
            _ => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }
}

impl Loaded {
    fn read(options: &TlsOptions) -> Result<Loaded, String> {
        let key_file = &options.certificate_key_file;
        let pem = read(key_file)?;
        let chain: Vec<CertificateDer<'static>> = sections(key_file, &pem)?;
        let own = chain
            .first()
            .cloned()
            .ok_or_else(|| bad(key_file, "it holds no certificate"))?;
        let key = key(key_file, &pem)?;
        let verifier = verifier(options)?;
        let provider = Arc::new(ring::default_provider());
        let build = |verifier: Option<Arc<dyn ClientCertVerifier>>| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&options.versions())
                .map_err(|error| bad(key_file, error))?;
            let builder = match verifier {
                Some(verifier) => builder.with_client_cert_verifier(verifier),
                None => builder.with_no_client_auth(),
            };
            let mut config = builder
                .with_single_cert(chain.clone(), key.clone_key())
                .map_err(|error| bad(key_file, error))?;
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            Ok::<_, String>(Arc::new(config))
        };
        let asked = verifier
            .clone()
            .map(|verifier| match options.takes_invalid {
                true => Arc::new(Lenient(verifier)) as Arc<dyn ClientCertVerifier>,
                false => verifier,
            });
        Ok(Loaded {
            for_clients: build(asked)?,
            for_admin: build(None)?,
            verifier,
            own,
        })
    }
}

/// The check of clients' certificates that the options ask for; none without authorities.
fn verifier(options: &TlsOptions) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let Some(ca_file) = &options.ca_file else {
        return Ok(None);
    };
    let mut roots = RootCertStore::empty();
    for authority in sections::<CertificateDer<'static>>(ca_file, &read(ca_file)?)? {
        roots.add(authority).map_err(|error| bad(ca_file, error))?;
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let mut named = ca_file;
    if let Some(crl_file) = &options.crl_file {
        named = crl_file;
        let lists: Vec<CertificateRevocationListDer<'static>> =
            sections(crl_file, &read(crl_file)?)?;
        if lists.is_empty() {
            return Err(bad(crl_file, "it holds no list of revoked certificates"));
        }
        // As OpenSSL is asked by mongod: the client's own certificate, against a list that must be there and not expired.
        builder = builder
            .with_crls(lists)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration();
    }
    if options.takes_none {
        builder = builder.allow_unauthenticated();
    }
    let built = builder.build().map_err(|error| bad(named, error))?;
    Ok(Some(built))
}

fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(bad(
            path,
            "its key is encrypted, which is not supported: write it without a password (openssl pkey) and let only the server read it",
        ));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| bad(path, format!("its key: {error}")))
}

/// All sections of one kind in a PEM file, in their order.
fn sections<T: PemObject>(path: &Path, pem: &[u8]) -> Result<Vec<T>, String> {
    let sections = T::pem_slice_iter(pem).collect::<Result<_, _>>();
    sections.map_err(|error| bad(path, error))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| bad(path, error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(path, error))?;
    Ok(bytes)
}

fn bad(path: &Path, why: impl Display) -> String {
    format!("tls: {}: {why}", path.display())
}

/// Takes any certificate whose key the client has. It opens a connection and nobody's login: `Certificates::are_valid` asks
/// the strict check then.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A hint of the authorities would keep a client from showing what is taken here.
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

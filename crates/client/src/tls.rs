//! The client's side of TLS: whom it trusts and what it shows of itself.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::{Error, Result, TlsOptions};

/// A session with a host, before its handshake.
pub fn session(host: &str, options: &TlsOptions) -> Result<ClientConnection> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(options, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match &options.certificate_key_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let key =
                PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, error))?;
            builder
                .with_client_auth_cert(certificates(path)?, key)
                .map_err(failed)?
        }
    };
    let name = ServerName::try_from(host.to_owned()).map_err(failed)?;
    ClientConnection::new(Arc::new(config), name).map_err(failed)
}

/// Checks a server's certificate as far as the options want it.
#[derive(Debug)]
struct Verifier {
    /// None where any certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    allows_invalid_hostnames: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Verifier> {
        let chain = match options.allows_invalid_certificates {
            true => None,
            false => {
                let roots = Arc::new(roots(options.ca_file.as_deref())?);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                Some(builder.build().map_err(failed)?)
            }
        };
        Ok(Verifier {
            chain,
            allows_invalid_hostnames: options.allows_invalid_hostnames,
            provider: Arc::clone(provider),
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at last, so that a certificate of another host is good in all but that.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.allows_invalid_hostnames => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The authorities of the file, or those that the machine trusts.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(failed)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    match roots.is_empty() {
        true => Err(Error::Uri(
            "this machine trusts no authority; name one with `tlsCAFile`".to_owned(),
        )),
        false => Ok(roots),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Uri(format!("certificates `{}`: {error}", path.display()))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Uri(format!("TLS: {error}"))
}

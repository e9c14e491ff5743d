//! A socket of the bench's client, plain or with TLS, and the certificate of this run.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

/// A certificate that is its own authority, for the length of one run.
pub struct Identity {
    /// The certificate and its key, as a server reads them.
    pub file: PathBuf,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    client: Arc<ClientConfig>,
}

impl Identity {
    /// Makes one, and writes it to the directory.
    pub fn make(directory: &Path) -> io::Result<Identity> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let params =
            CertificateParams::new(vec!["localhost".to_owned()]).map_err(io::Error::other)?;
        let made = params.self_signed(&key).map_err(io::Error::other)?;
        let file = directory.join("server.pem");
        fs::write(&file, made.pem() + &key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.der().clone()).map_err(io::Error::other)?;
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Identity {
            file,
            certificate: made.der().clone(),
            key: key.serialize_der(),
            client: Arc::new(client),
        })
    }

    /// The configuration of a server that has it.
    pub fn server(&self) -> io::Result<Arc<ServerConfig>> {
        let key = PrivateKeyDer::Pkcs8(self.key.clone().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .map_err(io::Error::other)?;
        Ok(Arc::new(config))
    }
}

/// One connection.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// By a socket of the file system.
    Unix(UnixStream),
    /// With TLS.
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to a port of this machine, with TLS where there is a certificate to trust.
    pub fn connect(port: u16, identity: Option<&Identity>) -> io::Result<Stream> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        let Some(identity) = identity else {
            return Ok(Stream::Plain(socket));
        };
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let session =
            ClientConnection::new(Arc::clone(&identity.client), name).map_err(io::Error::other)?;
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(
            session, socket,
        ))))
    }

    /// Connects to a socket of the file system.
    pub fn open(path: &Path) -> io::Result<Stream> {
        Ok(Stream::Unix(UnixStream::connect(path)?))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Unix(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Unix(socket) => socket.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

//! A server for a tool that has made a data directory and needs its collections: it answers at a socket of the file system, which nobody
//! but the user of the process may open, until the tool has what it wants.
//!
//! Nothing of the data changes by itself meanwhile: no document expires, and no archive is written. The caller holds the directory's lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quarry_client::uri_of_socket;

use crate::net::listener::{Accepting, Listener};
use crate::process::config::{
    Config, EncryptionSettings, EngineName, Face, KeyFileOption, Serve, UnixSockets,
};
use crate::process::shutdown::Shutdown;
use crate::process::{run, stopping};
use crate::server::Server;

/// For who made it alone.
const SOCKET_MODE: u32 = 0o700;

/// The server, until [`Alone::close`].
pub struct Alone {
    server: &'static Server,
    accepting: Accepting,
    /// Its drop takes the socket away.
    _listener: Listener,
    socket: PathBuf,
}

impl Alone {
    /// Opens the data, the journal's rest included, and begins to answer. Gives up, and later answers nobody, when the flag is set, which
    /// [`Alone::close`] does as well.
    pub fn open(
        directory: &Path,
        engine: EngineName,
        key: &KeyFileOption,
        give_up: &Arc<AtomicBool>,
    ) -> Result<Alone, String> {
        let serve = Serve {
            dbpath: Some(directory.to_owned()),
            engine: Some(engine),
            admin_port: Some("off".into()),
            encryption: EncryptionSettings {
                is_enabled: key.encryption_key_file.is_some(),
                key: key.clone(),
            },
            ..Serve::default()
        };
        let config = Config::new(Face::Quarry, serve, Vec::new()).map_err(|error| error.0)?;
        // A data directory may have a longer path than a socket can have.
        let socket = std::env::temp_dir().join(format!("quarry-alone-{}.sock", std::process::id()));
        let mut listener = Listener::bind(&[], 0)?;
        listener.bind_unix(&UnixSockets {
            named: vec![socket.clone()],
            of_port: None,
            mode: SOCKET_MODE,
        })?;
        let shutdown = Shutdown::of_flag(Arc::clone(give_up));
        let server = run::open_alone(config, shutdown)?;
        let accepting = run::accept(server, &listener).map_err(|error| error.to_string())?;
        Ok(Alone {
            server,
            accepting,
            _listener: listener,
            socket,
        })
    }

    /// The connection string of its clients.
    pub fn uri(&self) -> String {
        uri_of_socket(&self.socket)
    }

    /// Ends the connections, and makes everything durable.
    pub fn close(self) -> Result<(), String> {
        self.server.shutdown.request("the tool has ended");
        self.accepting.stop();
        stopping::end_connections(self.server);
        self.server.cursors.kill_all();
        let closed = self.server.database.close();
        closed.map_err(|error| error.to_string())
    }
}

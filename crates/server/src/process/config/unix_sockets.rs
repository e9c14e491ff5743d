//! Sockets of the file system: which are listened on beside the addresses, and who may open them.

use std::path::{Path, PathBuf};

use super::values::BadOptions;

/// Where mongod makes its socket when nobody says.
const PREFIX_DEFAULT: &str = "/tmp";
/// Only the user that the server runs as may open it, as with mongod.
const MODE_DEFAULT: u32 = 0o700;
/// The longest path that the system takes for a socket.
const PATH_BYTES_MAX: usize = 107;

/// The options as they are given.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct UnixSocketSettings {
    /// Make no socket of the file system for the port [default: /tmp/mongodb-PORT.sock, for clients of this machine]
    #[arg(long = "nounixsocket")]
    pub nounixsocket: bool,
    /// Directory of the socket for the port
    #[arg(long = "unixSocketPrefix", value_name = "DIRECTORY")]
    pub unix_socket_prefix: Option<PathBuf>,
    /// Who may open the sockets, in octal [default: 0700]
    #[arg(long = "filePermissions", value_name = "MODE", value_parser = parse_mode)]
    pub file_permissions: Option<u32>,
}

/// The sockets of the file system that are listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSockets {
    /// Those that `bind_ip` names.
    pub named: Vec<PathBuf>,
    /// Where the socket for the port is made; none where it is not.
    pub of_port: Option<SocketOfPort>,
    /// Who may open them.
    pub mode: u32,
}

/// The socket whose name follows from the port, `mongodb-PORT.sock`, where drivers' users look for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOfPort {
    directory: PathBuf,
    /// Somebody has asked for it: the server does not start without it.
    pub is_wanted: bool,
}

impl SocketOfPort {
    pub fn path(&self, port: u16) -> PathBuf {
        self.directory.join(format!("mongodb-{port}.sock"))
    }
}

impl UnixSocketSettings {
    /// These over those of a file.
    pub fn over(self, file: UnixSocketSettings) -> UnixSocketSettings {
        UnixSocketSettings {
            nounixsocket: self.nounixsocket || file.nounixsocket,
            unix_socket_prefix: self.unix_socket_prefix.or(file.unix_socket_prefix),
            file_permissions: self.file_permissions.or(file.file_permissions),
        }
    }

    /// The sockets of a server that `named` were named to, and which clients of this machine reach if `is_local`.
    pub fn sockets(
        self,
        named: Vec<PathBuf>,
        is_local: bool,
        port: u16,
    ) -> Result<UnixSockets, BadOptions> {
        let is_wanted = self.unix_socket_prefix.is_some();
        let directory = self
            .unix_socket_prefix
            .unwrap_or_else(|| PREFIX_DEFAULT.into());
        let of_port = SocketOfPort {
            directory,
            is_wanted,
        };
        // A port that is not known before names no file that anybody would look for.
        let is_made = !self.nounixsocket && is_local && (port != 0 || is_wanted);
        for path in &named {
            check_length(path)?;
        }
        if is_made {
            check_length(&of_port.path(u16::MAX))?;
        }
        Ok(UnixSockets {
            named,
            of_port: is_made.then_some(of_port),
            mode: self.file_permissions.unwrap_or(MODE_DEFAULT),
        })
    }
}

fn check_length(path: &Path) -> Result<(), BadOptions> {
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok(());
    }
    Err(BadOptions(format!(
        "`{}`: a socket's path has at most {PATH_BYTES_MAX} bytes",
        path.display()
    )))
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("`{text}` is no mode from 0 to 0777")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(settings: UnixSocketSettings, is_local: bool, port: u16) -> Option<PathBuf> {
        let sockets = settings.sockets(Vec::new(), is_local, port).unwrap();
        sockets.of_port.map(|socket| socket.path(port))
    }

    #[test]
    fn the_port_has_a_socket_where_somebody_may_look_for_it() {
        let default = UnixSocketSettings::default;
        let path = PathBuf::from("/tmp/mongodb-27017.sock");
        assert_eq!(sockets(default(), true, 27017), Some(path));
        assert_eq!(sockets(default(), false, 27017), None);
        assert_eq!(sockets(default(), true, 0), None);
        let settings = UnixSocketSettings {
            unix_socket_prefix: Some("/run/q".into()),
            ..default()
        };
        let path = PathBuf::from("/run/q/mongodb-4711.sock");
        assert_eq!(sockets(settings.clone(), true, 4711), Some(path));
        assert!(sockets(settings, true, 0).is_some());
        let settings = UnixSocketSettings {
            nounixsocket: true,
            ..default()
        };
        assert_eq!(sockets(settings, true, 27017), None);
    }

    #[test]
    fn modes_are_octal_and_paths_are_bounded() {
        assert_eq!(parse_mode("0700"), Ok(0o700));
        assert_eq!(parse_mode("666"), Ok(0o666));
        for bad in ["", "8", "1777", "rwx"] {
            assert!(parse_mode(bad).is_err(), "{bad}");
        }
        let long = PathBuf::from("/".repeat(PATH_BYTES_MAX + 1));
        let settings = UnixSocketSettings::default();
        assert!(settings.sockets(vec![long], true, 1).is_err());
    }
}

//! Sockets of the file system, which clients of the same machine open by a path instead of an address.
//!
//! A server that was killed leaves its file behind. Whether somebody still answers behind a file is asked before it is replaced, so
//! that no server takes another one's clients; and the file is removed at the end only if it is still the one that was made.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// A socket that is listened on, and its file.
pub struct UnixSocket {
    pub listener: UnixListener,
    pub path: Arc<Path>,
    /// The device and the number of the file that was made.
    file: (u64, u64),
}

impl UnixSocket {
    /// Makes the file, which those may open whom `mode` lets write to it.
    pub fn bind(path: &Path, mode: u32) -> io::Result<UnixSocket> {
        remove_abandoned(path)?;
        let listener = UnixListener::bind(path)?;
        let made = fs::symlink_metadata(path)?;
        let socket = UnixSocket {
            listener,
            path: path.into(),
            file: (made.dev(), made.ino()),
        };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(socket)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_own = |found: &fs::Metadata| (found.dev(), found.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| is_own(&found)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that nobody answers behind. Everything else that stands there stays, and is the error.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::other("a file that is no socket is there"));
    }
    // Without waiting: a server that hangs with all its places taken is one all the same.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asking = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&asking, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Err(io::Error::other("another server listens there")),
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_socket_is_replaced_only_when_nobody_answers_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = UnixSocket::bind(&path, 0o700).unwrap();
        assert_eq!(mode(&path), 0o700);
        let refused = UnixSocket::bind(&path, 0o700).err().unwrap();
        assert!(refused.to_string().contains("another server"));
        drop(first);
        // What a killed server leaves.
        let abandoned = UnixListener::bind(directory.path().join("t")).unwrap();
        drop(abandoned);
        let second = UnixSocket::bind(&directory.path().join("t"), 0o666).unwrap();
        assert_eq!(mode(&second.path), 0o666);
        UnixStream::connect(&second.path).unwrap();
        let path = Arc::clone(&second.path);
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_server_that_takes_nobody_more_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let socket = UnixSocket::bind(&path, 0o700).unwrap();
        // Nobody accepts; the system keeps so many waiting and no more.
        rustix::net::listen(&socket.listener, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        let refused = UnixSocket::bind(&path, 0o700).err().unwrap();
        assert!(refused.to_string().contains("another server"));
    }

    #[test]
    fn a_file_of_somebody_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        fs::write(&path, "text").unwrap();
        let refused = UnixSocket::bind(&path, 0o700).err().unwrap();
        assert!(refused.to_string().contains("no socket"));
        assert_eq!(fs::read(&path).unwrap(), b"text");
        // Nor is one removed that has taken the place of the server's own.
        let other = directory.path().join("t");
        let own = UnixSocket::bind(&other, 0o700).unwrap();
        fs::remove_file(&other).unwrap();
        fs::write(&other, "text").unwrap();
        drop(own);
        assert_eq!(fs::read(&other).unwrap(), b"text");
    }
}

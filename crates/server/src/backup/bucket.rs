//! The objects of a store such as S3 below a prefix, for callers who wait.
//!
//! The library that speaks to stores is asynchronous. One thread of this file runs it, and nothing else learns of that: each call here
//! returns when its request has ended, and an upload goes on while its caller prepares the next one. Keeps true: a request has a bounded
//! number of tries and a bounded time; what is read or listed has a bound; an error names neither credentials nor what a server
//! sent beyond a short reason. What the stores have of their own is in `clients.rs`.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::backup::address::StoreAddress;
use crate::backup::clients;

/// A longer list is given up: so many chunks are more than thirty terabytes.
const LISTED_MAX: usize = 8 << 20;
/// Codes of stores for a bucket that is not there, other than for an object that is not.
const NO_BUCKET: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];
/// A reason that a server sends is cut there.
const REASON_CHARS_MAX: usize = 200;

/// The objects below a prefix.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Handle,
    /// Dropped with the bucket, which ends the thread.
    _end: oneshot::Sender<()>,
    /// A likely cause of errors, where one can be named beforehand.
    hint: &'static str,
}

/// An object as a list has it.
pub struct Listed {
    /// Below the prefix.
    pub name: String,
    pub bytes: u64,
    /// By the store's clock, in milliseconds since 1970.
    pub written_unix_ms: i64,
}

/// A request that is under way.
pub struct Pending<T>(Receiver<io::Result<T>>);

impl<T> Pending<T> {
    /// Returns when the request has ended.
    pub fn wait(self) -> io::Result<T> {
        self.0
            .recv()
            .unwrap_or_else(|_| Err(gone("its thread has ended")))
    }
}

impl Bucket {
    /// Prepares to speak to the store; nothing is sent yet.
    pub fn open(address: &StoreAddress) -> io::Result<Bucket> {
        // Another one that a process has installed does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (store, hint) = clients::client_of(address).map_err(|error| failure(&error, ""))?;
        let mut bucket = Bucket::over(store, &address.prefix)?;
        bucket.hint = hint;
        Ok(bucket)
    }

    /// The objects of this store below a prefix.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: &str) -> io::Result<Bucket> {
        let prefix = Path::parse(prefix).map_err(io::Error::other)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name("store".into())
            .spawn(move || runtime.block_on(ended).is_ok())?;
        Ok(Bucket {
            store,
            prefix,
            runtime: handle,
            _end: end,
            hint: "",
        })
    }

    /// Reads at most so many bytes of an object. One that is not there is `NotFound`.
    pub fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let request = async move {
            let mut body = store.get(&path).await?.into_stream();
            let mut found = Vec::new();
            while let Some(part) = body.try_next().await? {
                let left = bytes_max - found.len();
                found.extend_from_slice(&part[..part.len().min(left)]);
                if part.len() >= left {
                    break;
                }
            }
            Ok::<_, object_store::Error>(found)
        };
        self.begin(request).wait()
    }

    /// Begins to write an object, which is there, whole, when the request has succeeded, and not before.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<Pending<()>> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        let payload = PutPayload::from(bytes.to_vec());
        Ok(self.begin(async move { store.put(&path, payload).await.map(drop) }))
    }

    /// The objects whose names begin with `part` and a slash, or all; no more than `max`, and an error if there are more than `LISTED_MAX`.
    pub fn list(&self, part: &str, max: usize) -> io::Result<Vec<Listed>> {
        let (store, path) = (Arc::clone(&self.store), self.path(part)?);
        let prefix_bytes = match self.prefix.as_ref() {
            "" => 0,
            prefix => prefix.len() + 1,
        };
        let max = max.min(LISTED_MAX + 1);
        let request = async move {
            let objects = store.list(Some(&path)).take(max);
            let listed = objects.map_ok(|object| Listed {
                name: object
                    .location
                    .as_ref()
                    .get(prefix_bytes..)
                    .unwrap_or_default()
                    .to_owned(),
                bytes: object.size,
                written_unix_ms: object.last_modified.timestamp_millis(),
            });
            listed.try_collect::<Vec<_>>().await
        };
        let listed = self.begin(request).wait()?;
        match listed.len() {
            0..=LISTED_MAX => Ok(listed),
            _ => Err(gone(&format!("it has more than {LISTED_MAX} objects"))),
        }
    }

    /// Whether an object is there.
    pub fn is_there(&self, name: &str) -> io::Result<bool> {
        let (store, path) = (Arc::clone(&self.store), self.path(name)?);
        match self.begin(async move { store.head(&path).await }).wait() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes objects; one that is not there is removed already.
    pub fn remove(&self, names: &[String]) -> io::Result<()> {
        let store = Arc::clone(&self.store);
        let paths: io::Result<Vec<Path>> = names.iter().map(|name| self.path(name)).collect();
        let paths = stream::iter(paths?.into_iter().map(Ok)).boxed();
        let request = async move {
            let mut removed = store.delete_stream(paths);
            while let Some(one) = removed.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        self.begin(request).wait()
    }

    fn path(&self, name: &str) -> io::Result<Path> {
        let whole = match self.prefix.as_ref() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(whole.trim_end_matches('/')).map_err(io::Error::other)
    }

    fn begin<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Pending<T> {
        let (sender, receiver) = sync_channel(1);
        let hint = self.hint;
        self.runtime.spawn(async move {
            let outcome = request.await.map_err(|error| failure(&error, hint));
            // Whoever asked may have given it up.
            let _ = sender.send(outcome);
        });
        Pending(receiver)
    }
}

/// An error of the whole place: whatever is asked next would fail as well.
pub fn gone(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, why.to_owned())
}

/// The error as a person needs it: what the store said, or why it could not be asked. The library's own text repeats
/// the request and what the server sent, which may name the key that was used.
fn failure(error: &object_store::Error, hint: &str) -> io::Error {
    use object_store::Error as Failed;
    let reason = reason(error);
    match error {
        Failed::NotFound { .. } if NO_BUCKET.iter().any(|code| reason.contains(code)) => {
            gone(&reason)
        }
        Failed::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, reason),
        Failed::PermissionDenied { .. } | Failed::Unauthenticated { .. } => {
            gone(&format!("the store refuses access: {reason}{hint}"))
        }
        _ => gone(&format!("{reason}{hint}")),
    }
}

/// The last cause of an error, in one short line.
fn reason(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    let of_server = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>"))
            .map(|(value, _)| value)
    };
    let text = match (of_server("Code"), of_server("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        // Without a reason the status is all that there is of an answer.
        _ => text
            .split(": <")
            .next()
            .unwrap_or_default()
            .trim_end_matches([':', ' '])
            .to_owned(),
    };
    let printable = text
        .chars()
        .map(|each| if each.is_control() { ' ' } else { each });
    printable.take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn names(bucket: &Bucket, part: &str) -> Vec<String> {
        let listed = bucket.list(part, usize::MAX).unwrap();
        let mut names: Vec<String> = listed.into_iter().map(|object| object.name).collect();
        names.sort();
        names
    }

    #[test]
    fn objects_are_below_the_prefix_and_no_more_is_read_than_asked_for() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for prefix in ["", "one/two"] {
            let bucket = Bucket::over(Arc::clone(&store), prefix).unwrap();
            bucket.write("a/b/c", b"content").unwrap().wait().unwrap();
            bucket.write("d", b"").unwrap().wait().unwrap();
            assert_eq!(bucket.read("a/b/c", 100).unwrap(), b"content");
            assert_eq!(bucket.read("a/b/c", 7).unwrap(), b"content");
            assert_eq!(bucket.read("a/b/c", 3).unwrap(), b"con");
            assert_eq!(bucket.read("d", 3).unwrap(), b"");
            assert_eq!(names(&bucket, "a"), ["a/b/c"]);
            assert_eq!(names(&bucket, ""), ["a/b/c", "d"]);
            assert_eq!(bucket.list("", 1).unwrap().len(), 1);
            let found = bucket.list("a", 9).unwrap();
            assert_eq!(found[0].bytes, 7);
            assert!(bucket.is_there("d").unwrap());
            bucket.remove(&["d".into(), "never".into()]).unwrap();
            assert!(!bucket.is_there("d").unwrap());
            let missing = bucket.read("d", 3).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            bucket.remove(&["a/b/c".into()]).unwrap();
        }
    }

    #[test]
    fn an_error_says_what_the_store_said_and_no_more() {
        for (sent, told) in [
            (
                "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>",
                "InvalidAccessKeyId: The key does not exist",
            ),
            (
                "status code: 502 Bad Gateway: <html>AKIA</html>",
                "status code: 502 Bad Gateway",
            ),
            ("status code: 403 Forbidden: ", "status code: 403 Forbidden"),
            ("<Code>Odd\u{1b}[31m</Code>", "Odd [31m"),
        ] {
            let error = object_store::Error::Generic {
                store: "S3",
                source: sent.into(),
            };
            assert_eq!(reason(&error), told);
        }
        let long = object_store::Error::Generic {
            store: "S3",
            source: "x".repeat(9999).into(),
        };
        assert_eq!(reason(&long).len(), REASON_CHARS_MAX);
    }
}

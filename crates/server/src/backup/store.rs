//! A repository's files as objects of a store.
//!
//! A store writes an object whole or not at all, and keeps it when it says so: nothing is renamed or synced, and what is killed leaves objects that no
//! manifest names. A chunk has four MiB at most, so that each is one request. Some are under way at a time. Which chunks are there is asked
//! once, with their lengths; a store checks what it is sent and what it keeps, so that reading them all again is left to who wants it.
//!
//! Keeps true: who adds and who removes are kept apart by leases (`lease`); a manifest that was written under a lost lease is taken back.
//! Readers leave nothing, and may be without the right to write.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use crate::backup::address::StoreAddress;
use crate::backup::bucket::{Bucket, Pending, gone};
use crate::backup::lease::{Lease, Purpose};
use crate::backup::mark::{self, MARK_BYTES_MAX};
use crate::backup::place::{Access, CHUNKS, Held, MARK_FILE, NewFiles, Place, PlacedFile, Trust};

/// Uploads that are under way at a time, each of a chunk that is in memory.
const UPLOADS_MAX: usize = 4;
/// Objects that are removed between two looks at the lease: what a store removes in one request.
const REMOVED_AT_A_TIME: usize = 1000;
/// The objects that are looked at to see whether a prefix is used for something else.
const LOOKED_AT_MAX: usize = 100;

/// An open repository in a store.
pub struct Store {
    address: String,
    bucket: Arc<Bucket>,
    mark: Vec<u8>,
    /// None for a reader.
    lease: Option<Lease>,
}

impl Store {
    /// Opens the repository, with this mark if the place becomes one; the error is one line that names it.
    pub fn open(address: &StoreAddress, access: Access, new_mark: &str) -> Result<Store, String> {
        let bad = |error: io::Error| format!("`{address}`: {error}");
        let bucket = Bucket::open(address).map_err(bad)?;
        Store::over(bucket, address.to_string(), access, new_mark)
    }

    /// The repository in a bucket that is there.
    fn over(
        bucket: Bucket,
        address: String,
        access: Access,
        new_mark: &str,
    ) -> Result<Store, String> {
        let bad = |why: &dyn std::fmt::Display| format!("`{address}`: {why}");
        let found = match bucket.read(MARK_FILE, MARK_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.map_err(|error| bad(&error))?),
        };
        let mark = match found {
            Some(mark) => {
                // Before a lease is left in it.
                mark::check(&mark).map_err(|why| bad(&why))?;
                mark
            }
            None if access != Access::Add => return Err(bad(&"it is no repository of backups")),
            None => {
                let objects = bucket
                    .list("", LOOKED_AT_MAX)
                    .map_err(|error| bad(&error))?;
                if !objects.is_empty() {
                    return Err(bad(&"it holds objects and is no repository of backups"));
                }
                let written = bucket.write(MARK_FILE, new_mark.as_bytes());
                let written = written.and_then(Pending::wait);
                written.map_err(|error| bad(&error))?;
                new_mark.as_bytes().to_vec()
            }
        };
        let bucket = Arc::new(bucket);
        let purpose = match access {
            Access::Add => Some(Purpose::Add),
            Access::Remove => Some(Purpose::Remove),
            Access::Read => None,
        };
        let lease = purpose.map(|purpose| Lease::take(&bucket, purpose));
        let lease = lease.transpose().map_err(|error| bad(&error))?;
        Ok(Store {
            address,
            bucket,
            mark,
            lease,
        })
    }

    /// An error where what is done now might not count, or is sealed with a key that nobody has: of two processes that make a repository of one
    /// place at a time, each may write its mark.
    fn check(&self) -> io::Result<()> {
        self.check_lease()?;
        match self.bucket.read(MARK_FILE, MARK_BYTES_MAX)? == self.mark {
            true => Ok(()),
            false => Err(gone("another process has made it anew meanwhile")),
        }
    }

    /// An error where what is done now might not count.
    fn check_lease(&self) -> io::Result<()> {
        match &self.lease {
            Some(lease) => lease.check(),
            None => Err(gone("it was opened to be read")),
        }
    }
}

impl Place for Store {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn mark(&self) -> &[u8] {
        &self.mark
    }

    fn read(&self, name: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.bucket.read(name, bytes_max)
    }

    fn list(&self, part: &str) -> io::Result<Vec<PlacedFile>> {
        let listed = self.bucket.list(part, usize::MAX)?;
        let placed = listed.into_iter().map(|object| PlacedFile {
            name: object.name,
            bytes: object.bytes,
        });
        Ok(placed.collect())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if name == MARK_FILE {
            self.check_lease()?;
            return self.bucket.write(name, bytes)?.wait();
        }
        self.check()?;
        self.bucket.write(name, bytes)?.wait()?;
        self.check().inspect_err(|_| {
            // Who removed chunks meanwhile did not know of this file. Should it stay, its chunks are missing by name.
            let _ = self.bucket.remove(&[name.to_owned()]);
        })
    }

    fn begin(&self, trust: Trust) -> io::Result<Box<dyn NewFiles + '_>> {
        let listed = self.bucket.list(CHUNKS, usize::MAX)?;
        let held = listed.into_iter().map(|object| (object.name, object.bytes));
        Ok(Box::new(NewInStore {
            bucket: &self.bucket,
            held: held.collect(),
            trust,
            uploads: VecDeque::new(),
        }))
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        names.chunks(REMOVED_AT_A_TIME).try_for_each(|some| {
            self.check_lease()?;
            self.bucket.remove(some)
        })
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// Files on their way to a store.
struct NewInStore<'s> {
    bucket: &'s Bucket,
    /// The chunks that were there at the beginning, with their lengths.
    held: HashMap<String, u64>,
    trust: Trust,
    uploads: VecDeque<Pending<()>>,
}

impl NewFiles for NewInStore<'_> {
    fn look_up(&self, name: &str, bytes: usize) -> Held {
        match (self.held.get(name), self.trust) {
            (Some(&held), _) if held != bytes as u64 => Held::No,
            (None, _) => Held::No,
            (Some(_), Trust::Length) => Held::Whole,
            (Some(_), Trust::Content) => Held::Unread,
        }
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.uploads.len() >= UPLOADS_MAX
            && let Some(oldest) = self.uploads.pop_front()
        {
            oldest.wait()?;
        }
        self.uploads.push_back(self.bucket.write(name, bytes)?);
        Ok(())
    }

    fn keep(&mut self, _: &str) {}

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.uploads.into_iter().try_for_each(Pending::wait)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use async_trait::async_trait;
    use futures_util::TryStreamExt;
    use futures_util::stream::BoxStream;
    use object_store::aws::AmazonS3Builder;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
        ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RetryConfig,
    };

    use super::*;
    use crate::backup::manifest::{BackedUpFile, Manifest};
    use crate::backup::place::MANIFESTS;
    use crate::backup::repository::Repository;

    /// A store in memory, and repositories in it.
    struct Memory(Arc<dyn ObjectStore>);

    impl Memory {
        fn new() -> Memory {
            Memory(Arc::new(InMemory::new()))
        }

        fn bucket(&self) -> Bucket {
            Bucket::over(Arc::clone(&self.0), "some/prefix").unwrap()
        }

        fn open(&self, access: Access) -> Result<Store, String> {
            let mark = mark::new(None).unwrap();
            Store::over(self.bucket(), "memory".into(), access, &mark)
        }

        fn repository(&self, access: Access) -> Repository {
            Repository::of(Box::new(self.open(access).unwrap()))
        }

        fn put(&self, name: &str, bytes: &[u8]) {
            self.bucket().write(name, bytes).unwrap().wait().unwrap();
        }

        fn names(&self, part: &str) -> Vec<String> {
            let listed = self.bucket().list(part, usize::MAX).unwrap();
            listed.into_iter().map(|object| object.name).collect()
        }
    }

    /// The chunks of a backup that is not named yet; how many of them were new.
    fn put_all(
        repository: &Repository,
        id: &str,
        contents: &[&[u8]],
        trust: Trust,
    ) -> (Manifest, usize) {
        let mut manifest = Manifest {
            id: id.into(),
            ..Manifest::default()
        };
        let (mut new, mut new_chunks) = (repository.begin(trust).unwrap(), 0);
        for content in contents {
            let (chunk, is_new) = new.put(content).unwrap();
            new_chunks += usize::from(is_new);
            manifest.files.push(BackedUpFile {
                name: format!("file {}", String::from_utf8_lossy(content)),
                bytes: content.len() as u64,
                chunks: vec![chunk],
            });
        }
        new.finish().unwrap();
        (manifest, new_chunks)
    }

    fn backup(memory: &Memory, id: &str, contents: &[&[u8]]) -> (Manifest, usize) {
        let repository = memory.repository(Access::Add);
        let (manifest, new_chunks) = put_all(&repository, id, contents, Trust::Length);
        repository.add(&manifest).unwrap();
        (manifest, new_chunks)
    }

    fn damages(memory: &Memory, id: &str) -> Vec<String> {
        let repository = memory.repository(Access::Read);
        let manifest = repository.manifest(id).unwrap();
        let damages = repository.verify(&manifest, &mut |_| {}).unwrap();
        damages.into_iter().map(|damage| damage.file).collect()
    }

    fn object_of(manifest: &Manifest, file: usize) -> String {
        let name = manifest.files[file].chunks[0].to_string();
        format!("{CHUNKS}/{}/{name}", &name[..2])
    }

    #[test]
    fn what_two_backups_share_is_sent_once_and_kept_as_long_as_one_needs_it() {
        let memory = Memory::new();
        let numbers: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let mut contents: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
        assert_eq!(backup(&memory, "a", &contents).1, 20);
        contents.push(b"more");
        contents.swap_remove(0);
        assert_eq!(backup(&memory, "b", &contents).1, 1);
        assert_eq!(damages(&memory, "a"), [""; 0]);
        assert_eq!(memory.repository(Access::Read).ids().unwrap(), ["a", "b"]);
        let freed = memory.repository(Access::Remove).remove(&["a".into()]);
        assert_eq!(freed, Ok(1));
        assert_eq!(damages(&memory, "b"), [""; 0]);
        assert_eq!(memory.names(CHUNKS).len(), 20);
        memory
            .repository(Access::Remove)
            .remove(&["b".into()])
            .unwrap();
        assert_eq!(memory.names(""), [MARK_FILE]);
    }

    #[test]
    fn damage_is_named_and_mended_by_who_reads_again() {
        let memory = Memory::new();
        let contents: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];
        let (manifest, _) = backup(&memory, "a", &contents);
        memory.put(&object_of(&manifest, 0), b"oNe");
        memory.put(&object_of(&manifest, 1), b"two and more");
        memory.bucket().remove(&[object_of(&manifest, 2)]).unwrap();
        assert_eq!(
            damages(&memory, "a"),
            ["file one", "file two", "file three"]
        );
        // What is not there, or has another length, is sent again in any case.
        assert_eq!(backup(&memory, "b", &contents).1, 2);
        assert_eq!(damages(&memory, "b"), ["file one"]);
        let repository = memory.repository(Access::Add);
        assert_eq!(put_all(&repository, "c", &contents, Trust::Content).1, 1);
        assert_eq!(damages(&memory, "a"), [""; 0]);
    }

    #[test]
    fn a_backup_that_is_cut_off_is_none_and_what_it_leaves_is_removed() {
        let memory = Memory::new();
        let cut_off = memory.repository(Access::Add);
        put_all(&cut_off, "a", &[b"one", b"two"], Trust::Length);
        drop(cut_off);
        assert!(memory.repository(Access::Read).ids().unwrap().is_empty());
        // The next one takes what it can use.
        assert_eq!(backup(&memory, "b", &[b"two", b"three"]).1, 1);
        assert_eq!(memory.names(CHUNKS).len(), 3);
        assert_eq!(memory.repository(Access::Remove).remove(&[]), Ok(3));
        assert_eq!(damages(&memory, "b"), [""; 0]);
    }

    #[test]
    fn what_was_written_under_another_mark_is_no_backup() {
        let memory = Memory::new();
        let repository = memory.repository(Access::Add);
        let (manifest, _) = put_all(&repository, "a", &[b"one"], Trust::Length);
        memory.put(MARK_FILE, b"another one's");
        let error = repository.add(&manifest).unwrap_err();
        assert!(error.contains("made it anew"), "{error}");
        assert_eq!(memory.names(MANIFESTS), [""; 0]);
    }

    /// A store that takes all leases away behind each manifest that it is given, as one who removes may.
    #[derive(Debug)]
    struct Robbing(Arc<dyn ObjectStore>);

    impl fmt::Display for Robbing {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("robbing")
        }
    }

    #[async_trait]
    impl ObjectStore for Robbing {
        async fn put_opts(
            &self,
            location: &Path,
            payload: PutPayload,
            options: PutOptions,
        ) -> object_store::Result<PutResult> {
            let put = self.0.put_opts(location, payload, options).await;
            if location.as_ref().contains(MANIFESTS) {
                let leases = self.0.list(Some(&Path::from("some/prefix/leases")));
                let leases: Vec<ObjectMeta> = leases.try_collect().await?;
                for lease in leases {
                    self.0.delete(&lease.location).await?;
                }
            }
            put
        }

        async fn put_multipart_opts(
            &self,
            location: &Path,
            options: PutMultipartOptions,
        ) -> object_store::Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(location, options).await
        }

        async fn get_opts(
            &self,
            location: &Path,
            options: GetOptions,
        ) -> object_store::Result<GetResult> {
            self.0.get_opts(location, options).await
        }

        fn delete_stream(
            &self,
            locations: BoxStream<'static, object_store::Result<Path>>,
        ) -> BoxStream<'static, object_store::Result<Path>> {
            self.0.delete_stream(locations)
        }

        fn list(
            &self,
            prefix: Option<&Path>,
        ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            self.0.list(prefix)
        }

        async fn list_with_delimiter(
            &self,
            prefix: Option<&Path>,
        ) -> object_store::Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }

        async fn copy_opts(
            &self,
            from: &Path,
            to: &Path,
            options: CopyOptions,
        ) -> object_store::Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    #[test]
    fn a_manifest_that_was_written_under_a_lost_lease_is_taken_back() {
        let memory = Memory::new();
        backup(&memory, "a", &[b"one"]);
        let robbing = Memory(Arc::new(Robbing(Arc::clone(&memory.0))));
        let repository = robbing.repository(Access::Add);
        let (manifest, _) = put_all(&repository, "b", &[b"two"], Trust::Length);
        let error = repository.add(&manifest).unwrap_err();
        assert!(error.contains("it gives up"), "{error}");
        // The lease is gone now, so that nothing is written or removed any more.
        assert!(repository.add(&manifest).is_err());
        assert!(repository.remove(&["a".into()]).is_err());
        assert_eq!(memory.names(MANIFESTS), ["backups/a"]);
    }

    #[test]
    fn a_prefix_that_is_used_otherwise_is_not_taken_over() {
        let memory = Memory::new();
        for access in [Access::Read, Access::Remove] {
            let error = memory.open(access).err().unwrap();
            assert!(error.contains("no repository"), "{error}");
        }
        memory.put("letter", b"dear");
        let error = memory.open(Access::Add).err().unwrap();
        assert!(error.contains("holds objects"), "{error}");
        assert_eq!(memory.names(""), ["letter"]);
        memory.put(MARK_FILE, b"quarry backups 2\n");
        let error = memory.open(Access::Add).err().unwrap();
        assert!(error.contains("another version"), "{error}");
    }

    #[test]
    fn readers_leave_nothing_and_change_nothing() {
        let memory = Memory::new();
        backup(&memory, "a", &[b"one"]);
        let before = memory.names("");
        let store = memory.open(Access::Read).unwrap();
        assert_eq!(memory.names(""), before);
        assert!(store.write("backups/b", b"manifest").is_err());
        assert!(store.remove(&["backups/a".into()]).is_err());
        assert_eq!(memory.names(""), before);
    }

    /// Nobody listens there: every chunk would be waited for in vain.
    #[test]
    fn a_store_that_is_gone_is_no_damage() {
        let memory = Memory::new();
        let (manifest, _) = backup(&memory, "a", &[b"one"]);
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let nobody = AmazonS3Builder::new()
            .with_endpoint("http://127.0.0.1:1")
            .with_allow_http(true)
            .with_skip_signature(true)
            .with_bucket_name("bucket")
            .with_retry(retry)
            .build();
        let store = Store {
            address: "nobody".into(),
            bucket: Arc::new(Bucket::over(Arc::new(nobody.unwrap()), "").unwrap()),
            lease: None,
            mark: mark::new(None).unwrap().into_bytes(),
        };
        let repository = Repository::of(Box::new(store));
        let error = repository.verify(&manifest, &mut |_| {}).unwrap_err();
        assert!(error.contains("refused"), "{error}");
        assert!(repository.manifest("a").unwrap_err().is_gone);
        assert!(repository.ids().is_err());
    }
}

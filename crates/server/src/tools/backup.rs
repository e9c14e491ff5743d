//! `quarry backup create | list | verify | remove | rotate-key`: copies of a running server's data in a repository.
//!
//! `create` asks the server for a backup cursor and reads the files that it names, with its own rights and at its own pace; the server
//! serves on, and is in front of it at the processors and the disk. Exits with 0, with 1 when something failed or a backup is damaged.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use quarry_bson::{Document, RawDocument, RawValue, doc};
use quarry_journal::inspect;
use quarry_tools::Progress;
use rustix::fs::{Advice, fadvise};

use crate::backup::address::Address;
use crate::backup::give_way::give_way;
use crate::backup::manifest::{BackedUpFile, CHUNK_BYTES, Manifest};
use crate::backup::place::{Access, Trust};
use crate::backup::repository::{NewChunks, Repository};
use crate::backup::steps;
use crate::process::config::{BackupCommand, CreateBackup, RepositoryFlags};
use crate::process::data_directory::{PORT_FILE, WITHIN_DBPATH, leads_into};
use crate::tools::link::Link;
use crate::tools::moment;
use crate::tools::say::say;

/// The server copies what cannot be shared by name before it replies: libmdbx's whole file.
const REPLY_TIME_MAX: Duration = Duration::from_secs(3600);
/// The server closes a cursor that nobody asked for ten minutes.
const BETWEEN_SIGNS_OF_LIFE: Duration = Duration::from_secs(30);
const MB: f64 = 1e6;
/// Said where there is no backup to list, verify or restore.
pub const NO_BACKUP: &str = "the repository holds no backup";

type Result<T> = std::result::Result<T, String>;

/// Runs the command; the exit code of the process.
pub fn run(command: &BackupCommand) -> ExitCode {
    let done = match command {
        BackupCommand::Create(options) => create(options),
        BackupCommand::List { from } => list(from),
        BackupCommand::Verify { from, id } => verify(from, id.as_deref()),
        BackupCommand::RotateKey {
            from,
            key_file,
            new_key_file,
        } => rotate_key(from, key_file, new_key_file),
        BackupCommand::Remove {
            from,
            ids,
            keep,
            keep_within,
        } => remove(from, ids, *keep, *keep_within),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("quarry backup: {why}");
            ExitCode::FAILURE
        }
    }
}

fn create(options: &CreateBackup) -> Result<()> {
    give_way();
    if let Address::Directory(path) = &options.to
        && leads_into(path, &options.dbpath)
    {
        return Err(format!("`{}`: {WITHIN_DBPATH}", path.display()));
    }
    let repository = Repository::open(&options.to, Access::Add, options.key_file.as_deref())?;
    let trust = match options.reread {
        true => Trust::Content,
        false => Trust::Length,
    };
    let begun = Instant::now();
    let mut copy = OpenCopy::open(options)?;
    refuse_strangers(&repository, &copy)?;
    let mut manifest = copy.manifest();
    let mut reading = Reading {
        chunks: repository.begin(trust)?,
        progress: Progress::of_bytes("backing up", Some(copy.bytes())),
        bytes_a_second_max: options.rate.map(|rate| f64::from(rate) * MB),
        new_bytes: 0,
    };
    for (path, bytes) in copy.files.clone() {
        let file = reading.read(&mut copy, &path, bytes)?;
        manifest.files.push(file);
    }
    let Reading {
        chunks,
        progress,
        new_bytes,
        ..
    } = reading;
    chunks.finish()?;
    drop(progress);
    // As long as the cursor is open its files are those that were read.
    copy.stay_open()?;
    repository.add(&manifest)?;
    copy.close();
    say!(
        "{}: {} files, {:.1} MB, {:.1} MB of them new, in {:.1} s",
        manifest.id,
        manifest.files.len(),
        manifest.bytes() as f64 / MB,
        new_bytes as f64 / MB,
        begun.elapsed().as_secs_f64(),
    );
    Ok(())
}

/// Refuses a repository whose backups are of another database: by age, by number and by place in a history they would be
/// taken for backups of this one. One that cannot be read says nothing.
fn refuse_strangers(repository: &Repository, copy: &OpenCopy) -> Result<()> {
    let mut newest_first = repository.ids()?.into_iter().rev();
    let known = newest_first.find_map(|id| {
        let manifest = repository.manifest(&id).ok()?;
        let identity = moment::identity_of(repository, &manifest).ok()??;
        Some((id, identity.database))
    });
    let Some((id, theirs)) = known else {
        return Ok(());
    };
    match copy.database()? {
        Some(own) if own != theirs => Err(format!(
            "backup `{id}` of the repository is one of another database: each has a repository of its own"
        )),
        _ => Ok(()),
    }
}

/// The backup cursor of a server, and what it has told.
struct OpenCopy {
    link: Link,
    cursor: i64,
    metadata: Document,
    files: Vec<(String, u64)>,
    last_sign: Instant,
}

impl OpenCopy {
    fn open(options: &CreateBackup) -> Result<OpenCopy> {
        let port = port(&options.dbpath)?;
        let place = format!("{}:{port}", options.host);
        let failed = |error: io::Error| format!("{place}: {error}");
        let mut link =
            Link::open(&options.host, port, REPLY_TIME_MAX, &options.login).map_err(failed)?;
        let command = doc! {
            "aggregate": 1, "pipeline": [doc! { "$backupCursor": doc! {} }], "cursor": doc! {},
        };
        let reply = link.run(&command).map_err(failed)?;
        let mut copy = OpenCopy {
            link,
            cursor: 0,
            metadata: Document::default(),
            files: Vec::new(),
            last_sign: Instant::now(),
        };
        let mut documents = copy.take(&reply, "firstBatch")?;
        while documents > 0 {
            documents = copy.get_more()?;
        }
        if copy.metadata.is_empty() {
            return Err(format!("{place}: the server told nothing of its copy"));
        }
        Ok(copy)
    }

    /// Takes what a batch tells; how many documents that were.
    fn take(&mut self, reply: &Document, batch: &str) -> Result<usize> {
        let cursor = reply
            .get_document("cursor")
            .ok_or("the reply has no cursor")?;
        self.cursor = cursor.get_i64("id").unwrap_or_default();
        let mut documents = 0;
        for value in cursor.get_array(batch).into_iter().flatten() {
            documents += 1;
            let RawValue::Document(document) = value else {
                return Err("a batch holds no document".into());
            };
            match document.get_document("metadata") {
                Some(metadata) => self.metadata = metadata.to_owned_document(),
                None => self.files.push(named_file(document)?),
            }
        }
        Ok(documents)
    }

    fn get_more(&mut self) -> Result<usize> {
        self.last_sign = Instant::now();
        let command = doc! { "getMore": (self.cursor), "collection": "$cmd.aggregate" };
        let reply = self.link.run(&command).map_err(|error| error.to_string())?;
        self.take(&reply, "nextBatch")
    }

    /// Says that the files are still wanted; an error where they are gone.
    fn stay_open(&mut self) -> Result<()> {
        self.get_more()?;
        match self.cursor {
            0 => Err("the server has closed the cursor: the backup is given up".into()),
            _ => Ok(()),
        }
    }

    fn stay_open_when_due(&mut self) -> Result<()> {
        match self.last_sign.elapsed() >= BETWEEN_SIGNS_OF_LIFE {
            true => self.stay_open(),
            false => Ok(()),
        }
    }

    /// The server removes the copy in any case, once it sees that nobody wants it.
    fn close(mut self) {
        let command = doc! { "killCursors": "$cmd.aggregate", "cursors": [self.cursor] };
        let _ = self.link.run(&command);
    }

    /// The UUID of the database, as a segment of its journal names it; none where the copy has no segment.
    fn database(&self) -> Result<Option<[u8; 16]>> {
        let segment = self
            .files
            .iter()
            .find(|(path, _)| path.ends_with(".segment"));
        let Some((path, bytes)) = segment else {
            return Ok(None);
        };
        let failed = |error: io::Error| format!("`{path}`: {error}");
        let (mut from, mut head) = (File::open(path).map_err(failed)?, Vec::new());
        let wanted = (*bytes).min(CHUNK_BYTES as u64) as usize;
        steps::read(&mut from, wanted, &mut head).map_err(failed)?;
        let header = inspect::segment_header(path, &head);
        let header = header.map_err(|error| error.to_string())?;
        Ok(Some(header.identity.database))
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The manifest without its files.
    fn manifest(&self) -> Manifest {
        let own = self
            .metadata
            .get_document("quarry")
            .unwrap_or(RawDocument::EMPTY);
        let text = |name| own.get_str(name).unwrap_or_default().to_owned();
        let time = match self.metadata.get("checkpointTimestamp") {
            Some(RawValue::Timestamp(time)) => {
                u64::from(time.time) << 32 | u64::from(time.increment)
            }
            _ => 0,
        };
        let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let made_unix_ms = made.map_or(0, |since| since.as_millis() as u64);
        Manifest {
            id: new_id(made_unix_ms),
            version: text("version"),
            engine: text("engine"),
            made_unix_ms,
            lsn: own.get_i64("lsn").map_or(0, |lsn| lsn.max(0) as u64),
            cluster_time: time,
            files: Vec::new(),
        }
    }
}

/// Sorted by name, backups are sorted by time.
fn new_id(unix_ms: u64) -> String {
    let mut random = [0; 4];
    // Two backups of one second have other digits, or the second one says that its name is taken.
    let _ = getrandom::fill(&mut random);
    let time = jiff::Timestamp::from_millisecond(i64::try_from(unix_ms).unwrap_or(i64::MAX));
    let time = time
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%Y%m%dT%H%M%S%3fZ");
    format!("{time}-{:08x}", u32::from_be_bytes(random))
}

/// The port that the server of this data directory has written there.
pub fn port(dbpath: &Path) -> Result<u16> {
    let path = dbpath.join(PORT_FILE);
    let text = fs::read_to_string(&path).map_err(|error| {
        format!(
            "no server serves `{}` ({PORT_FILE}: {error})",
            dbpath.display()
        )
    })?;
    let port = text.trim().parse();
    port.map_err(|_| format!("`{}` holds no port", path.display()))
}

fn named_file(document: RawDocument<'_>) -> Result<(String, u64)> {
    let name = document.get_str("filename").ok_or("a file has no name")?;
    let bytes = document
        .get_i64("fileSize")
        .and_then(|bytes| u64::try_from(bytes).ok());
    Ok((name.to_owned(), bytes.ok_or("a file has no length")?))
}

/// Reads files of a copy into a repository.
struct Reading<'r> {
    chunks: NewChunks<'r>,
    progress: Progress,
    bytes_a_second_max: Option<f64>,
    new_bytes: u64,
}

impl Reading<'_> {
    fn read(&mut self, copy: &mut OpenCopy, path: &str, bytes: u64) -> Result<BackedUpFile> {
        let failed = |error: io::Error| format!("`{path}`: {error}");
        let directory = copy.metadata.get_str("dbpath").unwrap_or_default();
        let name = Path::new(path).strip_prefix(directory);
        let name = name.map_err(|_| format!("`{path}` is not in the copy"))?;
        let mut file = BackedUpFile {
            name: name.to_string_lossy().into_owned(),
            bytes,
            chunks: Vec::new(),
        };
        let mut from = File::open(path).map_err(failed)?;
        // The disk reads ahead further; without it the files are read all the same.
        let _ = fadvise(&from, 0, None, Advice::Sequential);
        let (mut chunk, mut previous) = (Vec::new(), Vec::with_capacity(CHUNK_BYTES));
        let mut read = 0;
        while read < bytes {
            std::mem::swap(&mut chunk, &mut previous);
            chunk.clear();
            let wanted = (bytes - read).min(CHUNK_BYTES as u64) as usize;
            if steps::read(&mut from, wanted, &mut chunk).map_err(failed)? < wanted {
                return Err(format!("`{path}` is shorter than the server said"));
            }
            // Segments of a journal end in zeros, which are not hashed over and over.
            let repeated = file.chunks.last().filter(|_| chunk == previous);
            let (name, is_new) = match repeated {
                Some(name) => (*name, false),
                None => self.chunks.put(&chunk)?,
            };
            file.chunks.push(name);
            read += chunk.len() as u64;
            self.new_bytes += if is_new { chunk.len() as u64 } else { 0 };
            self.progress.add(chunk.len() as u64, 0);
            copy.stay_open_when_due()?;
            self.keep_pace(chunk.len());
        }
        Ok(file)
    }

    /// Rests for as long as reading these bytes should have taken at the rate that was asked for.
    fn keep_pace(&self, bytes: usize) {
        if let Some(max) = self.bytes_a_second_max
            && self.progress.rate() > max
        {
            thread::sleep(Duration::from_secs_f64(bytes as f64 / max));
        }
    }
}

/// The repository that a command names.
pub fn open(from: &RepositoryFlags, access: Access) -> Result<Repository> {
    Repository::open(&from.address, access, from.key_file.as_deref())
}

fn list(from: &RepositoryFlags) -> Result<()> {
    let repository = open(from, Access::Read)?;
    let ids = repository.ids()?;
    if ids.is_empty() {
        say!("{NO_BACKUP}");
    }
    let mut damages = 0;
    for id in ids {
        match repository.manifest(&id) {
            Ok(manifest) => say!(
                "{id}  {}  {} files  {:.1} MB",
                manifest.engine,
                manifest.files.len(),
                manifest.bytes() as f64 / MB
            ),
            Err(failure) if failure.is_gone => return Err(failure.into()),
            Err(why) => {
                damages += 1;
                say!("{why}");
            }
        }
    }
    none_of(damages)
}

/// Whether nothing is damaged.
fn none_of(damages: usize) -> Result<()> {
    match damages {
        0 => Ok(()),
        count => Err(format!("{count} damaged")),
    }
}

fn verify(from: &RepositoryFlags, id: Option<&str>) -> Result<()> {
    give_way();
    let repository = open(from, Access::Read)?;
    let ids = match id {
        Some(id) => vec![id.to_owned()],
        None => repository.ids()?,
    };
    // Somebody who verifies every night is to hear of it.
    if ids.is_empty() {
        return Err(NO_BACKUP.into());
    }
    let mut damages = 0;
    for id in &ids {
        let manifest = match repository.manifest(id) {
            Ok(manifest) => manifest,
            Err(failure) if failure.is_gone => return Err(failure.into()),
            Err(why) => {
                damages += 1;
                say!("{why}");
                continue;
            }
        };
        let progress = Progress::of_bytes("verifying", Some(manifest.bytes()));
        let found = repository.verify(&manifest, &mut |bytes| progress.add(bytes, 0));
        drop(progress);
        let found = found?;
        for damage in &found {
            say!("{}: `{}`: {}", damage.id, damage.file, damage.why);
        }
        if found.is_empty() {
            say!(
                "{id}: whole, {} files, {:.1} MB",
                manifest.files.len(),
                manifest.bytes() as f64 / MB
            );
        }
        damages += found.len();
    }
    none_of(damages)
}

fn rotate_key(from: &Address, old: &Path, new: &Path) -> Result<()> {
    let name = Repository::rotate(from, old, new)?;
    say!("`{name}` is locked with the new key");
    Ok(())
}

/// Removes the backups of these names, or those that no rule keeps.
fn remove(
    from: &RepositoryFlags,
    ids: &[String],
    keep: Option<u32>,
    keep_within: Option<Duration>,
) -> Result<()> {
    let repository = open(from, Access::Remove)?;
    let all = repository.ids()?;
    let ids = match (keep, keep_within) {
        (None, None) => ids.to_vec(),
        _ => {
            // Whoever keeps backups for their age alone is not left without any by a few weeks without one.
            let latest = keep.map_or(1, |keep| keep as usize);
            let others = &all[..all.len().saturating_sub(latest)];
            match keep_within {
                None => others.to_vec(),
                Some(age) => older_than(&repository, others, age)?,
            }
        }
    };
    if let Some(missing) = ids.iter().find(|id| !all.contains(id)) {
        return Err(format!("backup `{missing}`: there is none"));
    }
    let freed = repository.remove(&ids)?;
    say!("{} removed, {:.1} MB free", ids.len(), freed as f64 / MB);
    Ok(())
}

/// Those that were made longer ago.
fn older_than(repository: &Repository, ids: &[String], age: Duration) -> Result<Vec<String>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let begin_ms = now.unwrap_or_default().saturating_sub(age).as_millis();
    let mut older = Vec::new();
    for id in ids {
        if u128::from(repository.manifest(id)?.made_unix_ms) < begin_ms {
            older.push(id.clone());
        }
    }
    Ok(older)
}

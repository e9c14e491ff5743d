//! A look at what lies in a directory before a server makes it its own.
//!
//! Refused, by name and with nothing changed: files of another database; data of another engine than the one asked for; and, where
//! no data of ours lies, anything that neither a new file system nor an empty checkout has. What the configuration names, its log, its
//! audit log and its pid file, is the server's own wherever it lies.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quarry_storage::creation;

use crate::process::config::{AuditDestination, Config, EngineName};
use crate::process::engine::JOURNAL;

/// Names by which other databases are known, at the top of their data directories.
const DATABASES: &[(&str, &[&str])] = &[
    (
        "MongoDB",
        &[
            "WiredTiger",
            "WiredTiger.wt",
            "WiredTiger.turtle",
            "storage.bson",
            "mongod.lock",
        ],
    ),
    ("PostgreSQL", &["PG_VERSION", "postmaster.pid", "pg_wal"]),
    (
        "MySQL",
        &[
            "ibdata1",
            "ib_logfile0",
            "#innodb_redo",
            "mysql.ibd",
            "aria_log_control",
        ],
    ),
    ("RocksDB or LevelDB", &["CURRENT", "IDENTITY"]),
    ("libmdbx", &["mdbx.dat", "mdbx.lck"]),
    ("LMDB", &["data.mdb", "lock.mdb"]),
    ("Redis", &["dump.rdb", "appendonly.aof", "appendonlydir"]),
];

/// The beginning of the names that a server puts into its directory beside the data: lock, port, logs, pid.
const OURS: &str = "quarry.";
/// A new file system may have it; names that begin with a dot are taken for such as well.
const NEW_FILE_SYSTEM: &str = "lost+found";

/// Engines that keep data, by the names of their directories.
const ENGINES: [EngineName; 2] = [EngineName::Rocksdb, EngineName::Mdbx];

/// Why a directory is not used.
#[derive(Debug)]
pub enum Refusal {
    Unreadable(io::Error),
    AnotherDatabase {
        name: String,
        database: &'static str,
    },
    AnotherEngine {
        holds: EngineName,
        asked: EngineName,
    },
    JournalAlone,
    Foreign {
        name: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(out, "{error}"),
            Self::AnotherDatabase { name, database } => {
                write!(
                    out,
                    "it holds `{name}`, which is {database}'s: nothing was changed"
                )
            }
            Self::AnotherEngine { holds, asked } => write!(
                out,
                "it holds data of the engine `{holds}`, not of `{asked}`: start with `--engine {holds}`; nothing was changed",
                holds = holds.as_str(),
                asked = asked.as_str()
            ),
            Self::JournalAlone => write!(
                out,
                "it holds a journal, which the engine `memory` would not show: nothing was changed"
            ),
            Self::Foreign { name } => write!(
                out,
                "it holds `{name}`, which is not Quarry's, and no data of Quarry's: use an empty directory; nothing was changed"
            ),
        }
    }
}

/// Looks at the data directory, which need not exist, and changes nothing. Called before the log is begun: that makes a
/// file, or moves one aside, which may lie in this very directory.
pub fn refuse(config: &Config) -> Result<(), Refusal> {
    let audit_path = match config.audit.as_ref().map(|audit| &audit.destination) {
        Some(AuditDestination::File(path)) => Some(path),
        Some(AuditDestination::Console) | None => None,
    };
    let named = [
        config.log_path.as_ref(),
        config.pid_path.as_ref(),
        audit_path,
    ];
    let named: Vec<&Path> = named.into_iter().flatten().map(PathBuf::as_path).collect();
    refuse_beside(&config.data_directory, config.engine, &named)
}

/// Refuses unless all that lies in the directory may be there; `named` are the files that the configuration names.
fn refuse_beside(directory: &Path, engine: EngineName, named: &[&Path]) -> Result<(), Refusal> {
    let names = match names_in(directory) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Refusal::Unreadable(error)),
    };
    for name in &names {
        let of = |(_, known): &&(&str, &[&str])| known.iter().any(|known| name == known);
        if let Some((database, _)) = DATABASES.iter().find(of) {
            let name = name.to_string_lossy().into_owned();
            return Err(Refusal::AnotherDatabase { name, database });
        }
    }
    let holds = |engine: EngineName| creation::holds_a_store(&directory.join(engine.as_str()));
    let mut held = ENGINES.into_iter().filter(|engine| holds(*engine));
    let first = held.next();
    if let Some(holds) = first
        && holds != engine
        && !held.any(|other| other == engine)
    {
        return Err(Refusal::AnotherEngine {
            holds,
            asked: engine,
        });
    }
    let has_journal = has_files(&directory.join(JOURNAL));
    if has_journal && engine == EngineName::Memory {
        return Err(Refusal::JournalAlone);
    }
    if first.is_some() || has_journal {
        return Ok(());
    }
    let own: Vec<OsString> = named
        .iter()
        .filter_map(|path| name_within(directory, path))
        .collect();
    let is_own = |name: &OsString| own.iter().any(|own| is_or_was_rotated(name, own));
    match names
        .iter()
        .find(|name| !may_be_there(name) && !is_own(name))
    {
        Some(name) => Err(Refusal::Foreign {
            name: name.to_string_lossy().into_owned(),
        }),
        None => Ok(()),
    }
}

fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names: Vec<OsString> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()?;
    // The same name is told every time.
    names.sort();
    Ok(names)
}

fn has_files(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// The name at the top of `directory` under which `path` lies: its own, or that of the directory that leads to it.
fn name_within(directory: &Path, path: &Path) -> Option<OsString> {
    // The file itself need not exist, and a link in its place is not followed.
    let parent = match path.parent()? {
        parent if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let path = fs::canonicalize(parent).ok()?.join(path.file_name()?);
    let within = path.strip_prefix(fs::canonicalize(directory).ok()?).ok()?;
    Some(within.iter().next()?.to_owned())
}

/// Whether it is that file, or one that was moved aside under its name and a time when the log was rotated.
fn is_or_was_rotated(name: &OsString, own: &OsString) -> bool {
    let rest = name.as_bytes().strip_prefix(own.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Whether a new file system, or an empty checkout, may have it.
pub fn is_of_new_file_system(name: &OsStr) -> bool {
    name == NEW_FILE_SYSTEM || name.as_bytes().starts_with(b".")
}

/// In a directory without data of ours. What an engine or a journal left unfinished is made again by them.
fn may_be_there(name: &OsString) -> bool {
    let is_engine = ENGINES.iter().any(|engine| name == engine.as_str());
    is_engine
        || name == JOURNAL
        || is_of_new_file_system(name)
        || name.as_bytes().starts_with(OURS.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    struct Case {
        directory: tempfile::TempDir,
    }

    impl Case {
        fn with(names: &[&str]) -> Case {
            let directory = tempfile::tempdir().unwrap();
            for name in names {
                let path = directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"kept").unwrap();
            }
            Case { directory }
        }

        fn refusal(&self, engine: EngineName) -> Option<String> {
            self.refusal_beside(engine, &[])
        }

        fn refusal_beside(&self, engine: EngineName, named: &[&Path]) -> Option<String> {
            let why = refuse_beside(self.directory.path(), engine, named).err();
            why.map(|why| why.to_string())
        }
    }

    #[track_caller]
    fn assert_names(refusal: Option<String>, parts: &[&str]) {
        let text = refusal.expect("a refusal");
        for part in parts {
            assert!(text.contains(part), "{text}");
        }
    }

    const ALL: [EngineName; 3] = [EngineName::Rocksdb, EngineName::Mdbx, EngineName::Memory];

    #[test]
    fn new_and_empty_directories_are_taken() {
        let taken: [&[&str]; 5] = [
            &[],
            &["lost+found/x"],
            &[".gitignore", ".snapshot/x"],
            &["quarry.lock", "quarry.port", "quarry.log"],
            &["rocksdb/quarry.unfinished", "mdbx/quarry.unfinished"],
        ];
        for names in taken {
            for engine in ALL {
                assert_eq!(Case::with(names).refusal(engine), None, "{names:?}");
            }
        }
        let absent = tempfile::tempdir().unwrap().path().join("absent");
        assert!(refuse_beside(&absent, EngineName::Rocksdb, &[]).is_ok());
    }

    #[test]
    fn other_databases_are_named() {
        for (database, names) in DATABASES {
            for name in *names {
                for engine in ALL {
                    let among_ours = ["rocksdb/CURRENT", "mdbx/mdbx.dat", name];
                    assert_names(Case::with(&[name]).refusal(engine), &[database, name]);
                    assert_names(Case::with(&among_ours).refusal(engine), &[database, name]);
                }
            }
        }
    }

    #[test]
    fn the_engine_whose_data_lies_there_is_named() {
        let rocksdb = Case::with(&["rocksdb/CURRENT", "journal/0000000001.segment"]);
        assert_eq!(rocksdb.refusal(EngineName::Rocksdb), None);
        for asked in [EngineName::Mdbx, EngineName::Memory] {
            assert_names(
                rocksdb.refusal(asked),
                &["--engine rocksdb", asked.as_str()],
            );
        }
        let mdbx = Case::with(&["mdbx/mdbx.dat"]);
        assert_eq!(mdbx.refusal(EngineName::Mdbx), None);
        assert_names(mdbx.refusal(EngineName::Rocksdb), &["--engine mdbx"]);
        let journal = Case::with(&["journal/0000000001.segment"]);
        assert_names(journal.refusal(EngineName::Memory), &["journal"]);
        // What a start with a wrong engine has left beside the data stands in nobody's way.
        let both = Case::with(&["mdbx/mdbx.dat", "rocksdb/CURRENT"]);
        assert_eq!(both.refusal(EngineName::Mdbx), None);
        assert_eq!(both.refusal(EngineName::Rocksdb), None);
        assert_names(both.refusal(EngineName::Memory), &["--engine rocksdb"]);
    }

    #[test]
    fn foreign_files_are_refused_where_no_data_of_ours_is() {
        let foreign = Case::with(&["notes.txt", "lost+found/x"]);
        for engine in ALL {
            assert_names(foreign.refusal(engine), &["notes.txt"]);
        }
        let beside_ours = Case::with(&["notes.txt", "rocksdb/CURRENT"]);
        assert_eq!(beside_ours.refusal(EngineName::Rocksdb), None);
    }

    #[test]
    fn what_the_configuration_names_is_no_obstacle() {
        let rotated = "server.log.2026-01-02T03-04-05.678901";
        let case = Case::with(&["server.log", rotated, "server.pid", "logs/other.log"]);
        let path = |name: &str| case.directory.path().join(name);
        let (log, pid, below) = (path("server.log"), path("server.pid"), path("logs/new.log"));
        // However the path is written.
        let round_about = path("logs/../server.log");
        let engine = EngineName::Rocksdb;
        for log in [&log, &round_about] {
            assert_eq!(case.refusal_beside(engine, &[log, &pid, &below]), None);
        }
        assert_names(
            case.refusal_beside(engine, &[&pid, &below]),
            &["server.log"],
        );
        assert_names(
            case.refusal_beside(engine, &[&log, &below]),
            &["server.pid"],
        );
        assert_names(case.refusal_beside(engine, &[&log, &pid]), &["logs"]);
        // The same name elsewhere, or a name that only begins alike, is another file.
        let elsewhere = Path::new("/server.log");
        assert_names(
            case.refusal_beside(engine, &[elsewhere, &pid, &below]),
            &["server.log"],
        );
        let alike = Case::with(&["server.logs"]);
        let log = alike.directory.path().join("server.log");
        assert_names(alike.refusal_beside(engine, &[&log]), &["server.logs"]);
        // The audit log is one of them.
        let audited = Case::with(&["audit.json"]);
        let path = |name: &str| audited.directory.path().join(name).display().to_string();
        let mut config = Server::in_memory_with(&[
            "--auditDestination",
            "file",
            "--auditPath",
            &path("audit.json"),
        ])
        .config;
        config.data_directory = audited.directory.path().to_owned();
        assert!(refuse(&config).is_ok());
        config.audit = None;
        assert!(refuse(&config).is_err());
        // Another database's file does not become ours by being named.
        let theirs = Case::with(&["PG_VERSION"]);
        let log = theirs.directory.path().join("PG_VERSION");
        assert_names(theirs.refusal_beside(engine, &[&log]), &["PostgreSQL"]);
    }
}

//! What lies in a directory before a server makes it its own.
//!
//! Refused, by name and with nothing changed: files of another database; data of another engine than the one asked for; and, where
//! no data of ours lies, anything that neither a new file system nor an empty checkout has.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use quarry_storage::creation;

use crate::config::EngineName;
use crate::engine::JOURNAL;

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

/// What a server puts into its directory beside the data begins so: lock, port, logs, pid.
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

/// Looks at the directory, which need not exist, and changes nothing.
pub fn refuse(directory: &Path, engine: EngineName) -> Result<(), Refusal> {
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
    match names.iter().find(|name| !may_be_there(name)) {
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

/// In a directory without data of ours. What an engine or a journal left unfinished is made again by them.
fn may_be_there(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let is_engine = ENGINES.iter().any(|engine| name == engine.as_str());
    is_engine
        || name == JOURNAL
        || name == NEW_FILE_SYSTEM
        || name.starts_with('.')
        || name.starts_with(OURS)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let why = refuse(self.directory.path(), engine).err();
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
        assert!(refuse(&absent, EngineName::Rocksdb).is_ok());
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
}

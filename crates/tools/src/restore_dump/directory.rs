//! Restoring a directory: files are found by their names, and read one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::packed_file::{Packing, open};
use super::{Plan, RestoreDump, Restorer};
use crate::bson_file::Source;
use crate::definition::{Definition, Kind};
use crate::error::{Error, Result};
use crate::namespaces::Namespace;
use crate::new_file::{NAME_BYTES_MAX, UNFINISHED};
use crate::progress::Progress;
use crate::{file_name, metadata, oplog, time_series, users};

const DOCUMENTS: &str = ".bson";
const METADATA: &str = ".metadata.json";
const COMPRESSED: &str = ".gz";
/// Longer metadata than a million indexes have.
const METADATA_BYTES_MAX: u64 = 256 << 20;

/// The files of a collection.
#[derive(Default)]
struct Files {
    documents: Option<PathBuf>,
    metadata: Option<PathBuf>,
}

/// Restores the directory that the flags name.
pub fn restore(mut restorer: Restorer<'_>) -> Result<()> {
    let plans = plans(&restorer)?;
    if plans.is_empty() && !restorer.options.oplog_replay {
        let directory = restorer.options.directory.display();
        return Err(Error::usage(format!(
            "`{directory}` has no collections to restore"
        )));
    }
    let files = plans.iter().filter_map(|plan| plan.file.as_deref());
    let (files, bytes) = files.fold((0, 0), |(files, bytes), path| {
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        let is_compressed = path.extension().is_some_and(|ending| ending == "gz");
        (files + usize::from(is_compressed), bytes + length)
    });
    restorer.progress = Progress::of_bytes("restore", (files == 0).then_some(bytes));
    restorer.make_collections(&plans)?;
    for plan in &plans {
        if let Some(path) = &plan.file {
            restore_file(&mut restorer, plan, path)?;
        }
    }
    if let Some(path) = oplog_of(&restorer)? {
        restorer.apply_file(&path)?;
    }
    restorer.finish(&plans)
}

/// The oplog that is applied.
fn oplog_of(restorer: &Restorer<'_>) -> Result<Option<PathBuf>> {
    let options = restorer.options;
    if options.db.is_some() {
        return Ok(None);
    }
    let files = files_of(&options.directory)?.remove(oplog::NAME);
    let path = files.and_then(|files| files.documents);
    restorer.check_oplog(path.is_some(), options.directory.display())?;
    let path = path.filter(|_| restorer.takes_oplog());
    Ok(options.oplog_file.clone().or(path))
}

fn restore_file(restorer: &mut Restorer<'_>, plan: &Plan, path: &Path) -> Result<()> {
    let (reader, _) = open(path, Packing::ByName)?;
    let mut source = Source::new(reader, path.display().to_string());
    loop {
        let batch = restorer.batch(plan);
        let start = batch.documents.len();
        if !source.document(&mut batch.documents)? {
            return restorer.send(&plan.from);
        }
        restorer.note(plan, start)?;
    }
}

fn plans(restorer: &Restorer<'_>) -> Result<Vec<Plan>> {
    let options = restorer.options;
    let root = &options.directory;
    let mut plans = Vec::new();
    match (&options.db, &options.collection) {
        (Some(database), Some(collection)) => {
            let files = files_of_documents(root)?;
            let definition = definition(collection, &files)?;
            let from = Namespace::new(database, collection);
            add(restorer, from, definition, files, &mut plans)?;
        }
        (Some(database), None) => {
            add_directory(restorer, database, files_of(root)?, &mut plans)?;
        }
        (None, _) => {
            for (database, directory) in directories(root)? {
                add_directory(restorer, &database, files_of(&directory)?, &mut plans)?;
            }
        }
    }
    Ok(plans)
}

/// The file of documents that was named, with the metadata beside it.
fn files_of_documents(path: &Path) -> Result<Files> {
    // Found missing when it is read, it would be missed behind a collection that was dropped for it.
    fs::metadata(path).map_err(Error::file(path))?;
    let shown = path.to_string_lossy();
    let stem = shown.strip_suffix(COMPRESSED).unwrap_or(&shown);
    let stem = stem.strip_suffix(DOCUMENTS);
    let stem = stem.ok_or_else(|| Error::usage("with --collection, name a .bson file"))?;
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    // The metadata of buckets is under the name of their series.
    let stem = match time_series::of_buckets(name) {
        Some(series) => Path::new(directory).join(series).display().to_string(),
        None => stem.to_owned(),
    };
    let beside = [
        format!("{stem}{METADATA}"),
        format!("{stem}{METADATA}{COMPRESSED}"),
    ];
    let mut beside = beside.into_iter().map(PathBuf::from);
    Ok(Files {
        documents: Some(path.to_owned()),
        metadata: beside.find(|path| path.exists()),
    })
}

/// Adds the plans of a database's collections.
fn add_directory(
    restorer: &Restorer<'_>,
    database: &str,
    files: BTreeMap<String, Files>,
    plans: &mut Vec<Plan>,
) -> Result<()> {
    // The documents of a time series stand beside its metadata, under the name of its buckets.
    let (mut buckets, files): (BTreeMap<_, _>, BTreeMap<_, _>) = files
        .into_iter()
        .partition(|(stem, _)| time_series::of_buckets(stem).is_some());
    for (stem, mut files) in files {
        let definition = match definition(&stem, &files) {
            // What is left out may well be of a kind that cannot be restored.
            Err(_) if is_left_out(restorer, database, &stem) => continue,
            definition => definition?,
        };
        if definition.kind == Kind::TimeSeries {
            let name = time_series::buckets_of(&definition.name);
            let buckets = buckets.remove(&file_name::of_collection(&name));
            files.documents = buckets.and_then(|buckets| buckets.documents);
        }
        let from = Namespace::new(database, &definition.name);
        add(restorer, from, definition, files, plans)?;
    }
    for (stem, files) in buckets {
        let series = time_series::of_buckets(&stem).unwrap_or_default();
        if let Some(path) = files.documents
            && !is_left_out(restorer, database, series)
        {
            let what = format!("the time series `{series}` has no metadata beside its buckets");
            return Err(Error::damaged(format_args!("`{}`", path.display()), what));
        }
    }
    Ok(())
}

fn add(
    restorer: &Restorer<'_>,
    from: Namespace,
    definition: Definition,
    files: Files,
    plans: &mut Vec<Plan>,
) -> Result<()> {
    let options = restorer.options;
    let documents = files.documents.filter(|_| definition.kind != Kind::View);
    let Some(plan) = restorer.plan(from, definition, documents)? else {
        return Ok(());
    };
    let lacks = lacks(&plan, files.metadata.as_deref(), options)?;
    if let (Some(lacks), false) = (lacks, options.quiet) {
        eprintln!("{lacks}");
    }
    plans.push(plan);
    Ok(())
}

/// Whether the file's collection is left out by the name that the file says.
fn is_left_out(restorer: &Restorer<'_>, database: &str, stem: &str) -> bool {
    let name = file_name::to_collection(stem);
    name.is_some_and(|name| !restorer.takes(&Namespace::new(database, name)))
}

/// The directories of databases, in order.
fn directories(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = Error::file(root);
    let mut found = Vec::new();
    for entry in fs::read_dir(root).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name
            && path.is_dir()
        {
            found.push((name.to_owned(), path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The collections whose files are in a directory, by the names of the files.
fn files_of(directory: &Path) -> Result<BTreeMap<String, Files>> {
    let failed = Error::file(directory);
    let mut found: BTreeMap<String, Files> = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if is_unfinished(name) {
            let what =
                "the dump was cut off when it wrote this; removed, what is whole is restored";
            return Err(Error::damaged(format_args!("`{}`", path.display()), what));
        }
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name).to_owned();
        let before = if let Some(stem) = name.strip_suffix(METADATA) {
            let files = found.entry(stem.to_owned()).or_default();
            files.metadata.replace(path)
        } else if let Some(stem) = name.strip_suffix(DOCUMENTS) {
            let files = found.entry(stem.to_owned()).or_default();
            files.documents.replace(path)
        } else {
            None
        };
        if let Some(before) = before {
            let what =
                format!("`{name}` and `{name}{COMPRESSED}` are of two dumps: remove one of them");
            return Err(Error::damaged(format_args!("`{}`", before.display()), what));
        }
    }
    Ok(found)
}

/// The words that say which file of a collection the dump lacks. A view has no documents, and users and roles have no options.
///
/// # Errors
/// The collection would be dropped, and no documents restored for those that it has.
fn lacks(plan: &Plan, metadata: Option<&Path>, options: &RestoreDump) -> Result<Option<String>> {
    let from = &plan.from;
    let are_users = users::are_in(plan.to());
    let Some(metadata) = metadata else {
        let lacks = format!(
            "`{from}` has no metadata in the dump: its options and indexes are not known, and it is restored without them"
        );
        return Ok((!are_users).then_some(lacks));
    };
    if plan.file.is_some() || plan.definition.kind == Kind::View {
        return Ok(None);
    }
    if options.drop && !are_users {
        let what = format!(
            "the file is missing, and --drop would remove the documents of `{}`: without --drop they stay, and --nsExclude leaves the collection out",
            plan.to()
        );
        let path = path_of_documents(plan, metadata);
        return Err(Error::damaged(format_args!("`{}`", path.display()), what));
    }
    Ok(Some(format!(
        "`{from}` has no file of documents in the dump"
    )))
}

/// The file of the plan's documents, beside its metadata.
fn path_of_documents(plan: &Plan, metadata: &Path) -> PathBuf {
    let collection = &plan.from.collection;
    let mut name = match plan.definition.kind {
        Kind::TimeSeries => file_name::of_collection(&time_series::buckets_of(collection)),
        Kind::Collection | Kind::View => file_name::of_collection(collection),
    };
    name += DOCUMENTS;
    if metadata.to_string_lossy().ends_with(COMPRESSED) {
        name += COMPRESSED;
    }
    metadata.with_file_name(name)
}

/// Whether a dump was writing the file, which has another name when it is whole. A name that is as long as can be may have lost its ending.
fn is_unfinished(name: &str) -> bool {
    let Some(whole) = name.strip_suffix(UNFINISHED) else {
        return false;
    };
    let whole = whole.strip_suffix(COMPRESSED).unwrap_or(whole);
    let is_of_dump = [DOCUMENTS, METADATA].iter().any(|it| whole.ends_with(it));
    is_of_dump || name.len() == NAME_BYTES_MAX
}

fn definition(stem: &str, files: &Files) -> Result<Definition> {
    let name = file_name::to_collection(stem);
    let unnamed = || {
        let what = "neither the name, which is cut or no UTF-8, nor metadata tell the collection";
        Error::damaged(format_args!("`{stem}`"), what)
    };
    let Some(path) = &files.metadata else {
        return metadata::from_text("", &name.ok_or_else(unnamed)?, "");
    };
    let place = format!("`{}`", path.display());
    let (reader, _) = open(path, Packing::ByName)?;
    let mut text = String::new();
    reader
        .take(METADATA_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(Error::file(path))?;
    let definition = metadata::from_text(&text, name.as_deref().unwrap_or_default(), &place)?;
    match definition.name.is_empty() {
        true => Err(unnamed()),
        false => Ok(definition),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::new_file::NewFile;

    #[test]
    fn a_dump_that_was_cut_off_is_refused_by_the_file_that_was_being_written() {
        for left in [
            "b.bson.part",
            "b.bson.gz.part",
            "b.metadata.json.part",
            "b.metadata.json.gz.part",
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            fs::write(path("a.bson"), "").unwrap();
            fs::write(path("notes.part"), "of somebody").unwrap();
            let found = files_of(directory.path()).unwrap();
            assert_eq!(found.into_keys().collect::<Vec<_>>(), ["a"]);
            fs::write(path(left), "").unwrap();
            let error = files_of(directory.path()).err().map(|it| it.to_string());
            assert!(error.is_some_and(|it| it.contains(left) && it.contains("cut off")));
        }
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        restore: RestoreDump,
    }

    /// The plans of a directory, or the error.
    fn planned(directory: &Path, flags: &str) -> Result<Vec<Plan>> {
        let words = ["restore-dump", "--dryRun", directory.to_str().unwrap()];
        let words = words.into_iter().chain(flags.split_whitespace());
        let options = Line::try_parse_from(words).unwrap().restore;
        let selection = options.selection.selection().unwrap();
        plans(&Restorer::new(&options, selection).unwrap())
    }

    #[test]
    fn what_has_no_file_of_documents_is_not_dropped_for_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("shop");
        fs::create_dir(&directory).unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            let mut file = NewFile::create(&path, name.ends_with(COMPRESSED)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
        };
        let view = r#"{"options":{"viewOn":"there","pipeline":[]},"type":"view"}"#;
        let series = r#"{"options":{"timeseries":{"timeField":"t"}},"type":"timeseries"}"#;
        write("view.metadata.json", view);
        write("there.metadata.json", "{}");
        write("there.bson", "");
        assert_eq!(planned(root.path(), "--drop").unwrap().len(), 2);
        for (metadata, text, missing) in [
            ("a%2Fb.metadata.json", "{}", "shop/a%2Fb.bson`"),
            ("a.metadata.json.gz", "{}", "shop/a.bson.gz`"),
            (
                "weather.metadata.json",
                series,
                "shop/system.buckets.weather.bson`",
            ),
        ] {
            write(metadata, text);
            let error = planned(root.path(), "--drop").err().unwrap().to_string();
            assert!(error.contains(missing), "{error}");
            assert!(error.contains("the file is missing"), "{error}");
            assert_eq!(planned(root.path(), "").unwrap().len(), 3);
            let without = planned(
                root.path(),
                "--drop --nsExclude shop.a* --nsExclude shop.w*",
            );
            assert_eq!(without.unwrap().len(), 2);
            fs::remove_file(directory.join(metadata)).unwrap();
        }
        let named = planned(&directory.join("gone.bson"), "--drop --db shop -c gone");
        let error = named.err().unwrap().to_string();
        assert!(error.contains("shop/gone.bson`"), "{error}");
    }

    #[test]
    fn a_collection_without_metadata_is_told() {
        let root = tempfile::tempdir().unwrap();
        for database in ["shop", "admin"] {
            fs::create_dir(root.path().join(database)).unwrap();
        }
        fs::write(root.path().join("shop/a.bson"), "").unwrap();
        fs::write(root.path().join("admin/system.users.bson"), "").unwrap();
        let words = ["restore-dump", root.path().to_str().unwrap()];
        let options = Line::try_parse_from(words).unwrap().restore;
        let plans = planned(root.path(), "").unwrap();
        let told = |plan: &Plan| lacks(plan, None, &options).unwrap();
        let [users, collection] = plans.as_slice() else {
            panic!("{} plans", plans.len());
        };
        assert_eq!(told(users), None);
        let lacks = told(collection).unwrap();
        assert!(lacks.starts_with("`shop.a` has no metadata"), "{lacks}");
    }
}

//! `quarry migrate`: a live deployment into another one.
//!
//! A place in the source's changes is taken first. Then collections are made and their documents copied, while the source is written to: the copy is of no
//! one moment. The changes since that place are applied behind it (`follow.rs`), each so that applying it twice does no harm, until the source has
//! no further ones. Only then are indexes built, because a unique one may not hold for a copy that is of no one moment. After that the changes are followed until the
//! user ends it, or with `--once` not at all. Time series, of whose changes no stream tells, are copied behind that (`series.rs`). Counts of documents are
//! compared at the end.

mod apply;
mod compare;
mod copy;
mod documents;
mod follow;
mod places;
mod series;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use quarry_client::{Connection, ConnectionString};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::change_stream::{self, NO_CHANGE_STREAMS};
use crate::definition::{self, Definition, Kind};
use crate::error::{Error, Result};
use crate::namespaces::{Namespace, Selection, SelectionFlags};
use crate::server;
use crate::users::{self, Accounts};
use follow::Follower;
use places::{Place, Places};

/// How often unique indexes are tried while the source is written to.
const INDEX_ATTEMPTS_MAX: usize = 50;
const DUPLICATE_KEY: i32 = 11_000;
const WRITERS_DEFAULT: u8 = 4;
/// The database of users, whose changes no stream of a whole deployment has.
const WITHOUT_CHANGES: &str = "admin";

/// Added to a signal's number, the exit code of a process that it ends.
const EXIT_BY_SIGNAL: i32 = 128;

/// The flags of `quarry migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The source, with user and options as drivers take them
    #[arg(value_name = "FROM")]
    source: String,
    /// The server that gets everything
    #[arg(value_name = "TO")]
    destination: String,
    /// File whose first line is the password of the source's user
    #[arg(long = "fromPasswordFile", value_name = "FILE")]
    source_password: Option<PathBuf>,
    /// File whose first line is the password of the other user
    #[arg(long = "toPasswordFile", value_name = "FILE")]
    destination_password: Option<PathBuf>,
    /// End when everything is copied that was written meanwhile
    #[arg(long)]
    once: bool,
    /// Remove each collection from the server that gets it first
    #[arg(long)]
    drop: bool,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Leave users and roles
    #[arg(long = "noUsers")]
    no_users: bool,
    /// Connections that insert
    #[arg(long = "numInsertionWorkers", short = 'j', value_name = "COUNT", default_value_t = WRITERS_DEFAULT, value_parser = clap::value_parser!(u8).range(1..=64))]
    writers: u8,
    /// Say nothing but errors
    #[arg(long)]
    quiet: bool,
    /// Nobody writes to the source, so that there are no changes to ask for
    #[arg(skip)]
    rest: Option<Rest>,
}

/// A copy of what nobody writes to.
#[derive(Debug)]
struct Rest {
    destination: Arc<ConnectionString>,
    is_stopped: Arc<AtomicBool>,
}

impl Rest {
    fn check_stop(&self) -> Result<()> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(Error::Incomplete("ended by a signal".to_owned())),
            false => Ok(()),
        }
    }
}

impl Migrate {
    /// A copy of collections of a source that nobody writes to, without its users and roles. It ends with an error when the flag is set.
    #[must_use]
    pub fn of_rest(
        source: String,
        destination: &Destination,
        selection: &SelectionFlags,
        is_stopped: &Arc<AtomicBool>,
    ) -> Migrate {
        Migrate {
            source,
            destination: String::new(),
            source_password: None,
            destination_password: None,
            once: true,
            drop: destination.drop,
            selection: selection.clone(),
            no_users: true,
            writers: WRITERS_DEFAULT,
            quiet: false,
            rest: Some(Rest {
                destination: Arc::clone(&destination.settings),
                is_stopped: Arc::clone(is_stopped),
            }),
        }
    }
}

/// Where [`Migrate::of_rest`] carries collections to.
#[derive(Debug)]
pub struct Destination {
    settings: Arc<ConnectionString>,
    drop: bool,
}

impl Destination {
    /// The server of a URI, with user and options as drivers take them; the file's first line is the password of that user. With `drop` a collection
    /// that is there is removed first, without it that is an error.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the login: tried before there is anything to copy.
    pub fn reach(uri: &str, password_file: Option<&Path>, drop: bool) -> Result<Destination> {
        let settings = server::settings(uri, password_file)?;
        server::connect(&settings)?;
        Ok(Destination { settings, drop })
    }
}

/// Migrates; the exit code of the process.
#[must_use]
pub fn run(options: &Migrate) -> ExitCode {
    crate::ended("migrate", migrate(options))
}

/// A collection, and where it goes.
struct Item {
    from: Namespace,
    to: Namespace,
    definition: Definition,
}

/// Both sides of a migration.
struct Migration<'m> {
    options: &'m Migrate,
    selection: &'m Selection,
    source_settings: Arc<ConnectionString>,
    destination_settings: Arc<ConnectionString>,
    source: Connection,
    destination: Connection,
}

/// Like [`run`], but for a caller who says himself what became of it.
///
/// # Errors
/// What was copied until then is in the destination.
pub fn migrate(options: &Migrate) -> Result<()> {
    let selection = options.selection.selection()?;
    let passwords = [&options.source_password, &options.destination_password];
    let takes_input =
        |path: &&Option<PathBuf>| path.as_deref().is_some_and(server::is_standard_input);
    if passwords.iter().filter(|path| takes_input(path)).count() > 1 {
        return Err(Error::usage("only one password can be the standard input"));
    }
    let source_settings = server::settings(&options.source, options.source_password.as_deref())?;
    let destination_settings = match &options.rest {
        Some(rest) => Arc::clone(&rest.destination),
        None => server::settings(
            &options.destination,
            options.destination_password.as_deref(),
        )?,
    };
    let migration = Migration {
        options,
        selection: &selection,
        source: server::connect(&source_settings)?,
        destination: server::connect(&destination_settings)?,
        source_settings,
        destination_settings,
    };
    migration.run()
}

/// A flag that is set when a signal asks for the end. A second signal ends the process.
///
/// # Errors
/// The system does not let signals be taken.
pub fn stopping() -> Result<Arc<AtomicBool>> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let code = EXIT_BY_SIGNAL + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&is_stopped))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&is_stopped)))
            .map_err(|error| Error::usage(error.to_string()))?;
    }
    Ok(is_stopped)
}

impl Migration<'_> {
    fn run(mut self) -> Result<()> {
        let token = self.token()?;
        let items = self.items()?;
        if items.is_empty() && self.options.rest.is_some() {
            return Err(Error::usage("it has no collection of that name"));
        }
        self.check(&items, token.is_some())?;
        self.announce_series(&items);
        self.make_collections(&items)?;
        let mut places = Places::default();
        for item in collections(&items) {
            let (from, to) = (item.from.clone(), item.to.clone());
            if let Some(uuid) = item.definition.uuid {
                places.put(uuid, Place { from, to });
            }
        }
        let documents = self.copy(collections(&items))?;
        self.say(&format!(
            "{documents} documents of {} collections copied",
            collections(&items).count()
        ));
        // From here on a signal ends the following, and what has begun is brought to its end.
        let is_stopped = match &self.options.rest {
            Some(rest) => Arc::clone(&rest.is_stopped),
            None => stopping()?,
        };
        let mut follower = match token {
            Some(token) => Some(Follower::new(&self, token, places.clone())?),
            None => None,
        };
        if let Some(follower) = &mut follower {
            let changes = follower.catch_up()?;
            self.say(&format!(
                "{changes} changes applied that were made meanwhile"
            ));
        }
        match &mut follower {
            Some(follower) => self.finish_behind(follower)?,
            None => self.finish_definitions(&places)?,
        }
        if !self.options.no_users {
            self.copy_users()?;
        }
        if let Some(follower) = &mut follower {
            follower.follow_indexes();
            if !self.options.once {
                self.say("following the changes; Ctrl-C ends it");
                follower.follow(&is_stopped)?;
            }
        }
        self.copy_series()?;
        self.compare(&places, follower.as_mut())
    }

    /// An error where the copy has been told to end.
    fn check_stop(&self) -> Result<()> {
        match &self.options.rest {
            Some(rest) => rest.check_stop(),
            None => Ok(()),
        }
    }

    fn say(&self, what: &str) {
        if !self.options.quiet {
            eprintln!("{what}");
        }
    }

    /// The place in the source's changes as it is now; none where the source has no change streams and does not need to have.
    fn token(&mut self) -> Result<Option<quarry_bson::Document>> {
        if self.options.rest.is_some() {
            return Ok(None);
        }
        match change_stream::current_token(&mut self.source) {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.code() == Some(NO_CHANGE_STREAMS) && self.options.once => {
                self.say("the source has no change streams: what is written to it meanwhile is copied or not");
                Ok(None)
            }
            Err(error) if error.code() == Some(NO_CHANGE_STREAMS) => Err(Error::usage(
                "the source has no change streams, because it is no set: --once copies it as it is",
            )),
            Err(error) => Err(Error::server("changes of the source")(error)),
        }
    }

    fn items(&mut self) -> Result<Vec<Item>> {
        let selection = self.selection;
        let is_wanted = |namespace: &Namespace| selection.takes(namespace);
        let mut items = Vec::new();
        let mut uuids = HashSet::new();
        for database in definition::databases(&mut self.source)? {
            let found = definition::definitions(&mut self.source, &database, None, &is_wanted)?;
            for definition in found {
                let from = Namespace::new(&database, &definition.name);
                // One that is renamed while it is listed may be met under both names.
                if definition.uuid.is_none_or(|uuid| uuids.insert(uuid)) {
                    items.push(Item {
                        to: selection.renamed(&from)?,
                        from,
                        definition,
                    });
                }
            }
        }
        Ok(items)
    }

    /// Looks whether the collections can be copied, before anything is changed.
    fn check(&mut self, items: &[Item], has_changes: bool) -> Result<()> {
        self.check_sides(items)?;
        let mut named: HashMap<&Namespace, &Item> = HashMap::new();
        for item in items {
            if let Some(other) = named.insert(&item.to, item) {
                let what = format!(
                    "`{}` and `{}` would both be named `{}`",
                    other.from, item.from, item.to
                );
                return Err(Error::usage(what));
            }
            let is_unnumbered =
                item.definition.kind == Kind::Collection && item.definition.uuid.is_none();
            if has_changes && is_unnumbered {
                let what = format!("`{}` has no UUID to know its changes by", item.from);
                return Err(Error::usage(what));
            }
            let is_copied_last = item.definition.kind == Kind::TimeSeries;
            if has_changes && item.from.database == WITHOUT_CHANGES && !is_copied_last {
                self.check_unfollowed(item)?;
            }
            if !self.options.drop && definition::exists(&mut self.destination, &item.to)? {
                let what = format!("`{}` is there already; --drop removes it first", item.to);
                return Err(Error::usage(what));
            }
        }
        Ok(())
    }

    /// On one server, a collection that is copied must not be met again as one to copy.
    fn check_sides(&self, items: &[Item]) -> Result<()> {
        if !self.source.is_of_the_same_server(&self.destination) {
            return Ok(());
        }
        let met = items.iter().find(|item| self.selection.takes(&item.to));
        match met {
            Some(item) => Err(Error::usage(format!(
                "both sides are one server, and `{}` would go to `{}`, which is chosen, too: choose with --nsInclude, and rename with --nsFrom and --nsTo",
                item.from, item.to
            ))),
            None if !self.selection.renames() => Err(Error::usage("both sides are one server")),
            None => Ok(()),
        }
    }

    /// A collection whose changes no stream has is copied once, and not followed.
    fn check_unfollowed(&self, item: &Item) -> Result<()> {
        let what = format!(
            "changes of `{}` cannot be followed, because it is in the database `{WITHOUT_CHANGES}`",
            item.from
        );
        match self.options.once {
            true => {
                eprintln!("{what}: what is written to it meanwhile is copied or not");
                Ok(())
            }
            false => Err(Error::usage(format!(
                "{what}; --nsExclude '{}' leaves it out",
                item.from
            ))),
        }
    }

    fn make_collections(&mut self, items: &[Item]) -> Result<()> {
        for item in items {
            self.check_stop()?;
            if self.options.drop {
                definition::drop(&mut self.destination, &item.to)?;
            }
            if item.definition.kind == Kind::Collection {
                let options = item.definition.options.as_raw();
                definition::create(&mut self.destination, &item.to, options)?;
            }
        }
        Ok(())
    }

    /// Finishes the definitions, behind further changes where a unique index does not hold: documents are put as the source has them
    /// when their change is read, so that while it is written to some are newer than others.
    fn finish_behind(&mut self, follower: &mut Follower<'_>) -> Result<()> {
        for _ in 0..INDEX_ATTEMPTS_MAX {
            match self.finish_definitions(follower.places()) {
                Err(Error::Server { why, .. }) if why.code() == Some(DUPLICATE_KEY) => {}
                finished => return finished,
            }
            follower.catch_up()?;
        }
        self.finish_definitions(follower.places())
    }

    /// Builds the indexes and makes the views that the source has now, when the copy is of one moment. What is new since then comes among the
    /// changes, with its indexes.
    fn finish_definitions(&mut self, places: &Places) -> Result<()> {
        for item in self.items()? {
            self.check_stop()?;
            match item.definition.kind {
                Kind::Collection => {}
                Kind::TimeSeries => continue,
                Kind::View => {
                    let options = item.definition.options.as_raw();
                    definition::create(&mut self.destination, &item.to, options)?;
                    continue;
                }
            }
            let place = match item.definition.uuid {
                Some(uuid) => places.get(&uuid).map(|place| &place.to),
                None => Some(&item.to),
            };
            if let Some(to) = place {
                let indexes = &item.definition.indexes;
                definition::create_indexes(&mut self.destination, to, indexes)?;
            }
        }
        Ok(())
    }

    fn copy_users(&mut self) -> Result<()> {
        let named = users::COLLECTIONS.map(|(name, _)| Namespace::new(users::DATABASE, name));
        if !named
            .iter()
            .all(|namespace| self.selection.takes(namespace))
        {
            return Ok(());
        }
        let accounts = Accounts::of_server(&mut self.source).map_err(Error::server(
            "users and roles of the source (--noUsers leaves them)",
        ))?;
        accounts.restore(&mut self.destination, false)
    }
}

/// The items that are collections, and neither views nor time series.
fn collections(items: &[Item]) -> impl Iterator<Item = &Item> + Clone {
    items
        .iter()
        .filter(|item| item.definition.kind == Kind::Collection)
}

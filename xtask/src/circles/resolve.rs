//! From a path in one module to the file that defines what it names.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::Arrows;
use super::source::{Import, Source};
use crate::style::Repository;

/// Longer than any chain of `pub use`; ends names that lead to themselves.
const STEPS_MAX: usize = 16;

/// A module of the crate.
struct Module {
    file: String,
    /// Its place in [`Modules`]; the root has none.
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    source: Source,
    /// The names of this module that have been looked up, with what they mean.
    known: RefCell<HashMap<String, Option<Target>>>,
}

/// The place that a path leads to.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// Something that is defined in the module.
    Item(usize),
}

/// All modules of a crate, the root first.
pub struct Modules(Vec<Module>);

impl Modules {
    /// The modules that the root file reaches; none where there is no such file.
    pub fn read(repository: &Repository, root: &str) -> Option<Modules> {
        let mut modules = Modules(Vec::new());
        let source = Source::parse(text_of(repository, root)?);
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        modules.add(repository, None, root, folder, source);
        Some(modules)
    }

    /// Adds a module and those under it; the files of the latter stand in `folder`.
    fn add(
        &mut self,
        repository: &Repository,
        parent: Option<usize>,
        file: &str,
        folder: &str,
        mut source: Source,
    ) -> usize {
        let (files, blocks) = (
            std::mem::take(&mut source.files),
            std::mem::take(&mut source.blocks),
        );
        let at = self.0.len();
        self.0.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            source,
            known: RefCell::default(),
        });
        for name in files {
            let inner = format!("{folder}/{name}");
            for path in [format!("{inner}.rs"), format!("{inner}/mod.rs")] {
                if let Some(text) = text_of(repository, &path) {
                    let child = self.add(repository, Some(at), &path, &inner, Source::parse(text));
                    self.0[at].children.insert(name.clone(), child);
                }
            }
        }
        for (name, block) in blocks {
            let child = self.add(
                repository,
                Some(at),
                file,
                &format!("{folder}/{name}"),
                block,
            );
            self.0[at].children.insert(name, child);
        }
        at
    }

    /// Adds an arrow for each name that a module takes from another file.
    pub fn add_arrows(&self, arrows: &mut Arrows) {
        for (at, module) in self.0.iter().enumerate() {
            for import in &module.source.imports {
                self.import_arrows(at, import, arrows);
            }
            for path in &module.source.paths {
                self.arrow(at, self.resolve(at, path, STEPS_MAX), path, arrows);
            }
        }
    }

    fn import_arrows(&self, at: usize, import: &Import, arrows: &mut Arrows) {
        let words = &self.0[at].source.words;
        let target = self.resolve(at, &import.path, STEPS_MAX);
        match (&import.name, target) {
            // A name that the module only hands on ties it to nothing.
            (Some(name), _) if import.is_public && !words.contains(name) => {}
            (Some(_), _) => self.arrow(at, target, &import.path, arrows),
            (None, Some(Target::Module(from))) => {
                for word in words {
                    let found = self.item(from, word, STEPS_MAX);
                    self.arrow(at, found, std::slice::from_ref(word), arrows);
                }
            }
            (None, _) => self.arrow(at, target, &import.path, arrows),
        }
    }

    /// Adds the arrow to an item of another file. A module that is only named is none: what is taken from it is.
    fn arrow(&self, at: usize, target: Option<Target>, path: &[String], arrows: &mut Arrows) {
        let Some(Target::Item(to)) = target else {
            return;
        };
        let (from, to) = (&self.0[at].file, &self.0[to].file);
        if from != to {
            let names = arrows.entry((from.clone(), to.clone())).or_default();
            let is_item = |segment: &&String| segment.starts_with(char::is_uppercase);
            names.extend(path.iter().find(is_item).or(path.last()).cloned());
        }
    }

    /// Finds what a path means in the module `at`; none if another crate defines it.
    fn resolve(&self, at: usize, path: &[String], steps_left: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(at),
            "super" => Target::Module(self.0[at].parent?),
            name if rest.is_empty() => self.item(at, name, steps_left)?,
            name => self.module(at, name, steps_left)?,
        };
        for (index, name) in rest.iter().enumerate() {
            let Target::Module(module) = target else {
                return Some(target);
            };
            let is_last = index + 1 == rest.len();
            let found = match name.as_str() {
                "super" => self.0[module].parent.map(Target::Module),
                _ if is_last => self.item(module, name, steps_left),
                _ => self.module(module, name, steps_left),
            };
            // A name that the source does not show, such as one that a macro makes, is the module's own.
            target = found.unwrap_or(Target::Item(module));
        }
        Some(target)
    }

    /// Finds what `name` means in a module at the end of a path: an item goes before a module of that name.
    fn item(&self, at: usize, name: &str, steps_left: usize) -> Option<Target> {
        if self.0[at].source.defined.contains(name) {
            return Some(Target::Item(at));
        }
        if let Some(known) = self.0[at].known.borrow().get(name) {
            return *known;
        }
        let imported = self.imported(at, name, steps_left);
        let child = self.0[at].children.get(name).copied();
        let target = match (imported, child) {
            (Some(Target::Item(_)), _) | (_, None) => imported,
            (_, Some(child)) => Some(Target::Module(child)),
        };
        let mut known = self.0[at].known.borrow_mut();
        known.insert(name.to_owned(), target);
        target
    }

    /// Finds what `name` means in a module within a path: a module goes before an item of that name.
    fn module(&self, at: usize, name: &str, steps_left: usize) -> Option<Target> {
        if let Some(&child) = self.0[at].children.get(name) {
            return Some(Target::Module(child));
        }
        self.item(at, name, steps_left)
    }

    fn imported(&self, at: usize, name: &str, steps_left: usize) -> Option<Target> {
        let steps_left = steps_left.checked_sub(1)?;
        let Module {
            source: Source { imports, .. },
            children,
            ..
        } = &self.0[at];
        // `use name;` and `use name::X;` name another crate unless the module has such a child.
        let is_it = |import: &&Import| {
            import.name.as_deref() == Some(name)
                && (import.path[0] != name || import.path.len() > 1 && children.contains_key(name))
        };
        if let Some(import) = imports.iter().find(is_it) {
            return self.resolve(at, &import.path, steps_left);
        }
        let globs = imports.iter().filter(|import| import.name.is_none());
        globs
            .filter_map(|glob| self.resolve(at, &glob.path, steps_left))
            .find_map(|target| match target {
                Target::Module(module) if module != at => self.item(module, name, steps_left),
                _ => None,
            })
    }
}

fn text_of<'r>(repository: &'r Repository, path: &str) -> Option<&'r str> {
    let at = repository
        .files
        .binary_search_by(|file| file.path.as_str().cmp(path))
        .ok()?;
    Some(&repository.files[at].text)
}

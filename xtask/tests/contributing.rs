//! The recipes of CONTRIBUTING.md hold: each file that a recipe names says what the recipe shows, and no other file
//! knows of what the recipe is about.
//!
//! A recipe is a section under "How to add". Its table has a file and a piece of that file's text in each row; the sentence
//! "Nothing else in `FOLDER` says `TEXT`." closes it.

use std::fs;

use xtask::style::{File, Repository};

struct Recipe<'t> {
    title: &'t str,
    /// A file's path, and what it says.
    places: Vec<(&'t str, &'t str)>,
    /// A folder, and what only the files of `places` say in it.
    nothing_else: (&'t str, &'t str),
}

impl<'t> Recipe<'t> {
    fn parse(section: &'t str) -> Result<Self, String> {
        let (title, body) = section.split_once('\n').ok_or("a recipe without a text")?;
        let complaint = |what: &str| format!("{title}: {what}");
        let places: Vec<_> = body
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(between_backquotes)
            .map(|texts| match texts[..] {
                [file, says] => Ok((file, says)),
                _ => Err(complaint("a row has a file and what it says")),
            })
            .collect::<Result<_, _>>()?;
        let last = body
            .lines()
            .find(|line| line.starts_with("Nothing else in "))
            .map(between_backquotes)
            .ok_or_else(|| complaint("does not say what nothing else says"))?;
        match last[..] {
            [folder, text] if !places.is_empty() => Ok(Self {
                title,
                places,
                nothing_else: (folder, text),
            }),
            _ => Err(complaint("names no place, or no folder and text")),
        }
    }

    fn complaints(&self, files: &[File]) -> Vec<String> {
        let mut found = Vec::new();
        for (path, says) in &self.places {
            match files.iter().find(|file| file.path == *path) {
                None => found.push(format!("{}: `{path}` is not there", self.title)),
                Some(file) if !in_one_line(&file.text).contains(&in_one_line(says)) => {
                    found.push(format!("{}: `{path}` does not say `{says}`", self.title));
                }
                Some(_) => {}
            }
        }
        let (folder, text) = self.nothing_else;
        let is_named = |file: &File| self.places.iter().any(|(path, _)| file.path == *path);
        let others = files.iter().filter(|file| {
            file.path.starts_with(folder)
                && !is_named(file)
                && without_tests(&file.text).contains(text)
        });
        found.extend(others.map(|file| format!("{}: `{}` says `{text}`", self.title, file.path)));
        found
    }
}

fn between_backquotes(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// How a text stands when rustfmt has not broken it.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Unit tests stand at a file's end.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod ")
        .map_or(text, |(code, _)| code)
}

fn recipes(contributing: &str) -> Vec<Recipe<'_>> {
    let (_, how_to_add) = contributing
        .split_once("\n## How to add\n")
        .expect("the section is there");
    let sections = how_to_add.split("\n### ").skip(1);
    sections
        .map(|section| Recipe::parse(section).unwrap())
        .collect()
}

#[test]
fn every_recipe_names_the_places_that_know_its_example() {
    let root = xtask::repository_root();
    let contributing = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let files = Repository::read(&root).unwrap().files;
    let recipes = recipes(&contributing);
    assert!(recipes.len() >= 6, "only {} recipes", recipes.len());
    let found: Vec<_> = recipes
        .iter()
        .flat_map(|recipe| recipe.complaints(&files))
        .collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_place_that_moved_or_is_new_is_told() {
    let contributing = "# C\n\n## How to add\n\n### A thing\n\n| file | says |\n|---|---|\n\
        | `a/table.rs` | `row(\"x\", x::f)` |\n| `a/x.rs` | `fn f(` |\n\nNothing else in `a` says `\"x\"`.\n";
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let table = file("a/table.rs", "row(\n\"x\",\n x::f)");
    let told = |files: &[File]| {
        let recipes = recipes(contributing);
        recipes[0].complaints(files).join("; ")
    };
    assert_eq!(
        told(&[
            file("a/table.rs", "row(\"x\", x::f)"),
            file("a/x.rs", "fn f() {}")
        ]),
        ""
    );
    assert_eq!(
        told(&[table]),
        "A thing: `a/table.rs` does not say `row(\"x\", x::f)`; A thing: `a/x.rs` is not there"
    );
    let moved = [
        file("a/table.rs", "row(\"x\", x::f)"),
        file("a/x.rs", "fn g() {}"),
        file("a/other.rs", "if name == \"x\" {}"),
    ];
    assert_eq!(
        told(&moved),
        "A thing: `a/x.rs` does not say `fn f(`; A thing: `a/other.rs` says `\"x\"`"
    );
    let in_a_test = file("a/y.rs", "#[cfg(test)]\nmod tests { \"x\" }");
    assert!(!told(&[in_a_test]).contains("a/y.rs"));
}

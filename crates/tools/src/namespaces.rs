//! Names of collections: chosen by patterns, and renamed by pairs of them.
//!
//! A pattern is a namespace in which `*` stands for any text, dots included, and `\` makes the next character itself. In a pair of `from` and `to`,
//! a `*` may have a name instead, `$name$`, and the text that it stood for in `from` is put in the same place of `to`.

use std::fmt;

use clap::Args;

use crate::error::{Error, Result};

/// More variables than any pattern of a person has; matching tries all their lengths.
const VARIABLES_MAX: usize = 8;

/// A collection of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// The database.
    pub database: String,
    /// The collection.
    pub collection: String,
}

impl Namespace {
    pub fn new(database: impl Into<String>, collection: impl Into<String>) -> Namespace {
        Namespace {
            database: database.into(),
            collection: collection.into(),
        }
    }

    /// The collection that a full name says; none where it is not one.
    pub fn parse(full: &str) -> Option<Namespace> {
        let (database, collection) = full.split_once('.')?;
        let is_whole = !database.is_empty() && !collection.is_empty();
        is_whole.then(|| Namespace::new(database, collection))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Any text; the name is empty for a `*`.
    Variable(String),
}

/// A pattern of namespaces.
#[derive(Clone, Debug)]
struct Pattern(Vec<Part>);

impl Pattern {
    fn parse(text: &str) -> Result<Pattern> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let variable = match character {
                '\\' => {
                    plain.extend(characters.next());
                    continue;
                }
                '*' => String::new(),
                '$' => {
                    let name: String = characters.by_ref().take_while(|c| *c != '$').collect();
                    let end = text.len() - characters.as_str().len();
                    let is_closed = text[..end].ends_with('$') && !name.is_empty();
                    if !is_closed || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                        let what = format!("`{text}`: a variable is written as `$name$`");
                        return Err(Error::usage(what));
                    }
                    name
                }
                other => {
                    plain.push(other);
                    continue;
                }
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Variable(variable));
        }
        parts.push(Part::Text(plain));
        if parts.len() / 2 > VARIABLES_MAX {
            let what = format!("`{text}` has more than {VARIABLES_MAX} variables");
            return Err(Error::usage(what));
        }
        Ok(Pattern(parts))
    }

    fn variables(&self) -> Vec<&str> {
        let variables = self.0.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        });
        variables.collect()
    }

    /// The texts that the variables stand for, as short as they can be.
    fn matched<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let mut found = Vec::new();
        matched_from(&self.0, text, &mut found).then_some(found)
    }
}

fn matched_from<'t>(parts: &[Part], text: &'t str, found: &mut Vec<&'t str>) -> bool {
    match parts {
        [] => text.is_empty(),
        [Part::Text(plain), rest @ ..] => text
            .strip_prefix(plain.as_str())
            .is_some_and(|text| matched_from(rest, text, found)),
        [Part::Variable(_), rest @ ..] => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            for end in ends {
                found.push(&text[..end]);
                if matched_from(rest, &text[end..], found) {
                    return true;
                }
                found.pop();
            }
            false
        }
    }
}

/// The flags that choose collections and give them other names.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionFlags {
    /// Only collections of this pattern, in which `*` is any text; may be given more than once
    #[arg(id = "ns_include", long = "nsInclude", value_name = "PATTERN")]
    include: Vec<String>,
    /// No collections of this pattern
    #[arg(id = "ns_exclude", long = "nsExclude", value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Give collections of this pattern another name, in which `*` and `$name$` are what they were
    #[arg(id = "ns_from", long = "nsFrom", value_name = "PATTERN")]
    from: Vec<String>,
    /// The other name
    #[arg(id = "ns_to", long = "nsTo", value_name = "PATTERN")]
    to: Vec<String>,
}

impl SelectionFlags {
    /// Whether a pattern chooses some collections out of all.
    #[must_use]
    pub fn chooses(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// Reads the patterns.
    ///
    /// # Errors
    /// A pattern is none, or the pairs of names do not fit together.
    pub fn selection(&self) -> Result<Selection> {
        Selection::new(&self.include, &self.exclude, &self.from, &self.to)
    }
}

/// The choice of `--nsInclude` and `--nsExclude`, and the names of `--nsFrom` and `--nsTo`.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    renames: Vec<(Pattern, Pattern)>,
}

impl Selection {
    /// Reads the patterns. Pairs of `from` and `to` must have the same variables.
    pub fn new(
        include: &[String],
        exclude: &[String],
        from: &[String],
        to: &[String],
    ) -> Result<Selection> {
        let parse = |texts: &[String]| -> Result<Vec<Pattern>> {
            texts.iter().map(|text| Pattern::parse(text)).collect()
        };
        if from.len() != to.len() {
            return Err(Error::usage("each --nsFrom goes with one --nsTo"));
        }
        let renames: Vec<(Pattern, Pattern)> = parse(from)?.into_iter().zip(parse(to)?).collect();
        for (from, to) in &renames {
            let (mut a, mut b) = (from.variables(), to.variables());
            a.sort_unstable();
            b.sort_unstable();
            if a != b {
                return Err(Error::usage(
                    "--nsFrom and --nsTo have the same variables, and as many `*`",
                ));
            }
        }
        Ok(Selection {
            include: parse(include)?,
            exclude: parse(exclude)?,
            renames,
        })
    }

    /// Whether the collection is taken.
    pub fn takes(&self, namespace: &Namespace) -> bool {
        let full = namespace.to_string();
        let is_in = |patterns: &[Pattern]| {
            patterns
                .iter()
                .any(|pattern| pattern.matched(&full).is_some())
        };
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }

    /// Whether there are other names at all.
    pub fn renames(&self) -> bool {
        !self.renames.is_empty()
    }

    /// The name that the collection gets.
    pub fn renamed(&self, namespace: &Namespace) -> Result<Namespace> {
        let full = namespace.to_string();
        for (from, to) in &self.renames {
            let Some(texts) = from.matched(&full) else {
                continue;
            };
            let mut bound: Vec<(&str, &str)> = from.variables().into_iter().zip(texts).collect();
            let mut name = String::new();
            for part in &to.0 {
                match part {
                    Part::Text(text) => name += text,
                    Part::Variable(variable) => {
                        let at = bound.iter().position(|(bound, _)| bound == variable);
                        // Both sides have the same variables, and stars as many.
                        name += at.map_or("", |at| bound.remove(at).1);
                    }
                }
            }
            return Namespace::parse(&name)
                .ok_or_else(|| Error::usage(format!("`{full}` would be named `{name}`")));
        }
        Ok(namespace.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        Selection::new(&texts(include), &texts(exclude), &[], &[]).unwrap()
    }

    fn renamed(from: &[&str], to: &[&str], name: &str) -> String {
        let selection = Selection::new(&[], &[], &texts(from), &texts(to)).unwrap();
        let name = Namespace::parse(name).unwrap();
        selection.renamed(&name).unwrap().to_string()
    }

    #[test]
    fn patterns_choose_whole_names() {
        let takes =
            |selection: &Selection, name: &str| selection.takes(&Namespace::parse(name).unwrap());
        let chosen = selection(&["shop.*", "logs.2024"], &["shop.tmp*"]);
        assert!(takes(&chosen, "shop.orders") && takes(&chosen, "logs.2024"));
        assert!(!takes(&chosen, "logs.20245") && !takes(&chosen, "shop.tmp1"));
        assert!(takes(&selection(&["*.a"], &[]), "db.x.a"));
        assert!(takes(&selection(&[r"db.\*"], &[]), "db.*"));
        assert!(!takes(&selection(&[r"db.\*"], &[]), "db.a"));
        assert!(takes(&selection(&[], &[]), "any.thing"));
    }

    #[test]
    fn names_move_with_their_variables() {
        assert_eq!(renamed(&["a.*"], &["b.*"], "a.x"), "b.x");
        assert_eq!(renamed(&["a.*"], &["b.*"], "c.x"), "c.x");
        assert_eq!(
            renamed(
                &["prod_$customer$.$what$"],
                &["$what$.of_$customer$"],
                "prod_ada.orders"
            ),
            "orders.of_ada"
        );
        // The first pair that fits counts.
        assert_eq!(renamed(&["a.x", "a.*"], &["a.y", "z.*"], "a.x"), "a.y");
    }

    #[test]
    fn pairs_that_do_not_fit_are_refused() {
        let pair = |from: &str, to: &str| Selection::new(&[], &[], &texts(&[from]), &texts(&[to]));
        assert!(pair("a.$x$", "b.$y$").is_err());
        assert!(pair("a.*", "b.c").is_err());
        assert!(pair("a.$x", "b.$x").is_err());
        assert!(Selection::new(&[], &[], &texts(&["a.b"]), &[]).is_err());
        let into_nothing = pair("a.*", "*").unwrap();
        assert!(into_nothing.renamed(&Namespace::new("a", "b")).is_err());
    }
}

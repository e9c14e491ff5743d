//! One source file as a tree of modules, with the names that each defines, imports and says.

use std::collections::BTreeSet;

use crate::style::without_comments_and_strings;

/// A module as its source has it: a file, or a block `mod name { ... }` in one.
#[derive(Debug, Default)]
pub struct Source {
    /// Items that are defined here and not in a block within.
    pub defined: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths of two segments or more that stand in code rather than in an import.
    pub paths: Vec<Vec<String>>,
    /// Every word of the code outside of imports.
    pub words: BTreeSet<String>,
    /// Modules whose source is a file of their own.
    pub files: Vec<String>,
    /// Modules whose source stands in this file.
    pub blocks: Vec<(String, Source)>,
}

/// One name that `use` brings into a module, or all names of another.
#[derive(Debug)]
pub struct Import {
    pub path: Vec<String>,
    /// The name here; none for `*`.
    pub name: Option<String>,
    /// Others may take the name from here.
    pub is_public: bool,
}

/// Words behind which the name of an item stands.
const ITEMS: [&str; 9] = [
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "const",
    "static",
    "fn",
    "macro_rules",
];
/// Words that may stand between one of those and the name.
const BETWEEN: [&str; 4] = ["mut", "fn", "unsafe", "!"];

impl Source {
    /// Reads the text of a Rust file, without what is built for tests alone.
    pub fn parse(text: &str) -> Source {
        let code = without_comments_and_strings(text);
        let mut reader = Reader {
            tokens: tokens(&code),
            at: 0,
        };
        reader.module()
    }
}

/// Identifiers, `::`, and every other character by itself.
fn tokens(code: &str) -> Vec<&str> {
    let is_in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let bytes = code.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&first) = bytes.get(at) {
        let len_bytes = if is_in_word(first) {
            let rest = bytes[at..].iter();
            rest.take_while(|&&byte| is_in_word(byte)).count()
        } else if bytes[at..].starts_with(b"::") {
            2
        } else {
            1
        };
        if !first.is_ascii_whitespace() {
            tokens.push(&code[at..at + len_bytes]);
        }
        at += len_bytes;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader<'s> {
    tokens: Vec<&'s str>,
    at: usize,
}

impl<'s> Reader<'s> {
    fn peek(&self, ahead: usize) -> &'s str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    fn before(&self) -> &'s str {
        self.at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at).copied())
            .unwrap_or("")
    }

    /// Reads to the end of the file, or to the `}` that ends the block in which the module stands.
    fn module(&mut self) -> Source {
        let mut source = Source::default();
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "#" if self.is_test_attribute() => {
                    self.skip_item();
                    continue;
                }
                // Not the `use<...>` of a type's captures.
                "use" if self.peek(1) != "<" => {
                    let is_public = self.is_public();
                    self.at += 1;
                    self.import(&[], is_public, &mut source.imports);
                    continue;
                }
                "mod" if self.peek(2) == ";" => source.files.push(self.peek(1).to_owned()),
                "mod" if self.peek(2) == "{" => {
                    let name = self.peek(1).to_owned();
                    self.at += 3;
                    source.blocks.push((name, self.module()));
                }
                item if depth == 0 && ITEMS.contains(&item) => {
                    let mut ahead = 1;
                    while BETWEEN.contains(&self.peek(ahead)) {
                        ahead += 1;
                    }
                    source.defined.insert(self.peek(ahead).to_owned());
                }
                _ => self.path(&mut source),
            }
            self.at += 1;
        }
        source
    }

    /// Notes the word that stands here, and the path that begins with it.
    fn path(&self, source: &mut Source) {
        let first = self.peek(0);
        if !first.starts_with(is_word) {
            return;
        }
        source.words.insert(first.to_owned());
        if self.before() == "::" || self.peek(1) != "::" {
            return;
        }
        let mut path = vec![first.to_owned()];
        let mut ahead = 1;
        while self.peek(ahead) == "::" && self.peek(ahead + 1).starts_with(is_word) {
            path.push(self.peek(ahead + 1).to_owned());
            ahead += 2;
        }
        if path.len() > 1 {
            source.paths.push(path);
        }
    }

    /// Whether `use` stands behind `pub`, or `pub(...)`.
    fn is_public(&self) -> bool {
        let before = &self.tokens[..self.at];
        let visibility = match before.last() {
            Some(&")") => before.iter().rposition(|&token| token == "(").unwrap_or(0),
            _ => before.len(),
        };
        visibility > 0 && before[visibility - 1] == "pub"
    }

    /// Reads one tree of a `use`, to its `;`, `,` or `}`; of these a `;` is taken.
    fn import(&mut self, prefix: &[String], is_public: bool, imports: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        let mut name = None;
        loop {
            match self.peek(0) {
                "::" => {}
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | "") {
                        self.import(&path, is_public, imports);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    if self.peek(0) == ";" {
                        self.at += 1;
                    }
                    return;
                }
                "*" => {
                    imports.push(Import {
                        path,
                        name: None,
                        is_public,
                    });
                    self.at += 1;
                    if self.peek(0) == ";" {
                        self.at += 1;
                    }
                    return;
                }
                "as" => {
                    self.at += 1;
                    name = Some(self.peek(0).to_owned());
                }
                // `{self}`: the module before the brace.
                "self" if !path.is_empty() => {}
                word if word.starts_with(is_word) => path.push(word.to_owned()),
                _ => break,
            }
            self.at += 1;
        }
        if self.peek(0) == ";" {
            self.at += 1;
        }
        let name = name.or_else(|| path.last().cloned());
        imports.push(Import {
            path,
            name,
            is_public,
        });
    }

    /// Whether an attribute stands here that builds what follows for tests alone.
    fn is_test_attribute(&self) -> bool {
        let rest = &self.tokens[self.at..];
        let end = rest.iter().position(|&token| token == "]").unwrap_or(0);
        let attribute = &rest[..end];
        attribute.contains(&"cfg") && attribute.contains(&"test") && !attribute.contains(&"not")
    }

    /// Passes over attributes and what they stand before: an item, to its `;` or over its block; or a variant, a field
    /// or an arm, to its `,` or to the end of the block that it stands in.
    fn skip_item(&mut self) {
        let mut depth = 0_usize;
        let (mut is_item, mut is_import) = (false, false);
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "use" if depth == 0 => (is_item, is_import) = (true, true),
                "impl" | "mod" => is_item = true,
                word if ITEMS.contains(&word) => is_item = true,
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 0 => return,
                "}" if depth == 1 && !is_import => {
                    self.at += 1;
                    return;
                }
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                "," if is_item => {}
                ";" | "," if depth == 0 => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let show = |import: Import| {
            let name = import.name.unwrap_or_else(|| "*".to_owned());
            let visibility = if import.is_public { "pub " } else { "" };
            format!("{visibility}{} = {name}", import.path.join("::"))
        };
        Source::parse(text).imports.into_iter().map(show).collect()
    }

    #[test]
    fn imports_are_read_as_paths() {
        for (text, found) in [
            ("use a::b;", vec!["a::b = b"]),
            (
                "pub(crate) use a::{b, c as d, e::{self, F}};",
                vec![
                    "pub a::b = b",
                    "pub a::c = d",
                    "pub a::e = e",
                    "pub a::e::F = F",
                ],
            ),
            ("pub use super::*; use x;", vec!["pub super = *", "x = x"]),
            ("#[cfg(test)] use a::{b}; use c::d;", vec!["c::d = d"]),
        ] {
            assert_eq!(imports(text), found, "{text}");
        }
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let text =
            "#[cfg(test)]\n#[allow(x)]\nmod tests { fn a() { b::c() } }\nfn d() { e::f::<G>() }";
        let source = Source::parse(text);
        assert_eq!(source.paths, [["e", "f"]]);
        assert!(source.blocks.is_empty());
        assert_eq!(source.defined.into_iter().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn modules_are_files_or_blocks() {
        let source = Source::parse("mod a; mod b { use super::c; pub const fn d() {} } struct E;");
        assert_eq!(source.files, ["a"]);
        assert!(source.defined.contains("E") && source.defined.len() == 1);
        let (name, block) = &source.blocks[0];
        assert_eq!((name.as_str(), block.imports.len()), ("b", 1));
        assert!(block.defined.contains("d"));
    }
}

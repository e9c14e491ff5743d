//! The length of functions: lines from `fn` to the brace that ends the body.
//!
//! Sources are read as text, without comments and strings, so that braces in them do not count and lines stay where they are.
//! Code that only tests are built with is left out. A table of operators may be long; that hardly any function is shows in
//! the percentile.

use std::fmt;

use crate::style::{File, Repository, without_comments_and_strings};

/// One function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The file, from the root.
    pub path: String,
    /// The line of its `fn`.
    pub line: usize,
    /// The name, without the type that it is of.
    pub name: String,
    /// The lines from `fn` to the closing brace, both counted.
    pub lines: usize,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Function {
            path,
            line,
            name,
            lines,
        } = self;
        write!(f, "{lines:4} {path}:{line} {name}")
    }
}

/// The functions of the crates, the longest first.
#[must_use]
pub fn functions(repository: &Repository) -> Vec<Function> {
    let files = repository.files.iter().filter(|file| is_source(file));
    let mut found: Vec<Function> = files.flat_map(functions_of).collect();
    found.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.path.cmp(&b.path)));
    found
}

/// The number of lines that `percent` of the functions, sorted as `functions` sorts them, do not exceed.
#[must_use]
pub fn percentile(functions: &[Function], percent: usize) -> usize {
    let longer = functions.len() * (100 - percent) / 100;
    functions.get(longer).map_or(0, |function| function.lines)
}

fn is_source(file: &File) -> bool {
    let in_crate = file.path_in_crate().unwrap_or_default();
    file.is_rust() && in_crate.starts_with("src/") && !in_crate.ends_with("/tests.rs")
}

/// Functions stand in the order of their `fn`; one within another is one by itself.
fn functions_of(file: &File) -> Vec<Function> {
    let code = without_comments_and_strings(&file.text);
    let code = code.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < code.len() {
        if code[at..].starts_with(b"#[cfg(test)]") {
            at = end_of_item(code, at + b"#[cfg(test)]".len());
            continue;
        }
        let word = word_at(code, at);
        if word == b"fn"
            && let Some(function) = function_at(file, code, at)
        {
            found.push(function);
        }
        at += word.len().max(1);
    }
    found
}

/// The function whose `fn` stands here; none for a type of functions, or for one without a body.
fn function_at(file: &File, code: &[u8], at: usize) -> Option<Function> {
    let after = at + b"fn".len();
    let name_at = after + spaces(&code[after..]);
    let name = word_at(code, name_at);
    if name.is_empty() {
        return None;
    }
    let end = end_of_item(code, name_at);
    if code.get(end.checked_sub(1)?) != Some(&b'}') {
        return None;
    }
    let line_of = |at: usize| code[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
    Some(Function {
        path: file.path.clone(),
        line: line_of(at),
        name: String::from_utf8_lossy(name).into_owned(),
        lines: line_of(end) - line_of(at) + 1,
    })
}

/// The place behind an item that begins here: behind its closing brace, or behind the semicolon of one without a body.
fn end_of_item(code: &[u8], from: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return at + 1;
                }
            }
            b';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn spaces(code: &[u8]) -> usize {
    let is_space = |byte: &&u8| byte.is_ascii_whitespace();
    code.iter().take_while(is_space).count()
}

fn word_at(code: &[u8], at: usize) -> &[u8] {
    let is_in_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len_bytes = code[at..].iter().take_while(is_in_word).count();
    &code[at..at + len_bytes]
}

//! Rust source without what only looks like code: comments, and what stands in strings.

/// `source` with comments and the contents of strings and characters as spaces; lines stay where they
/// are.
pub(crate) fn without_comments_and_strings(source: &str) -> String {
    let mut lexer = Lexer {
        rest: source,
        out: String::with_capacity(source.len()),
    };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.out
}

struct Lexer<'s> {
    rest: &'s str,
    out: String,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let is_plain = |byte: &u8| !matches!(byte, b'/' | b'"' | b'\'' | b'b' | b'r');
        let plain = self.rest.bytes().take_while(is_plain).count();
        if plain > 0 {
            let (kept, rest) = self.rest.split_at(plain);
            self.out.push_str(kept);
            self.rest = rest;
            return;
        }
        if self.rest.starts_with("//") {
            self.blank(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment_bytes(self.rest));
        } else if let Some(bytes) = raw_string_bytes(self.rest).filter(|_| !self.is_in_word()) {
            self.blank(bytes);
        } else if self.rest.starts_with('"') {
            self.blank(quoted_bytes(self.rest, '"'));
        } else if let Some(bytes) = character_bytes(self.rest) {
            self.blank(bytes);
        } else {
            let first = self.rest.chars().next().map_or(0, char::len_utf8);
            let (kept, rest) = self.rest.split_at(first);
            self.out.push_str(kept);
            self.rest = rest;
        }
    }

    fn blank(&mut self, bytes: usize) {
        let (blanked, rest) = self.rest.split_at(bytes);
        self.out
            .extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }

    /// Whether what was kept last is a letter or digit, so that an `r` now does not begin a raw string.
    fn is_in_word(&self) -> bool {
        self.out
            .ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

fn block_comment_bytes(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn raw_string_bytes(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = inner.bytes().take_while(|&byte| byte == b'#').count();
    let body = inner[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - body.len();
    Some(
        body.find(&close)
            .map_or(rest.len(), |at| start + at + close.len()),
    )
}

fn quoted_bytes(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; `None` for a lifetime.
fn character_bytes(rest: &str) -> Option<usize> {
    let mut chars = rest.strip_prefix('\'')?.chars();
    let first = chars.next()?;
    (first == '\\' || chars.next() == Some('\'')).then(|| quoted_bytes(rest, '\''))
}

/// The numbers of the lines in which `word` stands by itself.
pub(super) fn lines_with_word(text: &str, word: &str) -> Vec<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
        })
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| stands_alone(line))
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_go_and_code_stays() {
        for (source, code) in [
            ("a // unsafe\nb", "a\nb"),
            ("a /* x /* y */ z */ b", "ab"),
            (r#"f("unsafe \" {")g"#, "f()g"),
            (r###"f(r#"a " b"#)g"###, "f()g"),
            ("f('\"')g('\\'')h", "f()g()h"),
            ("&'a str; 'x'", "&'astr;"),
            ("bar\"x\"", "bar"),
        ] {
            let stripped = without_comments_and_strings(source);
            assert_eq!(stripped.replace(' ', ""), code, "{source}");
            assert_eq!(stripped.lines().count(), source.lines().count());
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(lines_with_word("an unsafe_code\nunsafe {\n", "unsafe"), [2]);
    }
}

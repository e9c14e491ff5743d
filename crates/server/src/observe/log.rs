//! The log: one line an event, for people or as JSON in the shape of MongoDB's log lines.
//!
//! A line is written with one call under one lock, so lines never mix. The last lines stay in memory for getLog.
//! A log that cannot be written never stops the server: the line is lost, the ring still has it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::process::config::{LogFormat, LogRotate};

/// Lines kept for getLog.
const RING_LINES_MAX: usize = 1024;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 10 * 1024;
/// Start-up warnings kept for getLog.
const WARNINGS_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Fatal,
    Error,
    Warning,
    Info,
}

impl Severity {
    fn letter(self) -> char {
        match self {
            Severity::Fatal => 'F',
            Severity::Error => 'E',
            Severity::Warning => 'W',
            Severity::Info => 'I',
        }
    }
}

/// One named value of a line.
pub enum Attribute<'a> {
    Text(&'a str),
    Owned(String),
    Integer(i64),
    /// JSON already.
    Json(String),
}

impl<'a> From<&'a str> for Attribute<'a> {
    fn from(text: &'a str) -> Self {
        Attribute::Text(text)
    }
}

impl<'a> From<&'a String> for Attribute<'a> {
    fn from(text: &'a String) -> Self {
        Attribute::Text(text)
    }
}

impl From<String> for Attribute<'_> {
    fn from(text: String) -> Self {
        Attribute::Owned(text)
    }
}

impl From<i64> for Attribute<'_> {
    fn from(number: i64) -> Self {
        Attribute::Integer(number)
    }
}

impl From<u64> for Attribute<'_> {
    fn from(number: u64) -> Self {
        Attribute::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u16> for Attribute<'_> {
    fn from(number: u16) -> Self {
        Attribute::Integer(i64::from(number))
    }
}

pub type Attributes<'a, 'b> = &'a [(&'a str, Attribute<'b>)];

/// Writes an information line; `component` is a word such as `network` or `command`.
pub fn info(component: &str, message: &str, attributes: Attributes<'_, '_>) {
    write(Line::new(Severity::Info, component, message), attributes);
}

/// Like `info`, for a line that others wait for: mongod's number of it stands in JSON, as `id`.
pub fn info_numbered(number: u32, component: &str, message: &str, attributes: Attributes<'_, '_>) {
    let line = Line {
        number: Some(number),
        ..Line::new(Severity::Info, component, message)
    };
    write(line, attributes);
}

pub fn warning(component: &str, message: &str, attributes: Attributes<'_, '_>) {
    write(Line::new(Severity::Warning, component, message), attributes);
}

pub fn error(component: &str, message: &str, attributes: Attributes<'_, '_>) {
    write(Line::new(Severity::Error, component, message), attributes);
}

pub fn fatal(component: &str, message: &str, attributes: Attributes<'_, '_>) {
    write(Line::new(Severity::Fatal, component, message), attributes);
}

/// A warning that also stands in `getLog: "startupWarnings"`, which shells show on connecting.
pub fn startup_warning(component: &str, message: &str) {
    startup_warning_about(component, message, &[]);
}

/// Like `startup_warning`, with attributes.
pub fn startup_warning_about(component: &str, message: &str, attributes: Attributes<'_, '_>) {
    let warning = Line::new(Severity::Warning, component, message);
    write(warning, attributes);
    if let Some(log) = LOG.get() {
        let line = json_line(warning, attributes);
        let mut state = log.lock();
        if state.warnings.len() < WARNINGS_MAX {
            state.warnings.push(line);
        }
    }
}

/// Where lines go, and in which form. Called once, before the first line.
pub fn start(
    path: Option<&Path>,
    append: bool,
    rotate: LogRotate,
    format: Option<LogFormat>,
) -> io::Result<()> {
    let sink = match path {
        Some(path) => Sink::File(open(path, append)?, path.to_owned()),
        None => Sink::Output,
    };
    let terminal = path.is_none() && io::stdout().is_terminal();
    let format = format.unwrap_or(if terminal {
        LogFormat::Human
    } else {
        LogFormat::Json
    });
    let state = State {
        sink,
        rotate,
        format,
        ring: VecDeque::with_capacity(RING_LINES_MAX),
        total: 0,
        warnings: Vec::new(),
    };
    let _ = LOG.set(Mutex::new(state));
    Ok(())
}

/// Moves the log file aside, under a name with the time, and begins a new one, or opens it again where somebody else moves
/// it. Nothing to do without a file.
pub fn rotate() -> io::Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let mut state = log.lock();
    let is_moved_by_others = state.rotate == LogRotate::Reopen;
    if let Sink::File(file, path) = &mut state.sink {
        *file = open(path, is_moved_by_others)?;
    }
    Ok(())
}

/// The lines kept, oldest first, and how many were written since the start.
pub fn recent() -> (u64, Vec<String>) {
    let Some(log) = LOG.get() else {
        return (0, Vec::new());
    };
    let state = log.lock();
    (state.total, state.ring.iter().cloned().collect())
}

pub fn startup_warnings() -> Vec<String> {
    LOG.get()
        .map(|log| log.lock().warnings.clone())
        .unwrap_or_default()
}

/// `text` as a JSON string, quoted.
pub fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_json_text(&mut out, text);
    out
}

static LOG: OnceLock<Mutex<State>> = OnceLock::new();

enum Sink {
    Output,
    File(File, PathBuf),
}

struct State {
    sink: Sink,
    rotate: LogRotate,
    format: LogFormat,
    ring: VecDeque<String>,
    total: u64,
    warnings: Vec<String>,
}

/// The part of a line that stands beside its attributes.
#[derive(Clone, Copy)]
struct Line<'a> {
    severity: Severity,
    component: &'a str,
    /// mongod's number of the same line, where there is one.
    number: Option<u32>,
    message: &'a str,
}

impl<'a> Line<'a> {
    fn new(severity: Severity, component: &'a str, message: &'a str) -> Line<'a> {
        Line {
            severity,
            component,
            number: None,
            message,
        }
    }
}

fn write(line: Line<'_>, attributes: Attributes<'_, '_>) {
    let json = json_line(line, attributes);
    let Some(log) = LOG.get() else {
        // A command that does one thing and ends has no log. It says itself what it did, and what is wrong is seen all the same.
        if line.severity != Severity::Info {
            eprintln!("{json}");
        }
        return;
    };
    let mut state = log.lock();
    let mut line = match state.format {
        LogFormat::Json => json.clone(),
        LogFormat::Human => human_line(line, attributes),
    };
    line.push('\n');
    let _ = match &mut state.sink {
        Sink::Output => io::stdout().lock().write_all(line.as_bytes()),
        Sink::File(file, _) => file.write_all(line.as_bytes()),
    };
    if state.ring.len() == RING_LINES_MAX {
        state.ring.pop_front();
    }
    state.ring.push_back(json);
    state.total += 1;
}

/// Gives the file a name with the time.
pub fn move_aside(path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(
        ".{}",
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.6f")
    ));
    std::fs::rename(path, aside)
}

fn open(path: &Path, append: bool) -> io::Result<File> {
    if !append && path.exists() {
        move_aside(path)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00")
        .to_string()
}

thread_local! {
    /// The connection that this thread serves; 0 where it serves none.
    static CONNECTION: Cell<i64> = const { Cell::new(0) };
}

/// The lines of this thread come from that connection from now on, by the name that currentOp gives it.
pub fn set_connection(id: i64) {
    CONNECTION.set(id);
}

/// Where this thread's lines come from: its connection, or its name.
fn context() -> String {
    match CONNECTION.get() {
        0 => std::thread::current().name().unwrap_or("main").to_owned(),
        id => format!("conn{id}"),
    }
}

fn json_line(what: Line<'_>, attributes: Attributes<'_, '_>) -> String {
    let mut line = String::with_capacity(256);
    let _ = write!(
        line,
        "{{\"t\":{{\"$date\":\"{}\"}},\"s\":\"{}\",\"c\":",
        now(),
        what.severity.letter()
    );
    push_json_text(&mut line, &what.component.to_uppercase());
    if let Some(number) = what.number {
        let _ = write!(line, ",\"id\":{number}");
    }
    line.push_str(",\"ctx\":");
    push_json_text(&mut line, &context());
    line.push_str(",\"msg\":");
    push_json_text(&mut line, what.message);
    if !attributes.is_empty() {
        line.push_str(",\"attr\":{");
        for (index, (name, value)) in attributes.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            push_json_text(&mut line, name);
            line.push(':');
            push_json_value(&mut line, value);
        }
        line.push('}');
    }
    line.push('}');
    line
}

fn push_json_value(line: &mut String, value: &Attribute<'_>) {
    let room = LINE_BYTES_MAX.saturating_sub(line.len());
    match value {
        Attribute::Text(text) => push_json_text(line, cut(text, room)),
        Attribute::Owned(text) => push_json_text(line, cut(text, room)),
        Attribute::Integer(number) => {
            let _ = write!(line, "{number}");
        }
        Attribute::Json(json) if json.len() <= room => line.push_str(json),
        Attribute::Json(json) => push_json_text(line, cut(json, room)),
    }
}

fn human_line(what: Line<'_>, attributes: Attributes<'_, '_>) -> String {
    let mut line = String::with_capacity(160);
    let _ = write!(
        line,
        "{} {} {:<8} [{}] {}",
        now(),
        what.severity.letter(),
        what.component,
        context(),
        what.message
    );
    for (name, value) in attributes {
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        let _ = match value {
            Attribute::Text(text) => write!(line, " {name}={}", plain(cut(text, room))),
            Attribute::Owned(text) => write!(line, " {name}={}", plain(cut(text, room))),
            Attribute::Integer(number) => write!(line, " {name}={number}"),
            Attribute::Json(json) => write!(line, " {name}={}", cut(json, room)),
        };
    }
    line
}

/// A text as it is when it is one plain word, quoted otherwise.
fn plain(text: &str) -> String {
    let simple = |c: char| !c.is_whitespace() && !c.is_control() && c != '"';
    if !text.is_empty() && text.chars().all(simple) {
        text.to_owned()
    } else {
        json_text(text)
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_one_line_and_bounded() {
        let json = json_line(
            Line::new(Severity::Info, "network", "a\nb"),
            &[("x", "say \"hi\"\u{1}".into()), ("n", 5i64.into())],
        );
        assert!(
            json.contains(r#""msg":"a\nb","attr":{"x":"say \"hi\"\u0001","n":5}}"#),
            "{json}"
        );
        let long = "é".repeat(LINE_BYTES_MAX);
        assert!(
            json_line(
                Line::new(Severity::Info, "c", "m"),
                &[("x", long.as_str().into())]
            )
            .len()
                < LINE_BYTES_MAX + 100
        );
        let human = human_line(
            Line::new(Severity::Warning, "network", "closed"),
            &[("why", "a b".into()), ("port", 4u16.into())],
        );
        assert!(
            human.ends_with("::lines_are_one_line_and_bounded] closed why=\"a b\" port=4")
                && human.contains("W network  ["),
            "{human}"
        );
        assert!(!human.contains('\n'));
        let numbered = Line {
            number: Some(23_016),
            ..Line::new(Severity::Info, "network", "Waiting")
        };
        let json = json_line(numbered, &[]);
        assert!(
            json.contains(r#""c":"NETWORK","id":23016,"ctx":"#),
            "{json}"
        );
    }
}

//! `quarry top`: a running server on the terminal, live: operations a second, quantiles and phases by kind, the busiest
//! collections, and what runs now. It is a client like any other and asks with `getOpTiming` and `currentOp`.

mod picture;
mod screen;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use crate::process::config::Top;
use crate::tools::link::{Link, REPLY_TIME_MAX};
use picture::Watcher;

/// The screen of `--once`.
const ONCE_CHARS: (u16, u16) = (110, 40);

/// Shows the server until the user quits; the exit code of the process.
pub fn run(options: &Top) -> ExitCode {
    let shown = if options.once {
        once(options)
    } else {
        watch(options)
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry top: {}: {error}", address(options));
            ExitCode::FAILURE
        }
    }
}

fn address(options: &Top) -> String {
    format!("{}:{}", options.host, options.port)
}

fn connect(options: &Top) -> io::Result<Link> {
    Link::open(&options.host, options.port, REPLY_TIME_MAX, &options.login)
}

/// One picture on the output, for those who are no terminal.
fn once(options: &Top) -> io::Result<()> {
    let mut link = connect(options)?;
    let picture = Watcher::default().look(&mut link)?;
    let backend = TestBackend::new(ONCE_CHARS.0, ONCE_CHARS.1);
    let Ok(mut terminal) = Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, &address(options), &picture));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(ONCE_CHARS.0)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    io::stdout().write_all(format!("{}\n", text.trim_end()).as_bytes())
}

fn watch(options: &Top) -> io::Result<()> {
    let mut link = connect(options)?;
    let mut watcher = Watcher::default();
    let mut picture = watcher.look(&mut link)?;
    let mut terminal = ratatui::try_init()?;
    let shown = (|| {
        loop {
            terminal.draw(|frame| screen::draw(frame, &address(options), &picture))?;
            if wait_for_quit(Duration::from_secs_f64(options.interval.clamp(0.1, 3600.0)))? {
                return Ok(());
            }
            picture = watcher.look(&mut link)?;
        }
    })();
    ratatui::try_restore()?;
    shown
}

/// Waits for the next picture's time; true when the user wants to go.
fn wait_for_quit(interval: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + interval;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(false);
        }
        if let Event::Key(key) = event::read()? {
            let is_control_c =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
}

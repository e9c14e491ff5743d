//! `quarry top`: a running server on the terminal, live: operations a second, quantiles and phases by kind, the busiest
//! collections, and what runs now. It is a client like any other and asks with `getOpTiming` and `currentOp`.

mod picture;
mod screen;
mod view;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event};

use crate::process::config::Top;
use crate::tools::link::{Link, REPLY_TIME_MAX};
use picture::Watcher;
use view::ScreenState;

/// The screen of `--once`.
const ONCE_CHARS: (u16, u16) = (110, 40);

/// Shows the server until the user quits; the exit code of the process.
pub fn run(options: &Top) -> ExitCode {
    if !options.once && !io::stdout().is_terminal() {
        eprintln!("quarry top: the standard output is no terminal: --once prints one picture");
        return ExitCode::FAILURE;
    }
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
    let view = ScreenState::default();
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, &address(options), &picture, &view));
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
    let mut view = ScreenState::of_environment();
    let shown = (|| {
        loop {
            terminal.draw(|frame| {
                let picture = view.of(&picture);
                screen::draw(frame, &address(options), &picture, &view);
            })?;
            let interval = Duration::from_secs_f64(options.interval.clamp(0.1, 3600.0));
            match wait(interval, &mut view)? {
                Next::Quit => return Ok(()),
                Next::Drawn => {}
                Next::Looked if view.is_paused => {}
                Next::Looked => picture = watcher.look(&mut link)?,
            }
        }
    })();
    ratatui::try_restore()?;
    shown
}

/// The next step of the one who watches.
enum Next {
    Quit,
    /// A key has changed the view: the same moment is drawn again.
    Drawn,
    /// The time of the next picture has come.
    Looked,
}

/// Waits for a key or for the next picture's time.
fn wait(interval: Duration, view: &mut ScreenState) -> io::Result<Next> {
    let deadline = Instant::now() + interval;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(Next::Looked);
        }
        match event::read()? {
            Event::Key(key) if view.press(key) => return Ok(Next::Quit),
            Event::Key(_) | Event::Resize(..) => return Ok(Next::Drawn),
            _ => {}
        }
    }
}

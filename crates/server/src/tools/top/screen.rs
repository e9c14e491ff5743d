//! The picture on the terminal: a line an operation kind with a bar of its phases, then collections, then what runs now.

use quarry_timing::{Layer, Phase};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::picture::{Operation, Picture, Progress};
use super::view::{HELP, ScreenState, Sort};

/// The width of the columns before the bar, and of those that a narrow terminal has room for.
const COLUMNS_CHARS: u16 = 50;
const NARROW_COLUMNS_CHARS: u16 = 27;
const BAR_CHARS_MIN: u16 = 10;
/// The bar of a running operation's progress.
const PROGRESS_CHARS: u16 = 20;

/// Draws one moment of the server at `address`.
pub fn draw(frame: &mut Frame<'_>, address: &str, picture: &Picture, view: &ScreenState) {
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2);
    let areas = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(rows(picture.operations.len())),
        Constraint::Length(rows(picture.collections.len())),
        Constraint::Min(2),
    ])
    .split(frame.area());
    frame.render_widget(head(address, picture, view), areas[0]);
    frame.render_widget(operations(picture, areas[1], view), areas[1]);
    frame.render_widget(collections(picture), areas[2]);
    frame.render_widget(running(picture), areas[3]);
    if view.is_help {
        help(frame);
    }
}

/// The keys, above what is shown.
fn help(frame: &mut Frame<'_>) {
    let whole = frame.area();
    let area = Rect {
        height: whole.height.min(HELP.len() as u16 + 2),
        width: whole.width.min(60),
        ..whole
    };
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, what)| Line::from(format!("{key:<10} {what}")))
        .collect();
    let shown = Paragraph::new(lines).block(Block::bordered().title("keys"));
    frame.render_widget(Clear, area);
    frame.render_widget(shown, area);
}

fn head(address: &str, picture: &Picture, view: &ScreenState) -> Paragraph<'static> {
    let all: f64 = picture.operations.iter().map(|one| one.per_second).sum();
    let mut line = format!("quarry {address}   {} ops/s", short(all));
    if !picture.is_enabled {
        line.push_str("   timing is switched off");
    }
    if view.is_paused {
        line.push_str("   paused");
    }
    if view.is_typing || !view.filter.is_empty() {
        let cursor = if view.is_typing { "_" } else { "" };
        line.push_str(&format!("   filter: {}{cursor}", view.filter));
    }
    line.push_str("   q quits, h helps");
    let mut legend: Vec<Span<'_>> = Layer::ALL
        .into_iter()
        .flat_map(|layer| {
            let (sign, style) = ink(layer, 0, view);
            let sign = Span::styled(format!("{sign} "), style);
            [sign, Span::raw(format!("{}   ", layer.name()))]
        })
        .collect();
    legend.push(Span::raw("░ unattributed"));
    Paragraph::new(vec![Line::from(line).bold(), Line::from(legend)])
}

fn operations(picture: &Picture, area: Rect, view: &ScreenState) -> Paragraph<'static> {
    let is_narrow = area.width < COLUMNS_CHARS + BAR_CHARS_MIN;
    let columns = if is_narrow {
        NARROW_COLUMNS_CHARS
    } else {
        COLUMNS_CHARS
    };
    let bar = area.width.saturating_sub(columns).max(BAR_CHARS_MIN);
    let row = |name: &str, rate: &str, p50: &str, p99: &str| match is_narrow {
        true => format!("{name:<9.9} {rate:>6} {p99:>9} "),
        false => format!("{name:<14} {rate:>9} {p50:>10} {p99:>10}  "),
    };
    let marked = |column: &str| match column == view.sort.column() {
        true if view.sort != Sort::Kind => format!("{column}▾"),
        _ => column.to_owned(),
    };
    let title = row("operation", &marked("ops/s"), "p50", &marked("p99"));
    let mut lines = vec![Line::from(format!("{title}phases of the last minute")).underlined()];
    for one in &picture.operations {
        let (rate, p50, p99) = (short(one.per_second), time(one.p50_us), time(one.p99_us));
        let mut spans = vec![Span::raw(row(&one.name, &rate, &p50, &p99))];
        spans.extend(bar_of(one, bar, view));
        lines.push(Line::from(spans));
    }
    Paragraph::new(lines)
}

/// The phases as cells of the bar, each as many as its share; ends where the shares end.
fn bar_of(operation: &Operation, chars: u16, view: &ScreenState) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (name, share) in &operation.shares {
        sum += share;
        let end = (sum * f64::from(chars)).round() as usize;
        let cells = end.min(usize::from(chars)).saturating_sub(drawn);
        drawn += cells;
        let known = Phase::ALL.into_iter().find(|phase| phase.name() == name);
        let (sign, style) = match known {
            Some(phase) => ink_of(phase, view),
            None => ("░", Style::new()),
        };
        spans.push(Span::styled(sign.repeat(cells), style));
    }
    spans
}

/// A layer's phases take turns between its two shades.
fn ink_of(phase: Phase, view: &ScreenState) -> (&'static str, Style) {
    let layer = Layer::of(phase);
    let before = Phase::ALL[..phase as usize].iter();
    let place = before.filter(|other| Layer::of(**other) == layer).count();
    ink(layer, place % 2, view)
}

/// The sign and the colour of a layer: of both the signs tell it where there are no colours.
fn ink(layer: Layer, shade: usize, view: &ScreenState) -> (&'static str, Style) {
    if view.is_colorless {
        let sign = match layer {
            Layer::Wire => "-",
            Layer::Query => "█",
            Layer::Engine => "▓",
            Layer::Journal => "#",
        };
        return (sign, Style::new());
    }
    let colors = match layer {
        Layer::Wire => [Color::Blue, Color::LightBlue],
        Layer::Query => [Color::Green, Color::LightGreen],
        Layer::Engine => [Color::Yellow, Color::LightYellow],
        Layer::Journal => [Color::Red, Color::LightRed],
    };
    ("█", Style::new().fg(colors[shade]))
}

fn collections(picture: &Picture) -> Paragraph<'static> {
    let title = format!(
        "{:<40} {:>9} {:>10} {:>7}",
        "busiest collections of the last minute", "count", "mean", "share"
    );
    let mut lines = vec![Line::from(title).underlined()];
    for one in &picture.collections {
        lines.push(Line::from(format!(
            "{:<40} {:>9} {:>10} {:>6.1}%",
            one.name,
            one.count,
            time(one.mean_us),
            one.share * 100.0
        )));
    }
    Paragraph::new(lines)
}

fn running(picture: &Picture) -> Paragraph<'static> {
    let title = format!(
        "{:<10} {:<10} {:<28} {:<14} {:>10}",
        "opid", "op", "slowest operations now", "phase", "so far"
    );
    let mut lines = vec![Line::from(title).underlined()];
    for one in &picture.running {
        lines.push(Line::from(format!(
            "{:<10} {:<10} {:<28} {:<14} {:>10}",
            one.opid,
            one.op,
            one.namespace,
            one.phase,
            time(one.micros)
        )));
        lines.extend(one.progress.as_ref().map(progress));
    }
    Paragraph::new(lines)
}

/// A bar below its operation, as long as the share that is done, with the server's words for it.
fn progress(progress: &Progress) -> Line<'static> {
    let done = (progress.share * f64::from(PROGRESS_CHARS)) as usize;
    let open = usize::from(PROGRESS_CHARS) - done;
    Line::from(format!(
        "  {}{} {}",
        "█".repeat(done),
        "░".repeat(open),
        progress.message
    ))
}

fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

fn short(number: f64) -> String {
    match number {
        number if number < 100.0 => format!("{number:.1}"),
        number if number < 1e6 => format!("{number:.0}"),
        number => format!("{:.1}M", number / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::picture::{Collection, RunningOperation};
    use super::*;

    #[test]
    fn a_moment_fits_the_screen_and_bars_are_as_long_as_their_shares() {
        let shares = |list: &[(&str, f64)]| {
            list.iter()
                .map(|(name, share)| ((*name).to_owned(), *share))
                .collect()
        };
        let picture = Picture {
            operations: vec![Operation {
                name: "insert".into(),
                per_second: 1234.0,
                p50_us: 81.5,
                p99_us: 2500.0,
                shares: shares(&[("read", 0.25), ("sync_wait", 0.5), ("unattributed", 0.25)]),
            }],
            collections: vec![Collection {
                name: "db.things".into(),
                count: 77,
                mean_us: 12.0,
                share: 0.5,
            }],
            running: vec![RunningOperation {
                opid: 42,
                op: "update".into(),
                namespace: "db.things".into(),
                phase: "lock_wait".into(),
                micros: 1_500_000.0,
                progress: Some(Progress {
                    message: "Index Build: scanning collection 259/1000 25%".into(),
                    share: 0.259,
                }),
            }],
            is_enabled: true,
        };
        let mut terminal = Terminal::new(TestBackend::new(90, 16)).unwrap();
        terminal
            .draw(|frame| draw(frame, "host:1", &picture, &ScreenState::default()))
            .unwrap();
        let screen = terminal.backend().to_string();
        let line = |text: &str| screen.lines().find(|line| line.contains(text)).unwrap();
        let insert = line("insert");
        assert!(insert.contains("1234") && insert.contains("81.5 us") && insert.contains("2.5 ms"));
        let count = |sign: char| insert.chars().filter(|c| *c == sign).count();
        assert_eq!((count('█'), count('░')), (30, 10));
        assert!(line("db.things").contains("50.0%"));
        assert!(line("lock_wait").contains("42") && line("lock_wait").contains("1.5 s"));
        let done = format!("  {}{} Index Build", "█".repeat(5), "░".repeat(15));
        assert!(line("Index Build").contains(&done), "{screen}");
        // Without colours the layers have signs of their own.
        let colorless = ScreenState {
            is_colorless: true,
            ..ScreenState::default()
        };
        terminal
            .draw(|frame| draw(frame, "host:1", &picture, &colorless))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let plain = [Color::Reset; 2];
        assert!(
            buffer
                .content()
                .iter()
                .all(|cell| [cell.fg, cell.bg] == plain)
        );
        let screen = terminal.backend().to_string();
        let insert = screen.lines().find(|line| line.contains("insert")).unwrap();
        let count = |sign: char| insert.chars().filter(|c| *c == sign).count();
        assert_eq!((count('-'), count('#'), count('░')), (10, 20, 10));
        // A narrow terminal keeps the rate, the p99 and a bar.
        let mut narrow = Terminal::new(TestBackend::new(40, 16)).unwrap();
        let view = ScreenState {
            is_help: true,
            ..ScreenState::default()
        };
        narrow
            .draw(|frame| draw(frame, "host:1", &picture, &ScreenState::default()))
            .unwrap();
        let screen = narrow.backend().to_string();
        let insert = screen.lines().find(|line| line.contains("insert")).unwrap();
        assert!(insert.contains("1234") && insert.contains("2.5 ms") && insert.contains('█'));
        narrow
            .draw(|frame| draw(frame, "host:1", &picture, &view))
            .unwrap();
        assert!(narrow.backend().to_string().contains("pause and go on"));
    }
}

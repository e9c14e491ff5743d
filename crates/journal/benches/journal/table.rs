//! The figures: printed line by line, and at the end written as JSON and as docs/benchmarks/journal.md.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

pub const REPETITIONS: usize = 9;
/// A case that has taken this long is not repeated again: a slow disk must not make a run last for ever.
pub const CASE_TIME: Duration = Duration::from_secs(4);

const TITLE: &str = "The journal beside what the disk allows";
const COMMAND: &str = "make bench-journal";
const PREAMBLE: &str = "\
`limit` is the bare loop: the same bytes with one write call each into a file that was written and synced before, and for
Durable an fdatasync shared by everyone who waits. Ours and the bare loop take turns in the same file, which each case makes
anew; each repetition lasts for a fixed time, and the best of each is shown. The kernel keeps a file in pieces as large as it
was written in, and small writes into large pieces cost it more: so the journal makes its segments page by page. The
order log runs on such ones; raw appends, which are compared with the write call, on files written by 1 MiB as most are, and in
one case on both. A producer of the order log takes a ticket and goes on, so that one sync serves many
critical orders of one producer; the bare loop waits for each of its syncs. Latency runs from submission to
acknowledgement. More producers than cores only wait longer in turn: each has up to 1,024 orders of a level under way.
The p99 of 31 critical in 50k counts the interruptions of 31 syncs: 1 % of 50,000 are 500 orders, some 16 a sync. The disk's
interrupts hold up the one producer two to four times a sync, for 20 to 90 us each, wherever it stands just then, and
with it the orders of the group at hand. So while the sync of a lone critical order runs, orders do not gather into groups:
one or two are held up each time instead of nine, and those times it costs a write call for each order.";

pub struct Table {
    cases: Vec<Case>,
    notes: Vec<String>,
    filter: Option<String>,
}

struct Case {
    name: String,
    unit: &'static str,
    ours: f64,
    limit: Option<f64>,
}

/// A bar to be reached: a case's figure, or its share of the limit.
struct Bar {
    case: &'static str,
    at_least: f64,
    of_limit: bool,
}

const BARS: [Bar; 5] = [
    Bar::figure("orders/1 x 50k, 31 critical", 800_000.0),
    // Less is better: the bar is its negative.
    Bar::figure("orders/1 x 50k, 31 critical p99", -10.0),
    Bar::share("append/Written/1 x 256 B", 1.0 / 1.5),
    Bar::share("append/Durable/1 x 256 B", 0.7),
    Bar::share("append/Durable/64 x 256 B", 0.6),
];

impl Bar {
    const fn figure(case: &'static str, at_least: f64) -> Bar {
        Bar {
            case,
            at_least,
            of_limit: false,
        }
    }

    const fn share(case: &'static str, at_least: f64) -> Bar {
        Bar {
            case,
            at_least,
            of_limit: true,
        }
    }

    fn line(&self, case: &Case) -> String {
        let reached = match self.of_limit {
            true => case.ratio().unwrap_or(0.0),
            false => case.ours,
        };
        let (sense, is_reached) = match self.at_least < 0.0 {
            true => ("at most", reached <= -self.at_least),
            false => ("at least", reached >= self.at_least),
        };
        let what = if self.of_limit {
            "of the bare loop"
        } else {
            case.unit
        };
        let verdict = if is_reached { "reached" } else { "missed" };
        format!(
            "{}: {} {what}, {sense} {} asked for: {verdict}",
            self.case,
            number(reached),
            number(self.at_least.abs())
        )
    }
}

impl Table {
    pub fn new() -> Self {
        println!(
            "{:<36} {:>12} {:>12} {:>6}",
            "case", "ours", "limit", "ratio"
        );
        Table {
            cases: Vec::new(),
            notes: Vec::new(),
            filter: std::env::args()
                .skip(1)
                .find(|argument| !argument.starts_with("--")),
        }
    }

    pub fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter))
    }

    pub fn add(&mut self, name: &str, unit: &'static str, ours: f64, limit: Option<f64>) {
        let case = Case {
            name: name.to_owned(),
            unit,
            ours,
            limit,
        };
        let limit_text = limit.map_or(String::new(), |limit| format!("{limit:.1}"));
        println!(
            "{name:<36} {ours:>12.1} {limit_text:>12} {:>6}  {unit}",
            case.ratio_text()
        );
        self.cases.push(case);
    }

    /// A line that explains the figures before it.
    pub fn note(&mut self, text: String) {
        println!("    {text}");
        self.notes.push(text);
    }

    /// A part of the cases replaces no whole table.
    pub fn publish(&self, target: &Path, docs: &Path) {
        for line in self.bars() {
            println!("{line}");
        }
        let lines: Vec<String> = self.cases.iter().map(Case::json).collect();
        let json = target.join("bench").join("journal.json");
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        std::fs::write(&json, text).expect("the target directory is writable");
        println!("wrote {}", json.display());
        if self.filter.is_none() && docs.is_dir() {
            let markdown = docs.join("journal.md");
            std::fs::write(&markdown, self.markdown()).expect("the documents are writable");
            println!("wrote {}", markdown.display());
        }
    }

    fn bars(&self) -> impl Iterator<Item = String> {
        BARS.iter().filter_map(|bar| {
            let case = self.cases.iter().find(|case| case.name == bar.case)?;
            Some(bar.line(case))
        })
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "# {TITLE}\n\nReproduce with `{COMMAND}`. {}\n\n{PREAMBLE}\n",
            machine()
        );
        text.push_str("\n## What is asked for\n\n");
        for line in self.bars() {
            let _ = writeln!(text, "- {line}");
        }
        text.push_str("\n## All cases\n\n| case | unit | journal | limit | journal / limit |\n|---|---|---:|---:|---:|\n");
        for case in &self.cases {
            let limit = case.limit.map_or(String::new(), number);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {limit} | {} |",
                case.name,
                case.unit,
                number(case.ours),
                case.ratio_text()
            );
        }
        text.push_str("\n## The slowest orders\n\nWhere the time of each run's slowest order went, by level.\n\n");
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text
    }
}

impl Case {
    fn ratio(&self) -> Option<f64> {
        self.limit.map(|limit| self.ours / limit)
    }

    fn ratio_text(&self) -> String {
        self.ratio()
            .map_or(String::new(), |ratio| format!("{ratio:.2}"))
    }

    fn json(&self) -> String {
        let limit = self
            .limit
            .map_or("null".to_owned(), |limit| format!("{limit:.1}"));
        format!(
            "  {{\"case\": \"{}\", \"unit\": \"{}\", \"ours\": {:.1}, \"peers\": {{}}, \"limit\": {limit}}}",
            self.name, self.unit, self.ours
        )
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown processor");
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("Measured on {cores} cores of {model}.")
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

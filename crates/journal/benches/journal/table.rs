//! The figures: printed line by line, and written as JSON at the end.

use std::path::Path;

pub const REPETITIONS: usize = 5;

pub struct Table {
    cases: Vec<Case>,
    filter: Option<String>,
}

struct Case {
    name: String,
    unit: &'static str,
    ours: f64,
    limit: Option<f64>,
}

impl Table {
    pub fn new() -> Self {
        println!(
            "{:<36} {:>12} {:>12} {:>6}",
            "case", "ours", "limit", "ratio"
        );
        Table {
            cases: Vec::new(),
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
        let (limit_text, ratio) = limit.map_or((String::new(), String::new()), |limit| {
            (format!("{limit:.1}"), format!("{:.2}", ours / limit))
        });
        println!("{name:<36} {ours:>12.1} {limit_text:>12} {ratio:>6}  {unit}");
        self.cases.push(Case {
            name: name.to_owned(),
            unit,
            ours,
            limit,
        });
    }

    /// A line that explains a figure; it is not kept.
    pub fn note(&self, text: &str) {
        println!("    {text}");
    }

    pub fn write(&self, path: &Path) {
        let lines: Vec<String> = self.cases.iter().map(Case::json).collect();
        let json = format!("[\n{}\n]\n", lines.join(",\n"));
        std::fs::write(path, json).expect("the target directory is writable");
        println!("written to {}", path.display());
    }
}

impl Case {
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

//! From the library's OpenMetrics text to what a scraper is served: the classic text, or OpenMetrics with exemplars.
//!
//! The library has no way in for an exemplar that it did not choose itself, and no classic text; both are a matter of
//! single lines.

use std::fmt::Write as _;

use quarry_timing::Exemplar;

/// An exemplar and the bucket that it stands behind.
pub struct ExemplarLine {
    pub operation: &'static str,
    pub bound: f64,
    pub exemplar: Exemplar,
}

/// The classic text, version 0.0.4: a counter's family has its samples' name, and there is no end mark.
pub fn classic(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let family = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '));
        let next_type = lines.peek().and_then(|next| next.strip_prefix("# TYPE "));
        if let (Some((name, help)), Some(next)) = (family, next_type)
            && next.strip_prefix(name) == Some(" counter")
        {
            let _ = writeln!(
                classic,
                "# HELP {name}_total {help}\n# TYPE {name}_total counter"
            );
            lines.next();
            continue;
        }
        classic.push_str(line);
        classic.push('\n');
    }
    classic
}

/// Puts each exemplar behind its bucket of `quarry_operation_seconds`.
pub fn with_exemplars(text: &str, exemplars: &[ExemplarLine]) -> String {
    let mut out = String::with_capacity(text.len() + 100 * exemplars.len());
    for line in text.lines() {
        out.push_str(line);
        if let Some((operation, bound)) = bucket_of(line)
            && let Some(line) = exemplars
                .iter()
                .find(|one| one.operation == operation && one.bound == bound)
        {
            push_exemplar(&mut out, &line.exemplar);
        }
        out.push('\n');
    }
    out
}

fn push_exemplar(out: &mut String, exemplar: &Exemplar) {
    let _ = write!(out, " # {{opid=\"{}\"", exemplar.opid);
    if exemplar.trace != 0 {
        let _ = write!(out, ",trace_id=\"{:032x}\"", exemplar.trace);
    }
    let _ = write!(
        out,
        "}} {} {}.{:03}",
        exemplar.wall_ns as f64 / 1e9,
        exemplar.unix_ms / 1000,
        exemplar.unix_ms % 1000
    );
}

/// The operation and the bound of a bucket's line.
fn bucket_of(line: &str) -> Option<(&str, f64)> {
    let rest = line.strip_prefix("quarry_operation_seconds_bucket{")?;
    let (labels, _) = rest.split_once('}')?;
    let label = |name: &str| {
        let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
        labels[start..].split('"').next()
    };
    Some((label("operation")?, label("le")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP quarry_x A thing.\n# TYPE quarry_x counter\nquarry_x_total 5\n\
        # HELP quarry_operation_seconds Time.\n# TYPE quarry_operation_seconds histogram\n\
        quarry_operation_seconds_bucket{le=\"0.000001\",operation=\"find\"} 3\n# EOF\n";

    #[test]
    fn the_classic_text_names_counters_in_full() {
        let classic = classic(TEXT);
        assert!(classic.starts_with(
            "# HELP quarry_x_total A thing.\n# TYPE quarry_x_total counter\nquarry_x_total 5\n"
        ));
        assert!(classic.contains("# TYPE quarry_operation_seconds histogram\n"));
        assert!(!classic.contains("EOF"));
    }

    #[test]
    fn an_exemplar_stands_behind_its_bucket() {
        let line = ExemplarLine {
            operation: "find",
            bound: 1e-6,
            exemplar: Exemplar {
                opid: 7,
                trace: 0xab,
                wall_ns: 1000,
                unix_ms: 12_005,
            },
        };
        let text = with_exemplars(TEXT, &[line]);
        let trace = format!("{:032x}", 0xab);
        let wanted = format!("3 # {{opid=\"7\",trace_id=\"{trace}\"}} 0.000001 12.005\n# EOF\n");
        assert!(text.ends_with(&wanted), "{text}");
    }
}

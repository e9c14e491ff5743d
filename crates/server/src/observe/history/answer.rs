//! The answer to `/history.json?from=MS&to=MS&points=N&series=NAME,NAME...`: figures over time, as many points of each as a chart has
//! room for.
//!
//! `{at, from, to, stepMs, keptFrom, trouble?, times: [ms], series: {name: [number or null]}}`. A name may end in `*`. A point stands for
//! the steps from its time up to the next one's: it is their greatest value for a time (`...Micros`), so that a peak stays one, and their
//! mean for all else. A moment that was not recorded is null.

use std::collections::BTreeMap;
use std::io;

use quarry_bson::{DateTime, Document, RawValue, extjson};

use super::kept::{KEPT_MS, unix_ms};
use super::ring::Ring;
use crate::server::Server;

const POINTS_MAX: u64 = 1_000;
const POINTS_DEFAULT: u64 = 360;
/// Series of one answer; a kind's heat map has 27.
const SERIES_MAX: usize = 64;
const HOUR_MS: u64 = 3_600_000;

/// The part of the history that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    points: u64,
    series: Vec<String>,
}

impl Question {
    /// Reads the part of an address behind the `?`; the error says what is wrong with it.
    pub fn parse(query: &str) -> Result<Question, String> {
        let mut question = Question {
            from_ms: None,
            to_ms: None,
            points: POINTS_DEFAULT,
            series: Vec::new(),
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("`{name}` is no number\n"))
            };
            match name {
                "from" => question.from_ms = Some(number()?),
                "to" => question.to_ms = Some(number()?),
                "points" => question.points = number()?.clamp(1, POINTS_MAX),
                "series" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    question.series = names.take(SERIES_MAX).map(str::to_owned).collect();
                }
                _ => return Err(format!("`{name}` is not from, to, points or series\n")),
            }
        }
        Ok(question)
    }

    /// The names and places of the figures that are asked for.
    fn chosen(&self, ring: &Ring) -> Vec<(String, usize)> {
        let is_asked = |known: &str| {
            self.series.iter().any(|name| match name.strip_suffix('*') {
                Some(beginning) => known.starts_with(beginning),
                None => known == name,
            })
        };
        let names = ring.shape().names.iter().enumerate();
        let chosen = names.filter(|(_, name)| is_asked(name));
        chosen
            .map(|(place, name)| (name.clone(), place))
            .take(SERIES_MAX)
            .collect()
    }
}

/// Several moments as one value.
#[derive(Clone, Default)]
struct Point {
    sum: f64,
    count: u32,
    most: f64,
}

impl Point {
    fn add(&mut self, value: f32) {
        if value.is_finite() {
            let value = f64::from(value);
            self.most = if self.count == 0 {
                value
            } else {
                self.most.max(value)
            };
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(&self, name: &str) -> RawValue<'static> {
        if self.count == 0 {
            return RawValue::Null;
        }
        let value = match name.ends_with("Micros") {
            true => self.most,
            false => self.sum / f64::from(self.count),
        };
        // As many digits as a figure has.
        let text = format!("{}", value as f32);
        RawValue::Double(text.parse().unwrap_or(value))
    }
}

/// The answer as text.
pub fn json(server: &Server, question: &Question) -> io::Result<String> {
    let now_ms = unix_ms();
    let to_ms = question.to_ms.unwrap_or(now_ms).min(now_ms);
    let from_ms = question
        .from_ms
        .unwrap_or_else(|| to_ms.saturating_sub(HOUR_MS));
    let from_ms = from_ms
        .clamp(now_ms.saturating_sub(KEPT_MS), now_ms.max(1))
        .min(to_ms);
    let step_ms = server.parameters.history_step_ms;
    let wide = (to_ms - from_ms)
        .div_ceil(question.points)
        .max(1)
        .next_multiple_of(step_ms);
    let mut points: BTreeMap<u64, Vec<Point>> = BTreeMap::new();
    let ring = server.history.ring();
    let chosen = ring.map_or_else(Vec::new, |ring| question.chosen(ring));
    if let Some(ring) = ring {
        ring.each(from_ms, to_ms, |record| {
            let time = record.time_ms - record.time_ms % wide;
            let point = points
                .entry(time)
                .or_insert_with(|| vec![Point::default(); chosen.len()]);
            for (place, (_, column)) in chosen.iter().enumerate() {
                point[place].add(record.figures[*column]);
            }
        })?;
    }
    // Every point of the window is there: one without a moment is a gap.
    let times: Vec<u64> = (from_ms / wide..=to_ms / wide)
        .map(|tick| tick * wide)
        .collect();
    let document = Document::build(|out| {
        out.append("at", DateTime(signed(now_ms)));
        out.append("from", signed(from_ms));
        out.append("to", signed(to_ms));
        out.append("stepMs", signed(wide));
        out.append(
            "keptMs",
            signed(ring.map_or(0, |ring| ring.shape().slots * ring.shape().step_ms)),
        );
        if let Some(trouble) = server.history.trouble() {
            out.append("trouble", trouble.as_str());
        }
        let mut list = out.array("times");
        for time in &times {
            list.push(signed(*time));
        }
        list.finish();
        let mut series = out.document("series");
        for (place, (name, _)) in chosen.iter().enumerate() {
            let mut values = series.array(name);
            for time in &times {
                let value = points
                    .get(time)
                    .map_or(RawValue::Null, |point| point[place].value(name));
                values.push(value);
            }
            values.finish();
        }
        series.finish();
    });
    Ok(extjson::relaxed(document.as_raw()))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::figures::Reader;
    use super::super::recorder::write;
    use super::*;

    #[test]
    fn a_question_is_read_and_bounded() {
        let question = Question::parse("from=5&to=9&points=100000&series=a,b.*,").unwrap();
        assert_eq!(
            (question.from_ms, question.to_ms, question.points),
            (Some(5), Some(9), POINTS_MAX)
        );
        assert_eq!(question.series, ["a", "b.*"]);
        let many = format!("series={}", "x,".repeat(10_000));
        assert_eq!(Question::parse(&many).unwrap().series.len(), SERIES_MAX);
        assert_eq!(Question::parse("").unwrap().points, POINTS_DEFAULT);
        for bad in ["from=x", "from=-1", "other=1", "points="] {
            assert!(Question::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_written_is_answered_and_what_was_not_is_null() {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::in_memory();
        server.config.data_directory = directory.path().to_path_buf();
        let step = server.parameters.history_step_ms;
        let now = unix_ms();
        let asked = format!(
            "from={}&to={now}&points=1000&series=connections,heat.find.*",
            now - 9 * step
        );
        let question = Question::parse(&asked).unwrap();
        let answer = |server: &Server| extjson::parse(&json(server, &question).unwrap()).unwrap();
        // Before anything was written it says so.
        assert!(answer(&server).get_document("series").unwrap().is_empty());
        let mut reader = Reader::default();
        for ago in [7, 2] {
            write(&server, &mut reader, now - ago * step).unwrap();
        }
        let found = answer(&server);
        let series = found.get_document("series").unwrap();
        assert_eq!(series.iter().count(), 28);
        let values: Vec<bool> = series
            .get_array("connections")
            .unwrap()
            .iter()
            .map(|value| value.as_f64_lossy().is_some())
            .collect();
        assert_eq!(
            values.len(),
            found.get_array("times").unwrap().iter().count()
        );
        assert_eq!(values.iter().filter(|is_there| **is_there).count(), 2);
        // Another server over the same directory shows it, too.
        let mut again = Server::in_memory();
        again.config.data_directory = directory.path().to_path_buf();
        write(&again, &mut Reader::default(), now - step).unwrap();
        let found = answer(&again);
        let values = found
            .get_path("series.connections")
            .unwrap()
            .as_array()
            .unwrap();
        assert_eq!(
            values
                .iter()
                .filter(|value| value.as_f64_lossy().is_some())
                .count(),
            3
        );
    }
}

//! Pictures of all histograms at earlier moments: what was recorded since one of them is the difference.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::OperationKind;
use crate::interner::OTHER;
use crate::rows::RowsPicture;

/// How often a picture is taken.
pub(crate) const PICTURE_INTERVAL: Duration = Duration::from_secs(10);
/// Enough for the last minute.
const PICTURES_MAX: usize = 7;

/// The span of time that figures are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Since the server started.
    SinceStart,
    /// Since [`crate::reset`], or the start.
    SinceReset,
    /// The last 50 to 70 seconds, or since the start.
    LastMinute,
}

impl Window {
    /// The windows, the longest first.
    pub const ALL: [Window; 3] = [Window::SinceStart, Window::SinceReset, Window::LastMinute];

    /// The name used in commands and replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Window::SinceStart => "sinceStart",
            Window::SinceReset => "sinceReset",
            Window::LastMinute => "lastMinute",
        }
    }
}

/// All histograms at one moment.
#[derive(Clone, Default)]
pub(crate) struct Picture {
    pub kinds: [RowsPicture; OperationKind::COUNT],
    pub namespaces: FxHashMap<u32, RowsPicture>,
    pub shapes: FxHashMap<u32, RowsPicture>,
}

impl Picture {
    fn since(&self, earlier: &Picture) -> Picture {
        let difference = |now: &FxHashMap<u32, RowsPicture>, then: &FxHashMap<u32, RowsPicture>| {
            now.iter()
                .map(|(id, rows)| {
                    let rest = then
                        .get(id)
                        .map_or_else(|| rows.clone(), |then| rows.since(then));
                    (*id, rest)
                })
                .filter(|(_, rows)| rows.count() > 0)
                .collect()
        };
        Picture {
            kinds: std::array::from_fn(|kind| self.kinds[kind].since(&earlier.kinds[kind])),
            namespaces: difference(&self.namespaces, &earlier.namespaces),
            shapes: difference(&self.shapes, &earlier.shapes),
        }
    }

    /// Moves the figures of a label to the others, as the tables do: nothing was recorded under it since.
    fn forget(&mut self, id: u32, of: impl Fn(&mut Picture) -> &mut FxHashMap<u32, RowsPicture>) {
        let labels = of(self);
        if let Some(rows) = labels.remove(&id) {
            labels.entry(OTHER).or_default().merge(&rows);
        }
    }
}

/// The pictures that are kept.
pub(crate) struct Windows {
    started: Instant,
    reset: Picture,
    reset_at: [Instant; OperationKind::COUNT],
    pictures: VecDeque<(Instant, Picture)>,
}

impl Windows {
    pub fn new(now: Instant) -> Windows {
        Windows {
            started: now,
            reset: Picture::default(),
            reset_at: [now; OperationKind::COUNT],
            pictures: VecDeque::from([(now, Picture::default())]),
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.pictures
            .back()
            .is_none_or(|(taken, _)| now.duration_since(*taken) >= PICTURE_INTERVAL)
    }

    pub fn add(&mut self, now: Instant, picture: Picture) {
        self.pictures.push_back((now, picture));
        if self.pictures.len() > PICTURES_MAX {
            self.pictures.pop_front();
        }
    }

    /// The figures recorded in the window, from the picture of how things stand.
    pub fn of(&self, window: Window, picture: Picture) -> Picture {
        match (window, self.pictures.front()) {
            (Window::SinceReset, _) => picture.since(&self.reset),
            (Window::LastMinute, Some((_, earlier))) => picture.since(earlier),
            (Window::SinceStart, _) | (Window::LastMinute, None) => picture,
        }
    }

    /// How long the window of a kind is.
    pub fn length(&self, window: Window, kind: OperationKind, now: Instant) -> Duration {
        let begun = match (window, self.pictures.front()) {
            (Window::SinceReset, _) => self.reset_at[kind as usize],
            (Window::LastMinute, Some((taken, _))) => *taken,
            (Window::SinceStart, _) | (Window::LastMinute, None) => self.started,
        };
        now.saturating_duration_since(begun)
    }

    pub fn reset(&mut self, now: Instant, picture: Picture) {
        self.reset = picture;
        self.reset_at = [now; OperationKind::COUNT];
    }

    pub fn reset_kind(&mut self, kind: OperationKind, now: Instant, picture: &Picture) {
        self.reset.kinds[kind as usize] = picture.kinds[kind as usize].clone();
        self.reset_at[kind as usize] = now;
    }

    pub fn forget_namespace(&mut self, id: u32) {
        self.each(|picture| picture.forget(id, |picture| &mut picture.namespaces));
    }

    pub fn forget_shape(&mut self, id: u32) {
        self.each(|picture| picture.forget(id, |picture| &mut picture.shapes));
    }

    fn each(&mut self, mut change: impl FnMut(&mut Picture)) {
        change(&mut self.reset);
        for (_, picture) in &mut self.pictures {
            change(picture);
        }
    }
}

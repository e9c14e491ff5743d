//! The plans that trials have chosen for a collection, by the shape of what was asked for.
//!
//! A plan is known by its place among those that contend for a shape, which is a part of what the shape is made of.
//!
//! They stand beside the compiled indexes and go with them, so that an index that is made, dropped or hidden ends every choice.
//! What a shape is, and how a trial is held, is the planner's; here are numbers. As in MongoDB, a first trial leaves a choice
//! that is not relied on; a second one that costs no more makes it active. An active choice serves for a bounded number
//! of plans, as long as none of them costs far more than the trial did, and is then held against the data again.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quarry_bson::{DateTime, Document};
use rustc_hash::FxHashMap;

/// Shapes of one collection that are remembered; a further one makes room for itself by ending them all.
const SHAPES_MAX: usize = if cfg!(test) { 4 } else { 1024 };

/// Plans for which an active choice serves before the next trial.
const SERVED_MAX: u32 = if cfg!(test) { 3 } else { 1000 };

/// The bytes of a query and its plan that are kept for who lists them.
const ORIGIN_BYTES_MAX: usize = 8192;

/// The bytes that these take for all collections together; beyond it choices are kept without them.
const ORIGINS_BYTES_MAX: usize = 32 << 20;

/// The bytes of the queries and plans that are kept.
static ORIGINS_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The choices of one collection. Its lock is held for a look into a map, and nothing is locked behind it.
#[derive(Default)]
pub struct PlanChoices(Mutex<FxHashMap<u64, Choice>>);

/// The outcome of the trials of one shape.
struct Choice {
    place: usize,
    /// The keys that the plan has needed in a trial; a trial that needs more does not make it active.
    works: u64,
    /// For how many more plans it serves; 0 while it is not active.
    serves: u32,
    created: DateTime,
    /// None where it would take too much memory.
    origin: Option<Box<Held>>,
}

/// A choice that is relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The place of the plan that was chosen.
    pub place: usize,
    /// The keys that it has needed in a trial.
    pub works: u64,
}

/// The query whose trial made a choice, and the plan that won it. Nothing is decided by it.
pub struct PlanOrigin {
    /// The shape of the query.
    pub query_shape: u64,
    /// The query: `query`, `sort`, `projection` and `collation`.
    pub query: Document,
    /// The plan as explain prints it.
    pub plan: Document,
    /// Whether the query has an index filter.
    pub has_index_filter: bool,
}

/// A choice as it is listed.
pub struct CachedPlan {
    /// The shape by which it is found.
    pub key: u64,
    /// The keys that its plan has needed.
    pub works: u64,
    /// Whether plans rely on it.
    pub is_active: bool,
    /// When it was made, or another plan was chosen.
    pub created: DateTime,
    /// The memory that it takes, roughly.
    pub bytes: usize,
    /// The shape of the query, the query, its plan, and whether it has an index filter.
    pub origin: Option<(u64, Document, Document, bool)>,
}

impl PlanOrigin {
    fn bytes(&self) -> usize {
        size_of::<PlanOrigin>() + self.query.as_bytes().len() + self.plan.as_bytes().len()
    }
}

/// A query and its plan whose bytes are counted.
struct Held(PlanOrigin);

impl Drop for Held {
    fn drop(&mut self) {
        ORIGINS_BYTES.fetch_sub(self.0.bytes(), Ordering::Relaxed);
    }
}

/// Counts a query and its plan, if there is room for them.
fn held(origin: PlanOrigin) -> Option<Box<Held>> {
    let bytes = origin.bytes();
    if bytes > ORIGIN_BYTES_MAX {
        return None;
    }
    let before = ORIGINS_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let origin = Held(origin);
    (before + bytes <= ORIGINS_BYTES_MAX).then(|| Box::new(origin))
}

impl PlanChoices {
    /// The plan that was chosen for a shape, if the choice is active.
    pub fn serve(&self, shape: u64) -> Option<Served> {
        let mut choices = self.0.lock();
        let choice = choices.get_mut(&shape)?;
        choice.serves = choice.serves.checked_sub(1)?;
        Some(Served {
            place: choice.place,
            works: choice.works,
        })
    }

    /// Relies on this plan no more for a shape, until trials have chosen it again.
    pub fn give_up(&self, shape: u64, place: usize) {
        let mut choices = self.0.lock();
        if let Some(choice) = choices.get_mut(&shape)
            && choice.place == place
        {
            choice.serves = 0;
        }
    }

    /// Whether this plan is known as the one that was chosen for a shape.
    pub fn knows(&self, shape: u64, place: usize) -> bool {
        let choices = self.0.lock();
        choices
            .get(&shape)
            .is_some_and(|choice| choice.place == place)
    }

    /// Notes the plan that won a trial of a shape, and the keys that it needed; with the query and what explain prints, where the plan is not known
    /// as the chosen one.
    pub fn note(&self, shape: u64, place: usize, works: u64, origin: Option<PlanOrigin>) {
        let origin = origin.map(held);
        let mut choices = self.0.lock();
        if choices.len() >= SHAPES_MAX && !choices.contains_key(&shape) {
            choices.clear();
        }
        let choice = choices.entry(shape).or_insert(Choice {
            place,
            works: 0,
            serves: 0,
            created: DateTime::now(),
            origin: None,
        });
        if let Some(origin) = origin {
            (choice.created, choice.origin) = (DateTime::now(), origin);
        }
        let is_as_before = choice.works != 0 && works <= choice.works && choice.place == place;
        choice.serves = if is_as_before { SERVED_MAX } else { 0 };
        // One that needed more has to be confirmed by another of its kind, within twice of what was known, as in MongoDB.
        choice.works = match choice.place == place && works > choice.works {
            true => works.max(choice.works.saturating_mul(2)),
            false => works.max(1),
        };
        choice.place = place;
    }

    /// Ends the choices that are meant, by the shape that they are found by and that of the query that made them.
    pub fn forget(&self, is_meant: &dyn Fn(u64, Option<u64>) -> bool) {
        self.0.lock().retain(|key, choice| {
            let query = choice.origin.as_ref().map(|origin| origin.0.query_shape);
            !is_meant(*key, query)
        });
    }

    /// All choices, active or not.
    pub fn list(&self) -> Vec<CachedPlan> {
        let choices = self.0.lock();
        let listed = choices.iter().map(|(key, choice)| CachedPlan {
            key: *key,
            works: choice.works,
            is_active: choice.serves > 0,
            created: choice.created,
            bytes: size_of::<(u64, Choice)>()
                + choice.origin.as_ref().map_or(0, |origin| origin.0.bytes()),
            origin: choice.origin.as_ref().map(|origin| {
                let PlanOrigin {
                    query_shape,
                    query,
                    plan,
                    has_index_filter,
                } = &origin.0;
                (*query_shape, query.clone(), plan.clone(), *has_index_filter)
            }),
        });
        listed.collect()
    }

    /// Ends all choices.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// How many shapes have a choice, active or not.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether no shape has a choice.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(choices: &PlanChoices, shape: u64) -> Option<usize> {
        choices.serve(shape).map(|served| served.place)
    }

    #[test]
    fn a_choice_is_relied_on_once_a_second_trial_has_confirmed_it() {
        let choices = PlanChoices::default();
        choices.note(7, 1, 10, None);
        assert_eq!(served(&choices, 7), None);
        choices.note(7, 1, 10, None);
        assert_eq!(served(&choices, 7), Some(1));
        choices.note(7, 2, 3, None);
        assert_eq!(
            served(&choices, 7),
            None,
            "another winner has to be confirmed, too"
        );
        choices.note(7, 2, 50, None);
        assert_eq!(served(&choices, 7), None, "it needed more than was known");
        choices.note(7, 2, 50, None);
        assert_eq!(served(&choices, 7), Some(2));
    }

    #[test]
    fn a_choice_serves_for_a_bounded_number_of_plans() {
        let choices = PlanChoices::default();
        for round in 0..2 {
            choices.note(7, 1, 10, None);
            if round == 0 {
                choices.note(7, 1, 10, None);
            }
            for _ in 0..SERVED_MAX {
                assert_eq!(served(&choices, 7), Some(1));
            }
            assert_eq!(served(&choices, 7), None);
        }
    }

    #[test]
    fn a_choice_that_was_given_up_has_to_be_confirmed_again() {
        let choices = PlanChoices::default();
        for _ in 0..2 {
            choices.note(7, 1, 10, None);
        }
        choices.give_up(7, 2);
        choices.give_up(8, 1);
        let served = choices.serve(7).unwrap();
        assert_eq!((served.place, served.works), (1, 10));
        choices.give_up(7, 1);
        assert_eq!(choices.serve(7), None);
        choices.note(7, 1, 10, None);
        assert_eq!(choices.serve(7), Some(served));
    }

    #[test]
    fn the_shapes_are_bounded() {
        let choices = PlanChoices::default();
        for shape in 0..100 {
            choices.note(shape, 1, 1, None);
            assert!(choices.len() <= SHAPES_MAX);
        }
        choices.clear();
        assert!(choices.is_empty());
    }
}

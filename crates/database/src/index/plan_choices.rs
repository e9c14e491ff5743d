//! The indexes that trials of plans have chosen for a collection, by the shape of what was asked for.
//!
//! They stand beside the compiled indexes and go with them, so that an index that is made, dropped or hidden ends every choice.
//! What a shape is, and how a trial is held, is the planner's; here are numbers. As in MongoDB, a first trial leaves a choice
//! that is not relied on; a second one that costs no more makes it active. An active choice serves for a bounded number
//! of plans and is then held against the data again.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::keyspace::ident::Ident;

/// Shapes of one collection that are remembered; a further one makes room for itself by ending them all.
const SHAPES_MAX: usize = if cfg!(test) { 4 } else { 1024 };

/// Plans for which an active choice serves before the next trial.
const SERVED_MAX: u32 = if cfg!(test) { 3 } else { 1000 };

/// The choices of one collection. Its lock is held for a look into a map, and nothing is locked behind it.
#[derive(Default)]
pub struct PlanChoices(Mutex<FxHashMap<u64, Choice>>);

/// The outcome of the trials of one shape.
struct Choice {
    index: Ident,
    /// The keys that the index has needed in a trial; a trial that needs more does not make it active.
    works: u64,
    /// For how many more plans it serves; 0 while it is not active.
    serves: u32,
}

impl PlanChoices {
    /// The index that was chosen for a shape, if the choice is active.
    pub fn serve(&self, shape: u64) -> Option<Ident> {
        let mut choices = self.0.lock();
        let choice = choices.get_mut(&shape)?;
        choice.serves = choice.serves.checked_sub(1)?;
        Some(choice.index)
    }

    /// Notes the index that won a trial of a shape, and the keys that it needed.
    pub fn note(&self, shape: u64, index: Ident, works: u64) {
        let mut choices = self.0.lock();
        if choices.len() >= SHAPES_MAX && !choices.contains_key(&shape) {
            choices.clear();
        }
        let choice = choices.entry(shape).or_insert(Choice {
            index,
            works: 0,
            serves: 0,
        });
        let is_as_before = choice.works != 0 && works <= choice.works && choice.index == index;
        choice.serves = if is_as_before { SERVED_MAX } else { 0 };
        // One that needed more has to be confirmed by another of its kind, within twice of what was known, as in MongoDB.
        choice.works = match choice.index == index && works > choice.works {
            true => works.max(choice.works.saturating_mul(2)),
            false => works.max(1),
        };
        choice.index = index;
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

    #[test]
    fn a_choice_is_relied_on_once_a_second_trial_has_confirmed_it() {
        let choices = PlanChoices::default();
        choices.note(7, Ident(1), 10);
        assert_eq!(choices.serve(7), None);
        choices.note(7, Ident(1), 10);
        assert_eq!(choices.serve(7), Some(Ident(1)));
        choices.note(7, Ident(2), 3);
        assert_eq!(
            choices.serve(7),
            None,
            "another winner has to be confirmed, too"
        );
        choices.note(7, Ident(2), 50);
        assert_eq!(choices.serve(7), None, "it needed more than was known");
        choices.note(7, Ident(2), 50);
        assert_eq!(choices.serve(7), Some(Ident(2)));
    }

    #[test]
    fn a_choice_serves_for_a_bounded_number_of_plans() {
        let choices = PlanChoices::default();
        for round in 0..2 {
            choices.note(7, Ident(1), 10);
            if round == 0 {
                choices.note(7, Ident(1), 10);
            }
            for _ in 0..SERVED_MAX {
                assert_eq!(choices.serve(7), Some(Ident(1)));
            }
            assert_eq!(choices.serve(7), None);
        }
    }

    #[test]
    fn the_shapes_are_bounded() {
        let choices = PlanChoices::default();
        for shape in 0..100 {
            choices.note(shape, Ident(1), 1);
            assert!(choices.len() <= SHAPES_MAX);
        }
        choices.clear();
        assert!(choices.is_empty());
    }
}

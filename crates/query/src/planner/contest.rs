//! The contest of plans: where the shapes of their bounds do not tell which is the best, they are tried on the data.
//!
//! An index serves another's turn if it bounds all the fields that the other bounds, and gives the order and the documents if
//! the other does. The branches of an `$or`, each by an index of its own, are one more plan (`branches.rs`). Where that leaves one plan, nothing is tried and nothing is remembered. Else each of those that are left runs a bounded number
//! of keys, in rounds, until one of them has read all that there is, all that is asked for, or a first batch; the one that
//! needed the fewest keys wins, the better shape where they are equal. Trials are remembered with the indexes
//! (`quarry_database::PlanChoices`), by the contenders and what each does for the query: queries that differ in their values
//! only, or in predicates that no index serves, share a choice.
//!
//! Keeps true: any contender's plan gives what a scan of the collection would, so that a trial decides about speed alone.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quarry_bson::Document;
use quarry_database::{Collection, IndexCatalog, PlanOrigin, Served};

use super::branches::{Branches, branches};
use super::contender::Contender;
use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::tree::above;
use super::tried::Tried;
use super::usable::usable;
use super::wanted::{Ground, Wanted};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::parsed_filter::parsed_filter;
use crate::plan::{Flow, Node, PlanContext, Shown, Watch, explain_node};
use crate::query_shape::QueryParts;

/// Indexes that are tried; those behind them have worse shapes.
const CONTENDERS_MAX: usize = 16;

/// The results of a first batch, with which a trial ends, as in MongoDB.
const RESULTS_MAX: u64 = 101;

/// A plan that needs so many times the keys of the trial that it rests on is tried anew, as in MongoDB.
const WORKS_TIMES_MAX: u64 = 10;

/// The keys that each contender has read at the end of a round. The last is MongoDB's bound of a trial's works.
const ROUNDS: [u64; 4] = [16, 128, 1024, 10_000];

/// A plan in a trial.
struct Runner {
    root: Node,
    allowance: Arc<AtomicU64>,
    docs_examined: u64,
    duration: Duration,
    /// The keys that it has read, and the documents that it has found.
    works: u64,
    results: u64,
    /// It gives nothing before it has read all, because its documents have to be sorted.
    sorts: bool,
    state: State,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum State {
    Running,
    Done,
    /// Its documents end in an error, which may be no other plan's.
    Failed,
}

/// Moves the contender that an active choice names to the front; false if there is none.
pub fn remembered(
    index_catalog: &IndexCatalog,
    contenders: &mut [Contender<'_>],
    wanted: &Wanted<'_>,
) -> bool {
    let choices = &index_catalog.plan_choices;
    let shape = shape(contenders, wanted);
    let Some(Served { place, works }) = choices.serve(shape) else {
        return false;
    };
    let Some(front) = contenders.get_mut(..=place) else {
        return false;
    };
    front.rotate_right(1);
    let chosen = &mut front[0];
    let batch = match chosen.sorts(wanted) {
        // Who sorts reads all, in the trial and now.
        true => u64::MAX,
        false => results_max(wanted),
    };
    chosen.watch(Watch {
        choices: Arc::clone(choices),
        shape,
        place,
        keys_max: works.saturating_mul(WORKS_TIMES_MAX),
        batch,
    });
    true
}

/// The results with which a trial ends.
fn results_max(wanted: &Wanted<'_>) -> u64 {
    let asked = wanted.limit.map(|limit| limit.saturating_add(wanted.skip));
    asked.map_or(RESULTS_MAX, |asked| asked.clamp(1, RESULTS_MAX))
}

/// Decides between the contenders, which it moves the best of to the front: by an active choice or by a trial; by their shapes where
/// there is no ground for one.
pub fn decide(
    index_catalog: &IndexCatalog,
    contenders: &mut [Contender<'_>],
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<()> {
    // Explain shows what a trial finds now, and changes nothing for others.
    let may_try = contenders.len() > 1;
    if !may_try || (!wanted.shows_bounds && remembered(index_catalog, contenders, wanted)) {
        return Ok(());
    }
    let Some(ground) = wanted.ground else {
        return Ok(());
    };
    let shape = shape(contenders, wanted);
    let (place, works) = race(contenders, bounds, wanted, ground)?;
    if !wanted.shows_bounds {
        let choices = &index_catalog.plan_choices;
        let origin = match (choices.knows(shape, place), wanted.asked) {
            (false, Some(asked)) => {
                let winner = &contenders[place];
                origin(asked, winner, (index_catalog, bounds), wanted, ground)?
            }
            _ => None,
        };
        choices.note(shape, place, works, origin);
    }
    contenders[..=place].rotate_right(1);
    Ok(())
}

/// The query and the plan that won, for who lists the choices.
#[cold]
fn origin(
    asked: &QueryParts<'_>,
    winner: &Contender<'_>,
    (index_catalog, bounds): (&IndexCatalog, &FilterBounds<'_>),
    wanted: &Wanted<'_>,
    ground: Ground<'_>,
) -> Result<Option<PlanOrigin>> {
    let wanted = &Wanted {
        shows_bounds: true,
        ..*wanted
    };
    let collection = &ground.snapshot.collection;
    let solution = match winner {
        Contender::Index(scored) => Some(scored.solution(bounds, collection, wanted)),
        Contender::Branches(_) => {
            let shown = branches(collection, index_catalog, &ground.parsed.matcher, wanted)?;
            shown.map(|branches| branches.solution(wanted))
        }
    };
    let Some(solution) = solution else {
        return Ok(None);
    };
    let root = above(solution, wanted);
    let filter = parsed_filter(asked.filter)?;
    let shown = Shown::planned(filter.as_raw(), asked.sort, asked.projection);
    Ok(Some(PlanOrigin {
        query_shape: asked.shape()?.0,
        query: asked.to_document(),
        plan: Document::build(|out| explain_node(&*root, &shown, out)),
        has_index_filter: wanted.allowed.is_some() && wanted.settings.is_none(),
    }))
}

/// The keys under which trials of such a query are remembered: of one without a limit, and of one with one.
pub fn cache_keys(
    collection: &Collection,
    index_catalog: &IndexCatalog,
    matcher: &Matcher,
    wanted: Wanted<'_>,
) -> Result<[u64; 2]> {
    let wanted = Wanted {
        filter: Some(matcher.root()),
        ..wanted
    };
    let mut bounds = FilterBounds::new(matcher.root(), matcher.collation(), &index_catalog.paths);
    let branches = branches(collection, index_catalog, matcher, &wanted)?;
    let contenders = contenders(collection, index_catalog, (&mut bounds, branches), &wanted)?;
    let limited = Wanted {
        limit: Some(1),
        ..wanted
    };
    Ok([shape(&contenders, &wanted), shape(&contenders, &limited)])
}

/// The candidates that are of use and whose turn no other serves, the better shapes first, and the plan by branches among them.
pub fn contenders<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    (bounds, branches): (&mut FilterBounds<'_>, Option<Branches>),
    wanted: &Wanted<'_>,
) -> Result<Vec<Contender<'c>>> {
    let mut usable = usable(collection, index_catalog, bounds, wanted)?;
    usable.sort_by_key(|scored| std::cmp::Reverse(scored.score));
    let mut singles: Vec<Scored<'c>> = Vec::new();
    for scored in usable {
        // Of two that serve each other's turn the better shape came before.
        if singles.len() < CONTENDERS_MAX && !singles.iter().any(|held| held.serves(&scored)) {
            singles.push(scored);
        }
    }
    // Where nobody can try, a bounded index is read; branches in the wanted order come before an index that gives that alone, and branches
    // whose documents would all have to be held come behind it.
    let bounded = singles.partition_point(Scored::is_bounded);
    let place = match &branches {
        Some(branches) if branches.are_merged() => bounded,
        _ => singles.len(),
    };
    let singles = singles
        .into_iter()
        .map(|scored| Contender::Index(Box::new(scored)));
    let mut contenders: Vec<Contender<'c>> = singles.collect();
    if let Some(branches) = branches {
        contenders.insert(place, Contender::Branches(Box::new(branches)));
    }
    Ok(contenders)
}

/// Hashes what tells queries apart for which different indexes may be the best: the contenders, and what each does.
fn shape(contenders: &[Contender<'_>], wanted: &Wanted<'_>) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write_u8(u8::from(wanted.sort.is_some()) | u8::from(wanted.limit.is_some()) << 1);
    for contender in contenders {
        contender.hash_shape(&mut hash);
    }
    hash.finish()
}

/// Runs the contenders side by side; the number of the winner, and the keys that it needed.
fn race(
    contenders: &[Contender<'_>],
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
    ground: Ground<'_>,
) -> Result<(usize, u64)> {
    let operation = ground.operation;
    let counters = [&operation.keys_examined, &operation.docs_examined];
    let before = counters.map(|counter| counter.load(Relaxed));
    let outcome = run_rounds(contenders, bounds, wanted, ground);
    // A command counts what its own plan examines, as in MongoDB.
    for (counter, before) in counters.into_iter().zip(before) {
        counter.store(before, Relaxed);
    }
    let runners = outcome?;
    let winner = (0..runners.len()).min_by(|&a, &b| runners[a].compare(&runners[b]));
    let winner = winner.unwrap_or_default();
    let works = runners[winner].works;
    if let Some(tried) = ground.tried {
        tried.replace(runners.into_iter().map(Runner::into_tried).collect());
    }
    Ok((winner, works))
}

fn run_rounds(
    contenders: &[Contender<'_>],
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
    ground: Ground<'_>,
) -> Result<Vec<Runner>> {
    let results_max = results_max(wanted);
    let context = PlanContext {
        snapshot: ground.snapshot,
        operation: ground.operation,
        parsed: ground.parsed,
        is_replay: false,
    };
    let wanted = &Wanted {
        shows_bounds: ground.tried.is_some(),
        ..*wanted
    };
    let runner = |contender: &Contender<'_>| Runner::new(contender, bounds, wanted);
    let mut runners: Vec<Runner> = contenders.iter().map(runner).collect();
    for works_max in ROUNDS {
        for runner in &mut runners {
            runner.run(&context, works_max, results_max)?;
        }
        if runners.iter().any(|runner| runner.state == State::Done) {
            break;
        }
    }
    Ok(runners)
}

impl Runner {
    fn new(contender: &Contender<'_>, bounds: &FilterBounds<'_>, wanted: &Wanted<'_>) -> Runner {
        let allowance = Arc::new(AtomicU64::new(0));
        Runner {
            root: contender.trial(bounds, wanted, &allowance),
            allowance,
            docs_examined: 0,
            duration: Duration::ZERO,
            works: 0,
            results: 0,
            sorts: contender.sorts(wanted),
            state: State::Running,
        }
    }

    /// Goes on until it has read `works_max` keys in all, or is done.
    fn run(&mut self, context: &PlanContext<'_>, works_max: u64, results_max: u64) -> Result<()> {
        if self.state != State::Running {
            return Ok(());
        }
        let allowed = works_max - self.works;
        self.allowance.store(allowed, Relaxed);
        let (results, sorts) = (&mut self.results, self.sorts);
        let docs_before = context.operation.docs_examined.load(Relaxed);
        let started = Instant::now();
        let outcome = self.root.next(context, &mut |_| {
            *results += 1;
            match !sorts && *results >= results_max {
                true => Ok(Flow::Stop),
                false => Ok(Flow::Continue),
            }
        });
        self.duration += started.elapsed();
        self.docs_examined += context.operation.docs_examined.load(Relaxed) - docs_before;
        self.works += allowed - self.allowance.load(Relaxed);
        let has_enough = !self.sorts && self.results >= results_max;
        self.state = match outcome {
            Ok(more) if !more || has_enough => State::Done,
            Ok(_) => State::Running,
            Err(_) => {
                context.operation.check()?;
                State::Failed
            }
        };
        Ok(())
    }

    fn into_tried(self) -> Tried {
        Tried {
            root: self.root,
            results: self.results,
            keys_examined: self.works,
            docs_examined: self.docs_examined,
            duration: self.duration,
        }
    }

    /// Less is better: those that are done before the others, with fewer keys; then those that find more with theirs. Equal ones
    /// stay in the order of their shapes.
    fn compare(&self, other: &Runner) -> std::cmp::Ordering {
        let rank = |runner: &Runner| match runner.state {
            State::Done => 0,
            State::Running => 1,
            State::Failed => 2,
        };
        let found = |runner: &Runner| match runner.sorts {
            true => 0,
            false => runner.results,
        };
        rank(self).cmp(&rank(other)).then_with(|| match self.state {
            State::Done => self.works.cmp(&other.works),
            _ => (found(other) * self.works.max(1)).cmp(&(found(self) * other.works.max(1))),
        })
    }
}

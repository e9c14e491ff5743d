//! The contest of indexes: where the shapes of their bounds do not tell which is the best, they are tried on the data.
//!
//! An index serves another's turn if it bounds all the fields that the other bounds, and gives the order and the documents if
//! the other does. Where that leaves one index, nothing is tried and nothing is remembered. Else each of those that are left runs a bounded number
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

use super::filter_bounds::FilterBounds;
use super::scored::Scored;
use super::tree::above;
use super::tried::Tried;
use super::usable::usable;
use super::wanted::{Ground, Wanted};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::parsed_filter::parsed_filter;
use crate::plan::{Fetch, Flow, Node, PlanContext, Shown, TrialBound, Watch, explain_node};
use crate::query_shape::QueryParts;

/// Indexes that are tried; those behind them have worse shapes.
const CONTENDERS_MAX: usize = 16;

/// The results of a first batch, with which a trial ends, as in MongoDB.
const RESULTS_MAX: u64 = 101;

/// A plan that needs so many times the keys of the trial that it rests on is tried anew, as in MongoDB.
const WORKS_TIMES_MAX: u64 = 10;

/// The keys that each contender has read at the end of a round. The last is MongoDB's bound of a trial's works.
const ROUNDS: [u64; 4] = [16, 128, 1024, 10_000];

/// An index in a trial.
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

/// The contender that an active choice names; none if there is none.
pub fn remembered<'c>(
    index_catalog: &'c IndexCatalog,
    contenders: &mut Vec<Scored<'c>>,
    wanted: &Wanted<'_>,
) -> Option<Scored<'c>> {
    let choices = &index_catalog.plan_choices;
    let shape = shape(contenders, wanted);
    let Served { index, works } = choices.serve(shape)?;
    let at = contenders
        .iter()
        .position(|scored| scored.ident() == index)?;
    let mut chosen = contenders.swap_remove(at);
    let sorts = wanted.sort.is_some() && chosen.order.is_none();
    chosen.watch = Some(Box::new(Watch {
        choices: Arc::clone(choices),
        shape,
        index,
        keys_max: works.saturating_mul(WORKS_TIMES_MAX),
        // Who sorts reads all, in the trial and now.
        batch: if sorts { u64::MAX } else { results_max(wanted) },
    }));
    Some(chosen)
}

/// The results with which a trial ends.
fn results_max(wanted: &Wanted<'_>) -> u64 {
    let asked = wanted.limit.map(|limit| limit.saturating_add(wanted.skip));
    asked.map_or(RESULTS_MAX, |asked| asked.clamp(1, RESULTS_MAX))
}

/// Decides between the contenders: by an active choice or by a trial; by their shapes where there is no ground for one.
pub fn decide<'c>(
    index_catalog: &'c IndexCatalog,
    mut contenders: Vec<Scored<'c>>,
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Option<Scored<'c>>> {
    // Explain shows what a trial finds now, and changes nothing for others.
    if !wanted.shows_bounds
        && let Some(chosen) = remembered(index_catalog, &mut contenders, wanted)
    {
        return Ok(Some(chosen));
    }
    let Some(ground) = wanted.ground.filter(|_| contenders.len() > 1) else {
        return Ok(contenders.into_iter().next());
    };
    let shape = shape(&contenders, wanted);
    let (winner, works) = race(&contenders, bounds, wanted, ground)?;
    let winner = contenders.swap_remove(winner);
    if !wanted.shows_bounds {
        let choices = &index_catalog.plan_choices;
        let index = winner.ident();
        let origin = match (choices.knows(shape, index), wanted.asked) {
            (false, Some(asked)) => Some(origin(asked, &winner, bounds, wanted, ground)?),
            _ => None,
        };
        choices.note(shape, index, works, origin);
    }
    Ok(Some(winner))
}

/// The query and the plan that won, for who lists the choices.
#[cold]
fn origin(
    asked: &QueryParts<'_>,
    winner: &Scored<'_>,
    bounds: &FilterBounds<'_>,
    wanted: &Wanted<'_>,
    ground: Ground<'_>,
) -> Result<PlanOrigin> {
    let wanted = &Wanted {
        shows_bounds: true,
        ..*wanted
    };
    let solution = winner.solution(bounds, &ground.snapshot.collection, wanted);
    let root = above(solution, wanted);
    let filter = parsed_filter(asked.filter)?;
    let shown = Shown::planned(filter.as_raw(), asked.sort, asked.projection);
    Ok(PlanOrigin {
        query_shape: asked.shape()?.0,
        query: asked.to_document(),
        plan: Document::build(|out| explain_node(&*root, &shown, out)),
        has_index_filter: wanted.allowed.is_some() && wanted.settings.is_none(),
    })
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
    let contenders = contenders(collection, index_catalog, &mut bounds, &wanted)?;
    let limited = Wanted {
        limit: Some(1),
        ..wanted
    };
    Ok([shape(&contenders, &wanted), shape(&contenders, &limited)])
}

/// The candidates that are of use and whose turn no other serves, the better shapes first.
pub fn contenders<'c>(
    collection: &'c Collection,
    index_catalog: &'c IndexCatalog,
    bounds: &mut FilterBounds<'_>,
    wanted: &Wanted<'_>,
) -> Result<Vec<Scored<'c>>> {
    let mut usable = usable(collection, index_catalog, bounds, wanted)?;
    usable.sort_by_key(|scored| std::cmp::Reverse(scored.score));
    let mut contenders: Vec<Scored<'c>> = Vec::new();
    for scored in usable {
        // Of two that serve each other's turn the better shape came before.
        if contenders.len() < CONTENDERS_MAX && !contenders.iter().any(|held| held.serves(&scored))
        {
            contenders.push(scored);
        }
    }
    Ok(contenders)
}

/// Hashes what tells queries apart for which different indexes may be the best: the contenders, and what each does.
fn shape(contenders: &[Scored<'_>], wanted: &Wanted<'_>) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write_u8(u8::from(wanted.sort.is_some()) | u8::from(wanted.limit.is_some()) << 1);
    for scored in contenders {
        hash.write_u64(scored.ident().0);
        scored.hash_shape(&mut hash);
    }
    hash.finish()
}

/// Runs the contenders side by side; the number of the winner, and the keys that it needed.
fn race(
    contenders: &[Scored<'_>],
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
    contenders: &[Scored<'_>],
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
    let runner = |scored: &Scored<'_>| Runner::new(scored, bounds, wanted);
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
    fn new(scored: &Scored<'_>, bounds: &FilterBounds<'_>, wanted: &Wanted<'_>) -> Runner {
        let allowance = Arc::new(AtomicU64::new(0));
        // Each key counts, those that a test would pass over, too.
        let scan = scored.scan_of_ranges(bounds, wanted);
        let bound = TrialBound::new(scan.node, Arc::clone(&allowance));
        Runner {
            root: Box::new(Fetch::new(Box::new(bound), !scan.answers)),
            allowance,
            docs_examined: 0,
            duration: Duration::ZERO,
            works: 0,
            results: 0,
            sorts: wanted.sort.is_some() && scored.order.is_none(),
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

//! The questions of a filter that every match must answer, each with its path: what bounds of paths are made of.
//!
//! What `$elemMatch` asks of an element is asked of the path that leads through the array. It says more than that, so that
//! the filter says something else, too, where one stands. `$not` and `$nor` of single predicates, and comparisons of a
//! path with a constant within `$expr`, are such questions as well.

use std::borrow::Cow;

use quarry_bson::Value;
use smallvec::SmallVec;

use crate::matcher::{CompareOp, FieldPredicate, MatchExpression, Predicate};

/// The bytes of paths that are made for what elements are asked; what is beyond bounds nothing. A filter may have one long path of an
/// array and a million questions to its elements.
const MADE_PATH_BYTES_MAX: usize = 16 * 1024;

/// The number of conjuncts beside an `$or` that bound each of its branches: there may be many of both.
const BESIDE_MAX: usize = 16;

/// A question that every match of a filter answers by the values at a path.
#[derive(Clone, Copy)]
pub struct Asked<'m> {
    pub question: Question<'m>,
    /// Those of one number but 0 are met by the same value.
    pub value: u32,
    /// The element of an array that is asked, if one is.
    pub element: Option<Element>,
}

#[derive(Clone, Copy)]
pub enum Question<'m> {
    /// Some value at the path meets it.
    Meets(&'m Predicate),
    /// No value at the path meets it.
    MeetsNot(&'m Predicate),
    /// The value stands so to a constant in the order of all types, a missing one below null.
    Ordered(CompareOp, &'m Value),
}

/// An element of an array that one `$elemMatch` asks several questions.
#[derive(Clone, Copy)]
pub struct Element {
    number: u32,
    /// The length of the array's path.
    array_len: usize,
}

impl Element {
    /// Whether a document that answers a question of the one path and a question of the other by this element has a key with both
    /// answers: the paths part right below the element, so that no further array holds both.
    pub fn has_key_of(self, path: &str, other: (Element, &str)) -> bool {
        let (other, other_path) = other;
        self.number == other.number && self.first_below(path) != self.first_below(other_path)
    }

    /// The component of the path right below the element.
    fn first_below<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.get(self.array_len + 1..)?.split('.').next()
    }
}

/// The questions of a filter that all must be answered, with their paths.
pub struct Conjuncts<'m> {
    pub asked: SmallVec<[(Cow<'m, str>, Asked<'m>); 12]>,
    /// How many of them the filter itself asks; the others stand beside it.
    pub own_len: usize,
    /// The filter says nothing else.
    pub are_all: bool,
    /// The numbers of values and elements that are given out.
    numbers: u32,
    made_path_bytes: usize,
}

/// The array whose element is asked.
#[derive(Clone, Copy)]
struct Within<'p> {
    array: &'p str,
    element: Element,
}

impl<'m> Conjuncts<'m> {
    pub fn of(root: &'m MatchExpression) -> Conjuncts<'m> {
        let mut found = Conjuncts {
            asked: SmallVec::new(),
            own_len: 0,
            are_all: true,
            numbers: 0,
            made_path_bytes: 0,
        };
        found.collect(root, None);
        found.own_len = found.asked.len();
        found
    }

    /// Like `of`, for a branch of an `$or` in a conjunction: what stands beside the `$or` must hold, too.
    pub fn of_branch(branch: &'m MatchExpression, around: &'m MatchExpression) -> Conjuncts<'m> {
        let mut found = Conjuncts::of(branch);
        if let MatchExpression::And(children) = around {
            let beside = children.iter().filter(|child| is_small(child));
            for child in beside.take(BESIDE_MAX) {
                found.collect(child, None);
            }
        }
        found
    }

    /// Recursion is bounded by the depth of filters. `within` is the array whose elements are asked, if they are.
    fn collect(&mut self, expression: &'m MatchExpression, within: Option<Within<'_>>) {
        match expression {
            MatchExpression::And(children) => {
                for child in children {
                    self.collect(child, within);
                }
            }
            MatchExpression::Or(children) if children.len() == 1 => {
                self.collect(&children[0], within);
            }
            MatchExpression::Field(field) => {
                let path = field.path.as_str();
                let path = match within {
                    None => Cow::Borrowed(path),
                    Some(Within { array, .. }) if self.may_make(array.len() + 1 + path.len()) => {
                        Cow::Owned(format!("{array}.{path}"))
                    }
                    Some(_) => return,
                };
                self.collect_field(path, &field.predicate, within);
            }
            MatchExpression::Not(child) if within.is_none() => self.collect_not(child),
            MatchExpression::Nor(children) if within.is_none() => {
                for child in children {
                    self.collect_not(child);
                }
            }
            MatchExpression::Expr(predicate) => {
                self.are_all = false;
                if within.is_none() {
                    self.collect_orders(predicate.expression.implied_orders());
                }
            }
            MatchExpression::AlwaysTrue => {}
            _ => self.are_all = false,
        }
    }

    fn collect_field(
        &mut self,
        path: Cow<'m, str>,
        predicate: &'m Predicate,
        within: Option<Within<'_>>,
    ) {
        match predicate {
            Predicate::ElemMatchObject(filter) => {
                self.are_all = false;
                let element = Element {
                    number: self.number(),
                    array_len: path.len(),
                };
                let within = Within {
                    array: &path,
                    element,
                };
                self.collect(filter.root(), Some(within));
            }
            Predicate::ElemMatchValue(all) => {
                self.are_all = false;
                let value = self.number();
                for one in all {
                    self.collect_value(one, &path, value);
                }
            }
            _ => {}
        }
        let asked = Asked {
            question: Question::Meets(predicate),
            value: 0,
            element: within.map(|within| within.element),
        };
        self.asked.push((path, asked));
    }

    /// An element that is an array itself is keyed as a whole, so that what its own elements are asked bounds nothing.
    fn collect_value(&mut self, expression: &'m MatchExpression, path: &str, value: u32) {
        match expression {
            MatchExpression::And(children) => {
                for child in children {
                    self.collect_value(child, path, value);
                }
            }
            MatchExpression::Field(FieldPredicate { predicate, .. })
                if is_of_one(predicate) && self.may_make(path.len()) =>
            {
                let asked = Asked {
                    question: Question::Meets(predicate),
                    value,
                    element: None,
                };
                self.asked.push((Cow::Owned(path.to_owned()), asked));
            }
            _ => {}
        }
    }

    /// Collects the negations of an expression. Of a conjunction one part fails, and nobody knows which.
    fn collect_not(&mut self, expression: &'m MatchExpression) {
        match expression {
            MatchExpression::Or(children) => {
                for child in children {
                    self.collect_not(child);
                }
            }
            MatchExpression::And(children) if children.len() == 1 => {
                self.collect_not(&children[0]);
            }
            MatchExpression::Field(field) => {
                let question = Question::MeetsNot(&field.predicate);
                self.push(field.path.as_str(), question);
            }
            MatchExpression::AlwaysFalse => {}
            _ => self.are_all = false,
        }
    }

    fn collect_orders(&mut self, orders: Vec<(&'m str, CompareOp, &'m Value)>) {
        for (path, op, value) in orders {
            self.push(path, Question::Ordered(op, value));
        }
    }

    fn push(&mut self, path: &'m str, question: Question<'m>) {
        let asked = Asked {
            question,
            value: 0,
            element: None,
        };
        self.asked.push((Cow::Borrowed(path), asked));
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether a path of so many bytes may be made, which it counts then.
    fn may_make(&mut self, bytes: usize) -> bool {
        let made = self.made_path_bytes + bytes;
        let may = made <= MADE_PATH_BYTES_MAX;
        if may {
            self.made_path_bytes = made;
        }
        may
    }
}

/// Whether it is one question, and no long one: it is asked again for each branch beside it.
fn is_small(expression: &MatchExpression) -> bool {
    match expression {
        MatchExpression::Field(field) => match &field.predicate {
            Predicate::Compare { .. } | Predicate::Exists | Predicate::Test(_) => true,
            Predicate::In(list) => list.values().len() <= BESIDE_MAX,
            Predicate::Regex(_) => true,
            Predicate::ElemMatchObject(_) | Predicate::ElemMatchValue(_) => false,
        },
        MatchExpression::Not(child) => is_small(child),
        _ => false,
    }
}

/// Whether it asks for something that one key tells.
fn is_of_one(predicate: &Predicate) -> bool {
    matches!(
        predicate,
        Predicate::Compare { .. } | Predicate::In(_) | Predicate::Regex(_)
    )
}

#[cfg(test)]
mod tests {
    use quarry_bson::{Document, doc};

    use super::*;
    use crate::matcher::Matcher;

    #[test]
    fn the_paths_that_are_made_for_elements_are_bounded() {
        let array = "a".repeat(1_000);
        let asked: Document = Document::build(|out| {
            for n in 0..10_000 {
                out.append("$gt", n);
            }
        });
        let of_values = doc! { (array.as_str()): { "$elemMatch": (asked) } };
        let fields: Vec<Document> = (0..10_000).map(|n| doc! { "b": n }).collect();
        let of_documents = doc! { (array.as_str()): { "$elemMatch": { "$and": fields } } };
        for filter in [of_values, of_documents] {
            let matcher = Matcher::parse(filter.as_raw()).unwrap();
            let found = Conjuncts::of(matcher.root());
            let made = found.asked.iter().map(|(path, _)| match path {
                Cow::Borrowed(_) => 0,
                Cow::Owned(path) => path.len(),
            });
            let made: usize = made.sum();
            assert!(0 < made && made <= MADE_PATH_BYTES_MAX, "{made} bytes");
            assert!(!found.are_all);
        }
    }
}

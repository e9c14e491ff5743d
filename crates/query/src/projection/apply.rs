//! One walk over a document with the tree of a projection.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawArray, RawDocument, RawElement, RawValue};
use smallvec::SmallVec;

use super::Mode;
use super::node::{Branch, Node};
use crate::error::{Error, Result};
use crate::expression::{Context, Expression, bounds};
use crate::interrupts;
use crate::matcher::{MatchDetails, Matcher};
use crate::memory::bytes_of;

/// One projection of one document.
pub(super) struct Run<'p, 'd> {
    pub mode: Mode,
    pub root: RawDocument<'d>,
    pub metadata: Option<RawDocument<'d>>,
    pub details: &'p MatchDetails,
}

impl Run<'_, '_> {
    /// `cut`: the first array on the way to `array.$` is still ahead.
    pub fn document(
        &self,
        document: RawDocument<'_>,
        branch: &Branch,
        cut: bool,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let mut seen: SmallVec<[bool; 16]> = SmallVec::from_elem(false, branch.len());
        let mut left = branch.len();
        for element in document {
            interrupts::work_on_bytes(element.as_bytes().len())?;
            let Some(place) = branch.find(element.name().as_bytes()) else {
                if self.mode != Mode::Drop {
                    out.append_element(element);
                }
                continue;
            };
            self.element(element, branch.node(place), cut, out)?;
            if !std::mem::replace(&mut seen[place], true) {
                left -= 1;
                if left == 0 && self.mode == Mode::Drop {
                    break;
                }
            }
        }
        if branch.makes_fields {
            self.make_fields(document, branch, &seen, out)?;
        }
        Ok(())
    }

    fn element(
        &self,
        element: RawElement<'_>,
        node: &Node,
        cut: bool,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        match node {
            Node::Include => {
                out.append_element(element);
            }
            // A computed field stands where the old one stood only if the old document is kept as a whole.
            Node::Computed(expression) if self.mode == Mode::Add => {
                self.compute(element.name().as_bytes(), expression, out)?;
            }
            // Other made fields come last, whatever the document has in their place.
            Node::Exclude | Node::ElemMatch(_) | Node::Computed(_) => {}
            Node::Matched => match element.value() {
                RawValue::Array(array) if cut => {
                    out.array(element.name()).push_element(self.matched(array)?);
                }
                _ => {
                    out.append_element(element);
                }
            },
            Node::Slice(slice) => match element.value() {
                RawValue::Array(array) => {
                    let (start, end) = slice.range(array);
                    let mut kept = out.array(element.name());
                    for member in array.elements().take(end).skip(start) {
                        interrupts::work_on_bytes(member.as_bytes().len())?;
                        kept.push_element(member);
                    }
                }
                _ => {
                    out.append_element(element);
                }
            },
            Node::Branch(branch) => self.branch(element, branch, cut, out)?,
        }
        Ok(())
    }

    fn branch(
        &self,
        element: RawElement<'_>,
        branch: &Branch,
        cut: bool,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        match element.value() {
            RawValue::Document(inner) => {
                self.document(inner, branch, cut, &mut out.document(element.name()))?;
            }
            RawValue::Array(array) if cut && branch.leads_to_matched => {
                let matched = self.matched(array)?;
                self.member(matched, branch, &mut out.array(element.name()))?;
            }
            RawValue::Array(array) => self.array(array, branch, &mut out.array(element.name()))?,
            _ if branch.makes_fields => {
                self.document(
                    RawDocument::EMPTY,
                    branch,
                    cut,
                    &mut out.document(element.name()),
                )?;
            }
            _ if self.mode != Mode::Drop => {
                out.append_element(element);
            }
            _ => {}
        }
        Ok(())
    }

    fn array(
        &self,
        array: RawArray<'_>,
        branch: &Branch,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<()> {
        for member in array.elements() {
            interrupts::work(1)?;
            self.member(member, branch, out)?;
            bounds::check_bytes(out.len_bytes())?;
        }
        Ok(())
    }

    fn member(
        &self,
        member: RawElement<'_>,
        branch: &Branch,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<()> {
        match member.value() {
            RawValue::Document(inner) => {
                self.document(inner, branch, false, &mut out.document())?;
            }
            RawValue::Array(inner) => self.array(inner, branch, &mut out.array())?,
            _ if branch.makes_fields => {
                self.document(RawDocument::EMPTY, branch, false, &mut out.document())?;
            }
            _ if self.mode != Mode::Drop => {
                out.push_element(member);
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends what is not taken from the document: computed fields, `$elemMatch` results, and documents on
    /// the way to computed fields that were not there.
    fn make_fields(
        &self,
        document: RawDocument<'_>,
        branch: &Branch,
        seen: &[bool],
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        for ((name, node), seen) in branch.fields().zip(seen) {
            interrupts::work(1)?;
            match node {
                // It stands where the old one stood.
                Node::Computed(_) if self.mode == Mode::Add && *seen => {}
                Node::Computed(expression) => self.compute(name.as_bytes(), expression, out)?,
                Node::ElemMatch(filter) => {
                    if let Some(RawValue::Array(array)) = document.get(name)
                        && let Some(member) = first_match(filter, array)?
                    {
                        out.array(name).push_element(member);
                    }
                }
                Node::Branch(inner) if inner.makes_fields && !seen => {
                    self.document(RawDocument::EMPTY, inner, false, &mut out.document(name))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn compute(
        &self,
        name: &[u8],
        expression: &Expression,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<()> {
        let mut context = Context::new(self.root);
        context.metadata = self.metadata;
        if let Some(value) = expression.evaluate(&mut context)?.as_raw() {
            bounds::check_depth(value, 1)?;
            bounds::check_bytes(out.len_bytes() + bytes_of(value))?;
            out.append(name, value);
        }
        Ok(())
    }

    fn matched<'a>(&self, array: RawArray<'a>) -> Result<RawElement<'a>> {
        let Some(index) = self.details.array_index else {
            let text = "positional operator '.$' couldn't find a matching element in the array";
            return Err(Error::location(51246, text));
        };
        array
            .get_element(index as usize)
            .ok_or_else(|| Error::location(51247, "positional operator '.$' element mismatch"))
    }
}

fn first_match<'a>(filter: &Matcher, array: RawArray<'a>) -> Result<Option<RawElement<'a>>> {
    let details = filter.matched_element(array)?;
    Ok(details.and_then(|index| array.get_element(index as usize)))
}

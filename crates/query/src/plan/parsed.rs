//! The filter, the order and the projection of a read, parsed once.

use std::sync::LazyLock;

use quarry_bson::RawDocument;
use quarry_timing::{Phase, phase};

use crate::error::Result;
use crate::expression::{ExpressionContext, bounds};
use crate::matcher::Matcher;
use crate::projection::Projection;
use crate::sort::SortPattern;
use crate::spilling::DiskUse;

/// The parsed parts of a find.
pub struct Parsed {
    /// The filter.
    pub matcher: Matcher,
    /// The order, if one is asked for.
    pub sort: Option<SortPattern>,
    /// The projection, if it changes anything.
    pub projection: Option<Projection>,
    /// Whether a sort may write to disk.
    pub disk_use: DiskUse,
}

impl Parsed {
    /// Parses the parts of a request.
    pub fn parse(
        filter: RawDocument<'_>,
        sort: Option<RawDocument<'_>>,
        projection: Option<RawDocument<'_>>,
        context: &ExpressionContext,
    ) -> Result<Parsed> {
        let _scope = phase(Phase::Plan);
        let matcher = Matcher::parse_in(filter, context)?;
        let collation = context.collation();
        let sort = sort.map(|sort| SortPattern::parse_in(sort, collation));
        let sort = sort.transpose()?;
        let projection = projection
            .map(|projection| Projection::parse_in(projection, Some(&matcher), context))
            .transpose()?;
        Ok(Parsed {
            sort: sort.filter(|sort| !sort.is_empty()),
            projection: projection.filter(|projection| !projection.is_identity()),
            matcher,
            disk_use: context.disk_use(),
        })
    }

    /// A filter that asks nothing more, for a plan that answers its own alone.
    pub fn of_everything() -> &'static Parsed {
        static EVERYTHING: LazyLock<Parsed> = LazyLock::new(|| Parsed {
            matcher: Matcher::of_everything(),
            sort: None,
            projection: None,
            disk_use: DiskUse::Denied,
        });
        &EVERYTHING
    }

    /// Whether the projection asks which element of an array the filter went through.
    pub fn uses_matched_element(&self) -> bool {
        let projection = self.projection.as_ref();
        projection.is_some_and(Projection::uses_matched_element)
    }

    /// Whether the filter takes the document.
    pub fn matches(&self, document: RawDocument<'_>) -> Result<bool> {
        if self.matcher.is_match_all() {
            return Ok(true);
        }
        let _scope = phase(Phase::Match);
        self.matcher.try_matches(document)
    }

    /// Appends what the projection makes of the document.
    pub fn project(&self, document: RawDocument<'_>, out: &mut Vec<u8>) -> Result<()> {
        let Some(projection) = &self.projection else {
            out.extend_from_slice(document.as_bytes());
            return Ok(());
        };
        let _scope = phase(Phase::Project);
        let details = if projection.uses_matched_element() {
            self.matcher.try_match_details(document)?
        } else {
            None
        };
        let start = out.len();
        projection.project(document, &details.unwrap_or_default(), out)?;
        bounds::check_document_bytes(out.len() - start)
    }
}

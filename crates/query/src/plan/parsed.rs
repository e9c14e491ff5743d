//! The filter, the order and the projection of a read, parsed once.

use std::sync::LazyLock;

use quarry_bson::RawDocument;
use quarry_timing::{Phase, phase};

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::expression::{ExpressionContext, bounds};
use crate::field_path::FieldPath;
use crate::matcher::Matcher;
use crate::metadata::{MetadataKinds, not_available};
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
    /// Documents are not returned but the keys by which they were found.
    pub returned_key: Option<ReturnedKey>,
}

/// The documents that are returned of keys.
pub struct ReturnedKey {
    /// The fields that the projection gives the key by which the documents are sorted.
    pub sort_keys: Vec<FieldPath>,
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
        let matcher = Matcher::parse_query(filter, context)?;
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
            returned_key: None,
        })
        .and_then(Parsed::checked)
    }

    /// Has the keys returned by which documents are found. MongoDB passes over everything else that the projection says.
    pub fn returning_keys(mut self) -> Parsed {
        let projection = self.projection.take();
        let sort_keys = projection.map(|projection| projection.sort_keys().to_vec());
        self.returned_key = Some(ReturnedKey {
            sort_keys: sort_keys.unwrap_or_default(),
        });
        self
    }

    /// Has documents returned with their RecordIds.
    pub fn with_record_ids(mut self) -> Result<Parsed> {
        self.projection = Some(Projection::with_record_ids(self.projection.take())?);
        Ok(self)
    }

    /// Refuses a projection that asks for metadata which the query does not have.
    fn checked(self) -> Result<Parsed> {
        let projection = self.projection.as_ref();
        let asked = projection.map_or(MetadataKinds::NONE, Projection::metadata);
        let asks_score = asked.has(MetadataKinds::TEXT_SCORE) || self.sorts_by_score();
        if asks_score && self.matcher.texts() == 0 {
            return Err(not_available("text score"));
        }
        if asked.is_empty() {
            return Ok(self);
        }
        if asked.has(MetadataKinds::SORT_KEY) && self.sort.is_none() {
            let text = "cannot use sortKey $meta projection without a sort";
            return Err(Error::bad_value(text));
        }
        if asked.has(MetadataKinds::GEO_NEAR) {
            return Err(match self.matcher.root().near() {
                None => not_available("geoNear distance"),
                Some(_) => Error::new(
                    ErrorCode::NOT_IMPLEMENTED,
                    "$meta with the distance of $near is not supported yet",
                ),
            });
        }
        Ok(self)
    }

    /// The metadata that whoever reads the documents of a plan needs.
    pub fn metadata(&self) -> MetadataKinds {
        if let Some(returned) = &self.returned_key {
            return match returned.sort_keys.is_empty() {
                true => MetadataKinds::INDEX_KEY,
                false => MetadataKinds::INDEX_KEY.with(MetadataKinds::SORT_KEY),
            };
        }
        let projection = self.projection.as_ref();
        let projected = projection.map_or(MetadataKinds::NONE, Projection::metadata);
        match self.sorts_by_score() {
            true => projected.with(MetadataKinds::TEXT_SCORE),
            false => projected,
        }
    }

    /// Whether the order is by the scores of a search for words, among others.
    pub fn sorts_by_score(&self) -> bool {
        self.sort.as_ref().is_some_and(SortPattern::is_by_score)
    }

    /// Has the documents returned without the metadata that only the sort reads.
    pub fn without_score(mut self) -> Parsed {
        self.projection = Some(Projection::without_score(self.projection.take()));
        self
    }

    /// A filter that asks nothing more, for a plan that answers its own alone.
    pub fn of_everything() -> &'static Parsed {
        static EVERYTHING: LazyLock<Parsed> = LazyLock::new(|| Parsed {
            matcher: Matcher::of_everything(),
            sort: None,
            projection: None,
            disk_use: DiskUse::Denied,
            returned_key: None,
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

    /// Like `matches`, where a plan has answered each `$text` of the filter.
    pub fn matches_beside_texts(&self, document: RawDocument<'_>) -> Result<bool> {
        let _scope = phase(Phase::Match);
        self.matcher.try_matches_beside_texts(document)
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
        let details = details.unwrap_or_default();
        match projection.metadata().is_empty() {
            true => projection.project(document, &details, out)?,
            false => projection.project_attached(document, &details, out)?,
        }
        bounds::check_document_bytes(out.len() - start)
    }
}

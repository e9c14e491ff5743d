//! Validators of collections: filters that the database asks of each document that is written, with the reason where one
//! does not match.

use quarry_bson::{Document, RawDocument};
use quarry_database::DocumentValidator;

use crate::Collation;
use crate::error::{Error, Result};
use crate::expression::ExpressionContext;
use crate::matcher::Matcher;

/// Variables whose value is another one for each command.
const VARIABLES_OF_NOW: [&[u8]; 2] = [b"$$NOW", b"$$CLUSTER_TIME"];

/// A compiled validator.
#[derive(Debug)]
pub(crate) struct Validator {
    source: Document,
    /// How it compares strings.
    collation: Collation,
    /// None where the filter reads the time, which parsing fixes: it is parsed for each document.
    matcher: Option<Matcher>,
}

impl Validator {
    pub fn parse(filter: RawDocument<'_>, collation: &Collation) -> Result<Validator> {
        let context = ExpressionContext::default().with_collation(collation.clone());
        let matcher = Matcher::parse_in(filter, &context)?;
        matcher.refuse_near()?;
        let holds = |name: &[u8]| memchr::memmem::find(filter.as_bytes(), name).is_some();
        let reads_time = VARIABLES_OF_NOW.into_iter().any(holds);
        Ok(Validator {
            source: filter.to_owned_document(),
            collation: collation.clone(),
            matcher: Some(matcher).filter(|_| !reads_time),
        })
    }

    fn context(&self) -> ExpressionContext {
        ExpressionContext::default().with_collation(self.collation.clone())
    }

    fn accepts(&self, document: RawDocument<'_>) -> Result<bool> {
        match &self.matcher {
            Some(matcher) => matcher.try_matches(document),
            None => Matcher::parse_in(self.source.as_raw(), &self.context())?.try_matches(document),
        }
    }
}

impl DocumentValidator for Validator {
    fn accepts(&self, document: RawDocument<'_>) -> quarry_database::Result<bool> {
        self.accepts(document).map_err(Error::into_database)
    }

    fn failure(&self, document: RawDocument<'_>) -> quarry_database::Result<Document> {
        let context = self.context();
        Matcher::failure(self.source.as_raw(), document, &context).map_err(Error::into_database)
    }
}

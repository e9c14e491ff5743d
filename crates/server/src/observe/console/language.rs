//! The answer to `/language.json`: the operators of filters, projections and expressions by name, which the page offers to whoever types a query.
//! They come from the tables by which the server parses queries, so that the page offers what is served and nothing else.

use quarry_bson::{Document, extjson};
use quarry_query::{expression, matcher};

/// The operator that a projection has beside those of expressions.
const OF_PROJECTIONS: &str = "$elemMatch";

/// The answer: `{ofField: [names], topLevel: [names], expression: [names], projection: [names]}`. `ofField` are operators of a filter that follow a
/// field, and `topLevel` those that stand in the place of a field.
pub fn json() -> String {
    let [of_field, top_level] = matcher::operator_names();
    let expression = expression::operator_names();
    let projection = [&[OF_PROJECTIONS][..], &expression[..]].concat();
    let answer = Document::build(|out| {
        for (name, operators) in [
            ("ofField", &of_field),
            ("topLevel", &top_level),
            ("expression", &expression),
            ("projection", &projection),
        ] {
            let mut list = out.array(name);
            for operator in operators {
                list.push(*operator);
            }
            list.finish();
        }
    });
    extjson::relaxed(answer.as_raw())
}

#[cfg(test)]
mod tests {
    use quarry_query::projection::Projection;

    use super::*;

    #[test]
    fn what_is_offered_is_served() {
        let answer = extjson::parse(&json()).unwrap();
        let has = |list: &str, name: &str| {
            let names = answer.as_raw().get_array(list).unwrap();
            names.iter().any(|known| known.as_str() == Some(name))
        };
        assert!(has("ofField", "$in") && has("ofField", "$bitsAnySet"));
        assert!(has("topLevel", "$or") && has("topLevel", "$expr"));
        assert!(has("expression", "$dateTrunc") && has("projection", "$slice"));
        // Refused, or nothing that a client sends.
        assert!(!has("topLevel", "$where") && !has("topLevel", "$_internalGeoNear"));
        assert!(has("projection", OF_PROJECTIONS));
        let projection = extjson::parse_legacy("{a: {$elemMatch: {b: 1}}}").unwrap();
        assert!(Projection::parse(projection.as_raw(), None).is_ok());
    }
}

//! `$group` and `$sort` with `$limit` against models that compare every document with every other, and whole pipelines against their
//! stages one by one.

mod random_pipeline;

use proptest::prelude::*;
use quarry_bson::compare::{compare_values, values_equal};
use quarry_bson::{Document, RawValue};

use random_pipeline::{documents, listed_documents, results_of_each, stages};

fn results(stages: &str, input: &[Document]) -> Vec<Document> {
    random_pipeline::results(&[stages.to_owned()], input, &[]).unwrap()
}

fn key_of(document: &Document) -> RawValue<'_> {
    document.get("k").unwrap_or(RawValue::Null)
}

proptest! {
    /// Whatever moves within a pipeline, becomes one or is left out early, it gives what its stages give one by one, or fails as they do.
    #[test]
    fn a_pipeline_is_its_stages_one_after_the_other(input in listed_documents(), other in documents(), stages in stages()) {
        let expected = results_of_each(&stages, &input, &other);
        let found = random_pipeline::results(&stages, &input, &other);
        match (expected, found) {
            (Ok(expected), Ok(found)) => prop_assert_eq!(found, expected),
            // A stage may not have come to the document that it would have failed for.
            (Err(_), _) => {}
            (Ok(_), Err(error)) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn groups_are_the_classes_of_equal_keys(input in documents()) {
        let stages = r#"{"$group": {"_id": "$k", "n": {"$sum": 1}, "t": {"$sum": "$v"}, "least": {"$min": "$v"}, "all": {"$push": "$v"}}}"#;
        let found = results(stages, &input);
        let firsts: Vec<&Document> = input
            .iter()
            .enumerate()
            .filter(|(at, one)| !input[..*at].iter().any(|other| values_equal(key_of(one), key_of(other))))
            .map(|(_, one)| one)
            .collect();
        prop_assert_eq!(found.len(), firsts.len());
        for (group, first) in found.iter().zip(firsts) {
            prop_assert!(values_equal(group.get("_id").unwrap(), key_of(first)));
            let members: Vec<i32> = input
                .iter()
                .filter(|one| values_equal(key_of(one), key_of(first)))
                .map(|one| one.get_i32("v").unwrap())
                .collect();
            prop_assert_eq!(group.get_i32("n"), Some(members.len() as i32));
            prop_assert_eq!(group.get_i32("t"), Some(members.iter().sum()));
            prop_assert_eq!(group.get_i32("least"), members.iter().min().copied());
            let all: Vec<i32> = group.get_array("all").unwrap().iter().map(|one| one.as_i32().unwrap()).collect();
            prop_assert_eq!(all, members);
        }
    }

    #[test]
    fn the_first_of_a_sort_are_the_first_of_the_whole_sort(input in documents(), skip in 0..5_usize, limit in 1..9_usize) {
        let stages = format!(r#"{{"$sort": {{"k": -1, "v": 1}}}}, {{"$skip": {skip}}}, {{"$limit": {limit}}}"#);
        let mut expected: Vec<&Document> = input.iter().collect();
        expected.sort_by(|a, b| {
            let by_key = compare_values(key_of(b), key_of(a));
            by_key.then(a.get_i32("v").cmp(&b.get_i32("v")))
        });
        let expected: Vec<&[u8]> = expected.into_iter().skip(skip).take(limit).map(Document::as_bytes).collect();
        let found = results(&stages, &input);
        let found: Vec<&[u8]> = found.iter().map(Document::as_bytes).collect();
        prop_assert_eq!(found, expected);
    }
}

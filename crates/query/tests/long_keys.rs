//! Index keys around and beyond the longest that an engine takes: they are cut, and nobody notices.

use proptest::prelude::*;
use quarry_bson::{Document, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::{Database, Error, Level, Namespace, Operation};
use quarry_query::exec::{self, *};
use quarry_query::sort::SortPattern;

struct Fixture {
    database: Database,
    operation: Operation,
    namespace: Namespace,
}

fn open() -> Fixture {
    Fixture {
        database: Database::open_in_memory().unwrap(),
        operation: Operation::new(None),
        namespace: Namespace::parse("db.c").unwrap(),
    }
}

impl Fixture {
    fn insert(&self, documents: &[Document]) -> InsertOutcome {
        let raw: Vec<RawDocument<'_>> = documents.iter().map(Document::as_raw).collect();
        let (database, operation) = (&self.database, &self.operation);
        let request = InsertRequest {
            is_ordered: false,
            ..InsertRequest::new(&self.namespace, &raw)
        };
        exec::insert(database.into(), operation, request, Level::Written).unwrap()
    }

    fn index(&self, spec: Document) -> Result<()> {
        let (operation, specs) = (&self.operation, [spec]);
        self.database
            .create_indexes(&self.namespace, &specs, operation, Level::Written)?;
        Ok(())
    }

    fn find(
        &self,
        filter: &Document,
        hint: Option<&Value>,
        sort: Option<&Document>,
    ) -> Vec<Document> {
        let mut request = FindRequest::new(&self.namespace);
        request.filter = filter.as_raw();
        request.hint = hint.map(Value::as_raw);
        request.sort = sort.map(Document::as_raw);
        let mut executor = exec::find((&self.database).into(), &self.operation, request).unwrap();
        let (mut found, mut out) = (Vec::new(), Vec::new());
        while executor.next(&self.operation, &mut out).unwrap() {
            found.push(Document::from_bytes(std::mem::take(&mut out)).unwrap());
        }
        found
    }

    fn update(&self, filter: &Document, update: &Document) -> UpdateOutcome {
        let request = UpdateRequest {
            array_filters: None,
            constants: None,
            sort: None,
            namespace: &self.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            update: RawValue::Document(update.as_raw()),
            is_upsert: false,
            is_multi: true,
            hint: None,
            keeps_empty_timestamps: false,
        };
        exec::update(
            (&self.database).into(),
            &self.operation,
            request,
            Level::Written,
        )
        .unwrap()
    }

    fn delete(&self, filter: &Document) -> u64 {
        let request = DeleteRequest {
            namespace: &self.namespace,
            context: None,
            collation: None,
            filter: filter.as_raw(),
            is_multi: true,
            hint: None,
        };
        exec::delete(
            (&self.database).into(),
            &self.operation,
            request,
            Level::Written,
        )
        .unwrap()
    }

    fn errors(&self) -> Vec<String> {
        let report = self
            .database
            .validate(&self.namespace, true, &self.operation);
        report.unwrap().errors
    }

    fn stage(&self, sort: &Document) -> String {
        let mut request = FindRequest::new(&self.namespace);
        request.sort = Some(sort.as_raw());
        let mut failure = Ok(());
        let shown = Document::build(|reply| {
            let explained = Explained::Find(request);
            let verbosity = Verbosity::QueryPlanner;
            failure = exec::explain(
                (&self.database).into(),
                &self.operation,
                explained,
                verbosity,
                reply,
            );
        });
        failure.unwrap();
        let stage = shown
            .as_raw()
            .get_path("queryPlanner.winningPlan.stage")
            .unwrap();
        stage.as_str().unwrap().to_owned()
    }
}

/// The type byte, the index's prefix and the end of a text take three bytes of a key, a small `_id` two: texts of 2003
/// to 2006 letters meet the cut, those of 2018 and more are cut.
const LENGTHS: [usize; 9] = [1, 2002, 2003, 2004, 2005, 2016, 2017, 2018, 3000];

fn text() -> impl Strategy<Value = String> {
    let tail = prop_oneof![Just(""), Just("a"), Just("b"), Just("ab"), Just("\0")];
    (prop::sample::select(&LENGTHS[..]), tail).prop_map(|(length, tail)| "x".repeat(length) + tail)
}

fn value() -> BoxedStrategy<Value> {
    prop_oneof![
        6 => text().prop_map(|text| Value::from(text.as_str())),
        1 => (0..3i32).prop_map(Value::from),
        1 => prop::collection::vec(text(), 0..3).prop_map(|texts| {
            Value::from(texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>())
        }),
    ]
    .boxed()
}

/// With a long `_id` even a short field makes a long key.
fn id(number: usize, is_long: bool) -> Value {
    if is_long {
        Value::from(format!("{}{number}", "i".repeat(1900)).as_str())
    } else {
        Value::from(i32::try_from(number).unwrap())
    }
}

fn condition() -> BoxedStrategy<Document> {
    let path = prop::sample::select(&["a", "b"][..]);
    let operator = prop::sample::select(&["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne"][..]);
    let compared = (path, operator, prop::collection::vec(text(), 1..4)).prop_map(
        |(path, operator, texts)| {
            let operand = if operator == "$in" {
                Value::from(
                    texts
                        .iter()
                        .map(|text| Value::from(text.as_str()))
                        .collect::<Vec<_>>(),
                )
            } else {
                Value::from(texts[0].as_str())
            };
            let mut condition = Document::new();
            condition.append(operator, operand);
            let mut filter = Document::new();
            filter.append(path, condition);
            filter
        },
    );
    let begins = text().prop_map(|text| {
        let pattern = format!("^{}", text.replace('\0', ""));
        doc! { "a": { "$regex": (pattern.as_str()) } }
    });
    prop_oneof![4 => compared, 1 => begins].boxed()
}

fn filter() -> BoxedStrategy<Document> {
    let both = (condition(), condition()).prop_map(|(a, b)| doc! { "$and": [a, b] });
    prop_oneof![2 => condition(), 1 => both].boxed()
}

fn ids(documents: &[Document]) -> Vec<String> {
    let texts = documents
        .iter()
        .map(|document| document.get("_id").unwrap().to_string());
    let mut ids: Vec<String> = texts.collect();
    ids.sort();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn an_index_of_long_keys_finds_what_a_scan_finds(
        documents in prop::collection::vec((value(), value(), any::<bool>()), 1..16),
        filters in prop::collection::vec(filter(), 4..9),
        changed in (filter(), value(), filter()),
        is_built in any::<bool>(),
    ) {
        let documents: Vec<Document> = documents.into_iter().enumerate().map(|(number, (a, b, is_long))| {
            let mut document = Document::new();
            document.append("_id", id(number, is_long));
            document.append("a", a);
            // Two arrays side by side cannot be indexed.
            if document.get("a").unwrap().as_array().is_none() || b.as_raw().as_array().is_none() {
                document.append("b", b);
            }
            document
        }).collect();
        let fixture = open();
        let patterns = [doc! { "a": 1 }, doc! { "a": (-1) }, doc! { "a": (-1), "b": 1 }, doc! { "b": 1, "a": (-1) }];
        if is_built {
            prop_assert!(fixture.insert(&documents).errors.is_empty());
        }
        for pattern in &patterns {
            fixture.index(doc! { "key": (pattern.as_raw()) }).unwrap();
        }
        if !is_built {
            prop_assert!(fixture.insert(&documents).errors.is_empty());
        }
        let check = || -> std::result::Result<(), TestCaseError> {
            prop_assert_eq!(fixture.errors(), Vec::<String>::new());
            let natural = Value::from(doc! { "$natural": 1 });
            for filter in &filters {
                let wanted = ids(&fixture.find(filter, Some(&natural), None));
                prop_assert_eq!(&ids(&fixture.find(filter, None, None)), &wanted, "{}", filter);
                for pattern in &patterns {
                    let hint = Value::from(pattern.clone());
                    let found = fixture.find(filter, Some(&hint), None);
                    prop_assert_eq!(&ids(&found), &wanted, "{} by {}", filter, pattern);
                }
                for sort in [doc! { "a": 1 }, doc! { "a": (-1) }, doc! { "b": (-1) }] {
                    let found = fixture.find(filter, None, Some(&sort));
                    prop_assert_eq!(&ids(&found), &wanted, "{} sorted by {}", filter, sort);
                    let order = SortPattern::parse(sort.as_raw()).unwrap();
                    for pair in found.windows(2) {
                        prop_assert!(order.compare(pair[0].as_raw(), pair[1].as_raw()).unwrap().is_le(), "{} by {}", filter, sort);
                    }
                }
            }
            Ok(())
        };
        check()?;
        let (changes, new, deletes) = &changed;
        if new.as_raw().as_array().is_none() {
            fixture.update(changes, &doc! { "$set": { "a": (new.as_raw()) } });
            check()?;
        }
        fixture.delete(deletes);
        check()?;
    }
}

#[test]
fn a_test_of_keys_goes_on_among_cut_keys_which_are_in_no_order() {
    let fixture = open();
    fixture
        .index(doc! { "key": { "b": 1, "a": (-1) } })
        .unwrap();
    let long = |letters: usize, tail: i32| format!("{}{tail:02}", "x".repeat(letters));
    let documents: Vec<Document> = (0..20)
        .map(|n| doc! { "_id": n, "a": [(long(3000, n).as_str()), (long(2200, n).as_str())], "b": "b" })
        .collect();
    assert!(fixture.insert(&documents).errors.is_empty());
    let pattern = format!("^{}", "x".repeat(3000));
    let filter = doc! { "a": { "$regex": (pattern.as_str()) }, "b": { "$lt": "c" } };
    let hint = Value::from(doc! { "b": 1, "a": (-1) });
    assert_eq!(fixture.find(&filter, Some(&hint), None).len(), 20);
}

#[test]
fn a_unique_index_tells_long_keys_apart_behind_the_cut() {
    for is_built in [false, true] {
        let fixture = open();
        let long = "u".repeat(4000);
        let with =
            |id: i32, tail: &str| doc! { "_id": id, "u": (format!("{long}{tail}").as_str()) };
        let unique = doc! { "key": { "u": 1 }, "unique": true };
        if !is_built {
            fixture.index(unique.clone()).unwrap();
        }
        let made = fixture.insert(&[with(1, "a"), with(2, "b"), with(3, "")]);
        assert!(made.errors.is_empty(), "{:?}", made.errors);
        if is_built {
            fixture.index(unique.clone()).unwrap();
        }
        let refused = fixture.insert(&[with(4, "b"), with(5, "c")]);
        assert_eq!(refused.inserted, 1);
        let (0, refusal) = &refused.errors[0] else {
            panic!("{:?}", refused.errors);
        };
        let Some(Error::DuplicateKey(duplicate)) = refusal.cause() else {
            panic!("{refusal:?}");
        };
        assert_eq!(
            duplicate.key_value,
            doc! { "u": (format!("{long}b").as_str()) }
        );
        let found = fixture.find(&doc! { "u": (format!("{long}b").as_str()) }, None, None);
        assert_eq!(ids(&found), ["2"]);
        // The key is free for another one when its owner leaves it.
        fixture.update(&doc! { "_id": 2 }, &doc! { "$set": { "u": 1 } });
        assert!(fixture.insert(&[with(6, "b")]).errors.is_empty());
        assert_eq!(fixture.delete(&doc! { "_id": 6 }), 1);
        assert_eq!(fixture.errors(), Vec::<String>::new());
        let name = RawValue::from("u_1");
        let (database, operation) = (&fixture.database, &fixture.operation);
        let before = database.drop_indexes(&fixture.namespace, &[name], operation, Level::Written);
        assert_eq!(before.unwrap(), 2);
        assert!(fixture.insert(&[with(7, "a")]).errors.is_empty());
        assert_eq!(
            fixture.index(unique).unwrap_err().code(),
            11_000,
            "1 and 7 have one key"
        );
        assert_eq!(fixture.errors(), Vec::<String>::new());
    }
}

#[test]
fn an_index_gives_an_order_until_it_has_a_cut_key() {
    let fixture = open();
    fixture.index(doc! { "key": { "a": 1 } }).unwrap();
    fixture.insert(&[doc! { "_id": 1, "a": ("y".repeat(2000).as_str()) }]);
    let sort = doc! { "a": 1 };
    assert_eq!(fixture.stage(&sort), "FETCH");
    let long = |id: i32, tail: i32| doc! { "_id": id, "a": (format!("{}{tail:04}", "y".repeat(3000)).as_str()) };
    let many: Vec<Document> = (0..100).map(|n| long(n + 2, n * 37 % 100)).collect();
    assert!(fixture.insert(&many).errors.is_empty());
    assert_eq!(fixture.stage(&sort), "SORT");
    let tails: Vec<String> = fixture
        .find(&doc! {}, None, Some(&sort))
        .iter()
        .map(|document| {
            let text = document.get_str("a").unwrap();
            text[text.len() - 4..].to_owned()
        })
        .collect();
    let wanted: Vec<String> = (0..100).map(|n| format!("{n:04}")).collect();
    assert_eq!(tails[1..], wanted);
}

#[test]
fn a_document_whose_id_is_too_long_is_refused_by_name() {
    let fixture = open();
    let long = "i".repeat(2100);
    let refused = fixture.insert(&[doc! { "_id": (long.as_str()) }, doc! { "_id": 1 }]);
    assert_eq!(refused.inserted, 1);
    assert_eq!(refused.errors[0].1.code(), 17_280);
    let by_id = doc! { "_id": (long.as_str()) };
    let set = doc! { "$set": { "a": 1 } };
    assert!(fixture.find(&by_id, None, None).is_empty());
    assert_eq!(fixture.update(&by_id, &set).matched, 0);
    assert_eq!(fixture.delete(&by_id), 0);
    let capped = Namespace::parse("db.capped").unwrap();
    let options = doc! { "capped": true, "size": 100_000 };
    let (database, operation) = (&fixture.database, &fixture.operation);
    database
        .create_collection(&capped, options.as_raw(), operation, Level::Written)
        .unwrap();
    let raw = [doc! { "_id": (long.as_str()) }];
    let raw = [raw[0].as_raw()];
    let request = InsertRequest::new(&capped, &raw);
    let refused = exec::insert(database.into(), operation, request, Level::Written).unwrap();
    assert_eq!(refused.errors[0].1.code(), 17_280);
}

#[test]
fn entries_beyond_all_bounds_are_refused_and_leave_the_server_as_it_was() {
    let fixture = open();
    fixture.index(doc! { "key": { "t": 1, "a": 1 } }).unwrap();
    // Ten thousand elements, each with the whole of a megabyte in its key.
    let tags: Vec<Value> = (0..10_000i32).map(Value::from).collect();
    let mut document = doc! { "_id": 1, "a": ("y".repeat(1024 * 1024).as_str()) };
    document.append("t", Value::from(tags));
    let refused = fixture.insert(&[document, doc! { "_id": 2, "t": [1, 2], "a": 3 }]);
    assert_eq!((refused.inserted, refused.errors.len()), (1, 1));
    assert_eq!(refused.errors[0].1.code(), 17_280);
    assert_eq!(fixture.errors(), Vec::<String>::new());
    let shown = extjson::relaxed(fixture.find(&doc! {}, None, None)[0].as_raw());
    assert_eq!(shown, r#"{"_id":2,"t":[1,2],"a":3}"#);
}

#[test]
fn what_is_stored_can_be_changed_and_deleted_whatever_its_entries() {
    let fixture = open();
    let tags = |count: i32| Value::from((0..count).map(Value::from).collect::<Vec<_>>());
    let mut large = doc! { "_id": 1, "b": ("y".repeat(1900).as_str()) };
    large.append("t", tags(25_000));
    assert_eq!(fixture.insert(&[large]).inserted, 1);
    fixture.index(doc! { "key": { "t": 1, "b": 1 } }).unwrap();
    // With those of this one they would be more than a document may have.
    let refused = fixture.index(doc! { "key": { "b": 1, "t": 1 } });
    assert_eq!(refused.unwrap_err().code(), 17_280);
    fixture.index(doc! { "key": { "b": 1 } }).unwrap();
    let changed = fixture.update(&doc! { "_id": 1 }, &doc! { "$set": { "b": 1 } });
    assert_eq!((changed.matched, changed.modified), (1, 1));
    assert_eq!(fixture.delete(&doc! { "_id": 1 }), 1);
    // Many whose entries fill several pieces.
    for id in 0..24 {
        let mut document = doc! { "_id": id, "b": ("z".repeat(1900).as_str()) };
        document.append("t", tags(1000));
        assert_eq!(fixture.insert(&[document]).inserted, 1);
    }
    let changed = fixture.update(&doc! {}, &doc! { "$set": { "b": 2 } });
    assert_eq!((changed.matched, changed.modified), (24, 24));
    assert_eq!(fixture.find(&doc! { "b": 2, "t": 7 }, None, None).len(), 24);
    assert_eq!(fixture.delete(&doc! {}), 24);
    assert_eq!(fixture.errors(), Vec::<String>::new());
}

#[test]
fn a_capped_collection_lets_go_what_has_many_entries() {
    let fixture = open();
    let options = doc! { "capped": true, "size": 300_000 };
    let (database, operation, namespace) =
        (&fixture.database, &fixture.operation, &fixture.namespace);
    database
        .create_collection(namespace, options.as_raw(), operation, Level::Written)
        .unwrap();
    fixture.index(doc! { "key": { "t": 1, "b": 1 } }).unwrap();
    for id in 0..20 {
        let tags: Vec<Value> = (0..500i32).map(Value::from).collect();
        let mut document = doc! { "_id": id, "b": ("z".repeat(1900).as_str()) };
        document.append("t", Value::from(tags));
        assert_eq!(fixture.insert(&[document]).inserted, 1);
    }
    let lsn = || database.journal().last_lsn();
    let before = lsn();
    let large = doc! { "_id": 100, "c": ("c".repeat(295_000).as_str()) };
    assert_eq!(fixture.insert(&[large]).inserted, 1);
    assert_eq!(ids(&fixture.find(&doc! {}, None, None)), ["100"]);
    // A megabyte of entries each, five in a record.
    assert!(lsn() - before >= 4, "they went in too few records");
    assert_eq!(fixture.errors(), Vec::<String>::new());
}

#[test]
fn a_capped_collection_keeps_long_keys_and_lets_them_go() {
    let fixture = open();
    let options = doc! { "capped": true, "size": 1_000_000, "max": 3 };
    let (database, operation, namespace) =
        (&fixture.database, &fixture.operation, &fixture.namespace);
    database
        .create_collection(namespace, options.as_raw(), operation, Level::Written)
        .unwrap();
    fixture.index(doc! { "key": { "a": 1 } }).unwrap();
    let unique = doc! { "key": { "a": (-1) }, "unique": true };
    fixture.index(unique).unwrap();
    let long = |n: i32| format!("{}{n}", "c".repeat(2500));
    for n in 0..10 {
        let document = doc! { "_id": n, "a": (long(n).as_str()) };
        assert!(fixture.insert(&[document]).errors.is_empty());
    }
    assert_eq!(fixture.errors(), Vec::<String>::new());
    let found = fixture.find(&doc! { "a": (long(8).as_str()) }, None, None);
    assert_eq!(ids(&found), ["8"]);
    assert!(
        fixture
            .find(&doc! { "a": (long(2).as_str()) }, None, None)
            .is_empty()
    );
}

//! The kinds of work, each made of what a table names.

use quarry_bson::{Document, RawArray, RawDocument, RawValue, Value, doc, extjson};
use quarry_database::{Level, Operation};
use quarry_query::exec::{self, *};
use quarry_query::expression::ExpressionContext;
use quarry_query::matcher::MatchDetails;
use quarry_query::update::Update;

use crate::fixture::{Fixture, namespace};

/// A search for words.
pub fn searching(search: &str) -> Document {
    doc! { "$text": { "$search": search } }
}

/// An insert into a collection with an index.
pub fn inserting(collection: &'static str, document: Document) -> Work {
    Box::new(move |fixture, operation| {
        let (namespace, documents) = (namespace(collection), [document.as_raw()]);
        let request = InsertRequest::new(&namespace, &documents);
        let scope = (&fixture.database).into();
        let outcome = exec::insert(scope, operation, request, Level::Written)?;
        // An ending is the operation's error and not that of a document, behind which an unordered insert would go on.
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        Ok(())
    })
}

pub type Outcome = Result<()>;

/// Runs work of one kind to its end.
pub type Work = Box<dyn Fn(&Fixture, &Operation) -> Outcome>;

pub fn drain(mut executor: Executor, operation: &Operation) -> Outcome {
    let mut document = Vec::new();
    while executor.next(operation, &mut document)? {
        document.clear();
    }
    Ok(())
}

/// Text in the shell's notation.
pub fn value_of(text: &str) -> Value {
    let read = extjson::parse_legacy(&format!("{{v: {text}}}"));
    let read = read.unwrap_or_else(|error| panic!("{text}: {error}"));
    Value::from(read.get("v").unwrap())
}

pub fn aggregate(collection: &'static str, pipeline: Value) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        let pipeline: RawArray<'_> = pipeline.as_array().unwrap();
        let request = AggregateRequest::new(Over::Collection(&namespace), pipeline);
        drain(
            exec::aggregate((&fixture.database).into(), operation, request)?,
            operation,
        )
    })
}

/// Work that is done again and again.
pub fn again(work: Work) -> Work {
    Box::new(move |fixture, operation| {
        loop {
            work(fixture, operation)?;
        }
    })
}

/// A pipeline that computes one field over and over.
pub fn computing(collection: &'static str, expression: &str) -> Work {
    let stages = format!(
        "[{{$project: {{x: {{$map: {{input: {{$range: [0, 100000]}}, in: {{$size: [{expression}]}}}}}}}}}}]"
    );
    aggregate(
        collection,
        value_of(&stages.replace("$size: [", "$isArray: [")),
    )
}

pub fn stages(collection: &'static str, text: &str) -> Work {
    aggregate(collection, value_of(text))
}

pub fn find(collection: &'static str, filter: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        loop {
            let mut request = FindRequest::new(&namespace);
            request.filter = filter.as_raw();
            drain(
                exec::find((&fixture.database).into(), operation, request)?,
                operation,
            )?;
        }
    })
}

pub fn find_shown(collection: &'static str, projection: Document, sort: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        let mut request = FindRequest::new(&namespace);
        request.projection = Some(projection.as_raw());
        request.sort = Some(sort.as_raw());
        drain(
            exec::find((&fixture.database).into(), operation, request)?,
            operation,
        )
    })
}

pub fn update(collection: &'static str, update: Document) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        // The documents stay as they are: what fails or ends writes nothing, and nothing here succeeds.
        loop {
            let request = UpdateRequest {
                array_filters: None,
                constants: None,
                sort: None,
                namespace: &namespace,
                context: None,
                collation: None,
                filter: RawDocument::EMPTY,
                update: RawValue::Document(update.as_raw()),
                is_upsert: false,
                is_multi: true,
                hint: None,
                keeps_empty_timestamps: false,
            };
            exec::update(
                (&fixture.database).into(),
                operation,
                request,
                Level::Written,
            )?;
        }
    })
}

/// The paths of what an update that sets these fields has changed in the document. Applying it is another work.
pub fn describe(fields: Document, old: Document) -> Work {
    let mut set = Document::new();
    set.append("$set", fields);
    let update = Update::parse(RawValue::Document(set.as_raw())).unwrap();
    let mut new = Vec::new();
    let applied = update.apply(old.as_raw(), &MatchDetails::default(), false, 0, &mut new);
    assert!(applied.unwrap().modified);
    Box::new(move |_, _| {
        loop {
            let new = RawDocument::new(&new).unwrap();
            update.describe(old.as_raw(), new, &mut |_| ())?;
        }
    })
}

/// The variables of a command, bound before anything is read.
pub fn bind(variables: Document) -> Work {
    Box::new(move |_, _| {
        let mut context = quarry_query::expression::ExpressionContext::default();
        context.bind_let(variables.as_raw())
    })
}

/// Variables that multiply one another, and then the largest of them named by each of many.
pub fn multiplying() -> Document {
    let hundred = |name: &str| Value::from(vec![Value::from(name); 100]);
    let mut variables = doc! {
        "a": ("x".repeat(1000)), "b": (hundred("$$a")), "c": (hundred("$$b")),
    };
    for n in 0..900 {
        let size = doc! { "$size": { "$concatArrays": ["$$c", "$$c"] } };
        variables.append(format!("v{n}").as_str(), size);
    }
    variables
}

pub fn distinct(collection: &'static str, key: &'static str) -> Work {
    Box::new(move |fixture, operation| {
        let namespace = namespace(collection);
        loop {
            let request = DistinctRequest::new(&namespace, key);
            exec::distinct((&fixture.database).into(), operation, request)?;
        }
    })
}

pub fn count(collection: &'static str, filter: Document) -> Work {
    Box::new(move |fixture, operation| {
        loop {
            let namespace = namespace(collection);
            let mut request = CountRequest::new(&namespace);
            request.filter = filter.as_raw();
            exec::count((&fixture.database).into(), operation, request)?;
        }
    })
}

/// Counts, and sorts, texts that are compared by the rules of a language.
pub fn collated(filter: Document, sort: Document) -> Work {
    let specification = doc! { "locale": "de", "strength": 2 };
    let collation = quarry_query::Collation::parse(specification.as_raw()).unwrap();
    let context = ExpressionContext::default().with_collation(collation);
    Box::new(move |fixture, operation| {
        loop {
            let namespace = namespace("words");
            let mut request = FindRequest::new(&namespace);
            (request.filter, request.context) = (filter.as_raw(), Some(&context));
            request.sort = Some(sort.as_raw()).filter(|sort| !sort.is_empty());
            drain(
                exec::find((&fixture.database).into(), operation, request)?,
                operation,
            )?;
        }
    })
}

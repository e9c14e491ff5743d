//! Every kind of work, a row each.

use quarry_bson::{Document, Value, doc};

use crate::fixture::*;
use crate::works::*;

/// Every kind of work, with what it would do if it were left alone.
pub fn table() -> Vec<(&'static str, Work)> {
    let sorts = ["{$sort: {a: -1}}, {$sort: {a: 1}}"; 10].join(", ");
    let copies = ["{$addFields: {y: 1}}"; 100].join(", ");
    vec![
        // Expressions.
        (
            "$in over an array",
            computing("arrays", "{$in: [-1, '$a']}"),
        ),
        (
            "$indexOfArray",
            computing("arrays", "{$indexOfArray: ['$a', -1]}"),
        ),
        (
            "$reverseArray",
            computing("arrays", "{$reverseArray: '$a'}"),
        ),
        ("$slice", computing("arrays", "{$slice: ['$a', 100000]}")),
        (
            "$concatArrays",
            computing("arrays", "{$concatArrays: ['$a', '$a']}"),
        ),
        (
            "keys of a wildcard index",
            inserting("indexed", doc! { "d": (many_fields(ELEMENTS)) }),
        ),
        (
            "the terms of a text index",
            inserting("searched", doc! { "t": (many_words(12_000_000)) }),
        ),
        (
            "one word of many megabytes",
            inserting("searched", doc! { "t": ("yä".repeat(5_000_000)) }),
        ),
        (
            "a search string of many megabytes",
            find("searched", searching(&many_words(12_000_000))),
        ),
        (
            "a phrase of many megabytes",
            find(
                "searched",
                searching(&format!("last \"{}\"", "yä".repeat(4_000_000))),
            ),
        ),
        (
            "a phrase that long texts do not have",
            find("searched", searching("last \"cafés häuser x\"")),
        ),
        (
            "terms that shall not be there",
            count("searched", searching("last -nowhere")),
        ),
        (
            "the sort keys of arrays",
            aggregate(
                "arrays",
                value_of("[{$sort: {a: 1}}, {$project: {k: {$meta: 'sortKey'}}}]"),
            ),
        ),
        ("a path through an array", computing("arrays", "'$p.v'")),
        ("$sum of an array", computing("arrays", "{$sum: '$a'}")),
        ("$max of an array", computing("arrays", "{$max: '$a'}")),
        (
            "$stdDevPop of an array",
            computing("arrays", "{$stdDevPop: '$a'}"),
        ),
        (
            "$eq of two arrays",
            computing("arrays", "{$eq: ['$p', '$p']}"),
        ),
        (
            "$arrayToObject",
            computing("arrays", "{$arrayToObject: [[['a', '$p'], ['b', '$p']]]}"),
        ),
        (
            "$mergeObjects",
            computing("arrays", "{$mergeObjects: '$p'}"),
        ),
        (
            "$sortArray",
            computing("arrays", "{$sortArray: {input: '$a', sortBy: -1}}"),
        ),
        ("$maxN", computing("arrays", "{$maxN: {input: '$a', n: 3}}")),
        (
            "$percentile of an array",
            computing(
                "arrays",
                "{$percentile: {input: '$a', p: [0.5], method: 'approximate'}}",
            ),
        ),
        (
            "$setUnion",
            computing("arrays", "{$setUnion: ['$a', '$a']}"),
        ),
        (
            "$setIsSubset",
            computing("arrays", "{$setIsSubset: ['$a', '$a']}"),
        ),
        (
            "$zip",
            computing("arrays", "{$zip: {inputs: ['$a', '$a']}}"),
        ),
        (
            "$setField",
            computing(
                "arrays",
                "{$setField: {field: 'x', input: {$mergeObjects: ['$$ROOT']}, value: 1}}",
            ),
        ),
        (
            "$replaceAll",
            computing(
                "texts",
                "{$replaceAll: {input: '$t', find: 'a', replacement: 'b'}}",
            ),
        ),
        (
            "$trim",
            computing("texts", "{$trim: {input: '$t', chars: 'ab'}}"),
        ),
        (
            "$trim of many characters",
            computing("one", &trim_of_many()),
        ),
        (
            "$indexOfCP",
            computing("texts", "{$indexOfCP: ['$t', 'never']}"),
        ),
        (
            "$dateToString",
            computing(
                "one",
                "{$dateToString: {date: {$date: 1e12}, format: '%Y-%m-%d', timezone: 'Europe/Paris'}}",
            ),
        ),
        ("$split", computing("texts", "{$split: ['$t', 'aa']}")),
        ("$toUpper", computing("texts", "{$toUpper: '$t'}")),
        ("$strLenCP", computing("texts", "{$strLenCP: '$t'}")),
        ("$concat", computing("texts", "{$concat: ['$t', '$t']}")),
        (
            "$filter",
            computing("arrays", "{$filter: {input: '$a', cond: false}}"),
        ),
        (
            "$reduce",
            computing(
                "arrays",
                "{$reduce: {input: '$a', initialValue: 0, in: {$add: ['$$value', 1]}}}",
            ),
        ),
        ("$range", computing("one", "{$range: [0, 200000]}")),
        (
            "$objectToArray",
            computing("arrays", "{$objectToArray: {a: '$a', b: '$p'}}"),
        ),
        (
            "powers of Decimal128",
            stages(
                "one",
                "[{$project: {x: {$map: {input: {$range: [1, 1000000]}, in: {$pow: [{$toDecimal: '$$this'}, {$toDecimal: '0.123456789'}]}}}}}]",
            ),
        ),
        // Stages.
        (
            "a large document through many stages",
            stages(
                "one",
                &format!("[{{$project: {{r: {{$range: [0, 1000000]}}}}}}, {copies}, {copies}]"),
            ),
        ),
        (
            "many sorts",
            stages(
                "arrays",
                &format!("[{{$unwind: '$a'}}, {{$project: {{a: 1}}}}, {sorts}]"),
            ),
        ),
        (
            "$densify",
            stages(
                "one",
                "[{$densify: {field: 'x', range: {step: 1, bounds: [0, 500000]}}}, {$match: {x: -1}}]",
            ),
        ),
        (
            "$percentile of many percentiles",
            stages(
                "arrays",
                &format!(
                    "[{{$unwind: '$a'}}, {{$group: {{_id: null, p: {{$percentile: {{input: '$a', p: [{}], method: 'approximate'}}}}}}}}]",
                    vec!["0.5"; 100_000].join(", ")
                ),
            ),
        ),
        (
            "$group by many keys",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$group: {_id: {a: '$a', b: '$_id'}, n: {$sum: 1}}}, {$skip: 10000000}]",
            ),
        ),
        (
            "$group with very many accumulators",
            again(stages("one", &group_of_firsts(300_000))),
        ),
        (
            "$addFields with very many deep fields",
            again(stages("one", &deep_fields(50_000))),
        ),
        (
            "$group with lists",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$group: {_id: 1, all: {$push: '$a'}, set: {$addToSet: '$a'}}}]",
            ),
        ),
        (
            "$unwind and $count",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$count: 'n'}]",
            ),
        ),
        (
            "$unwind and $sample",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$sample: {size: 3}}]",
            ),
        ),
        (
            "$unwind and $match",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$match: {a: -1}}]",
            ),
        ),
        (
            "$unwind and $skip",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$unwind: '$p'}, {$skip: 1000000000}]",
            ),
        ),
        (
            "$lookup of an array's values",
            stages(
                "arrays",
                "[{$lookup: {from: 'one', localField: 'a', foreignField: 'x', as: 'found'}}]",
            ),
        ),
        (
            "$lookup in a large array",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'arrays', localField: 'y', foreignField: 'a', as: 'found'}}]",
            ),
        ),
        (
            "$lookup with a pipeline",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'one', let: {a: '$a'}, pipeline: [{$match: {$expr: {$eq: ['$y', '$$a']}}}], as: 'found'}}, {$match: {a: -1}}]",
            ),
        ),
        (
            "$lookup within $lookup",
            stages(
                "arrays",
                "[{$unwind: '$a'}, {$lookup: {from: 'arrays', pipeline: [{$unwind: '$a'}, {$lookup: {from: 'one', let: {a: '$a'}, pipeline: [], as: 'y'}}, {$match: {a: -1}}], as: 'found'}}]",
            ),
        ),
        (
            "$unionWith",
            stages(
                "one",
                "[{$unionWith: {coll: 'arrays', pipeline: [{$unwind: '$a'}, {$unwind: '$p'}, {$match: {a: -1}}]}}]",
            ),
        ),
        (
            "$facet",
            stages(
                "arrays",
                "[{$project: {a: 1}}, {$facet: {x: [{$unwind: '$a'}, {$match: {a: -1}}], y: [{$unwind: '$a'}, {$unwind: '$a'}, {$addFields: {b: '$a'}}, {$group: {_id: '$b'}}]}}]",
            ),
        ),
        (
            "$graphLookup",
            stages(
                "arrays",
                "[{$graphLookup: {from: 'arrays', startWith: '$a', connectFromField: 'p.v', connectToField: 'a', as: 'found'}}]",
            ),
        ),
        ("let", bind(multiplying())),
        // Filters.
        (
            "a filter over an array",
            count("arrays", doc! { "a": (-1) }),
        ),
        (
            "a path through an array in a filter",
            count("arrays", doc! { "p.v": (-1) }),
        ),
        (
            "$elemMatch",
            count(
                "arrays",
                doc! { "p": { "$elemMatch": { "k": 1, "v": (-1) } } },
            ),
        ),
        (
            "large documents in an array",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("d.y{n}")): 1 }),
                    1_000,
                ),
            ),
        ),
        (
            "$elemMatch of large documents",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| {
                        let inner = doc! { (format!("y{n}")): 1 };
                        Value::from(doc! { "d": { "$elemMatch": inner } })
                    },
                    1_000,
                ),
            ),
        ),
        (
            "a large document at a place in an array",
            count(
                "wide",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("d.0.y{n}")): 1 }),
                    1_000,
                ),
            ),
        ),
        (
            "texts compared by a collation",
            collated(doc! { "t": { "$gt": ("a word ".repeat(2_100)) } }, doc! {}),
        ),
        (
            "texts sorted by a collation",
            collated(doc! {}, doc! { "t": 1 }),
        ),
        ("$size", count("arrays", doc! { "a": { "$size": 3 } })),
        (
            "a list in a filter over an array",
            count("arrays", repeated_in("a", 1000)),
        ),
        (
            "$expr",
            count("arrays", doc! { "$expr": { "$in": [(-1), "$a"] } }),
        ),
        ("a polygon of many corners", find("one", area(30_000))),
        (
            "many points and many points",
            count("places", meeting("points", many_points(60.0))),
        ),
        (
            "many points and many polygons",
            count("places", meeting("points", many_polygons())),
        ),
        (
            "many polygons and many points",
            count("places", meeting("areas", many_points(60.0))),
        ),
        (
            "a large $in of _ids",
            find("arrays", repeated_in("_id", 200_000)),
        ),
        (
            "a large $or",
            find(
                "one",
                repeated("$or", |n| Value::from(doc! { "x": (n + 2) }), 100_000),
            ),
        ),
        (
            "a large $and of names",
            find(
                "one",
                repeated(
                    "$or",
                    |n| Value::from(doc! { (format!("x{n}")): 1 }),
                    100_000,
                ),
            ),
        ),
        (
            "$all",
            count("arrays", {
                let members: Value = (0..ELEMENTS).rev().map(Value::from).collect();
                doc! { "a": { "$all": members } }
            }),
        ),
        // Texts that regular expressions try again and again.
        (
            "a regular expression",
            count("texts", doc! { "t": { "$regex": "a.*[bc]" } }),
        ),
        (
            "backtracking",
            count("texts", doc! { "t": { "$regex": "(a+)+[bc]" } }),
        ),
        (
            "a backreference",
            count("texts", doc! { "t": { "$regex": "(a*)(a*)\\1\\2[bc]" } }),
        ),
        (
            "a lazy expression",
            count("texts", doc! { "t": { "$regex": "a.*?a.*?[bc]" } }),
        ),
        (
            "a class",
            count("texts", doc! { "t": { "$regex": "[ab]+c" } }),
        ),
        (
            "many regular expressions",
            find(
                "one",
                doc! { "y": { "$in": ((0..20_000).map(|n| regex(&format!("^a{n}(b|c)+d"))).collect::<Value>()) } },
            ),
        ),
        // The other commands.
        ("distinct", distinct("arrays", "a")),
        ("distinct through a path", distinct("arrays", "p.v")),
        (
            "a sort by an array's least element",
            find_shown("arrays", doc! {}, doc! { "p.v": 1, "p.k": (-1) }),
        ),
        (
            "a computed projection",
            find_shown(
                "arrays",
                doc! { "x": { "$filter": { "input": "$a", "cond": { "$gt": ["$$this", (-1)] } } } },
                doc! { "a": 1 },
            ),
        ),
        (
            "a projection through an array",
            find_shown("arrays", doc! { "p.k": 1 }, doc! { "p.v": 1 }),
        ),
        (
            "an update of many fields",
            update("one", doc! { "$unset": (many_fields(100_000)) }),
        ),
        (
            "an update that pulls",
            update("arrays", doc! { "$pull": { "a": (-1) } }),
        ),
        (
            "an update that adds to a set",
            update("arrays", doc! { "$addToSet": { "a": { "$each": [1, 2] } } }),
        ),
        (
            "an update that sorts",
            update(
                "arrays",
                doc! { "$push": { "p": { "$each": [], "$sort": { "v": 1 } } } },
            ),
        ),
        (
            "the description of an update of many fields",
            describe(many_fields(100_000), doc! { "x": 1 }),
        ),
        (
            "the description of an update of many elements",
            describe(
                Document::build(|fields| {
                    for n in 0..20_000 {
                        fields.append(format!("a.{n}"), -1);
                    }
                }),
                repeated("a", Value::from, 20_000),
            ),
        ),
        (
            "an update of every element",
            update("arrays", doc! { "$max": { "p.$[].v": (-1) } }),
        ),
    ]
}

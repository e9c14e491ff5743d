//! `collStats`: the size of a collection and of its indexes.

use quarry_bson::{DateTime, Document, DocumentBuilder, RawValue, doc};
use quarry_database::{CollStats, Namespace};
use quarry_query::ErrorCode;
use quarry_query::pipeline::Specification;
use quarry_timing::Durations;

use super::stage_surroundings::Surroundings;
use crate::dispatch::command::{Command, Invocation};
use crate::dispatch::error::{CommandError, Result};
use crate::dispatch::fields::{Fields, any};
use crate::dispatch::privilege::{Action, On, Requires, need};

pub static COMMAND: Command = Command {
    aliases: &["collstats"],
    fields: Fields::named(&[any("scale")]),
    ..Command::new(
        "collStats",
        "shows the size of a collection",
        Requires::Each(&[need(Action::CollStats, On::Collection)]),
        run,
    )
};

fn run(invocation: &mut Invocation<'_>, reply: &mut DocumentBuilder<'_>) -> Result<()> {
    let namespace = invocation.namespace()?;
    let scale = scale(invocation.get("scale"))?;
    let stats = match super::own_views::is_log(invocation, namespace.collection()) {
        true => Some(super::own_views::stats(invocation)),
        false => invocation.server.catalog().coll_stats(&namespace)?,
    };
    reply.append("ns", namespace.as_str());
    append(stats.as_ref(), scale, reply);
    Ok(())
}

/// Writes the figures of a collection, or zeros for one that is not there; `$collStats` shares it.
pub fn append(stats: Option<&CollStats>, scale: u64, reply: &mut DocumentBuilder<'_>) {
    let scaled = |bytes: u64| i64::try_from(bytes / scale).unwrap_or(i64::MAX);
    let Some(stats) = stats else {
        for name in [
            "size",
            "count",
            "storageSize",
            "totalSize",
            "nindexes",
            "totalIndexSize",
        ] {
            reply.append(name, 0);
        }
        reply.document("indexSizes").finish();
        reply.append("scaleFactor", i64::try_from(scale).unwrap_or(i64::MAX));
        return;
    };
    reply.append("size", scaled(stats.data_bytes));
    reply.append("count", i64::try_from(stats.documents).unwrap_or(i64::MAX));
    if let Some(average) = stats.data_bytes.checked_div(stats.documents) {
        reply.append("avgObjSize", i64::try_from(average).unwrap_or(i64::MAX));
    }
    reply.append("storageSize", scaled(stats.storage_bytes));
    let index_bytes: u64 = stats.indexes.iter().map(|index| index.bytes).sum();
    reply.append("totalIndexSize", scaled(index_bytes));
    reply.append("totalSize", scaled(stats.storage_bytes + index_bytes));
    reply.append("capped", stats.capped.is_some());
    if let Some(capped) = stats.capped {
        reply.append("maxSize", scaled(capped.size_bytes));
        if let Some(max) = capped.documents_max {
            reply.append("max", i64::try_from(max).unwrap_or(i64::MAX));
        }
    }
    if let Some(series) = &stats.series {
        // The measurements are the documents: there are no buckets to tell of.
        let mut shown = reply.document("timeseries");
        shown.append("bucketsNs", series.buckets());
        shown.append("bucketCount", 0);
        shown.finish();
    }
    reply.append(
        "nindexes",
        i32::try_from(stats.indexes.len()).unwrap_or(i32::MAX),
    );
    let mut sizes = reply.document("indexSizes");
    for index in &stats.indexes {
        sizes.append(&index.name, scaled(index.bytes));
    }
    sizes.finish();
    let mut building = reply.array("indexBuilds");
    for index in stats.indexes.iter().filter(|index| index.is_building) {
        building.push(&index.name);
    }
    building.finish();
    reply.append("scaleFactor", i64::try_from(scale).unwrap_or(i64::MAX));
}

/// The latencies of the operations on a collection since it was first used; zeros when it was not. `$collStats` shows it.
pub fn latency_stats(namespace: &Namespace, with_histograms: bool) -> Document {
    let hash = crate::observe::labels::namespace_hash(namespace.database(), namespace.collection());
    let uses = quarry_timing::uses_of(hash).unwrap_or_default();
    Document::build(|latencies| {
        // A transaction is of no single collection: MongoDB counts none of them here, too.
        let no_transactions = Durations::default();
        super::server_status::append_latencies(latencies, &uses, &no_transactions, with_histograms);
    })
}

/// The number that sizes are divided by; `dbStats` shares it.
pub fn scale(value: Option<RawValue<'_>>) -> Result<u64> {
    match value {
        None | Some(RawValue::Null) => Ok(1),
        Some(value) => value
            .as_f64_lossy()
            .filter(|scale| *scale >= 1.0 && *scale <= i64::MAX as f64)
            .map(|scale| scale as u64)
            .ok_or_else(|| CommandError::bad_value("scale has to be a number > 0")),
    }
}

/// The document of `$collStats`.
pub fn documents(
    surroundings: Surroundings<'_, '_>,
    specification: Specification<'_>,
) -> Result<Vec<Document>> {
    let (invocation, namespace) = (surroundings.invocation, surroundings.namespace);
    let RawValue::Document(options) = specification.value else {
        return Err(CommandError::failed_to_parse(
            "$collStats must take a nested object",
        ));
    };
    let Some(namespace) = namespace else {
        let message = "{aggregate: 1} is not valid for '$collStats'; a collection is required.";
        return Err(CommandError::new(ErrorCode::INVALID_NAMESPACE, message));
    };
    let stats = match super::own_views::is_log(invocation, namespace.collection()) {
        true => Some(super::own_views::stats(invocation)),
        false => invocation.server.catalog().coll_stats(namespace)?,
    };
    let mut document = Document::new();
    document.append("ns", namespace.as_str());
    document.append("host", invocation.server.host().as_str());
    document.append("localTime", DateTime::now());
    for option in options {
        match (option.name().as_bytes(), option.value()) {
            (b"storageStats", RawValue::Document(of)) => {
                let scale = scale(of.get("scale"))?;
                let figures = Document::build(|figures| {
                    append(stats.as_ref(), scale, figures);
                });
                document.append("storageStats", figures);
            }
            (b"latencyStats", RawValue::Document(of)) => {
                let histograms = of.get("histograms").is_some_and(|value| value.is_truthy());
                let latencies = latency_stats(namespace, histograms);
                document.append("latencyStats", latencies);
            }
            (b"queryExecStats", _) => {
                let scans = document_of_scans(invocation, namespace)?;
                document.append("queryExecStats", scans);
            }
            (b"count", _) => {
                let count = stats.as_ref().map_or(0, |stats| stats.documents);
                document.append("count", i64::try_from(count).unwrap_or(i64::MAX));
            }
            _ => {
                let message = format!("the option '{}' of $collStats", option.name());
                return Err(CommandError::not_supported(message));
            }
        }
    }
    Ok(vec![document])
}

/// How often plans have scanned the collection.
fn document_of_scans(invocation: &Invocation<'_>, namespace: &Namespace) -> Result<Document> {
    let collection = invocation.server.catalog().collection(namespace)?;
    let accesses = collection
        .as_ref()
        .and_then(|collection| collection.plan_memory.as_deref());
    let (scans, tailing) = accesses.map_or((0, 0), |accesses| {
        (accesses.scans.accesses(), accesses.tailing.accesses())
    });
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Ok(doc! {
        "collectionScans": {
            "total": (signed(scans)),
            "nonTailable": (signed(scans.saturating_sub(tailing))),
        },
    })
}

//! The compiled driver: the `mongodb` crate, as an application would use it.

use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::concurrent::{Operation, Sample, key_at, latencies};
use crate::documents;
use crate::peers::Peer;

/// A client with a pool of its own; all tasks share it.
pub struct DriverClient {
    runtime: Runtime,
    collection: Collection<Document>,
}

impl DriverClient {
    /// Connects with this many connections at most.
    pub fn connect(peer: &Peer, connections: u32) -> io::Result<DriverClient> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let mut options = ClientOptions::parse(&peer.uri).await?;
            options.max_pool_size = Some(connections);
            options.min_pool_size = Some(connections);
            options.direct_connection = Some(true);
            Client::with_options(options)
        });
        let client = client.map_err(io::Error::other)?;
        let collection = client
            .database(crate::concurrent::DATABASE)
            .collection(crate::concurrent::COLLECTION);
        Ok(DriverClient {
            runtime,
            collection,
        })
    }

    /// Runs one operation from `connections` tasks at once for `duration`.
    pub fn run(
        &self,
        operation: Operation,
        connections: u32,
        duration: Duration,
        keys: u64,
        seed: u64,
    ) -> io::Result<Sample> {
        let started = Instant::now();
        let deadline = started + duration;
        let latency = self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for task in 0..connections {
                let collection = self.collection.clone();
                let first = seed.wrapping_add(u64::from(task) << 40);
                tasks.spawn(repeat(collection, operation, first, keys, deadline));
            }
            let mut all = latencies();
            while let Some(done) = tasks.join_next().await {
                let one = done.map_err(io::Error::other)?.map_err(io::Error::other)?;
                all.add(one).map_err(io::Error::other)?;
            }
            io::Result::Ok(all)
        })?;
        Ok(Sample {
            latency,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

async fn repeat(
    collection: Collection<Document>,
    operation: Operation,
    first: u64,
    keys: u64,
    deadline: Instant,
) -> mongodb::error::Result<Histogram<u64>> {
    let mut latency = latencies();
    let mut count = 0;
    while Instant::now() < deadline {
        let started = Instant::now();
        match operation {
            Operation::PointRead => {
                let id = documents::simple_id("bench", key_at(first, count, keys));
                let found = collection.find_one(doc! { "_id": id }).await?;
                assert!(found.is_some(), "a preloaded document is missing");
            }
            Operation::Insert => {
                let stock = documents::simple(&format!("d{first:x}"), count);
                let document = Document::try_from(mongodb::bson::RawDocumentBuf::from_bytes(
                    stock.into_bytes(),
                )?)?;
                collection.insert_one(document).await?;
            }
        }
        latency.saturating_record(started.elapsed().as_nanos() as u64);
        count += 1;
    }
    Ok(latency)
}

//! The point query from the compiled driver on one connection: the round trip that an application sees.

use std::io;

use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};
use tokio::runtime::Runtime;

use super::{DATABASE, point_query_id};

pub struct Driver {
    runtime: Runtime,
    collection: Collection<Document>,
}

impl Driver {
    pub fn connect(uri: &str) -> io::Result<Driver> {
        // On this thread alone: no hand-off of the client's own is measured.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(async {
            let mut options = ClientOptions::parse(uri).await?;
            options.max_pool_size = Some(1);
            options.direct_connection = Some(true);
            Client::with_options(options)
        });
        let client = client.map_err(io::Error::other)?;
        Ok(Driver {
            runtime,
            collection: client.database(DATABASE).collection("read"),
        })
    }

    pub fn point_query(&self, n: u64) -> io::Result<()> {
        let found = self.collection.find_one(doc! { "_id": point_query_id(n) });
        match self.runtime.block_on(found.into_future()) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(io::Error::other("a preloaded document is gone")),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

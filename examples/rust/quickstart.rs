//! Connects, writes, reads, indexes and aggregates with the `mongodb` crate.
//!
//! ```sh
//! cargo run --release -p quarry-bench --example quickstart -- mongodb://127.0.0.1:27017/
//! ```
//!
//! In a project of your own: `cargo add mongodb futures-util serde tokio --features tokio/full,serde/derive`. Uses the
//! database `quickstart_rust` and drops it at the end.
#![forbid(unsafe_code)]

use mongodb::bson::{Document, doc};
use mongodb::options::{IndexOptions, WriteConcern};
use mongodb::{Client, Collection, IndexModel};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
    author: String,
    year: i32,
    tags: Vec<String>,
}

impl Book {
    fn new(id: i32, title: &str, author: &str, year: i32, tags: &[&str]) -> Book {
        Book {
            id,
            title: title.to_owned(),
            author: author.to_owned(),
            year,
            tags: tags.iter().copied().map(str::to_owned).collect(),
        }
    }
}

#[tokio::main]
async fn main() -> mongodb::error::Result<()> {
    let uri = std::env::args().nth(1);
    let uri = uri.as_deref().unwrap_or("mongodb://127.0.0.1:27017/");
    let database = Client::with_uri_str(uri).await?.database("quickstart_rust");
    database.drop().await?;
    let result = tour(&database.collection("books")).await;
    database.drop().await?;
    result
}

async fn tour(books: &Collection<Book>) -> mongodb::error::Result<()> {
    // Create. `_id` is made by the driver unless the document has one.
    books
        .insert_many([
            Book::new(1, "Dune", "Herbert", 1965, &["desert", "spice"]),
            Book::new(2, "Ubik", "Dick", 1969, &["time"]),
            Book::new(3, "Valis", "Dick", 1981, &[]),
        ])
        .await?;

    // Read: a filter and an order.
    let mut by_dick = books
        .find(doc! { "author": "Dick" })
        .sort(doc! { "year": -1 })
        .await?;
    while by_dick.advance().await? {
        println!("by Dick: {}", by_dick.deserialize_current()?.title);
    }

    // Update: a write concern of majority returns once the write survives a power loss.
    let updated = books
        .update_one(
            doc! { "_id": 1 },
            doc! { "$push": { "tags": "worms" }, "$inc": { "read": 1 } },
        )
        .write_concern(WriteConcern::majority())
        .await?;
    println!("changed: {}", updated.modified_count);

    // Index, and see that the plan uses it.
    let name = IndexOptions::builder()
        .name("author_year".to_owned())
        .build();
    let index = IndexModel::builder()
        .keys(doc! { "author": 1, "year": -1 })
        .options(name)
        .build();
    books.create_index(index).await?;
    let find = doc! { "find": books.name(), "filter": { "author": "Dick" } };
    let database = books.client().database(&books.namespace().db);
    let explained = database
        .run_command(doc! { "explain": find, "verbosity": "queryPlanner" })
        .await?;
    let plan = explained
        .get_document("queryPlanner")?
        .get_document("winningPlan")?;
    let input = plan.get_document("inputStage")?;
    println!(
        "plan: {} over {}",
        plan.get_str("stage")?,
        input.get_str("stage")?
    );

    // Aggregate.
    let mut groups = books
        .aggregate([
            doc! { "$group": { "_id": "$author", "books": { "$sum": 1 }, "first": { "$min": "$year" } } },
            doc! { "$sort": { "_id": 1 } },
        ])
        .with_type::<Document>()
        .await?;
    while groups.advance().await? {
        let group = groups.deserialize_current()?;
        println!(
            "{}: {} since {}",
            group.get_str("_id")?,
            group.get_i32("books")?,
            group.get_i32("first")?
        );
    }

    // Delete.
    let deleted = books.delete_many(doc! { "tags": { "$size": 0 } }).await?;
    println!("deleted: {}", deleted.deleted_count);
    Ok(())
}

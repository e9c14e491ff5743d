//! The `mongodb` crate against the server that the first argument names: a transaction, a change stream, files, a bulk
//! write over two collections. Prints what it saw as one line of JSON.
#![forbid(unsafe_code)]

use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::event::{ChangeStreamEvent, ResumeToken};
use mongodb::error::{Error, ErrorKind, Result};
use mongodb::options::{
    ChangeStreamPreAndPostImages, DeleteOneModel, FullDocumentBeforeChangeType, FullDocumentType,
    GridFsBucketOptions, ReadConcern, UpdateManyModel, WriteConcern, WriteModel,
};
use mongodb::{Client, Collection, Database};

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).ok_or("no connection string")?;
    let client = Client::with_uri_str(uri).await?;
    let database = client.database("rust_driver");
    let seen = doc! {
        "transactions": transactions(&client, &database).await?,
        "changes": changes(&database).await?,
        "files": files(&database).await?,
        "bulk": bulk(&client, &database).await?,
    };
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}

async fn transactions(client: &Client, database: &Database) -> Result<Document> {
    let accounts: Collection<Document> = database.collection("accounts");
    accounts
        .insert_many([
            doc! { "_id": "a", "has": 100 },
            doc! { "_id": "b", "has": 0 },
        ])
        .await?;
    let mut session = client.start_session().await?;
    let mut attempts = 0;
    session
        .start_transaction()
        .read_concern(ReadConcern::snapshot())
        .write_concern(WriteConcern::majority())
        .and_run2(async |session| {
            let account = accounts.find_one(doc! { "_id": "a" });
            account.session(&mut *session).await?;
            attempts += 1;
            if attempts == 1 {
                // Written by another behind the snapshot: the first attempt conflicts, and the driver makes a second.
                give(&accounts, "a", 1).await?;
            }
            for (id, amount) in [("a", -30), ("b", 30)] {
                give(&accounts, id, amount).session(&mut *session).await?;
            }
            Ok(())
        })
        .await?;
    let mut inside = 0;
    let undone: Result<()> = session
        .start_transaction()
        .and_run2(async |session| {
            accounts.delete_many(doc! {}).session(&mut *session).await?;
            inside = accounts
                .count_documents(doc! {})
                .session(&mut *session)
                .await?;
            Err(Error::custom("changed my mind"))
        })
        .await;
    let why = undone
        .err()
        .and_then(|error| error.get_custom::<&str>().copied());
    Ok(doc! { "attempts": attempts, "inside": i64::try_from(inside).unwrap_or(-1), "undone": why })
}

/// The update that adds `amount` to what account `id` has.
fn give<'a>(
    accounts: &'a Collection<Document>,
    id: &str,
    amount: i32,
) -> mongodb::action::Update<'a> {
    accounts.update_one(doc! { "_id": id }, doc! { "$inc": { "has": amount } })
}

async fn changes(database: &Database) -> Result<Document> {
    database
        .create_collection("watched")
        .change_stream_pre_and_post_images(
            ChangeStreamPreAndPostImages::builder()
                .enabled(true)
                .build(),
        )
        .await?;
    let watched: Collection<Document> = database.collection("watched");
    // Where the stream begins, before anything has happened.
    let start = watched.watch().await?.resume_token();
    watched.insert_one(doc! { "_id": 1, "v": "new" }).await?;
    watched
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "v": "newer" } })
        .await?;
    watched.delete_one(doc! { "_id": 1 }).await?;
    let (first, token) = next_event(&watched, start).await?;
    let (second, token) = next_event(&watched, token).await?;
    let (third, _) = next_event(&watched, token).await?;
    Ok(doc! { "events": [first, second, third] })
}

/// The first event of a stream of its own behind `token`, and the token behind that event.
async fn next_event(
    watched: &Collection<Document>,
    token: Option<ResumeToken>,
) -> Result<(Document, Option<ResumeToken>)> {
    let mut stream = watched
        .watch()
        .full_document(FullDocumentType::Required)
        .full_document_before_change(FullDocumentBeforeChangeType::Required)
        .resume_after(token)
        .await?;
    loop {
        if let Some(event) = stream.next_if_any().await? {
            return Ok((described(event), stream.resume_token()));
        }
    }
}

fn described(event: ChangeStreamEvent<Document>) -> Document {
    doc! {
        "kind": format!("{:?}", event.operation_type).to_lowercase(),
        "key": event.document_key.and_then(|key| key.get("_id").cloned()),
        "before": event.full_document_before_change,
        "after": event.full_document,
        "updated": event.update_description.map(|update| update.updated_fields),
    }
}

async fn files(database: &Database) -> Result<Document> {
    let content: Vec<u8> = (0..700_000_u32)
        .map(|place| u8::try_from(place * 31 % 251).unwrap_or(u8::MAX))
        .collect();
    let options = GridFsBucketOptions::builder()
        .bucket_name("attachments".to_owned())
        .chunk_size_bytes(256 * 1024)
        .build();
    let bucket = database.gridfs_bucket(options);
    for name in ["kept", "removed"] {
        let mut upload = bucket.open_upload_stream(name).await?;
        upload.write_all(&content).await?;
        upload.close().await?;
    }
    bucket.rename_by_name("kept", "renamed").await?;
    bucket.delete_by_name("removed").await?;
    let mut read = Vec::new();
    let mut download = bucket.open_download_stream_by_name("renamed").await?;
    download.read_to_end(&mut read).await?;
    Ok(doc! { "same": read == content })
}

/// One command for two collections; and what it says where two of its writes fail.
async fn bulk(client: &Client, database: &Database) -> Result<Document> {
    let people: Collection<Document> = database.collection("people");
    let things: Collection<Document> = database.collection("things");
    let writes: Vec<WriteModel> = vec![
        people
            .insert_one_model(doc! { "_id": 1, "name": "Ada" })?
            .into(),
        things
            .insert_one_model(doc! { "_id": 1, "owner": 1 })?
            .into(),
        things
            .insert_one_model(doc! { "_id": 2, "owner": 1 })?
            .into(),
        UpdateManyModel::builder()
            .namespace(things.namespace())
            .filter(doc! { "owner": 1 })
            .update(doc! { "$set": { "seen": true } })
            .build()
            .into(),
        DeleteOneModel::builder()
            .namespace(things.namespace())
            .filter(doc! { "_id": 2 })
            .build()
            .into(),
    ];
    let again = writes[..2].to_vec();
    let result = client.bulk_write(writes).verbose_results().await?;
    let mut failed = Vec::new();
    if let Err(error) = client.bulk_write(again).ordered(false).await
        && let ErrorKind::BulkWrite(errors) = *error.kind
    {
        failed.extend(errors.write_errors.values().map(|one| Bson::from(one.code)));
    }
    Ok(doc! {
        "inserted": result.summary.inserted_count,
        "modified": result.summary.modified_count,
        "deleted": result.summary.deleted_count,
        "third": result.insert_results.get(&2).map(|one| one.inserted_id.clone()),
        "failed": failed,
    })
}

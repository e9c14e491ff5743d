package tools;

import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.set;

import com.mongodb.ClientBulkWriteException;
import com.mongodb.ClientSessionOptions;
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCommandException;
import com.mongodb.MongoCompressor;
import com.mongodb.MongoNamespace;
import com.mongodb.MongoWriteException;
import com.mongodb.ReadConcern;
import com.mongodb.ServerApi;
import com.mongodb.ServerApiVersion;
import com.mongodb.TransactionOptions;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.gridfs.model.GridFSFile;
import com.mongodb.client.gridfs.model.GridFSUploadOptions;
import com.mongodb.client.model.Accumulators;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.ChangeStreamPreAndPostImagesOptions;
import com.mongodb.client.model.CreateCollectionOptions;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.Projections;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.Updates;
import com.mongodb.client.model.bulk.ClientBulkWriteOptions;
import com.mongodb.client.model.bulk.ClientBulkWriteResult;
import com.mongodb.client.model.bulk.ClientNamespacedWriteModel;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import com.mongodb.client.model.changestream.FullDocument;
import com.mongodb.client.model.changestream.FullDocumentBeforeChange;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.bson.BsonDocument;
import org.bson.Document;
import org.bson.codecs.pojo.annotations.BsonId;
import org.bson.types.ObjectId;

/** The synchronous driver against the server that the first argument names; prints what it saw as one document. */
public final class DriverTour {
    private static final String DATABASE = "java_driver";

    /** A record, which the driver maps by itself. */
    public record Book(@BsonId int id, String title, String author, int year, List<String> tags) {}

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            MongoDatabase database = client.getDatabase(DATABASE);
            Document seen = new Document("documents", documents(database))
                .append("transactions", transactions(client, database))
                .append("changes", changes(database))
                .append("files", files(database))
                .append("bulk", bulk(client));
            System.out.println(seen.append("strict", strict(arguments[0])).toJson());
        }
    }

    /** A client that declares the stable API, compresses, and has a deadline for each operation. */
    private static Document strict(String uri) {
        MongoClientSettings settings = MongoClientSettings.builder().applyConnectionString(new ConnectionString(uri))
            .serverApi(ServerApi.builder().version(ServerApiVersion.V1).strict(true).deprecationErrors(true).build())
            .compressorList(List.of(MongoCompressor.createZlibCompressor())).timeout(30, TimeUnit.SECONDS).build();
        try (MongoClient client = MongoClients.create(settings);
            ClientSession session = client.startSession(ClientSessionOptions.builder().snapshot(true).build());
            var everything = client.watch().cursor()) {
            MongoDatabase database = client.getDatabase(DATABASE + "_strict");
            MongoCollection<Document> notes = database.getCollection("notes");
            notes.insertOne(new Document("_id", 1).append("text", "first ".repeat(1000)));
            long before = notes.countDocuments(session);
            notes.insertOne(new Document("_id", 2).append("text", "second"));
            List<String> heard = new ArrayList<>();
            for (int event = 0; event < 2; event++) {
                heard.add(everything.next().getNamespace().getFullName());
            }
            database.createView("short", "notes", List.of(Aggregates.match(Filters.regex("text", "^second"))));
            notes.aggregate(List.of(Aggregates.project(Projections.include("_id")), Aggregates.merge("copies"))).toCollection();
            Document seen = new Document("before", before).append("snapshot", notes.countDocuments(session)).append("now", notes.countDocuments())
                .append("heard", heard).append("short", database.getCollection("short").countDocuments());
            seen.append("collections", database.listCollectionNames().into(new TreeSet<>()));
            try {
                database.runCommand(new Document("dbHash", 1));
            } catch (MongoCommandException error) {
                seen.append("refused", error.getErrorCodeName());
            }
            return seen;
        }
    }

    private static Document documents(MongoDatabase database) {
        MongoCollection<Book> books = database.getCollection("books", Book.class);
        List<Book> shelf = new ArrayList<>();
        for (int number = 1; number <= 10; number++) {
            shelf.add(new Book(number, "title " + number, number % 2 == 0 ? "Dick" : "Herbert", 1960 + number, List.of("a", "b" + number)));
        }
        books.insertMany(shelf);
        String index = books.createIndex(Indexes.compoundIndex(Indexes.ascending("author"), Indexes.descending("year")));
        books.createIndex(Indexes.ascending("title"), new IndexOptions().unique(true));
        Document seen = new Document("index", index);

        // Batches of three: the cursor asks for more three times.
        List<Integer> years = new ArrayList<>();
        try (MongoCursor<Book> cursor = books.find(gte("year", 1963)).sort(Sorts.descending("year")).batchSize(3).iterator()) {
            cursor.forEachRemaining(book -> years.add(book.year()));
        }
        seen.append("years", years);
        seen.append("updated", books.updateOne(eq("_id", 1), Updates.combine(inc("year", 1), Updates.push("tags", "c"))).getModifiedCount());
        seen.append("upserted", books.updateOne(eq("_id", 11), Updates.combine(set("title", "new"), set("author", "Lem"), set("year", 1961),
            set("tags", List.of())), new UpdateOptions().upsert(true)).getUpsertedId().asInt32().getValue());
        books.updateMany(eq("author", "Dick"), set("tags.$[tag]", "first"), new UpdateOptions().arrayFilters(List.of(eq("tag", "a"))));
        seen.append("after", books.findOneAndUpdate(eq("_id", 2), set("title", "Ubik"),
            new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER)).toString());
        try {
            books.insertOne(new Book(12, "Ubik", "Dick", 1969, List.of()));
        } catch (MongoWriteException error) {
            seen.append("duplicate", error.getCode());
        }
        seen.append("deleted", books.deleteMany(Filters.lt("year", 1962)).getDeletedCount());
        seen.append("count", books.countDocuments()).append("estimate", books.estimatedDocumentCount());
        seen.append("authors", books.distinct("author", String.class).into(new ArrayList<>()));
        seen.append("groups", database.getCollection("books").aggregate(List.of(
            Aggregates.group("$author", Accumulators.sum("books", 1), Accumulators.max("last", "$year")),
            Aggregates.sort(Sorts.ascending("_id")),
            Aggregates.project(Projections.fields(Projections.include("books", "last"))))).into(new ArrayList<>()));
        return seen;
    }

    private static Document transactions(MongoClient client, MongoDatabase database) {
        MongoCollection<Document> accounts = database.getCollection("accounts");
        accounts.insertMany(List.of(new Document("_id", "a").append("has", 100), new Document("_id", "b").append("has", 0)));
        TransactionOptions majority = TransactionOptions.builder().writeConcern(WriteConcern.MAJORITY).readConcern(ReadConcern.SNAPSHOT).build();
        int[] attempts = {0};
        Document seen = new Document();
        try (ClientSession session = client.startSession()) {
            seen.append("moved", session.withTransaction(() -> {
                int has = accounts.find(session, eq("_id", "a")).first().getInteger("has");
                if (attempts[0]++ == 0) {
                    // Written by another behind the snapshot: the first attempt conflicts, and the driver makes a second.
                    accounts.updateOne(eq("_id", "a"), inc("has", 1));
                }
                accounts.updateOne(session, eq("_id", "a"), inc("has", -30));
                accounts.updateOne(session, eq("_id", "b"), inc("has", 30));
                return has;
            }, majority));
            seen.append("attempts", attempts[0]);
            try {
                session.withTransaction(() -> {
                    accounts.deleteMany(session, new Document());
                    seen.append("inside", accounts.countDocuments(session)).append("outside", accounts.countDocuments());
                    throw new IllegalStateException("changed my mind");
                });
            } catch (IllegalStateException error) {
                seen.append("aborted", error.getMessage());
            }
        }
        return seen;
    }

    private static Document changes(MongoDatabase database) {
        database.createCollection("watched", new CreateCollectionOptions()
            .changeStreamPreAndPostImagesOptions(new ChangeStreamPreAndPostImagesOptions(true)));
        MongoCollection<Document> watched = database.getCollection("watched");
        var stream = watched.watch().fullDocument(FullDocument.REQUIRED).fullDocumentBeforeChange(FullDocumentBeforeChange.REQUIRED);
        List<Document> seen = new ArrayList<>();
        BsonDocument token;
        try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> cursor = stream.cursor()) {
            watched.insertOne(new Document("_id", 1).append("v", "new"));
            watched.updateOne(eq("_id", 1), set("v", "newer"));
            watched.deleteOne(eq("_id", 1));
            ChangeStreamDocument<Document> first = cursor.next();
            token = first.getResumeToken();
            seen.add(event(first));
        }
        try (var resumed = stream.resumeAfter(token).cursor()) {
            seen.add(event(resumed.next()));
            seen.add(event(resumed.next()));
        }
        return new Document("events", seen);
    }

    private static Document event(ChangeStreamDocument<Document> change) {
        Document described = new Document("kind", change.getOperationType().getValue()).append("key", change.getDocumentKey().getInt32("_id").getValue());
        described.append("before", change.getFullDocumentBeforeChange()).append("after", change.getFullDocument());
        described.append("updated", change.getUpdateDescription() == null ? null : change.getUpdateDescription().getUpdatedFields());
        return described;
    }

    private static Document files(MongoDatabase database) {
        byte[] content = new byte[700_000];
        for (int place = 0; place < content.length; place++) {
            content[place] = (byte) (place * 31 % 251);
        }
        GridFSBucket bucket = GridFSBuckets.create(database, "attachments");
        GridFSUploadOptions options = new GridFSUploadOptions().chunkSizeBytes(256 * 1024).metadata(new Document("kind", "bytes"));
        ObjectId kept = bucket.uploadFromStream("kept", new ByteArrayInputStream(content), options);
        ObjectId removed = bucket.uploadFromStream("removed", new ByteArrayInputStream(content), options);
        bucket.rename(kept, "renamed");
        bucket.delete(removed);
        ByteArrayOutputStream read = new ByteArrayOutputStream();
        bucket.downloadToStream(kept, read);
        List<String> names = new ArrayList<>();
        for (GridFSFile file : bucket.find(eq("metadata.kind", "bytes"))) {
            names.add(file.getFilename() + " " + file.getLength());
        }
        return new Document("names", names).append("same", Arrays.equals(content, read.toByteArray()));
    }

    /** One command for two collections; and what it says where one of its writes fails. */
    private static Document bulk(MongoClient client) {
        MongoNamespace people = new MongoNamespace(DATABASE, "people");
        MongoNamespace things = new MongoNamespace(DATABASE, "things");
        ClientBulkWriteResult result = client.bulkWrite(List.of(
            ClientNamespacedWriteModel.insertOne(people, new Document("_id", 1).append("name", "Ada")),
            ClientNamespacedWriteModel.insertOne(things, new Document("_id", 1).append("owner", 1)),
            ClientNamespacedWriteModel.insertOne(things, new Document("_id", 2).append("owner", 1)),
            ClientNamespacedWriteModel.updateMany(things, eq("owner", 1), set("seen", true)),
            ClientNamespacedWriteModel.deleteOne(things, eq("_id", 2))),
            ClientBulkWriteOptions.clientBulkWriteOptions().verboseResults(true));
        var verbose = result.getVerboseResults().orElseThrow();
        Document seen = new Document("inserted", result.getInsertedCount()).append("modified", result.getModifiedCount())
            .append("deleted", result.getDeletedCount())
            .append("verbose", List.of(verbose.getInsertResults().size(), verbose.getUpdateResults().get(3).getModifiedCount(),
                verbose.getDeleteResults().get(4).getDeletedCount()));
        try {
            client.bulkWrite(List.of(
                ClientNamespacedWriteModel.insertOne(people, new Document("_id", 1)),
                ClientNamespacedWriteModel.insertOne(things, new Document("_id", 3)),
                ClientNamespacedWriteModel.insertOne(things, new Document("_id", 1))),
                ClientBulkWriteOptions.clientBulkWriteOptions().ordered(false));
        } catch (ClientBulkWriteException error) {
            Document failed = new Document();
            error.getWriteErrors().forEach((place, write) -> failed.append(place.toString(), write.getCode()));
            seen.append("failed", failed).append("insertedBeside", error.getPartialResult().orElseThrow().getInsertedCount());
        }
        return seen;
    }
}

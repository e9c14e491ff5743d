// The Go driver against the server that the first argument names; prints what it saw as one document.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const databaseName = "go_driver"

type book struct {
	ID     int      `bson:"_id"`
	Title  string   `bson:"title"`
	Author string   `bson:"author"`
	Year   int      `bson:"year"`
	Tags   []string `bson:"tags"`
}

func main() {
	seen, err := tour(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	text, err := bson.MarshalExtJSON(seen, false, false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func tour(uri string) (bson.M, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	defer client.Disconnect(context.Background())
	parts := []struct {
		name string
		run  func(context.Context, *mongo.Database) (bson.M, error)
	}{{"documents", documents}, {"transactions", transactions}, {"changes", changes}, {"files", files}, {"bulk", bulk}, {"clientBulk", clientBulk}}
	seen := bson.M{}
	for _, part := range parts {
		if seen[part.name], err = part.run(ctx, client.Database(databaseName)); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return seen, nil
}

func documents(ctx context.Context, database *mongo.Database) (bson.M, error) {
	books := database.Collection("books")
	shelf := []book{}
	for number := 1; number <= 10; number++ {
		author := []string{"Dick", "Herbert"}[number%2]
		shelf = append(shelf, book{number, fmt.Sprintf("title %d", number), author, 1960 + number, []string{"a", fmt.Sprintf("b%d", number)}})
	}
	if _, err := books.InsertMany(ctx, shelf); err != nil {
		return nil, err
	}
	names, err := books.Indexes().CreateMany(ctx, []mongo.IndexModel{
		{Keys: bson.D{{Key: "author", Value: 1}, {Key: "year", Value: -1}}},
		{Keys: bson.D{{Key: "title", Value: 1}}, Options: options.Index().SetUnique(true)},
	})
	if err != nil {
		return nil, err
	}
	years, err := read(ctx, books)
	if err != nil {
		return nil, err
	}
	seen, err := written(ctx, books)
	if err != nil {
		return nil, err
	}
	seen["indexes"], seen["years"] = names, years
	return seen, nil
}

// In batches of three: the cursor asks for more.
func read(ctx context.Context, books *mongo.Collection) ([]int, error) {
	found := options.Find().SetSort(bson.D{{Key: "year", Value: -1}}).SetBatchSize(3)
	cursor, err := books.Find(ctx, bson.M{"year": bson.M{"$gte": 1963}}, found)
	if err != nil {
		return nil, err
	}
	defer cursor.Close(ctx)
	years := []int{}
	for cursor.Next(ctx) {
		var one book
		if err := cursor.Decode(&one); err != nil {
			return nil, err
		}
		years = append(years, one.Year)
	}
	return years, cursor.Err()
}

func written(ctx context.Context, books *mongo.Collection) (bson.M, error) {
	upsert := bson.M{"$set": bson.M{"title": "new", "author": "Lem", "year": 1961, "tags": bson.A{}}}
	upserted, err := books.UpdateOne(ctx, bson.M{"_id": 11}, upsert, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return nil, err
	}
	first := options.UpdateMany().SetArrayFilters([]any{bson.M{"tag": "a"}})
	updated, err := books.UpdateMany(ctx, bson.M{"author": "Dick"}, bson.M{"$set": bson.M{"tags.$[tag]": "first"}}, first)
	if err != nil {
		return nil, err
	}
	var after book
	returned := options.FindOneAndUpdate().SetReturnDocument(options.After)
	if err := books.FindOneAndUpdate(ctx, bson.M{"_id": 2}, bson.M{"$set": bson.M{"title": "Ubik"}}, returned).Decode(&after); err != nil {
		return nil, err
	}
	_, duplicate := books.InsertOne(ctx, book{ID: 12, Title: "Ubik"})
	deleted, err := books.DeleteMany(ctx, bson.M{"year": bson.M{"$lt": 1962}})
	if err != nil {
		return nil, err
	}
	count, err := books.CountDocuments(ctx, bson.M{})
	if err != nil {
		return nil, err
	}
	authors := []string{}
	if err := books.Distinct(ctx, "author", bson.M{}).Decode(&authors); err != nil {
		return nil, err
	}
	return bson.M{
		"upserted": upserted.UpsertedID, "updated": updated.ModifiedCount, "after": after, "duplicate": mongo.IsDuplicateKeyError(duplicate),
		"deleted": deleted.DeletedCount, "count": count, "authors": authors,
	}, nil
}

var errChangedMind = errors.New("changed my mind")

func transactions(ctx context.Context, database *mongo.Database) (bson.M, error) {
	accounts := database.Collection("accounts")
	if _, err := accounts.InsertMany(ctx, bson.A{bson.M{"_id": "a", "has": 100}, bson.M{"_id": "b", "has": 0}}); err != nil {
		return nil, err
	}
	session, err := database.Client().StartSession()
	if err != nil {
		return nil, err
	}
	defer session.EndSession(ctx)
	attempts := 0
	_, err = session.WithTransaction(ctx, func(inside context.Context) (any, error) {
		if err := accounts.FindOne(inside, bson.M{"_id": "a"}).Err(); err != nil {
			return nil, err
		}
		attempts++
		if attempts == 1 {
			// Written by another behind the snapshot: the first attempt conflicts, and the driver makes a second.
			if _, err := accounts.UpdateOne(ctx, bson.M{"_id": "a"}, bson.M{"$inc": bson.M{"has": 1}}); err != nil {
				return nil, err
			}
		}
		if _, err := accounts.UpdateOne(inside, bson.M{"_id": "a"}, bson.M{"$inc": bson.M{"has": -30}}); err != nil {
			return nil, err
		}
		return accounts.UpdateOne(inside, bson.M{"_id": "b"}, bson.M{"$inc": bson.M{"has": 30}})
	}, options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return nil, err
	}
	var within, without int64
	_, undone := session.WithTransaction(ctx, func(inside context.Context) (any, error) {
		if _, err := accounts.DeleteMany(inside, bson.M{}); err != nil {
			return nil, err
		}
		if within, err = accounts.CountDocuments(inside, bson.M{}); err != nil {
			return nil, err
		}
		if without, err = accounts.CountDocuments(ctx, bson.M{}); err != nil {
			return nil, err
		}
		return nil, errChangedMind
	})
	return bson.M{"attempts": attempts, "inside": within, "outside": without, "undone": errors.Is(undone, errChangedMind)}, nil
}

type event struct {
	Kind string `bson:"operationType"`
	Key  struct {
		ID int `bson:"_id"`
	} `bson:"documentKey"`
	Before bson.M `bson:"fullDocumentBeforeChange"`
	After  bson.M `bson:"fullDocument"`
	Update struct {
		Updated bson.M `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

// Events of a collection with images of what was; the stream is given up after the first and resumed.
func changes(ctx context.Context, database *mongo.Database) (bson.M, error) {
	images := options.CreateCollection().SetChangeStreamPreAndPostImages(bson.M{"enabled": true})
	if err := database.CreateCollection(ctx, "watched", images); err != nil {
		return nil, err
	}
	watched := database.Collection("watched")
	asked := options.ChangeStream().SetFullDocument(options.UpdateLookup).SetFullDocumentBeforeChange(options.Required)
	stream, err := watched.Watch(ctx, mongo.Pipeline{}, asked)
	if err != nil {
		return nil, err
	}
	if _, err := watched.InsertOne(ctx, bson.M{"_id": 1, "v": "new"}); err != nil {
		return nil, err
	}
	if _, err := watched.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"v": "newer"}}); err != nil {
		return nil, err
	}
	if _, err := watched.DeleteOne(ctx, bson.M{"_id": 1}); err != nil {
		return nil, err
	}
	events, err := take(ctx, stream, 1)
	if err != nil {
		return nil, err
	}
	resumed, err := watched.Watch(ctx, mongo.Pipeline{}, asked.SetResumeAfter(stream.ResumeToken()))
	if err != nil {
		return nil, err
	}
	rest, err := take(ctx, resumed, 2)
	return bson.M{"events": append(events, rest...)}, err
}

func take(ctx context.Context, stream *mongo.ChangeStream, count int) (bson.A, error) {
	defer stream.Close(ctx)
	taken := bson.A{}
	for len(taken) < count && stream.Next(ctx) {
		var one event
		if err := stream.Decode(&one); err != nil {
			return nil, err
		}
		taken = append(taken, bson.M{
			"kind": one.Kind, "key": one.Key.ID, "before": one.Before, "after": one.After, "updated": one.Update.Updated,
		})
	}
	return taken, stream.Err()
}

func files(ctx context.Context, database *mongo.Database) (bson.M, error) {
	content := make([]byte, 700_000)
	for place := range content {
		content[place] = byte(place * 31 % 251)
	}
	bucket := database.GridFSBucket(options.GridFSBucket().SetName("attachments").SetChunkSizeBytes(256 * 1024))
	upload := options.GridFSUpload().SetMetadata(bson.M{"kind": "bytes"})
	kept, err := bucket.UploadFromStream(ctx, "kept", bytes.NewReader(content), upload)
	if err != nil {
		return nil, err
	}
	removed, err := bucket.UploadFromStream(ctx, "removed", bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if err := bucket.Delete(ctx, removed); err != nil {
		return nil, err
	}
	if err := bucket.Rename(ctx, kept, "renamed"); err != nil {
		return nil, err
	}
	var read bytes.Buffer
	length, err := bucket.DownloadToStreamByName(ctx, "renamed", &read)
	return bson.M{"length": length, "same": bytes.Equal(content, read.Bytes())}, err
}

func bulk(ctx context.Context, database *mongo.Database) (bson.M, error) {
	people := database.Collection("people")
	result, err := people.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 1, "name": "Ada"}),
		mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 2, "name": "Ben"}),
		mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": 3}).SetUpdate(bson.M{"$set": bson.M{"name": "Cy"}}).SetUpsert(true),
		mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": 2}).SetReplacement(bson.M{"name": "Bob"}),
		mongo.NewDeleteOneModel().SetFilter(bson.M{"_id": 1}),
	})
	if err != nil {
		return nil, err
	}
	_, err = people.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 3}),
		mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 4, "name": "Dee"}),
	}, options.BulkWrite().SetOrdered(false))
	var failed mongo.BulkWriteException
	if !errors.As(err, &failed) {
		return nil, fmt.Errorf("a second document of one _id: %w", err)
	}
	return bson.M{
		"inserted": result.InsertedCount, "modified": result.ModifiedCount, "deleted": result.DeletedCount, "upserted": result.UpsertedIDs[2],
		"failed": bson.A{failed.WriteErrors[0].Index, failed.WriteErrors[0].Code},
	}, nil
}

// One command for two collections.
func clientBulk(ctx context.Context, database *mongo.Database) (bson.M, error) {
	one := func(collection string, model mongo.ClientWriteModel) mongo.ClientBulkWrite {
		return mongo.ClientBulkWrite{Database: databaseName, Collection: collection, Model: model}
	}
	writes := []mongo.ClientBulkWrite{
		one("owners", mongo.NewClientInsertOneModel().SetDocument(bson.M{"_id": 1, "name": "Ada"})),
		one("things", mongo.NewClientInsertOneModel().SetDocument(bson.M{"_id": 1, "owner": 1})),
		one("things", mongo.NewClientInsertOneModel().SetDocument(bson.M{"_id": 2, "owner": 1})),
		one("things", mongo.NewClientUpdateManyModel().SetFilter(bson.M{"owner": 1}).SetUpdate(bson.M{"$set": bson.M{"seen": true}})),
		one("things", mongo.NewClientDeleteOneModel().SetFilter(bson.M{"_id": 2})),
	}
	result, err := database.Client().BulkWrite(ctx, writes, options.ClientBulkWrite().SetVerboseResults(true))
	if err != nil {
		return nil, err
	}
	_, err = database.Client().BulkWrite(ctx, writes[:2], options.ClientBulkWrite().SetOrdered(false))
	var failed mongo.ClientBulkWriteException
	if !errors.As(err, &failed) {
		return nil, fmt.Errorf("a second document of one _id: %w", err)
	}
	return bson.M{
		"inserted": result.InsertedCount, "modified": result.ModifiedCount, "deleted": result.DeletedCount,
		"verbose": bson.A{len(result.InsertResults), result.UpdateResults[3].ModifiedCount, result.DeleteResults[4].DeletedCount},
		"failed":  bson.A{failed.WriteErrors[0].Code, failed.WriteErrors[1].Code},
	}, nil
}

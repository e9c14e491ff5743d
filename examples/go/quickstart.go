// Connects, writes, reads, indexes and aggregates with the Go driver.
//
//	cd examples/go
//	go run . mongodb://127.0.0.1:27017/
//
// Uses the database quickstart_go and drops it at the end.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

type book struct {
	ID     int      `bson:"_id"`
	Title  string   `bson:"title"`
	Author string   `bson:"author"`
	Year   int      `bson:"year"`
	Tags   []string `bson:"tags"`
}

func main() {
	uri := "mongodb://127.0.0.1:27017/"
	if len(os.Args) > 1 {
		uri = os.Args[1]
	}
	if err := run(uri); err != nil {
		log.Fatal(err)
	}
}

func run(uri string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	defer client.Disconnect(ctx)
	database := client.Database("quickstart_go")
	if err := database.Drop(ctx); err != nil {
		return err
	}
	defer database.Drop(ctx)
	books := database.Collection("books")

	// Create. `_id` is made by the driver unless the document has one.
	if _, err := books.InsertMany(ctx, []book{
		{1, "Dune", "Herbert", 1965, []string{"desert", "spice"}},
		{2, "Ubik", "Dick", 1969, []string{"time"}},
		{3, "Valis", "Dick", 1981, []string{}},
	}); err != nil {
		return err
	}

	// Read: a filter, a projection, an order.
	byDick := bson.D{{Key: "author", Value: "Dick"}}
	cursor, err := books.Find(ctx, byDick, options.Find().
		SetProjection(bson.D{{Key: "title", Value: 1}, {Key: "_id", Value: 0}}).
		SetSort(bson.D{{Key: "year", Value: -1}}))
	if err != nil {
		return err
	}
	var found []book
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	for _, book := range found {
		fmt.Println("by Dick:", book.Title)
	}

	// Update: a write concern of majority returns once the write survives a power loss.
	durable := database.Collection("books", options.Collection().SetWriteConcern(writeconcern.Majority()))
	updated, err := durable.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}}, bson.D{
		{Key: "$push", Value: bson.D{{Key: "tags", Value: "worms"}}},
		{Key: "$inc", Value: bson.D{{Key: "read", Value: 1}}},
	})
	if err != nil {
		return err
	}
	fmt.Println("changed:", updated.ModifiedCount)

	// Index, and see that the plan uses it.
	if _, err := books.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "author", Value: 1}, {Key: "year", Value: -1}},
		Options: options.Index().SetName("author_year"),
	}); err != nil {
		return err
	}
	var explained struct {
		QueryPlanner struct {
			WinningPlan struct {
				Stage      string `bson:"stage"`
				InputStage struct {
					Stage string `bson:"stage"`
				} `bson:"inputStage"`
			} `bson:"winningPlan"`
		} `bson:"queryPlanner"`
	}
	find := bson.D{{Key: "find", Value: "books"}, {Key: "filter", Value: byDick}}
	explain := bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "queryPlanner"}}
	if err := database.RunCommand(ctx, explain).Decode(&explained); err != nil {
		return err
	}
	plan := explained.QueryPlanner.WinningPlan
	fmt.Println("plan:", plan.Stage, "over", plan.InputStage.Stage)

	// Aggregate.
	cursor, err = books.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$author"},
			{Key: "books", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "first", Value: bson.D{{Key: "$min", Value: "$year"}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	})
	if err != nil {
		return err
	}
	var groups []struct {
		Author string `bson:"_id"`
		Books  int    `bson:"books"`
		First  int    `bson:"first"`
	}
	if err := cursor.All(ctx, &groups); err != nil {
		return err
	}
	for _, group := range groups {
		fmt.Printf("%s: %d since %d\n", group.Author, group.Books, group.First)
	}

	// Delete.
	deleted, err := books.DeleteMany(ctx, bson.D{{Key: "tags", Value: bson.D{{Key: "$size", Value: 0}}}})
	if err != nil {
		return err
	}
	fmt.Println("deleted:", deleted.DeletedCount)
	return nil
}

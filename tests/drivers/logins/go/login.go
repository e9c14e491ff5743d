// Logs in by the connection string that is its argument, writes and reads a document, and prints one line: `ok` and who it is,
// or `error` and why not.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func login(uri string) (string, error) {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return "", err
	}
	defer client.Disconnect(ctx)
	var status struct {
		AuthInfo struct {
			AuthenticatedUsers []struct{ User string } `bson:"authenticatedUsers"`
		} `bson:"authInfo"`
	}
	command := bson.D{{Key: "connectionStatus", Value: 1}}
	if err := client.Database("admin").RunCommand(ctx, command).Decode(&status); err != nil {
		return "", err
	}
	things := client.Database("db").Collection("logins")
	thing := bson.D{{Key: "by", Value: "go"}}
	if _, err := things.InsertOne(ctx, thing); err != nil {
		return "", err
	}
	if err := things.FindOne(ctx, thing).Err(); err != nil {
		return "", err
	}
	for _, user := range status.AuthInfo.AuthenticatedUsers {
		return user.User, nil
	}
	return "nobody", nil
}

func main() {
	user, err := login(os.Args[1])
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("ok", user)
}

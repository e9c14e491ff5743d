// Logs in by the connection string that is its argument, writes and reads a document, and prints one line: `ok` and who it is,
// or `error` and why not. Certificates come by the system properties `javax.net.ssl.*`.

import com.mongodb.MongoException;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoClient;
import org.bson.Document;

public final class Login {
    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            Document status = client.getDatabase("admin").runCommand(new Document("connectionStatus", 1));
            var users = status.get("authInfo", Document.class).getList("authenticatedUsers", Document.class);
            var things = client.getDatabase("db").getCollection("logins");
            things.insertOne(new Document("by", "java"));
            if (things.find(new Document("by", "java")).first() == null) {
                throw new IllegalStateException("what was written is not there");
            }
            System.out.println("ok " + (users.isEmpty() ? "nobody" : users.get(0).getString("user")));
        } catch (MongoException | IllegalArgumentException error) {
            System.out.println("error" + messages(error).replace('\n', ' '));
        }
    }

    // The driver's own words come first, and the server's stand behind them.
    private static String messages(Throwable error) {
        return error == null ? "" : " " + error.getMessage() + messages(error.getCause());
    }
}

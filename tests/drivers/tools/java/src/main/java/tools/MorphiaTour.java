package tools;

import static dev.morphia.aggregation.expressions.AccumulatorExpressions.sum;
import static dev.morphia.aggregation.expressions.Expressions.field;
import static dev.morphia.aggregation.expressions.Expressions.value;
import static dev.morphia.query.filters.Filters.eq;
import static dev.morphia.query.filters.Filters.gte;
import static dev.morphia.query.updates.UpdateOperators.inc;
import static dev.morphia.query.updates.UpdateOperators.push;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import dev.morphia.Datastore;
import dev.morphia.Morphia;
import dev.morphia.UpdateOptions;
import dev.morphia.aggregation.stages.Group;
import dev.morphia.aggregation.stages.Sort;
import dev.morphia.annotations.Entity;
import dev.morphia.annotations.Field;
import dev.morphia.annotations.Id;
import dev.morphia.annotations.Index;
import dev.morphia.annotations.IndexOptions;
import dev.morphia.annotations.Indexes;
import dev.morphia.annotations.Reference;
import dev.morphia.annotations.Version;
import dev.morphia.config.MorphiaConfig;
import dev.morphia.query.FindOptions;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;
import org.bson.types.ObjectId;

/** Morphia against the server that the first argument names; prints what it saw as one document. */
public final class MorphiaTour {
    /** Who works somewhere, and under whom. */
    @Entity("employees")
    @Indexes({@Index(options = @IndexOptions(name = "by_pay"), fields = @Field("pay")),
        @Index(options = @IndexOptions(name = "one_name", unique = true), fields = @Field("name"))})
    public static class Employee {
        @Id
        ObjectId id;
        String name;
        int pay;
        @Reference
        Employee boss;
        List<String> skills = new ArrayList<>();
        @Version
        long version;

        Employee() {}

        Employee(String name, int pay, Employee boss) {
            this.name = name;
            this.pay = pay;
            this.boss = boss;
        }
    }

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            MorphiaConfig config = MorphiaConfig.load().database("java_morphia").packages(List.of("tools")).applyIndexes(true);
            System.out.println(tour(Morphia.createDatastore(client, config)).toJson());
        }
    }

    private static Document tour(Datastore store) {
        Employee ada = store.save(new Employee("Ada", 300, null));
        store.save(List.of(new Employee("Ben", 100, ada), new Employee("Cy", 200, ada)));
        Document seen = new Document();

        List<String> well = new ArrayList<>();
        store.find(Employee.class, new FindOptions().sort(dev.morphia.query.Sort.descending("pay"))).filter(gte("pay", 200)).iterator()
            .forEachRemaining(employee -> well.add(employee.name));
        seen.append("well", well);
        seen.append("boss", store.find(Employee.class).filter(eq("name", "Ben")).first().boss.name);
        seen.append("raised", store.find(Employee.class).filter(eq("boss", ada)).update(new UpdateOptions().multi(true), inc("pay", 50), push("skills", "chess"))
            .getModifiedCount());

        // Two copies of one document: the second to be saved is stale.
        Employee stale = store.find(Employee.class).filter(eq("name", "Cy")).first();
        Employee fresh = store.find(Employee.class).filter(eq("name", "Cy")).first();
        fresh.pay = 260;
        store.save(fresh);
        stale.pay = 1;
        seen.append("stale", failure(() -> store.save(stale)));
        seen.append("duplicate", failure(() -> store.save(new Employee("Ada", 1, null))));

        store.withTransaction(session -> session.save(new Employee("Dee", 400, null)));
        seen.append("undone", failure(() -> store.withTransaction(session -> {
            session.save(new Employee("Eve", 500, null));
            throw new IllegalStateException("changed my mind");
        })));
        List<Document> groups = new ArrayList<>();
        store.aggregate(Employee.class)
            .group(Group.group(Group.id(field("boss"))).field("pay", sum(field("pay"))).field("people", sum(value(1))))
            .sort(Sort.sort().ascending("pay"))
            .execute(Document.class).forEachRemaining(group -> groups.add(new Document("pay", group.get("pay")).append("people", group.get("people"))));
        seen.append("groups", groups);
        seen.append("deleted", store.find(Employee.class).filter(eq("name", "Ben")).delete().getDeletedCount());
        return seen;
    }

    /** The name of what an action throws. */
    private static String failure(Runnable action) {
        try {
            action.run();
            return null;
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName();
        }
    }
}

package tools.spring;

import static org.springframework.data.mongodb.core.aggregation.Aggregation.bucket;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.facet;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.graphLookup;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.group;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.lookup;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.match;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.newAggregation;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.project;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.sort;
import static org.springframework.data.mongodb.core.aggregation.Aggregation.unwind;
import static org.springframework.data.mongodb.core.query.Criteria.where;
import static org.springframework.data.mongodb.core.query.Query.query;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.bson.Document;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.data.domain.Example;
import org.springframework.data.domain.ExampleMatcher;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.ScrollPosition;
import org.springframework.data.domain.Sort;
import org.springframework.data.domain.Window;
import org.springframework.data.geo.Distance;
import org.springframework.data.geo.Metrics;
import org.springframework.data.geo.Point;
import org.springframework.data.mongodb.core.BulkOperations;
import org.springframework.data.mongodb.core.CollectionOptions;
import org.springframework.data.mongodb.core.FindAndModifyOptions;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.ViewOptions;
import org.springframework.data.mongodb.core.aggregation.AccumulatorOperators;
import org.springframework.data.mongodb.core.aggregation.AggregationPipeline;
import org.springframework.data.mongodb.core.aggregation.AggregationUpdate;
import org.springframework.data.mongodb.core.aggregation.SetWindowFieldsOperation;
import org.springframework.data.mongodb.core.aggregation.StringOperators;
import org.springframework.data.mongodb.core.index.Index;
import org.springframework.data.mongodb.core.index.IndexOptions;
import org.springframework.data.mongodb.core.index.WildcardIndex;
import org.springframework.data.mongodb.core.messaging.ChangeStreamRequest;
import org.springframework.data.mongodb.core.messaging.DefaultMessageListenerContainer;
import org.springframework.data.mongodb.core.query.Collation;
import org.springframework.data.mongodb.core.query.TextCriteria;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.data.mongodb.core.schema.JsonSchemaProperty;
import org.springframework.data.mongodb.core.schema.MongoJsonSchema;
import org.springframework.data.mongodb.gridfs.GridFsTemplate;
import org.springframework.transaction.support.TransactionTemplate;

/** Spring Data MongoDB against the server that the first argument names; prints what it saw as one document. */
public final class SpringTour {
    private static final int SECONDS_MAX = 60;

    private final Books books;
    private final MongoTemplate template;
    private final TransactionTemplate transactions;
    private final GridFsTemplate files;

    private SpringTour(AnnotationConfigApplicationContext context) {
        books = context.getBean(Books.class);
        template = context.getBean(MongoTemplate.class);
        transactions = context.getBean(TransactionTemplate.class);
        files = context.getBean(GridFsTemplate.class);
    }

    public static void main(String[] arguments) throws Exception {
        Configuration.uri = arguments[0];
        try (var context = new AnnotationConfigApplicationContext(Configuration.class)) {
            SpringTour tour = new SpringTour(context);
            tour.fill();
            Document seen = new Document("derived", tour.derived()).append("pages", tour.pages()).append("written", tour.written())
                .append("examples", tour.examples()).append("aggregations", tour.aggregations()).append("locking", tour.locking())
                .append("template", tour.template()).append("schema", tour.schema()).append("files", tour.files()).append("wider", tour.wider())
                .append("transactions", tour.transactions()).append("changes", tour.changes());
            System.out.println(seen.toJson());
        }
    }

    private void fill() {
        Publisher ace = template.insert(new Publisher("ace", "New York"));
        books.saveAll(List.of(
            Book.of("Dune", "Herbert", 1965, List.of("desert", "spice")).at(13.4, 52.5).about("a desert planet and its worms"),
            Book.of("Ubik", "Dick", 1969, List.of("time")).at(2.35, 48.85).about("time runs backwards").from(ace, "9.90"),
            Book.of("Valis", "Dick", 1981, List.of("time", "god")).at(13.5, 52.4).about("a pink beam"),
            Book.of("Solaris", "Lem", 1961, List.of("sea")).at(21.0, 52.2).about("the planet that is a sea, a sea that thinks"),
            Book.of("Dubliners", "Joyce", 1914, List.of()).at(-6.26, 53.35).about("a city").from(ace, "12.50")));
    }

    private static List<String> titles(Collection<Book> found) {
        return found.stream().map(book -> book.title).toList();
    }

    private Document derived() {
        Document seen = new Document("greater", titles(books.findByAuthorAndYearGreaterThanOrderByYearDesc("Dick", 1960)));
        seen.append("starting", titles(books.findByTitleStartingWithIgnoreCaseOrderByTitle("du")));
        seen.append("tagged", titles(books.findByTagsContainingAndPublisherIsNullOrderByTitle("time")));
        seen.append("priced", titles(books.findByPriceBetween(new BigDecimal("9.89"), new BigDecimal("12"))));
        seen.append("first", books.findFirstByOrderByYearAsc().orElseThrow().title);
        seen.append("count", books.countByAuthor("Dick")).append("exists", List.of(books.existsByTitle("Dune"), books.existsByTitle("Emma")));
        seen.append("publisher", books.findFirstByOrderByYearAsc().orElseThrow().publisher.city());
        try (Stream<Book> all = books.streamByYearNotNullOrderByYear()) {
            seen.append("streamed", all.map(book -> book.year).toList());
        }
        seen.append("near", books.findByPlaceNear(new Point(13.4, 52.5), new Distance(50, Metrics.KILOMETERS)).getContent().stream()
            .map(result -> result.getContent().title + " " + Math.round(result.getDistance().getValue())).toList());
        seen.append("words", titles(books.findAllByOrderByScoreDesc(TextCriteria.forDefaultLanguage().matchingAny("sea", "planet"))));
        seen.append("deleted", books.deleteByYearLessThan(1920));
        return seen;
    }

    private Document pages() {
        Page<Book> page = books.findByAuthor("Dick", PageRequest.of(0, 1, Sort.by("year").descending()));
        Page<Book> next = books.findByAuthor("Dick", page.nextPageable());
        Document seen = new Document("total", page.getTotalElements()).append("pages", page.getTotalPages())
            .append("titles", List.of(titles(page.getContent()), titles(next.getContent()))).append("last", next.isLast());
        Window<Book> window = books.findFirst2ByYearNotNullOrderByYear(ScrollPosition.keyset());
        Window<Book> second = books.findFirst2ByYearNotNullOrderByYear(window.positionAt(window.size() - 1));
        return seen.append("windows", List.of(titles(window.getContent()), titles(second.getContent()))).append("more", second.hasNext());
    }

    private Document written() {
        List<Book> between = books.between(1961, 1969);
        Document seen = new Document("between", titles(between)).append("left out", between.get(0).author);
        return seen.append("moved", books.move("Dick", 1)).append("byAuthor",
            books.byAuthor().stream().map(count -> count.author() + " " + count.books()).toList());
    }

    private Document examples() {
        Book probe = Book.of("U", "dick", null, null);
        ExampleMatcher matcher = ExampleMatcher.matching().withIgnoreCase().withStringMatcher(ExampleMatcher.StringMatcher.STARTING);
        return new Document("found", titles(books.findAll(Example.of(probe, matcher)))).append("count", books.count(Example.of(Book.of(null, "Lem", null, null))));
    }

    private Document aggregations() {
        var tags = template.aggregate(newAggregation(Book.class, unwind("tags"), match(where("tags").ne("moved")),
            group("tags").count().as("books").max("year").as("last"), sort(Sort.Direction.DESC, "books").and(Sort.Direction.ASC, "_id")), Document.class);
        var facets = template.aggregate(newAggregation(Book.class,
            facet(bucket("year").withBoundaries(1960, 1970, 1980).withDefaultBucket("late").andOutputCount().as("books")).as("decades")
                .and(group().avg("year").as("mean")).as("all")), Document.class);
        return new Document("tags", tags.getMappedResults()).append("facets", facets.getUniqueMappedResult());
    }

    private Document locking() {
        Book stale = books.findByTitleStartingWithIgnoreCaseOrderByTitle("dune").get(0);
        Book fresh = books.findByTitleStartingWithIgnoreCaseOrderByTitle("dune").get(0);
        fresh.tags = List.of("worms");
        books.save(fresh);
        stale.tags = List.of("never");
        Document seen = new Document("version", fresh.version).append("stale", failure(() -> books.save(stale)));
        return seen.append("duplicate", failure(() -> books.save(Book.of("Dune", "Nobody", 2000, List.of()))));
    }

    private Document template() {
        Document changed = template.findAndModify(query(where("_id").is("counter")), new Update().inc("value", 5).setOnInsert("kind", "number"),
            FindAndModifyOptions.options().upsert(true).returnNew(true), Document.class, "counters");
        BulkOperations bulk = template.bulkOps(BulkOperations.BulkMode.UNORDERED, "counters");
        bulk.insert(new Document("_id", "other").append("value", 1)).updateMulti(query(where("value").gte(1)), new Update().multiply("value", 10))
            .remove(query(where("_id").is("nobody")));
        var result = bulk.execute();
        return new Document("changed", changed).append("bulk", List.of(result.getInsertedCount(), result.getModifiedCount(), result.getDeletedCount()));
    }

    /** Joins, trees, windows, views, updates by pipelines, collations, and indexes that are changed. */
    private Document wider() {
        template.insert(List.of(new Document("_id", "Ann").append("under", null), new Document("_id", "bob").append("under", "Ann"),
            new Document("_id", "Cid").append("under", "bob")), "people");
        template.createView("staff", "people", AggregationPipeline.of(match(where("under").ne(null))), new ViewOptions());
        var above = template.aggregate(newAggregation(match(where("_id").is("Cid")),
            graphLookup("people").startWith("$under").connectFrom("under").connectTo("_id").depthField("steps").as("above"),
            unwind("above"), sort(Sort.Direction.ASC, "above.steps"), project().and("above._id").as("name").andExclude("_id")), "people", Document.class);
        var houses = template.aggregate(newAggregation(match(where("title").is("Ubik")),
            lookup("publishers", "publisher.$id", "_id", "houses"), project().and("houses.city").as("cities").andExclude("_id")), "books", Document.class);
        var windows = template.aggregate(newAggregation(Book.class, SetWindowFieldsOperation.builder().partitionByField("author").sortBy(Sort.by("year"))
            .output(AccumulatorOperators.valueOf("year").max()).within(SetWindowFieldsOperation.Windows.documents().fromUnbounded().toCurrent().build())
            .as("latest").build(), sort(Sort.Direction.ASC, "title"), project("latest").andExclude("_id")), Document.class);
        template.updateMulti(query(where("under").exists(true)),
            AggregationUpdate.update().set("greeting").toValue(StringOperators.Concat.stringValue("hello ").concatValueOf("_id")), "people");
        template.indexOps("people").createIndex(new WildcardIndex("details"));
        template.indexOps("people").createIndex(new Index("under", Sort.Direction.ASC).named("boss"));
        template.indexOps("people").alterIndex("boss", IndexOptions.hidden());
        return new Document("view", template.findAll(Document.class, "staff").stream().map(one -> one.get("_id")).toList())
            .append("above", above.getMappedResults().stream().map(one -> one.get("name")).toList())
            .append("cities", houses.getUniqueMappedResult().get("cities"))
            .append("latest", windows.getMappedResults().stream().map(one -> one.get("latest")).toList())
            .append("collated", template.find(query(where("_id").gt("ann")).with(Sort.by("_id")).collation(Collation.of("en").strength(2)),
                Document.class, "people").stream().map(one -> one.get("_id")).toList())
            .append("distinct", template.findDistinct(query(where("under").ne(null)), "under", "people", String.class))
            .append("greeting", template.findById("bob", Document.class, "people").get("greeting"))
            .append("estimate", template.estimatedCount("people"));
    }

    private Document schema() {
        MongoJsonSchema schema = MongoJsonSchema.builder().required("name")
            .properties(JsonSchemaProperty.string("name").minLength(2), JsonSchemaProperty.int32("age").gte(0)).build();
        template.createCollection("members", CollectionOptions.empty().schema(schema).failOnValidationError());
        template.insert(new Document("name", "Ada").append("age", 36), "members");
        return new Document("refused", failure(() -> template.insert(new Document("name", "B").append("age", -1), "members")));
    }

    private Document files() throws IOException {
        byte[] content = "sand and spice ".repeat(40_000).getBytes(StandardCharsets.UTF_8);
        files.store(new ByteArrayInputStream(content), "dune.txt", "text/plain", new Document("pages", 412));
        try (var read = files.getResource("dune.txt").getInputStream()) {
            return new Document("same", Arrays.equals(content, read.readAllBytes())).append("type", files.getResource("dune.txt").getContentType());
        }
    }

    private Document transactions() {
        transactions.executeWithoutResult(status -> {
            books.save(Book.of("Emma", "Austen", 1815, List.of()));
            template.updateFirst(query(where("_id").is("counter")), new Update().set("value", 0), "counters");
        });
        Document seen = new Document("committed", books.existsByTitle("Emma"));
        seen.append("undone", failure(() -> transactions.executeWithoutResult(status -> {
            books.deleteAll();
            seen.append("inside", books.count());
            throw new IllegalStateException("changed my mind");
        })));
        transactions.executeWithoutResult(status -> {
            books.deleteAll();
            status.setRollbackOnly();
        });
        return seen.append("count", books.count());
    }

    /** A listener's events of one collection, whose documents are mapped. */
    private Document changes() throws InterruptedException {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        var container = new DefaultMessageListenerContainer(template);
        container.start();
        List<String> events = new ArrayList<>();
        try {
            ChangeStreamRequest<Book> request = ChangeStreamRequest.<Book>builder(message -> heard.add(
                message.getRaw().getOperationType().getValue() + " " + (message.getBody() == null ? null : message.getBody().title))).collection("books")
                .filter(newAggregation(match(where("operationType").in("insert", "replace")))).build();
            var subscription = container.register(request, Book.class);
            subscription.await(java.time.Duration.ofSeconds(SECONDS_MAX));
            Book persuasion = books.save(Book.of("Persuasion", "Austen", 1817, List.of()));
            persuasion.year = 1818;
            books.save(persuasion);
            for (int event = 0; event < 2; event++) {
                events.add(heard.poll(SECONDS_MAX, TimeUnit.SECONDS));
            }
        } finally {
            container.stop();
        }
        return new Document("events", events);
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

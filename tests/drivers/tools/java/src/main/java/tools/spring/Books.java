package tools.spring;

import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.ScrollPosition;
import org.springframework.data.domain.Window;
import org.springframework.data.geo.Distance;
import org.springframework.data.geo.GeoResults;
import org.springframework.data.geo.Point;
import org.springframework.data.mongodb.core.query.TextCriteria;
import org.springframework.data.mongodb.repository.Aggregation;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.Query;
import org.springframework.data.mongodb.repository.Update;
import org.springframework.data.repository.query.Param;

/** Queries that Spring Data derives from names, and queries that are written out. */
interface Books extends MongoRepository<Book, String> {
    List<Book> findByAuthorAndYearGreaterThanOrderByYearDesc(String author, int year);

    List<Book> findByTitleStartingWithIgnoreCaseOrderByTitle(String start);

    List<Book> findByTagsContainingAndPublisherIsNullOrderByTitle(String tag);

    List<Book> findByPriceBetween(java.math.BigDecimal least, java.math.BigDecimal most);

    Optional<Book> findFirstByOrderByYearAsc();

    long countByAuthor(String author);

    boolean existsByTitle(String title);

    long deleteByYearLessThan(int year);

    Stream<Book> streamByYearNotNullOrderByYear();

    Page<Book> findByAuthor(String author, Pageable page);

    Window<Book> findFirst2ByYearNotNullOrderByYear(ScrollPosition position);

    GeoResults<Book> findByPlaceNear(Point point, Distance distance);

    List<Book> findAllByOrderByScoreDesc(TextCriteria words);

    @Query(value = "{'year': {$gte: ?0, $lt: :#{#to}}}", fields = "{'title': 1}", sort = "{'year': 1}")
    List<Book> between(@Param("from") int from, @Param("to") int to);

    @Query("{'author': ?0}")
    @Update("{'$inc': {'year': ?1}, '$push': {'tags': 'moved'}}")
    long move(String author, int years);

    @Aggregation({"{'$group': {'_id': '$author', 'books': {'$sum': 1}}}", "{'$sort': {'books': -1, '_id': 1}}"})
    List<AuthorCount> byAuthor();
}

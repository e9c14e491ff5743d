package tools.spring;

import java.math.BigDecimal;
import java.time.Instant;
import java.util.List;
import org.springframework.data.annotation.CreatedDate;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.mongodb.core.geo.GeoJsonPoint;
import org.springframework.data.mongodb.core.index.CompoundIndex;
import org.springframework.data.mongodb.core.index.GeoSpatialIndexType;
import org.springframework.data.mongodb.core.index.GeoSpatialIndexed;
import org.springframework.data.mongodb.core.index.Indexed;
import org.springframework.data.mongodb.core.index.TextIndexed;
import org.springframework.data.mongodb.core.mapping.DBRef;
import org.springframework.data.mongodb.core.mapping.Document;
import org.springframework.data.mongodb.core.mapping.Field;
import org.springframework.data.mongodb.core.mapping.FieldType;
import org.springframework.data.mongodb.core.mapping.TextScore;

/** A document with every kind of index that Spring Data creates by itself. */
@Document("books")
@CompoundIndex(name = "author_year", def = "{'author': 1, 'year': -1}")
class Book {
    @Id
    String id;

    @Indexed(unique = true)
    String title;

    String author;
    Integer year;
    List<String> tags;

    @TextIndexed
    String summary;

    @GeoSpatialIndexed(type = GeoSpatialIndexType.GEO_2DSPHERE)
    GeoJsonPoint place;

    @Indexed(expireAfter = "30d")
    Instant lentAt;

    @Field(targetType = FieldType.DECIMAL128)
    BigDecimal price;

    @DBRef
    Publisher publisher;

    @CreatedDate
    Instant created;

    @Version
    Long version;

    @TextScore
    Float score;

    static Book of(String title, String author, Integer year, List<String> tags) {
        Book book = new Book();
        book.title = title;
        book.author = author;
        book.year = year;
        book.tags = tags;
        return book;
    }

    Book at(double longitude, double latitude) {
        place = new GeoJsonPoint(longitude, latitude);
        return this;
    }

    Book about(String words) {
        summary = words;
        return this;
    }

    Book from(Publisher house, String money) {
        publisher = house;
        price = new BigDecimal(money);
        return this;
    }
}

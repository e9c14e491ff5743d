package tools.spring;

import org.springframework.data.annotation.Id;
import org.springframework.data.mongodb.core.mapping.Document;

/** What a book refers to. */
@Document("publishers")
record Publisher(@Id String id, String city) {}

package tools.spring;

import org.springframework.data.annotation.Id;

/** A group of an aggregation. */
record AuthorCount(@Id String author, int books) {}

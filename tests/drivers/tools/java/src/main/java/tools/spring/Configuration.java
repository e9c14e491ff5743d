package tools.spring;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import org.springframework.context.annotation.Bean;
import org.springframework.data.mongodb.MongoDatabaseFactory;
import org.springframework.data.mongodb.MongoTransactionManager;
import org.springframework.data.mongodb.config.AbstractMongoClientConfiguration;
import org.springframework.data.mongodb.config.EnableMongoAuditing;
import org.springframework.data.mongodb.core.convert.MappingMongoConverter;
import org.springframework.data.mongodb.gridfs.GridFsTemplate;
import org.springframework.data.mongodb.repository.config.EnableMongoRepositories;
import org.springframework.transaction.support.TransactionTemplate;

/** What Boot would set up: a client, repositories, transactions, files; indexes are created from the annotations. */
@org.springframework.context.annotation.Configuration
@EnableMongoRepositories(basePackageClasses = Books.class)
@EnableMongoAuditing
class Configuration extends AbstractMongoClientConfiguration {
    static final String DATABASE = "java_spring";
    static String uri;

    @Override
    protected String getDatabaseName() {
        return DATABASE;
    }

    @Override
    protected void configureClientSettings(MongoClientSettings.Builder settings) {
        settings.applyConnectionString(new ConnectionString(uri));
    }

    @Override
    protected boolean autoIndexCreation() {
        return true;
    }

    @Bean
    TransactionTemplate transactions(MongoDatabaseFactory factory) {
        return new TransactionTemplate(new MongoTransactionManager(factory));
    }

    @Bean
    GridFsTemplate files(MongoDatabaseFactory factory, MappingMongoConverter converter) {
        return new GridFsTemplate(factory, converter);
    }
}

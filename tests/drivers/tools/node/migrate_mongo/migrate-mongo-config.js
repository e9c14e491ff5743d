// Read by migrate-mongo where it is called; the server and the database come from the environment.
module.exports = {
  mongodb: { url: process.env.URI, databaseName: process.env.DATABASE },
  migrationsDir: "migrations",
  changelogCollectionName: "changelog",
  lockCollectionName: "changelog_lock",
  lockTtl: 60,
  migrationFileExtension: ".js",
  useFileHash: true,
  moduleSystem: "commonjs",
};

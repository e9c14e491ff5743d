//! MQL, the query language: matching, updating, projecting, expressions and pipelines over raw BSON, and the
//! planner and executor that run them against the database.
